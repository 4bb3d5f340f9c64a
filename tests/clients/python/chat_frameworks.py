"""Programs and frameworks that speak Chat Completions, each with text and one function where it has
them: openai-agents, LangChain, pydantic-ai, LiteLLM and `llm`. Those that let a program add to the
body of their requests also get tools of the server, which run inside the request.
"""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

# LiteLLM would otherwise fetch a list of prices.
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"

import litellm
from agents import Agent, ModelSettings, OpenAIChatCompletionsModel, Runner, function_tool, set_tracing_disabled
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from openai import AsyncOpenAI
from pydantic_ai import Agent as PydanticAgent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from harness import BASE_URL, MODEL, SCENARIOS, main, rows, script, tools_of

set_tracing_disabled(True)
URL = f"{BASE_URL}/v1"
ANSWER = "In Oslo it is sunny."
NAMES = ["text", "mcp success", "mcp failure", "three tools side by side", "length"]
STREAMS = [scenario for scenario in SCENARIOS["streams"] if scenario["name"] in NAMES]


def body_of(scenario):
    """What a program adds to the body, for the server to run its tools."""
    tools = tools_of(scenario)
    return {"tools": tools} if tools else {}


@rows(STREAMS)
def test_openai_agents_stream(scenario):
    async def run():
        async with AsyncOpenAI(base_url=URL, api_key="test") as client:
            model = OpenAIChatCompletionsModel(model=MODEL, openai_client=client)
            agent = Agent(name="Tester", model=model, model_settings=ModelSettings(extra_body=body_of(scenario)))
            result = Runner.run_streamed(agent, script(scenario["script"]))
            async for _ in result.stream_events():
                pass
            return result.final_output

    assert asyncio.run(run()) == scenario["text"]


@rows(STREAMS)
def test_langchain_stream(scenario):
    model = ChatOpenAI(model=MODEL, base_url=URL, api_key="test", use_responses_api=False, extra_body=body_of(scenario))
    assert "".join(chunk.text for chunk in model.stream(script(scenario["script"]))) == scenario["text"]


@rows(STREAMS)
def test_pydantic_ai_stream(scenario):
    agent = PydanticAgent(OpenAIChatModel(MODEL, provider=OpenAIProvider(base_url=URL, api_key="test")))

    async def run():
        settings = {"extra_body": body_of(scenario)}
        async with agent.run_stream(script(scenario["script"]), model_settings=settings) as result:
            return "".join([delta async for delta in result.stream_text(delta=True)])

    assert asyncio.run(run()) == scenario["text"]


@rows(STREAMS)
def test_litellm_stream(scenario):
    messages = [{"role": "user", "content": script(scenario["script"])}]
    ask = {"model": f"openai/{MODEL}", "messages": messages, "api_base": URL, "api_key": "test"}
    chunks = list(litellm.completion(stream=True, extra_body=body_of(scenario), **ask))
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == scenario["text"]
    reasons = [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices[0].finish_reason]
    assert reasons == ["length" if "reason" in scenario else "stop"], reasons


def test_openai_agents():
    @function_tool
    def get_weather(city: str) -> str:
        """Tells the weather of a city."""
        return "sunny"

    async def run():
        model = OpenAIChatCompletionsModel(model=MODEL, openai_client=AsyncOpenAI(base_url=URL, api_key="test"))
        result = Runner.run_streamed(Agent(name="Weather", model=model, tools=[get_weather]), script(SCENARIOS["weather"]))
        async for _ in result.stream_events():
            pass
        return result.final_output

    assert asyncio.run(run()) == ANSWER


def test_langchain():
    @tool
    def get_weather(city: str) -> str:
        """Tells the weather of a city."""
        return "sunny"

    model = ChatOpenAI(model=MODEL, base_url=URL, api_key="test", use_responses_api=False, stream_usage=True).bind_tools([get_weather])
    history = [("user", script(SCENARIOS["weather"]))]
    first = model.invoke(history)
    assert [call["args"] for call in first.tool_calls] == [{"city": "Oslo"}], first
    history += [first, get_weather.invoke(first.tool_calls[0])]
    chunks = list(model.stream(history))
    assert "".join(chunk.text for chunk in chunks) == ANSWER, chunks


def test_pydantic_ai():
    agent = PydanticAgent(OpenAIChatModel(MODEL, provider=OpenAIProvider(base_url=URL, api_key="test")))

    @agent.tool_plain
    def get_weather(city: str) -> str:
        """Tells the weather of a city."""
        return "sunny"

    async def run():
        async with agent.run_stream(script(SCENARIOS["weather"])) as result:
            return await result.get_output()

    assert agent.run_sync(script(SCENARIOS["weather"])).output == ANSWER
    asyncio.run(run())


def test_litellm():
    messages = [{"role": "user", "content": script({"turns": [{"text": ["It is ", "20."]}]})}]
    ask = {"model": f"openai/{MODEL}", "messages": messages, "api_base": URL, "api_key": "test"}
    assert litellm.completion(**ask).choices[0].message.content == "It is 20."
    chunks = litellm.completion(stream=True, **ask)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == "It is 20."


def test_llm():
    """Simon Willison's `llm`, as a person configures it."""
    with tempfile.TemporaryDirectory() as folder:
        models = f"- model_id: ours\n  model_name: {MODEL}\n  api_base: {URL}\n  api_key_name: ours\n"
        Path(folder, "extra-openai-models.yaml").write_text(models, encoding="utf-8")
        Path(folder, "keys.json").write_text(json.dumps({"ours": "test"}), encoding="utf-8")
        program = Path(sys.executable).with_name("llm")
        for more in [[], ["--no-stream"]]:
            command = [program, "prompt", "-m", "ours", "--no-log", *more, script({"turns": [{"text": ["It is ", "20."]}]})]
            done = subprocess.run(command, env={**os.environ, "LLM_USER_PATH": folder}, capture_output=True, text=True, timeout=60)
            assert (done.returncode, done.stdout.strip()) == (0, "It is 20."), (done.stdout, done.stderr)


if __name__ == "__main__":
    main("python chat frameworks", sys.modules[__name__])
