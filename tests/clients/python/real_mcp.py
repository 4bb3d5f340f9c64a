"""Real MCP servers behind the gateway, seen by the official client: what they report is on the wire."""

import json
import os
import sys
import time

from openai import BadRequestError, OpenAI

from harness import BASE_URL, MODEL, main, script

client = OpenAI(base_url=f"{BASE_URL}/v1", api_key="test", max_retries=0)


def stream_of(server, tool, arguments):
    """The events of a run that calls one tool of a real server, each with its time."""
    turns = [{"calls": [{"name": tool, "arguments": arguments}]}, {"text": "Got {results}"}]
    tools = [{"type": "mcp", "server_label": server, "require_approval": "never"}]
    stream = client.responses.create(model=MODEL, input=script(turns), tools=tools, stream=True)
    return [(time.monotonic(), event) for event in stream]


def call_of(events):
    [call] = [item for item in events[-1][1].response.output if item.type == "mcp_call"]
    return call


def check_progress(server):
    """R5: a long-running tool shows its progress while it works, on the official event."""
    arguments = {"duration": 1.5, "steps": 3}
    events = stream_of(server, "trigger-long-running-operation", arguments)
    told = [(at, event.turnwire) for at, event in events if event.type == "response.mcp_call.in_progress"]
    steps = [(at, note["progress"], note["total"]) for at, note in told if note and "progress" in note]
    assert [step[1:] for step in steps] == [(1, 3), (2, 3), (3, 3)], steps
    # They come as they happen, half a second apart, and not all at the end.
    assert steps[1][0] - steps[0][0] > 0.2, steps
    assert call_of(events).status == "completed", call_of(events)


def test_progress_over_stdio():
    check_progress("everything")


def test_progress_over_streamable_http():
    check_progress("everything_http")


def test_the_tools_are_listed_and_used():
    """S1-US3-AS1: discovery and a call, with a server written in TypeScript."""
    events = stream_of("everything", "get-sum", {"a": 5, "b": 4})
    [listed] = [item for item in events[-1][1].response.output if item.type == "mcp_list_tools"]
    assert len(listed.tools) >= 10, [tool.name for tool in listed.tools]
    assert "9" in call_of(events).output


def test_a_server_that_the_request_brings():
    """A4: by its address, where the operator lets requests bring one; a person is asked unless they say otherwise."""
    turns = [{"calls": [{"name": "get-sum", "arguments": {"a": 5, "b": 4}}]}, {"text": "Got {results}"}]
    tool = {"type": "mcp", "server_label": "mine", "server_url": os.environ["TURNWIRE_BROUGHT_URL"]}
    asked = client.responses.create(model=MODEL, input=script(turns), tools=[tool])
    [question] = [item for item in asked.output if item.type == "mcp_approval_request"]
    assert (question.server_label, question.name) == ("mine", "get-sum"), question
    answer = {"type": "mcp_approval_response", "approval_request_id": question.id, "approve": True}
    done = client.responses.create(model=MODEL, previous_response_id=asked.id, input=[answer], tools=[tool])
    [call] = [item for item in done.output if item.type == "mcp_call"]
    assert "9" in call.output, call
    told = client.responses.create(model=MODEL, input=script(turns), tools=[{**tool, "require_approval": "never"}])
    assert [item.status for item in told.output if item.type == "mcp_call"] == ["completed"], told.output


def test_a_server_from_elsewhere_is_refused():
    """A4: nothing is even looked up that the operator has not opened."""
    for url in ["https://evil.example/mcp", "http://127.0.0.1:9/mcp", "http://169.254.169.254/latest"]:
        tool = {"type": "mcp", "server_label": "mine", "server_url": url}
        try:
            client.responses.create(model=MODEL, input="hi", tools=[tool])
        except BadRequestError as error:
            assert (error.code, error.param) == ("mcp_server_not_found", "tools[0].server_url"), error
        else:
            raise AssertionError(f"{url} was taken")


def test_a_server_of_the_newer_generation():
    """S1-US3-AS1: and with one written in Python."""
    events = stream_of("clock", "get_current_time", {"timezone": "Europe/Oslo"})
    assert json.loads(call_of(events).output)["timezone"] == "Europe/Oslo"


def test_a_real_failure():
    """S1-US3-AS2, R7: the server itself says no."""
    events = stream_of("clock", "get_current_time", {"timezone": "Nowhere/Land"})
    kinds = [event.type for _, event in events]
    assert "response.mcp_call.failed" in kinds and "response.mcp_call.completed" not in kinds, kinds
    assert call_of(events).status == "failed"
    assert events[-1][1].type == "response.completed"


def test_a_warm_server_costs_nothing():
    """The first byte of a stream with a server that is known comes at once.

    Nothing is sent before it is kept, so the file's own time for a few commits is in it: 2 ms in
    memory, and some more on a disk.
    """
    waits = []
    for _ in range(30):
        asked = time.monotonic()
        tools = [{"type": "mcp", "server_label": "everything", "require_approval": "never"}]
        with client.responses.create(model=MODEL, input=script([{"text": "Hi."}]), tools=tools, stream=True) as stream:
            next(iter(stream))
            waits.append(time.monotonic() - asked)
    waits.sort()
    median = waits[len(waits) // 2]
    # The client's own work is in this figure too.
    assert median <= 0.040, f"{median * 1000:.1f} ms"


if __name__ == "__main__":
    main("python real mcp", sys.modules[__name__])
