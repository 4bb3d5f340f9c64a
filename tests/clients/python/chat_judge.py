"""openai-python over every recorded and every random run as a chat completion: its own types judge
each chunk and the whole, and what its stream reader and its helper gather is the answer without a
stream.
"""

import json
import sys

import httpx2
from openai import APIError, OpenAI
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from pydantic import TypeAdapter, ValidationError

from chat_fold import ChatFold
from harness import main, rows, runs_in


def read(folder):
    stream, whole = (folder / "chat_completions.txt").read_text(encoding="utf-8").split("data: [DONE]\n\n")
    frames = [json.loads(frame.removeprefix("data: ")) for frame in stream.split("\n\n") if frame]
    return {"name": folder.name, "stream": stream + "data: [DONE]\n\n", "frames": frames, "whole": json.loads(whole)}


GOLDENS = [read(folder) for folder in runs_in("TURNWIRE_GOLDENS")]
RANDOM = runs_in("TURNWIRE_RANDOM_RUNS")
# The types of the client know custom tools in whole completions, and not in chunks; OpenAI streams
# them all the same.
WITHOUT_CUSTOM_TOOLS = [scenario for scenario in GOLDENS if '"type":"custom"' not in scenario["stream"]]
CHUNK, WHOLE = TypeAdapter(ChatCompletionChunk), TypeAdapter(ChatCompletion)


def client(body, kind):
    answer = httpx2.MockTransport(lambda _: httpx2.Response(200, headers={"content-type": kind}, content=body))
    return OpenAI(base_url="http://localhost/v1", api_key="test", max_retries=0, http_client=httpx2.Client(transport=answer))


def is_failed(scenario):
    return "choices" not in scenario["whole"]


def judge(adapter, value):
    try:
        # As JSON and strictly: a number is no text, and null is nothing but null.
        adapter.validate_json(json.dumps(value), strict=True)
    except ValidationError as error:
        raise AssertionError(f"{error}\n{json.dumps(value)}") from error


def ask(scenario):
    return {"model": "m", "messages": [{"role": "user", "content": "?"}], "stream_options": {"include_usage": True}}


@rows(WITHOUT_CUSTOM_TOOLS)
def test_types(scenario):
    for frame in scenario["frames"]:
        if "error" not in frame:
            judge(CHUNK, frame)
    if not is_failed(scenario):
        judge(WHOLE, scenario["whole"])


@rows(GOLDENS)
def test_raw_stream(scenario):
    fold = ChatFold()
    try:
        for chunk in client(scenario["stream"], "text/event-stream").chat.completions.create(stream=True, **ask(scenario)):
            fold.add(chunk.to_dict(mode="json"))
    except APIError as error:
        assert is_failed(scenario) and scenario["whole"]["message"] in error.message, error
        return
    assert not is_failed(scenario), "it raised nothing"
    fold.is_same_as(scenario["whole"])


@rows([scenario for scenario in WITHOUT_CUSTOM_TOOLS if not is_failed(scenario)])
def test_helper_stream(scenario):
    reason = scenario["whole"]["choices"][0]["finish_reason"]
    try:
        with client(scenario["stream"], "text/event-stream").chat.completions.stream(**ask(scenario)) as events:
            for _ in events:
                pass
            final = events.get_final_completion().to_dict(mode="json")
    except Exception as error:  # noqa: BLE001
        # The helper raises on purpose where an answer was cut.
        assert type(error).__name__ in ("LengthFinishReasonError", "ContentFilterFinishReasonError"), error
        assert reason in ("length", "content_filter"), reason
        return
    mine, theirs = final["choices"][0], scenario["whole"]["choices"][0]
    assert (mine["message"].get("content") or "") == (theirs["message"]["content"] or "")
    assert mine["finish_reason"] == reason
    calls = [(call["id"], call["type"]) for call in theirs["message"].get("tool_calls", [])]
    assert [(call["id"], call["type"]) for call in mine["message"].get("tool_calls") or []] == calls


@rows([scenario for scenario in GOLDENS if not is_failed(scenario)])
def test_whole(scenario):
    answer = client(json.dumps(scenario["whole"]), "application/json").chat.completions.create(model="m", messages=[])
    assert answer.to_dict(mode="json") == scenario["whole"]


@rows([{"name": f"{len(RANDOM)} runs"}] if RANDOM else [])
def test_random(scenario):
    for folder in RANDOM:
        run = read(folder)
        judges = [test_types, test_raw_stream] if is_failed(run) else [test_types, test_raw_stream, test_helper_stream, test_whole]
        for judge_run in judges:
            try:
                judge_run(run)
            except Exception as error:
                raise AssertionError(f"{run['name']}: {error}") from error


if __name__ == "__main__":
    main("judges python chat", sys.modules[__name__])
