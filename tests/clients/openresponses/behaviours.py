"""The behaviours that the Open Responses compliance suite asks for, one test each.

Written anew, in our words, after its list of seventeen. Every event and every response is held
against the OpenAPI document of the specification, if there is one: OPENRESPONSES_OPENAPI names
it. Without the document the behaviours run all the same, and the last line says so.
"""

import json
import os
import sys
from pathlib import Path

import httpx
from jsonschema import Draft202012Validator
from websockets.sync.client import connect

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "python"))

from harness import BASE_URL, MODEL, SCENARIOS, main, script  # noqa: E402

ROOT = HERE.parent.parent.parent
DOCUMENT = Path(os.environ.get("OPENRESPONSES_OPENAPI") or ROOT.parent / "shared" / "data" / "openresponses-openapi.json")
SCHEMAS = json.loads(DOCUMENT.read_text(encoding="utf-8"))["components"] if DOCUMENT.is_file() else None
TERMINAL = {"response.completed", "response.incomplete", "response.failed"}
HEADERS = {"Authorization": "Bearer test"}
SECONDS = 30
n_validated = 0

# One red pixel.
PICTURE = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
)

http = httpx.Client(base_url=f"{BASE_URL}/v1", headers=HEADERS, timeout=SECONDS)


def fits(name, value):
    """Holds `value` against the schema `name`."""
    global n_validated
    if SCHEMAS is None:
        return
    schema = {"$ref": f"#/components/schemas/{name}", "components": SCHEMAS}
    error = next(iter(sorted(Draft202012Validator(schema).iter_errors(value), key=lambda it: len(it.path))), None)
    if error:
        deepest = max([error, *(error.context or [])], key=lambda it: len(it.absolute_path))
        raise AssertionError(f"does not fit {name} at {list(deepest.absolute_path)}: {deepest.message[:500]}\n{json.dumps(value)[:2000]}")
    n_validated += 1


def names_by_type():
    """Which schema an event has to fit."""
    found = {}
    for name, schema in (SCHEMAS or {"schemas": {}})["schemas"].items():
        if name.endswith("StreamingEvent"):
            found[schema["properties"]["type"]["enum"][0]] = name
    return found


EVENTS = names_by_type()


def event_fits(event):
    if SCHEMAS is None:
        return
    assert event["type"] in EVENTS, f"{event['type']} is not in the specification"
    fits(EVENTS[event["type"]], event)


def post(path="/responses", **body):
    return http.post(path, json=body)


def answered(**body):
    """Asks without a stream; the answer must be complete."""
    response = post(model=MODEL, **body)
    assert response.status_code == 200, response.text
    response = response.json()
    fits("ResponseResource", response)
    assert response["status"] == "completed", response["status"]
    assert response["output"], "the output is empty"
    return response


class Socket:
    """A WebSocket on which one response is asked for after the other."""

    def __enter__(self):
        url = f"{BASE_URL.replace('http', 'ws', 1)}/v1/responses"
        self.socket = connect(url, additional_headers=HEADERS, open_timeout=SECONDS)
        return self

    def __exit__(self, *_):
        self.socket.close()

    def turn(self, **body):
        """The last event of a turn: a response, or an error."""
        self.socket.send(json.dumps({"type": "response.create", "model": MODEL, **body}))
        while True:
            event = json.loads(self.socket.recv(timeout=SECONDS))
            if event["type"] == "error":
                fits("WebSocketErrorEvent", event)
                return event
            event_fits(event)
            if event["type"] in TERMINAL:
                fits("ResponseResource", event["response"])
                return event

    def completed(self, **body):
        event = self.turn(**body)
        assert event["type"] == "response.completed", event
        assert event["response"]["status"] == "completed" and event["response"]["output"]
        return event["response"]

    def not_found(self, **body):
        event = self.turn(**body)
        assert event["type"] == "error", event
        assert event["error"]["code"] == "previous_response_not_found", event


def test_01_basic_response():
    answered(input="Say hello in exactly three words.")


def test_02_assistant_phase():
    history = [
        {"type": "message", "role": "user", "content": "What is in the folder?"},
        {"type": "message", "role": "assistant", "phase": "commentary", "content": "I look."},
        {"type": "message", "role": "assistant", "phase": "final_answer", "content": "Two files."},
        {"type": "message", "role": "user", "content": "Thank you."},
    ]
    answered(input=history)


def test_03_response_output_phase_schema():
    text = {"type": "output_text", "text": "Two files.", "annotations": [], "logprobs": []}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "content": [text]}
    for phase in ("commentary", "final_answer"):
        fits("Message", {**message, "phase": phase})
    fits("Message", message)
    # And the document is really asked.
    for wrong in ({**message, "phase": "thinking"}, {**message, "phase": None}, {**message, "id": 7}):
        try:
            fits("Message", wrong)
        except AssertionError:
            continue
        assert SCHEMAS is None, f"{wrong} fits"


def test_04_streaming_response():
    with http.stream("POST", "/responses", json={"model": MODEL, "input": "Count to three.", "stream": True}) as response:
        assert response.status_code == 200
        assert response.headers["content-type"].startswith("text/event-stream")
        reads = list(response.iter_raw())
    # A reader that forgets half frames must not meet any.
    assert all(read.endswith(b"\n\n") for read in reads), "a frame was written in two halves"
    frames = [frame for frame in b"".join(reads).decode().split("\n\n") if frame and not frame.startswith(":")]
    assert frames.pop() == "data: [DONE]", frames[-1:]
    events = []
    for frame in frames:
        lines = dict(line.split(": ", 1) for line in frame.split("\n") if not line.startswith(":"))
        assert set(lines) == {"event", "data"}, frame
        event = json.loads(lines["data"])
        assert lines["event"] == event["type"], frame
        event_fits(event)
        events.append(event)
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    last = events[-1]
    assert last["type"] == "response.completed", last["type"]
    fits("ResponseResource", last["response"])
    assert last["response"]["status"] == "completed" and last["response"]["output"]


def test_05_system_prompt():
    answered(input=[{"role": "system", "content": "You are a pirate."}, {"role": "user", "content": "Say hello."}])


def test_06_tool_calling():
    response = answered(input=script(SCENARIOS["weather"]), tools=[SCENARIOS["weather_tool"]])
    calls = [item for item in response["output"] if item["type"] == "function_call"]
    assert [call["name"] for call in calls] == ["get_weather"], response["output"]
    assert json.loads(calls[0]["arguments"]) == {"city": "Oslo"}


def test_07_image_input():
    content = [{"type": "input_text", "text": "What do you see?"}, {"type": "input_image", "image_url": PICTURE}]
    answered(input=[{"role": "user", "content": content}])


def test_08_multi_turn():
    history = [
        {"role": "user", "content": "My name is Alice."},
        {"role": "assistant", "content": "Hello Alice."},
        {"role": "user", "content": "What is my name?"},
    ]
    answered(input=history)


def compacted():
    response = post("/responses/compact", model=MODEL, input=[{"role": "user", "content": "The number is seven."}])
    assert response.status_code == 200, response.text
    response = response.json()
    fits("CompactResource", response)
    assert response["object"] == "response.compaction"
    assert "compaction" in [item["type"] for item in response["output"]], response["output"]
    return response["output"]


def test_09_compact_response():
    compacted()


def test_10_compact_missing_model():
    response = post("/responses/compact", input="The number is seven.")
    assert response.status_code in (400, 422), response.status_code


def test_11_websocket_response():
    with Socket() as socket:
        socket.completed(input="Say hello.")


def test_12_websocket_sequential_responses():
    with Socket() as socket:
        first = socket.completed(input="Say one.")
        second = socket.completed(input="Say two.")
    assert first["id"] != second["id"]


def test_13_websocket_continuation():
    with Socket() as socket:
        first = socket.completed(input="The number is seven.", store=False)
        second = socket.completed(input="Which number?", store=False, previous_response_id=first["id"])
    assert second["previous_response_id"] == first["id"]


def test_14_websocket_reconnect_store_false_recovery():
    with Socket() as socket:
        first = socket.completed(input="The number is seven.", store=False)
    with Socket() as socket:
        socket.not_found(input="Which number?", store=False, previous_response_id=first["id"])
        socket.completed(input="The number is seven. Which number?", store=False)


def test_15_websocket_previous_response_not_found():
    with Socket() as socket:
        socket.not_found(input="Go on.", previous_response_id="resp_that_never_was")


def test_16_websocket_failed_continuation_evicts_cache():
    with Socket() as socket:
        first = socket.completed(input="Say one.", store=False)
        stray = [{"type": "function_call_output", "call_id": "call_that_never_was", "output": "42"}]
        event = socket.turn(input=stray, store=False, previous_response_id=first["id"])
        assert event["type"] in ("error", "response.failed"), event["type"]
        socket.not_found(input="Say two.", store=False, previous_response_id=first["id"])


def test_17_websocket_compact_new_chain():
    history = compacted()
    with Socket() as socket:
        socket.completed(input=[*history, {"role": "user", "content": "Go on."}], store=False)


if __name__ == "__main__":
    try:
        main("openresponses", sys.modules[__name__])
    finally:
        where = f"{n_validated} values fit the document" if SCHEMAS else "no document, nothing was validated"
        print(f"openresponses schema: {where}", flush=True)
