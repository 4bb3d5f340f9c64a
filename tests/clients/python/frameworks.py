"""Frameworks on top of the official client: openai-agents and LangChain, with functions of the program
and with tools of the server.
"""

import asyncio
import sys

from agents import Agent, CustomTool, HostedMCPTool, ModelBehaviorError, ModelSettings, OpenAIResponsesModel, Runner, function_tool, set_tracing_disabled
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from openai import AsyncOpenAI

from harness import BASE_URL, MODEL, SCENARIOS, main, rows, script, tools_of

set_tracing_disabled(True)
NAMES = ["text", "mcp success", "mcp failure", "three tools side by side", "length"]
STREAMS = [scenario for scenario in SCENARIOS["streams"] if scenario["name"] in NAMES]


async def run_agent(turns, tools):
    async with AsyncOpenAI(base_url=f"{BASE_URL}/v1", api_key="test") as client:
        agent = Agent(name="Tester", model=OpenAIResponsesModel(model=MODEL, openai_client=client), tools=tools)
        result = Runner.run_streamed(agent, script(turns))
        async for _ in result.stream_events():
            pass
        return result.final_output


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


@rows(STREAMS)
def test_langchain_stream(scenario):
    model = ChatOpenAI(model=MODEL, base_url=f"{BASE_URL}/v1", api_key="test", use_responses_api=True)
    model = model.bind_tools(tools_of(scenario)) if tools_of(scenario) else model
    assert "".join(chunk.text for chunk in model.stream(script(scenario["script"]))) == scenario["text"]


def test_openai_agents():
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


def test_langchain():
    @tool
    def get_weather(city: str) -> str:
        """Tells the weather of a city."""
        return f"sunny in {city}"

    model = ChatOpenAI(model=MODEL, base_url=f"{BASE_URL}/v1", api_key="test", use_responses_api=True)
    model = model.bind_tools([get_weather])
    history = [("user", script(SCENARIOS["weather"]))]
    first = model.invoke(history)
    assert [call["args"] for call in first.tool_calls] == [{"city": "Oslo"}], first
    history += [first, get_weather.invoke(first.tool_calls[0])]
    assert model.invoke(history).text == "In Oslo it is sunny in Oslo."
    streamed = "".join(chunk.text for chunk in model.stream(history))
    assert streamed == "In Oslo it is sunny in Oslo.", streamed


if __name__ == "__main__":
    main("python frameworks", sys.modules[__name__])
