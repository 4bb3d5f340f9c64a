"""The Codex CLI against the gateway: the model calls its tools, Codex carries them out and sends
the results, and the model answers.

Codex decides by the name of the model which tools it offers and how. The gateway asks a different
kind of provider under each of the three names here: `functions` is a server that knows only
functions, `chat` one that knows custom tools in Chat Completions, and `responses` one that speaks
the Responses API.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "python"))

from harness import BASE_URL, main, rows, script  # noqa: E402

CODEX = os.environ["CODEX_BIN"]

# Shell and patches as tools of their own; both are offered in `tools`.
TOOLS = [{"name": "functions", "model": "gpt-5.5"}]
# One custom tool that runs JavaScript, offered in an item of the input and in a namespace.
CODE = [{"name": "chat", "model": "gpt-5.6-sol"}, {"name": "responses", "model": "gpt-6.1-sol"}]

SETTINGS = """
model_provider = "turnwire"
approval_policy = "never"
check_for_update_on_startup = false
sandbox_mode = "danger-full-access"

[model_providers.turnwire]
name = "turnwire"
base_url = "{url}/v1"
wire_api = "responses"
request_max_retries = 0
stream_max_retries = 0

[analytics]
enabled = false

[otel]
exporter = "none"
"""

# Nothing but this machine can be reached.
NOWHERE = "http://127.0.0.1:9"
LOOPBACK = {"HTTP_PROXY": NOWHERE, "HTTPS_PROXY": NOWHERE, "NO_PROXY": "127.0.0.1,localhost"}

PATCH = "*** Begin Patch\n*** Add File: made.txt\n+made by a patch\n*** End Patch\n"


def codex(model, turns):
    """Runs Codex once in a folder of its own; what it reports, and the files it leaves."""
    with tempfile.TemporaryDirectory() as folder:
        home, work = Path(folder, "home"), Path(folder, "work")
        home.mkdir()
        work.mkdir()
        Path(home, "config.toml").write_text(SETTINGS.format(url=BASE_URL), encoding="utf-8")
        command = [CODEX, "exec", "--json", "--skip-git-repo-check", "--model", model, script(turns)]
        done = subprocess.run(
            command,
            cwd=work,
            env={**os.environ, **LOOPBACK, "CODEX_HOME": str(home)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        events = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        assert done.returncode == 0, (done.returncode, events, done.stderr[-2000:])
        files = {path.name: path.read_text(encoding="utf-8") for path in work.iterdir()}
    items = [event["item"] for event in events if event["type"] == "item.completed"]
    assert not [item for item in items if item["type"] == "error"], items
    return items, files


def of_type(items, kind):
    return [item for item in items if item["type"] == kind]


def answer(items):
    return of_type(items, "agent_message")[-1]["text"]


@rows(TOOLS)
def test_shell(scenario):
    """The command that the model asks for is run, and the model is told what it printed."""
    call = {"name": "exec_command", "arguments": {"cmd": "echo out of the $((40 + 2)) shell"}}
    items, _ = codex(scenario["model"], [{"calls": [call]}, {"text": "It printed: {results}"}])
    ran = of_type(items, "command_execution")
    assert [(item["exit_code"], item["aggregated_output"]) for item in ran] == [(0, "out of the 42 shell\n")], ran
    assert answer(items).startswith("It printed: ") and "out of the 42 shell" in answer(items), answer(items)


@rows(TOOLS)
def test_patch(scenario):
    """A custom tool: its input is a patch and no JSON, whatever the provider was offered."""
    call = {"name": "apply_patch", "input": [PATCH[:25], PATCH[25:]]}
    items, files = codex(scenario["model"], [{"calls": [call]}, {"text": "Done: {results}"}])
    assert files == {"made.txt": "made by a patch\n"}, (files, items)
    assert [item["status"] for item in of_type(items, "file_change")] == ["completed"], items
    assert answer(items).startswith("Done: "), items


@rows(CODE)
def test_code(scenario):
    """A custom tool in a namespace that comes with the input."""
    code = 'const ran = await tools.exec_command({ cmd: "echo out of the $((40 + 2)) shell" });\ntext(ran.output);\n'
    items, _ = codex(scenario["model"], [{"calls": [{"name": "exec", "input": code}]}, {"text": "It printed: {results}"}])
    ran = of_type(items, "command_execution")
    assert [(item["exit_code"], item["aggregated_output"]) for item in ran] == [(0, "out of the 42 shell\n")], ran
    assert "out of the 42 shell" in answer(items), answer(items)


@rows(TOOLS + CODE)
def test_two_rounds(scenario):
    """What was called and what came of it is in the next request, and the one after that."""
    is_code = scenario in CODE
    shell = lambda word: {"name": "exec_command", "arguments": {"cmd": f"echo {word}"}}  # noqa: E731
    code = lambda word: {"name": "exec", "input": f'text("{word}");'}  # noqa: E731
    call = code if is_code else shell
    turns = [{"calls": [call("first")]}, {"calls": [call("second")]}, {"text": "At last: {results}"}]
    items, _ = codex(scenario["model"], turns)
    assert answer(items).startswith("At last: ") and "second" in answer(items), answer(items)


if __name__ == "__main__":
    main("codex", sys.modules[__name__])
