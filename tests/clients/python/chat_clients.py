"""Programs and frameworks that speak Chat Completions, each behind the same function:

    play(question, tools=…, headers=…, leave=…, functions=…)

streams the answer to a question and returns its text. `tools` are tools of the server. With `leave`
it calls that at the first piece of text and goes away, in the way that the framework has for it. With
`functions` the program offers `get_weather`, and its name is added to the list whenever it is run.
A run that fails is an exception.
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

from harness import BASE_URL, MODEL, SCENARIOS

set_tracing_disabled(True)
URL = f"{BASE_URL}/v1"
# Brings the tools of the server itself, for programs that cannot name them; `scripts/clients all` configures it.
WITH_TOOLS = "with-tools"


def body_of(tools):
    """What a program adds to the body, for the server to run its tools."""
    return {"tools": tools} if tools else {}


def weather(ran):
    def get_weather(city: str) -> str:
        """Tells the weather of a city."""
        ran.append(city)
        return "sunny"

    return get_weather


def openai_agents(question, tools=(), headers=None, leave=None, functions=None):
    async def run():
        async with AsyncOpenAI(base_url=URL, api_key="test", max_retries=0) as client:
            model = OpenAIChatCompletionsModel(model=MODEL, openai_client=client)
            settings = ModelSettings(extra_body=body_of(tools), extra_headers=headers)
            offered = [] if functions is None else [function_tool(weather(functions))]
            result = Runner.run_streamed(Agent(name="Tester", model=model, model_settings=settings, tools=offered), question)
            async for event in result.stream_events():
                if leave and getattr(getattr(event, "data", None), "type", None) == "response.output_text.delta":
                    leave()
                    result.cancel()
            return result.final_output

    return asyncio.run(run())


def langchain(question, tools=(), headers=None, leave=None, functions=None):
    more = {"extra_body": body_of(tools), "default_headers": headers, "max_retries": 0}
    model = ChatOpenAI(model=MODEL, base_url=URL, api_key="test", use_responses_api=False, **more)
    history, offered = [("user", question)], None
    if functions is not None:
        offered = tool(weather(functions))
        model = model.bind_tools([offered])
        first = model.invoke(history)
        history += [first, *(offered.invoke(call) for call in first.tool_calls)]
    text, chunks = "", model.stream(history)
    for chunk in chunks:
        text += chunk.text
        if leave and text:
            leave()
            chunks.close()
            break
    return text


def pydantic_ai(question, tools=(), headers=None, leave=None, functions=None):
    async def run():
        client = AsyncOpenAI(base_url=URL, api_key="test", max_retries=0)
        agent = PydanticAgent(OpenAIChatModel(MODEL, provider=OpenAIProvider(openai_client=client)))
        if functions is not None:
            agent.tool_plain(weather(functions))
            return (await agent.run(question)).output
        settings = {"extra_body": body_of(tools), "extra_headers": headers or {}}
        text = ""
        async with agent.run_stream(question, model_settings=settings) as result:
            async for piece in result.stream_text(delta=True, debounce_by=None):
                text += piece
                if leave:
                    leave()
                    await result.cancel()
                    break
        return text

    return asyncio.run(run())


def of_litellm(question, tools=(), headers=None, leave=None, functions=None):
    messages = [{"role": "user", "content": question}]
    ask = {"model": f"openai/{MODEL}", "api_base": URL, "api_key": "test", "num_retries": 0, "max_retries": 0}
    more = {"extra_body": body_of(tools)} if tools else {}
    if functions is not None:
        wanted = {name: value for name, value in SCENARIOS["weather_tool"].items() if name != "type"}
        more["tools"] = [{"type": "function", "function": wanted}]
        first = litellm.stream_chunk_builder(list(litellm.completion(messages=messages, stream=True, **ask, **more)))
        message = first.choices[0].message
        messages.append(message.model_dump())
        for call in message.tool_calls:
            content = weather(functions)(**json.loads(call.function.arguments))
            messages.append({"role": "tool", "tool_call_id": call.id, "content": content})
    text = ""
    chunks = litellm.completion(messages=messages, stream=True, extra_headers=headers, **ask, **more)
    for chunk in chunks:
        text += chunk.choices[0].delta.content or ""
        if leave and text:
            leave()
            chunks.completion_stream.close()
            break
    return text


FUNCTION = '''
def get_weather(city: str) -> str:
    """Tells the weather of a city."""
    open({path!r}, "a").write(city)
    return "sunny"
'''


def llm(question, tools=(), headers=None, leave=None, functions=None, more=()):
    """Simon Willison's `llm`, as a person configures it."""
    with tempfile.TemporaryDirectory() as folder:
        model = {"model_id": "ours", "model_name": WITH_TOOLS if tools else MODEL, "api_base": URL, "api_key_name": "ours"}
        model |= {"supports_tools": True, "headers": headers or {}}
        # JSON is YAML, too.
        Path(folder, "extra-openai-models.yaml").write_text(json.dumps([model]), encoding="utf-8")
        Path(folder, "keys.json").write_text(json.dumps({"ours": "test"}), encoding="utf-8")
        ran = Path(folder, "ran")
        offered = [] if functions is None else ["--functions", FUNCTION.format(path=str(ran))]
        command = [Path(sys.executable).with_name("llm"), "prompt", "-m", "ours", "--no-log", *offered, *more, question]
        env = {**os.environ, "LLM_USER_PATH": folder, "PYTHONUNBUFFERED": "1"}
        with subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as program:
            if leave:
                text = program.stdout.read(1)
                leave()
                program.terminate()
                return text
            text, complaint = program.communicate(timeout=60)
        if functions is not None and ran.exists():
            functions.append(ran.read_text(encoding="utf-8"))
        if program.returncode != 0:
            raise RuntimeError(complaint)
        return text.removesuffix("\n")


CLIENTS = [
    {"name": "openai agents", "play": openai_agents},
    {"name": "langchain", "play": langchain},
    {"name": "pydantic ai", "play": pydantic_ai},
    {"name": "litellm", "play": of_litellm},
    {"name": "llm", "play": llm},
]
