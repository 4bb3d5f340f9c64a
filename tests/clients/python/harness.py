"""Finds the tests of a module, runs them one by one and counts.

A test is a function named `test_…`. It fails by raising. One that takes `stream` is run twice:
with raw events (`create(stream=True)`) and with the helper (`responses.stream()`).
"""

import inspect
import json
import os
import sys
import time
import traceback
import urllib.parse
import urllib.request
import uuid
from pathlib import Path

BASE_URL = os.environ.get("TURNWIRE_URL", "http://127.0.0.1:7878").rstrip("/")
SCENARIOS = json.loads((Path(__file__).parent.parent / "scenarios.json").read_text(encoding="utf-8"))
MODEL = SCENARIOS["model"]
ONLY = os.environ.get("ONLY", "")


def script(turns):
    """The question that makes the scripted model play `turns`."""
    return json.dumps(turns if isinstance(turns, dict) else {"turns": turns})


def tools_of(scenario):
    return [SCENARIOS[name] for name in scenario.get("tools", [])]


def wait_until(look, is_it, seconds=20):
    """Looks again and again until what is seen is it."""
    deadline = time.monotonic() + seconds
    while True:
        seen = look()
        if is_it(seen):
            return seen
        assert time.monotonic() < deadline, f"still {seen!r} after {seconds} s"
        time.sleep(0.05)


def native(path, body=None):
    """One request to the native surface, where runs of all clients are listed and answered."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"{BASE_URL}/v1/runs{path}", data, {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=20) as answer:
        return json.load(answer)


def runs_with(mark):
    """The runs whose question contains this text, newest first."""
    return native(f"?q={urllib.parse.quote(mark)}")["data"]


def n_finished(outcome):
    """How many runs of the gateway have ended like this."""
    name = f'turnwire_runs_finished_total{{outcome="{outcome}"}} '
    with urllib.request.urlopen(f"{BASE_URL}/metrics", timeout=20) as answer:
        lines = answer.read().decode().splitlines()
    return sum(int(float(line.removeprefix(name))) for line in lines if line.startswith(name))


def unique():
    """A word that no other test uses, so that its run can be found."""
    return f"mark{uuid.uuid4().hex}"


def guarded(mark):
    """A call of the one tool that a person has to allow."""
    return [{"calls": [{"name": "structured", "arguments": {}}]}, {"text": f"{mark}: {{results}}"}]


def decide(mark, decision):
    """Answers as somebody else does, in the web view or in a terminal, while the client waits."""
    [run] = wait_until(lambda: runs_with(mark), lambda runs: runs and runs[0]["status"] == "needs_input")
    [call] = [one for one in native(f"/{run['run_id']}")["calls"] if one["tool"] == "structured"]
    native(f"/{run['run_id']}/calls/{call['call_id']}/approve", {"decision": decision})


def is_decided(text, decision):
    """Whether the model heard of the decision."""
    return ("denied by the user" in text) == (decision == "deny") and "Error" not in text.replace("Error: denied by the user", "")


def cases_of(module, variants):
    for name, function in list(vars(module).items()):
        if not name.startswith("test_") or not callable(function):
            continue
        takes = inspect.signature(function).parameters
        for row in getattr(function, "rows", [None]):
            for variant in variants if "stream" in takes else [None]:
                arguments = {}
                label = name.removeprefix("test_").replace("_", " ")
                if row is not None:
                    arguments["scenario"] = row
                    label = f"{label}: {row['name']}"
                if variant is not None:
                    arguments["stream"] = variant
                    label = f"{label} ({variant.__name__})"
                yield label, function, arguments


def rows(scenarios):
    """Runs the test once for each scenario."""

    def mark(function):
        function.rows = scenarios
        return function

    return mark


def runs_in(variable):
    """The folders of runs in the folder that a variable of the environment names, if it does."""
    folder = os.environ.get(variable)
    return sorted(Path(folder).iterdir()) if folder else []


def main(suite, module, variants=()):
    passed = failed = 0
    for label, function, arguments in cases_of(module, variants):
        if ONLY and ONLY not in label:
            continue
        try:
            function(**arguments)
        except Exception:  # noqa: BLE001: one failure must not hide the others
            failed += 1
            print(f"FAILED {suite}: {label}", flush=True)
            traceback.print_exc()
        else:
            passed += 1
            print(f"ok     {suite}: {label}", flush=True)
    print(f"{suite}: {passed} passed, {failed} failed", flush=True)
    sys.exit(1 if failed or not (passed or ONLY) else 0)
