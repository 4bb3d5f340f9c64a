"""Programs and frameworks that speak Chat Completions, each taken through everything that it can do:
openai-agents, LangChain, pydantic-ai, LiteLLM and `llm`. Tools of the server run inside the request:
a program names them in what it adds to the body, or the model brings them.
"""

import sys
import threading
import uuid

from chat_clients import CLIENTS, URL, litellm, llm
from harness import MODEL, SCENARIOS, decide, guarded, is_decided, main, n_finished, rows, runs_with, script, tools_of, unique, wait_until

NAMES = ["text", "mcp success", "mcp failure", "three tools side by side", "length"]
STREAMS = [scenario for scenario in SCENARIOS["streams"] if scenario["name"] in NAMES]
EXTENDED = {"Turnwire-Profile": "extended"}


def each(variants):
    """Every client with every variant; the name of a row is that of the client and that of the variant."""
    named = [variant if isinstance(variant, dict) else {"name": variant} for variant in variants]
    return rows([{**variant, **client, "name": f"{client['name']}, {variant['name']}"} for client in CLIENTS for variant in named])


@each(STREAMS)
def test_stream(scenario):
    assert scenario["play"](script(scenario["script"]), tools=tools_of(scenario)) == scenario["text"]


@rows(CLIENTS)
def test_function_of_the_client(scenario):
    """The program runs its function between two requests."""
    cities = []
    text = scenario["play"](script(SCENARIOS["weather"]), functions=cities)
    # Some join what was said before the call and after it.
    assert text.endswith("In Oslo it is sunny.") and cities == ["Oslo"], (text, cities)


@each([{"name": "granted", "decision": "approve"}, {"name": "denied", "decision": "deny"}])
def test_approval(scenario):
    """The stream waits until somebody answers elsewhere."""
    mark, said, problems = unique(), [], []

    def play():
        try:
            said.append(scenario["play"](script(guarded(mark)), tools=[SCENARIOS["mcp_tool"]], headers=EXTENDED))
        except Exception as error:  # noqa: BLE001: it is raised below
            problems.append(error)

    waiting = threading.Thread(target=play, daemon=True)
    waiting.start()
    decide(mark, scenario["decision"])
    waiting.join(60)
    assert not problems, problems
    assert said and said[0].startswith(mark) and is_decided(said[0], scenario["decision"]), said


@rows(CLIENTS)
def test_cancel(scenario):
    """A program that goes away takes its run with it."""
    mark, seen, n_cancelled = unique(), [], n_finished("cancelled")
    turns = [{**SCENARIOS["endless_text"]["turns"][0], "text": ["one ", "two ", mark]}]
    scenario["play"](script(turns), leave=lambda: seen.append(runs_with(mark)))
    # A run that is not to be stored is its client's alone, so only its end can be seen.
    assert seen == [[]], seen
    wait_until(lambda: n_finished("cancelled"), lambda n_now: n_now > n_cancelled)


@each([{"name": "at once", "script": [{"error": "rejected"}]}, {"name": "in mid-stream", "script": SCENARIOS["broken"]}])
def test_failed_run(scenario):
    """A run that fails is an exception, or for a program a status."""
    try:
        text = scenario["play"](script(scenario["script"]))
    except Exception as error:  # noqa: BLE001: each has its own
        assert str(error), error
    else:
        raise AssertionError(f"it said {text!r}")


@rows(CLIENTS)
def test_resume(scenario):
    """A stream that was lost is read again from its beginning, with the key of its request."""
    mark, headers = unique(), {"Idempotency-Key": str(uuid.uuid4())}
    question = script([{**SCENARIOS["slow_text"]["turns"][0], "text": ["one ", "two ", "three ", "four ", mark]}])
    seen = []
    for _ in range(2):
        scenario["play"](question, headers=headers, leave=lambda: seen.extend(runs_with(mark)))
    assert len(seen) == 2 and seen[0]["run_id"] == seen[1]["run_id"], seen
    assert scenario["play"](question, headers=headers) == f"one two three four {mark}"


def test_finish_reason_of_litellm():
    for reason in ("stop", "length"):
        messages = [{"role": "user", "content": script([{"text": "It is 20.", "finish": reason}])}]
        ask = {"model": f"openai/{MODEL}", "messages": messages, "api_base": URL, "api_key": "test"}
        whole = litellm.completion(**ask).choices[0]
        assert (whole.message.content, whole.finish_reason) == ("It is 20.", reason), whole
        chunks = list(litellm.completion(stream=True, **ask))
        assert [one.choices[0].finish_reason for one in chunks if one.choices[0].finish_reason] == [reason], chunks


def test_text_of_llm_without_a_stream():
    assert llm(script([{"text": ["It is ", "20."]}]), more=["--no-stream"]) == "It is 20."


if __name__ == "__main__":
    main("python chat frameworks", sys.modules[__name__])
