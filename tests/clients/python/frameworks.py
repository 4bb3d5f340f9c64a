"""Frameworks on top of the official client: openai-agents and LangChain, with functions of the program
and with tools of the server.
"""

import asyncio
import sys
import uuid

from agents import Agent, CustomTool, HostedMCPTool, ModelBehaviorError, ModelSettings, OpenAIResponsesModel, Runner, function_tool, set_tracing_disabled
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from openai import AsyncOpenAI

from harness import BASE_URL, MODEL, SCENARIOS, main, rows, runs_with, script, tools_of, unique, wait_until

set_tracing_disabled(True)
NAMES = ["text", "mcp success", "mcp failure", "three tools side by side", "length"]
STREAMS = [scenario for scenario in SCENARIOS["streams"] if scenario["name"] in NAMES]


FAILURES = [{"name": "at once", "script": [{"error": "rejected"}]}, {"name": "in mid-stream", "script": SCENARIOS["broken"]}]


async def run_agent(turns, tools, settings=ModelSettings(), on_event=lambda event, result: None):
    async with AsyncOpenAI(base_url=f"{BASE_URL}/v1", api_key="test", max_retries=0) as client:
        model = OpenAIResponsesModel(model=MODEL, openai_client=client)
        agent = Agent(name="Tester", model=model, tools=tools, model_settings=settings)
        result = Runner.run_streamed(agent, script(turns))
        async for event in result.stream_events():
            if event.type == "raw_response_event":
                on_event(event.data, result)
        return result.final_output


def chat_openai(**more):
    return ChatOpenAI(model=MODEL, base_url=f"{BASE_URL}/v1", api_key="test", use_responses_api=True, max_retries=0, **more)


def marked(name, mark):
    """One of the slow scripts, whose run can be found."""
    turn = SCENARIOS[name]["turns"][0]
    return [{**turn, "text": [*turn["text"], mark]}]


def ends_cancelled(mark):
    wait_until(lambda: [run["status"] for run in runs_with(mark)], lambda statuses: statuses == ["cancelled"])


def fails(play):
    try:
        text = play()
    except Exception as error:  # noqa: BLE001: each framework has its own
        assert str(error), error
    else:
        raise AssertionError(f"it said {text!r}")


@rows(STREAMS)
def test_openai_agents_stream(scenario):
    tools = [HostedMCPTool(tool_config=tool) for tool in tools_of(scenario)]
    try:
        text = asyncio.run(run_agent(scenario["script"], tools))
    except ModelBehaviorError as error:
        # The framework takes no answer that was cut, and says so.
        assert scenario["reason"] in str(error), error
        return
    assert text == scenario["text"] and "reason" not in scenario, text


@rows([{"name": "granted", "approve": True}, {"name": "denied", "approve": False}])
def test_openai_agents_approval(scenario):
    """The SDK sends the whole history again, with the answer at its end."""
    asked = []

    def answer(request):
        asked.append(request.data.name)
        return {"approve": scenario["approve"]}

    config = {"type": "mcp", "server_label": "props", "require_approval": "always"}
    turns = [{"calls": [{"name": "add", "arguments": {"a": 4, "b": 5}}]}, {"text": "So be it: {results}."}]
    text = asyncio.run(run_agent(turns, [HostedMCPTool(tool_config=config, on_approval_request=answer)]))
    assert asked == ["add"], asked
    assert (text == "So be it: 9.") == scenario["approve"], text


def test_openai_agents_progress():
    """The framework passes on the events as they are, with what a tool reports on them."""
    told = []

    def look(event, _):
        if event.type == "response.mcp_call.in_progress":
            told.append(event.to_dict().get("turnwire", {}).get("progress"))

    turns = [{"calls": [{"name": "slow", "arguments": {"seconds": 0.4, "steps": 4}}]}, {"text": "Done."}]
    text = asyncio.run(run_agent(turns, [HostedMCPTool(tool_config=SCENARIOS["mcp_tool"])], on_event=look))
    assert text == "Done." and len([one for one in told if one is not None]) > 1, (text, told)


def test_openai_agents_cancel():
    """A program that goes away leaves its run going, unless it said otherwise."""
    mark = unique()

    def leave(event, result):
        if event.type == "response.output_text.delta":
            result.cancel()

    settings = ModelSettings(extra_body={"on_disconnect": "cancel"})
    asyncio.run(run_agent(marked("endless_text", mark), [], settings, leave))
    ends_cancelled(mark)


@rows(FAILURES)
def test_openai_agents_failed_run(scenario):
    fails(lambda: asyncio.run(run_agent(scenario["script"], [])))


def test_openai_agents_resume():
    """A stream that was lost is read again from its beginning, with the key of its request."""
    mark = unique()
    turns, settings = marked("slow_text", mark), ModelSettings(extra_headers={"Idempotency-Key": str(uuid.uuid4())})

    def leave(event, result):
        if event.type == "response.output_text.delta":
            result.cancel()

    asyncio.run(run_agent(turns, [], settings, leave))
    text = asyncio.run(run_agent(turns, [], settings))
    assert text == "".join(turns[0]["text"]), text
    assert len(runs_with(mark)) == 1, "it is the same run"


@rows([{"name": "granted", "approve": True}, {"name": "denied", "approve": False}])
def test_langchain_approval(scenario):
    """The question is a block of the answer, and the next message has the decision."""
    config = {"type": "mcp", "server_label": "props", "require_approval": "always"}
    model = chat_openai(output_version="responses/v1").bind_tools([config])
    turns = [{"calls": [{"name": "add", "arguments": {"a": 4, "b": 5}}]}, {"text": "So be it: {results}."}]
    first = model.invoke(script(turns))
    [asked] = [block for block in first.content if block["type"] == "mcp_approval_request"]
    assert asked["name"] == "add", asked
    block = {"type": "mcp_approval_response", "approve": scenario["approve"], "approval_request_id": asked["id"]}
    answer = model.invoke([{"role": "user", "content": [block]}], previous_response_id=first.response_metadata["id"])
    assert (answer.text == "So be it: 9.") == scenario["approve"] and answer.text.startswith("So be it: "), answer.text


def test_langchain_cancel():
    """A program that goes away leaves its run going, unless it said otherwise."""
    mark = unique()
    chunks = chat_openai(extra_body={"on_disconnect": "cancel"}).stream(script(marked("endless_text", mark)))
    while not next(chunks).text:
        pass
    chunks.close()
    ends_cancelled(mark)


@rows(FAILURES)
def test_langchain_failed_run(scenario):
    fails(lambda: "".join(chunk.text for chunk in chat_openai().stream(script(scenario["script"]))))


def test_langchain_resume():
    """A stream that was lost is read again from its beginning, with the key of its request."""
    mark = unique()
    turns, model = marked("slow_text", mark), chat_openai(default_headers={"Idempotency-Key": str(uuid.uuid4())})
    chunks = model.stream(script(turns))
    while not next(chunks).text:
        pass
    chunks.close()
    text = "".join(chunk.text for chunk in model.stream(script(turns)))
    assert text == "".join(turns[0]["text"]), text
    assert len(runs_with(mark)) == 1, "it is the same run"


@rows(STREAMS)
def test_langchain_stream(scenario):
    model = chat_openai()
    model = model.bind_tools(tools_of(scenario)) if tools_of(scenario) else model
    assert "".join(chunk.text for chunk in model.stream(script(scenario["script"]))) == scenario["text"]


def test_openai_agents_function_of_the_client():
    """The SDK runs the tool between two streamed responses."""
    cities = []

    @function_tool
    def get_weather(city: str) -> str:
        """Tells the weather of a city."""
        cities.append(city)
        return "sunny"

    async def run():
        model = OpenAIResponsesModel(model=MODEL, openai_client=AsyncOpenAI(base_url=f"{BASE_URL}/v1", api_key="test"))
        agent = Agent(name="Weather", model=model, tools=[get_weather], model_settings=ModelSettings())
        result = Runner.run_streamed(agent, script(SCENARIOS["weather"]))
        kinds = [event.type async for event in result.stream_events()]
        return result.final_output, kinds

    answer, kinds = asyncio.run(run())
    assert (answer, cities) == ("In Oslo it is sunny.", ["Oslo"]), (answer, cities)
    assert "raw_response_event" in kinds and "run_item_stream_event" in kinds, set(kinds)


def test_openai_agents_with_a_custom_tool():
    """The SDK runs a tool whose input is plain text."""
    inputs = []

    async def apply_patch(_, text):
        inputs.append(text)
        return "done"

    async def run():
        model = OpenAIResponsesModel(model=MODEL, openai_client=AsyncOpenAI(base_url=f"{BASE_URL}/v1", api_key="test"))
        tool = CustomTool(name="apply_patch", description="Edits files.", on_invoke_tool=apply_patch)
        agent = Agent(name="Editor", model=model, tools=[tool], model_settings=ModelSettings())
        turns = [{"calls": [{"name": "apply_patch", "input": ['+"quo', 'ted"\n']}]}, {"text": "It says {results}."}]
        result = Runner.run_streamed(agent, script(turns))
        async for _ in result.stream_events():
            pass
        return result.final_output

    assert asyncio.run(run()) == "It says done."
    assert inputs == ['+"quoted"\n'], inputs


def test_langchain_function_of_the_client():
    @tool
    def get_weather(city: str) -> str:
        """Tells the weather of a city."""
        return f"sunny in {city}"

    model = chat_openai().bind_tools([get_weather])
    history = [("user", script(SCENARIOS["weather"]))]
    first = model.invoke(history)
    assert [call["args"] for call in first.tool_calls] == [{"city": "Oslo"}], first
    history += [first, get_weather.invoke(first.tool_calls[0])]
    assert model.invoke(history).text == "In Oslo it is sunny in Oslo."
    streamed = "".join(chunk.text for chunk in model.stream(history))
    assert streamed == "In Oslo it is sunny in Oslo.", streamed


if __name__ == "__main__":
    main("python frameworks", sys.modules[__name__])
