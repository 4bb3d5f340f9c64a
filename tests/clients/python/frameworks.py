"""Frameworks on top of the official client: openai-agents and LangChain, each with one tool run."""

import asyncio
import sys

from agents import Agent, CustomTool, ModelSettings, OpenAIResponsesModel, Runner, function_tool, set_tracing_disabled
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from openai import AsyncOpenAI

from harness import BASE_URL, MODEL, SCENARIOS, main, script

set_tracing_disabled(True)


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
