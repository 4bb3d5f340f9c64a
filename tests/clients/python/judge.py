"""openai-python over every recorded and every random run: its own types judge each event and each
response, and its own stream reader and its helper go through to the end.
"""

import json
import sys
from typing import get_args

import httpx2
from openai import APIError, OpenAI
from openai.types.responses import Response, ResponseOutputItem, ResponseStreamEvent
from pydantic import TypeAdapter, ValidationError

from fold import Fold, plain, same
from harness import main, rows, runs_in

PROFILES = {"strict": "responses.jsonl", "extended": "responses_extended.jsonl"}


def read(folder, profile):
    lines = (folder / PROFILES[profile]).read_text(encoding="utf-8").splitlines()
    events = [json.loads(line) for line in lines]
    return {
        "name": f"{folder.name}, {profile}",
        "profile": profile,
        "lines": lines,
        "events": events,
        "response": events[-1]["response"],
    }


GOLDENS = [read(folder, profile) for folder in runs_in("TURNWIRE_GOLDENS") for profile in PROFILES]
RANDOM = runs_in("TURNWIRE_RANDOM_RUNS")

# Where we differ from the types on purpose. One that is never met is taken out.
EXCEPTIONS = {
    "limits and cancels of ours have reasons of their own": lambda error: error["loc"][-2:] == ("incomplete_details", "reason"),
    "the action of a web search is known when the search is over": lambda error: error["type"] == "missing"
    and error["loc"][-1] == "action"
    and error["input"]["type"] == "web_search_call",
    "OpenAI sends this code itself, and clients look for it": lambda error: error["loc"][-2:] == ("error", "code")
    and error["input"] == "context_length_exceeded",
}
MET = set()


def by_type(annotated):
    """The members of a union, by the `type` that each stands for."""
    members = get_args(get_args(annotated)[0])
    return {kind: TypeAdapter(member) for member in members for kind in get_args(member.model_fields["type"].annotation)}


EVENTS = by_type(ResponseStreamEvent)
ITEMS = by_type(ResponseOutputItem)
RESPONSE = TypeAdapter(Response)
# An item that nobody can object to.
STAND_IN = {"type": "message", "id": "msg_0", "role": "assistant", "status": "completed", "content": []}


def mistakes_in(adapter, value):
    try:
        # As JSON and strictly: a number is no text, and null is nothing but null.
        adapter.validate_json(json.dumps(value), strict=True)
    except ValidationError as error:
        return [f"{'.'.join(map(str, one['loc']))}: {one['msg']}, is {one['input']!r}" for one in error.errors() if not is_exception(one)]
    return []


def is_exception(error):
    for why, is_it in EXCEPTIONS.items():
        if is_it(error):
            MET.add(why)
            return True
    return False


def mistakes_in_response(response):
    items = [mistake for item in response["output"] for mistake in mistakes_in(ITEMS[item["type"]], item)]
    return items + mistakes_in(RESPONSE, {**response, "output": []})


def mistakes_in_event(event):
    # Unions are judged by the member that the `type` names: what the others miss tells nothing.
    mistakes = []
    if "item" in event:
        mistakes += mistakes_in(ITEMS[event["item"]["type"]], event["item"])
        event = {**event, "item": STAND_IN}
    if "response" in event:
        mistakes += mistakes_in_response(event["response"])
        event = {**event, "response": {**event["response"], "output": [], "incomplete_details": None, "error": None}}
    return mistakes + mistakes_in(EVENTS[event["type"]], event)


def client(body, kind):
    answer = httpx2.MockTransport(lambda _: httpx2.Response(200, headers={"content-type": kind}, content=body))
    return OpenAI(base_url="http://localhost/v1", api_key="test", max_retries=0, http_client=httpx2.Client(transport=answer))


def streaming(scenario):
    frames = [f"event: {event['type']}\ndata: {line}\n\n" for event, line in zip(scenario["events"], scenario["lines"])]
    return client("".join([*frames, "data: [DONE]\n\n"]), "text/event-stream")


def is_failed(scenario):
    return scenario["response"]["status"] == "failed"


def dumped(model):
    return model.to_dict(mode="json")


@rows(GOLDENS)
def test_types(scenario):
    official = [event for event in scenario["events"] if event["type"] in EVENTS]
    if scenario["profile"] == "strict":
        assert len(official) == len(scenario["events"])
    mistakes = [f"{event['type']}: {mistake}" for event in official for mistake in mistakes_in_event(event)]
    assert not mistakes, "\n".join(mistakes)


def test_every_exception_is_needed():
    for scenario in GOLDENS:
        for event in scenario["events"]:
            if event["type"] in EVENTS:
                mistakes_in_event(event)
    assert MET == set(EXCEPTIONS), set(EXCEPTIONS) - MET


@rows(GOLDENS)
def test_raw_stream(scenario):
    fold = Fold()
    try:
        with streaming(scenario).responses.create(model="m", input="?", stream=True) as events:
            for event in events:
                fold.add(dumped(event))
    except APIError as error:
        assert is_failed(scenario) and scenario["response"]["error"]["message"] in error.message, error
        return
    assert not is_failed(scenario), "it raised nothing"
    same(fold.response(), scenario["response"])


@rows([scenario for scenario in GOLDENS if scenario["profile"] == "strict"])
def test_helper_stream(scenario):
    last = None
    try:
        with streaming(scenario).responses.stream(model="m", input="?") as events:
            for event in events:
                last = event
    except APIError as error:
        assert is_failed(scenario) and scenario["response"]["error"]["message"] in error.message, error
        return
    assert plain(dumped(last.response)) == plain(scenario["response"])


@rows(GOLDENS)
def test_response(scenario):
    reader = client(json.dumps(scenario["response"]), "application/json")
    same(dumped(reader.responses.retrieve(scenario["response"]["id"])), scenario["response"])


@rows([{"name": f"{len(RANDOM)} runs"}] if RANDOM else [])
def test_random(scenario):
    for folder in RANDOM:
        run = read(folder, "strict")
        for judge in [test_types, test_raw_stream]:
            try:
                judge(run)
            except Exception as error:
                raise AssertionError(f"{run['name']}: {error}") from error


if __name__ == "__main__":
    main("judges python", sys.modules[__name__])
