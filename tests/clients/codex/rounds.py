"""The Codex CLI against the gateway: the model calls its tools, Codex carries them out and sends
the results, and the model answers.

Codex decides by the name of the model which tools it offers and how. The gateway asks a different
kind of provider under each of the three names here: `functions` is a server that knows only
functions, `chat` one that knows custom tools in Chat Completions, and `responses` one that speaks
the Responses API.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import urllib.parse
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "python"))

from harness import BASE_URL, SCENARIOS, main, rows, runs_with, script, unique, wait_until  # noqa: E402

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
stream_max_retries = {retries}

[analytics]
enabled = false

[otel]
exporter = "none"
"""

# Nothing but this machine can be reached.
NOWHERE = "http://127.0.0.1:9"
LOOPBACK = {"HTTP_PROXY": NOWHERE, "HTTPS_PROXY": NOWHERE, "NO_PROXY": "127.0.0.1,localhost"}

PATCH = "*** Begin Patch\n*** Add File: made.txt\n+made by a patch\n*** End Patch\n"


class Program:
    """Codex once, in a folder of its own."""

    def __init__(self, model, question, url=BASE_URL, more="", retries=0):
        self.folder = tempfile.TemporaryDirectory()
        home, self.work = Path(self.folder.name, "home"), Path(self.folder.name, "work")
        home.mkdir()
        self.work.mkdir()
        Path(home, "config.toml").write_text(more + SETTINGS.format(url=url, retries=retries), encoding="utf-8")
        self.process = subprocess.Popen(
            [CODEX, "exec", "--json", "--skip-git-repo-check", "--model", model, question],
            cwd=self.work,
            env={**os.environ, **LOOPBACK, "CODEX_HOME": str(home)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()
        self.folder.cleanup()

    def end(self):
        """Waits for its end; what it reports, and its last words."""
        said, complaint = self.process.communicate(timeout=120)
        return [json.loads(line) for line in said.splitlines() if line.startswith("{")], complaint[-2000:]

    def files(self):
        return {path.name: path.read_text(encoding="utf-8") for path in self.work.iterdir()}


def codex(model, turns, **options):
    """Runs Codex to a good end; what it reports, and the files it leaves."""
    with Program(model, script(turns), **options) as program:
        events, complaint = program.end()
        assert program.process.returncode == 0, (program.process.returncode, events, complaint)
        files = program.files()
    items = [event["item"] for event in events if event["type"] == "item.completed"]
    assert not [item for item in items if item["type"] == "error"], items
    return items, files


def fails(turns):
    """Runs Codex to a bad end; what it says of it."""
    with Program(TOOLS[0]["model"], script(turns)) as program:
        events, complaint = program.end()
        assert program.process.returncode != 0, (events, complaint)
    return [event["error"]["message"] for event in events if event["type"] == "turn.failed"]


def of_type(items, kind):
    return [item for item in items if item["type"] == kind]


def answer(items):
    return of_type(items, "agent_message")[-1]["text"]


@rows(TOOLS + CODE)
def test_text(scenario):
    items, _ = codex(scenario["model"], [{"text": ["Good ", "day."]}])
    assert answer(items) == "Good day.", items


# Codex names one tool of the server: web search.
SEARCHES = 'web_search = "live"\n'
SEARCHED = [
    {"name": "a tool of the server", "queries": ["rust streams"]},
    {"name": "a failing tool", "queries": ["boom"]},
    {"name": "three tools at once", "queries": ["one", "two", "three"]},
]


@rows(SEARCHED)
def test_web_search(scenario):
    """The server searches inside the request; Codex shows what was searched for."""
    calls = [{"name": "web_search", "arguments": {"query": query}} for query in scenario["queries"]]
    items, _ = codex(TOOLS[0]["model"], [{"calls": calls}, {"text": "Found: {results}"}], more=SEARCHES)
    # In the order of their ends.
    assert sorted(item["query"] for item in of_type(items, "web_search")) == sorted(scenario["queries"]), items
    assert ("Error" in answer(items)) == (scenario["queries"] == ["boom"]), answer(items)


def test_length():
    """Codex takes no answer that was cut, and says so."""
    [why] = fails([{"text": "Half", "finish": "length"}])
    assert "max_output_tokens" in why, why


@rows([{"name": "at once", "script": [{"error": "rejected"}]}, {"name": "in mid-stream", "script": SCENARIOS["broken"]}])
def test_failed_run(scenario):
    [why] = fails(scenario["script"])
    assert why, why


def test_cancel():
    """Codex stores nothing on the server, so its end is the end of its run."""
    mark = unique()
    question = script([{"text": ["one ", mark], "finish": "never"}])
    with Program(TOOLS[0]["model"], question) as program:
        wait_until(lambda: [run["status"] for run in runs_with(mark)], lambda statuses: statuses == ["active"])
        # What the shell does on ctrl+c.
        program.process.send_signal(signal.SIGINT)
        program.process.wait(30)
    wait_until(lambda: runs_with(mark), lambda runs: not runs or runs[0]["status"] == "cancelled")


def test_resume():
    """Codex sends its request again when a stream breaks off, and gets the whole answer."""
    with Breaking() as line:
        items, _ = codex(TOOLS[0]["model"], SCENARIOS["slow_text"], url=line.url, retries=2)
    assert line.n_broken == 1, line.n_broken
    assert answer(items) == "".join(SCENARIOS["slow_text"]["turns"][0]["text"]), items


class Breaking:
    """A line to the gateway that breaks once, in the middle of the first answer with text."""

    def __enter__(self):
        self.n_broken = 0
        self.server = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.server.getsockname()[1]}"
        threading.Thread(target=self.accept, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.close()

    def accept(self):
        target = urllib.parse.urlsplit(BASE_URL)
        while True:
            try:
                near, _ = self.server.accept()
            except OSError:
                return
            far = socket.create_connection((target.hostname, target.port))
            threading.Thread(target=self.pump, args=(near, far, False), daemon=True).start()
            threading.Thread(target=self.pump, args=(far, near, True), daemon=True).start()

    def pump(self, source, sink, is_answer):
        try:
            while data := source.recv(65536):
                sink.sendall(data)
                if is_answer and b"output_text.delta" in data and self.n_broken == 0:
                    self.n_broken += 1
                    break
        except OSError:
            pass
        for end in (source, sink):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


@rows(TOOLS)
def test_function_of_the_client_shell(scenario):
    """A function of the client: the command that the model asks for is run, and the model is told what it printed."""
    call = {"name": "exec_command", "arguments": {"cmd": "echo out of the $((40 + 2)) shell"}}
    items, _ = codex(scenario["model"], [{"calls": [call]}, {"text": "It printed: {results}"}])
    ran = of_type(items, "command_execution")
    assert [(item["exit_code"], item["aggregated_output"]) for item in ran] == [(0, "out of the 42 shell\n")], ran
    assert answer(items).startswith("It printed: ") and "out of the 42 shell" in answer(items), answer(items)


@rows(TOOLS)
def test_function_of_the_client_patch(scenario):
    """A custom tool: its input is a patch and no JSON, whatever the provider was offered."""
    call = {"name": "apply_patch", "input": [PATCH[:25], PATCH[25:]]}
    items, files = codex(scenario["model"], [{"calls": [call]}, {"text": "Done: {results}"}])
    assert files == {"made.txt": "made by a patch\n"}, (files, items)
    assert [item["status"] for item in of_type(items, "file_change")] == ["completed"], items
    assert answer(items).startswith("Done: "), items


@rows(CODE)
def test_function_of_the_client_code(scenario):
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
