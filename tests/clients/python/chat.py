"""Chat Completions of the gateway, with the official Python client: raw, with its helper, and without
a stream. The server runs its own tools inside the request; functions of the client go out.
"""

import sys
import uuid

import openai
from openai import OpenAI

from chat_fold import ChatFold
from harness import BASE_URL, MODEL, SCENARIOS, guarded, is_decided, main, native, rows, script, tools_of, unique, wait_until

client = OpenAI(base_url=f"{BASE_URL}/v1", api_key="test", max_retries=0, timeout=60)
strict = OpenAI(base_url=f"{BASE_URL}/v1", api_key="test", max_retries=0, timeout=60, _strict_response_validation=True)

REASONS = {"completed": "stop", "max_output_tokens": "length", "content_filter": "content_filter"}


def nested(tool):
    """A function as this dialect writes it; tools of the server are the same in both."""
    if tool["type"] != "function":
        return tool
    return {"type": "function", "function": {name: value for name, value in tool.items() if name != "type"}}


WEATHER = [nested(SCENARIOS["weather_tool"])]


def ask(scenario, **more):
    messages = [{"role": "user", "content": script(scenario["script"])}]
    return {"model": MODEL, "messages": messages, "tools": [nested(tool) for tool in tools_of(scenario)], **more}


def gathered(body, **options):
    fold = ChatFold()
    for chunk in client.chat.completions.create(stream=True, stream_options={"include_usage": True}, **body, **options):
        fold.add(chunk.to_dict(mode="json"))
    return fold


@rows(SCENARIOS["streams"])
def test_stream(scenario):
    fold = gathered(ask(scenario))
    assert fold.finish_reason == REASONS[scenario.get("reason", "completed")], fold.finish_reason
    if "text" in scenario:
        assert fold.texts["content"] == scenario["text"], fold.texts
    if "refusal" in scenario:
        assert fold.texts["refusal"] == scenario["refusal"], fold.texts
    assert not fold.calls and fold.usage["total_tokens"] > 0, (fold.calls, fold.usage)


@rows(SCENARIOS["streams"])
def test_whole(scenario):
    """The same answer without a stream, by the client's own types."""
    answer = strict.chat.completions.create(**ask(scenario))
    choice = answer.choices[0]
    assert answer.id.startswith("chatcmpl-") and answer.object == "chat.completion"
    assert choice.finish_reason == REASONS[scenario.get("reason", "completed")]
    if "text" in scenario:
        assert choice.message.content == scenario["text"]


def test_reasoning_has_its_field():
    fold = gathered(ask({"script": {"turns": [{"reasoning": ["Hm, ", "so."], "text": "Yes."}]}}))
    assert fold.texts["reasoning_content"] == "Hm, so.", fold.texts


def test_function_of_the_client():
    """The call goes out, streamed or not, and the result comes back in the next request."""
    body = {"model": MODEL, "messages": [{"role": "user", "content": script(SCENARIOS["weather"])}], "tools": WEATHER}
    fold = gathered(body)
    assert fold.finish_reason == "tool_calls" and fold.texts["content"] == "Let me look. ", fold.texts
    [call] = fold.calls
    assert call["function"] == {"name": "get_weather", "arguments": '{"city":"Oslo"}'}, call
    message = client.chat.completions.create(**body).choices[0].message
    result = {"role": "tool", "tool_call_id": message.tool_calls[0].id, "content": "sunny"}
    messages = [*body["messages"], message.to_dict(mode="json"), result]
    answer = client.chat.completions.create(**{**body, "messages": messages})
    assert answer.choices[0].message.content == "In Oslo it is sunny.", answer


def test_helper_with_a_function():
    messages = [{"role": "user", "content": script(SCENARIOS["weather"])}]
    with client.chat.completions.stream(model=MODEL, messages=messages, tools=WEATHER) as events:
        kinds = [event.type for event in events]
        final = events.get_final_completion()
    assert "tool_calls.function.arguments.delta" in kinds and "tool_calls.function.arguments.done" in kinds, set(kinds)
    assert final.choices[0].message.tool_calls[0].function.parsed_arguments == {"city": "Oslo"}, final


def test_structured_output():
    schema = {"name": "city", "strict": True, "schema": {"type": "object", "properties": {"city": {"type": "string"}}}}
    body = ask({"script": {"turns": [{"text": '{"city":"Oslo"}'}]}}, response_format={"type": "json_schema", "json_schema": schema})
    assert client.chat.completions.create(**body).choices[0].message.content == '{"city":"Oslo"}'


def test_image():
    content = [
        {"type": "text", "text": script({"turns": [{"text": "A dot."}]})},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo=", "detail": "low"}},
    ]
    answer = client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": content}])
    assert answer.choices[0].message.content == "A dot.", answer


def test_extended_profile():
    """The lifecycle of a tool of the server, for a client that asks."""
    scenario = next(row for row in SCENARIOS["streams"] if row["name"] == "mcp success")
    fold = gathered(ask(scenario), extra_headers={"Turnwire-Profile": "extended"})
    for kind in ("tools_discovered", "call_announced", "tool_started", "tool_finished"):
        assert kind in fold.events, fold.events
    assert fold.texts["content"] == scenario["text"]


def extended(turns):
    """The chunks of an extended stream: each as it is, and the event on it, if it has one."""
    body = ask({"script": turns, "tools": ["mcp_tool"]}, extra_headers={"Turnwire-Profile": "extended"})
    for chunk in client.chat.completions.create(stream=True, **body):
        yield chunk, ((chunk.model_extra or {}).get("turnwire") or {}).get("event", {}).get("event", {})


def test_progress():
    """What a tool reports while it works, before its end, in an extended stream."""
    turns = [{"calls": [{"name": "slow", "arguments": {"seconds": 0.4, "steps": 4}}]}, {"text": "Done."}]
    events = [event for _, event in extended(turns) if event]
    kinds = [event["type"] for event in events]
    assert kinds.index("tool_started") < kinds.index("tool_progressed") < kinds.index("tool_finished"), kinds
    told = [event["progress"] for event in events if event["type"] == "tool_progressed"]
    assert told == sorted(told) and len(set(told)) > 1, told


@rows([{"name": "granted", "decision": "approve"}, {"name": "denied", "decision": "deny"}])
def test_approval(scenario):
    """The question is in an extended stream, and the client answers it on the native surface."""
    mark, text, asked = unique(), "", 0
    for chunk, event in extended(guarded(mark)):
        if event.get("type") == "approval_requested":
            asked += 1
            run_id = chunk.id.replace("chatcmpl-", "run_")
            answer = {"decision": scenario["decision"]}
            client.post(f"/runs/{run_id}/calls/{event['call_id']}/approve", body=answer, cast_to=object)
        text += "".join(choice.delta.content or "" for choice in chunk.choices)
    assert asked == 1 and text.startswith(mark) and is_decided(text, scenario["decision"]), (asked, text)


def test_approval_that_nobody_can_be_asked_for():
    """Without the extended profile the call is denied at once, and the model is told."""
    answer = client.chat.completions.create(**ask({"script": guarded("So"), "tools": ["mcp_tool"]}))
    assert "denied" in answer.choices[0].message.content, answer


def test_cancel():
    """A client that leaves takes its run with it, and the next request works."""
    messages = [{"role": "user", "content": script(SCENARIOS["endless_text"])}]
    # Kept, so that its end can be seen.
    kept = {"store": True, "on_disconnect": "cancel"}
    stream = client.chat.completions.create(model=MODEL, messages=messages, stream=True, extra_body=kept)
    run_id = next(iter(stream)).id.replace("chatcmpl-", "run_")
    stream.close()
    wait_until(lambda: native(f"/{run_id}")["status"], lambda status: status == "cancelled")
    test_stream(SCENARIOS["streams"][0])


def test_resume():
    """A stream that was lost is read again from its beginning, with the key of its request."""
    body = ask({"script": SCENARIOS["slow_text"]}, stream=True, extra_headers={"Idempotency-Key": str(uuid.uuid4())})
    lost = client.chat.completions.create(**body)
    first = next(iter(lost))
    lost.close()
    chunks = list(client.chat.completions.create(**body))
    assert {chunk.id for chunk in chunks} == {first.id}, "it is the same run"
    text = "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices)
    assert text == "".join(SCENARIOS["slow_text"]["turns"][0]["text"]), text


@rows([{"name": "at once", "script": [{"error": "rejected"}]}, {"name": "in mid-stream", "script": SCENARIOS["broken"]}])
def test_failed_run(scenario):
    """A run that fails is an exception, streamed or not."""
    for is_stream in (False, True):
        try:
            answer = client.chat.completions.create(stream=is_stream, **ask(scenario))
            chunks = list(answer) if is_stream else answer
        except openai.APIError as error:
            assert error.message, error
        else:
            raise AssertionError(f"no exception, but {chunks}")


def test_same_key_same_answer():
    body = ask(SCENARIOS["streams"][0], extra_headers={"Idempotency-Key": str(uuid.uuid4())})
    first, second = (client.chat.completions.create(**body) for _ in range(2))
    assert first == second, (first, second)


def test_errors_are_exceptions():
    messages = [{"role": "user", "content": "?"}]
    for more, kind, param in [
        ({"n": 2}, openai.BadRequestError, "n"),
        ({"model": "no such model"}, openai.NotFoundError, "model"),
        ({"messages": []}, openai.BadRequestError, "messages"),
        ({"extra_body": {"functions": [{"name": "f"}]}}, openai.BadRequestError, "functions"),
    ]:
        try:
            client.chat.completions.create(**{"model": MODEL, "messages": messages, **more})
        except kind as error:
            assert error.param == param, error
        else:
            raise AssertionError(f"{more} was accepted")


def test_models():
    names = [model.id for model in client.models.list()]
    assert MODEL in names and client.models.retrieve(MODEL).id == MODEL, names


if __name__ == "__main__":
    main("python chat", sys.modules[__name__])
