"""The recorded runs of the repository, with what the server's own projections make of them."""

import json
import os
import re
from pathlib import Path

FOLDER = Path(
    os.environ.get("TURNWIRE_GOLDENS", Path(__file__).resolve().parents[3] / "crates/turnwire-testkit/scenarios")
)
SCENARIOS = sorted(folder.name for folder in FOLDER.iterdir())

_STRING = r'"((?:[^"\\]|\\.)*)"'


def events_of(scenario):
    """The events of a recorded run."""
    return [json.loads(line) for line in (FOLDER / scenario / "events.jsonl").read_text(encoding="utf-8").splitlines()]


def calls_of(scenario, file):
    """The recorded calls of callbacks, such as `on_token("a")`: name and arguments, or the name
    alone if the line is too long to be recorded whole.
    """
    calls, _, _ = (FOLDER / scenario / file).read_text(encoding="utf-8").partition("--- at the end")
    return [_call(line) for line in calls.split("\n") if line]


def _call(line):
    if re.search(r"… \(\d+ bytes\)\)?$", line):
        return (re.match(r"\w+", line)[0],)
    name, rest = re.fullmatch(r"(\w+)\((.*)\)(?: structural=\w+)?", line).groups()
    if name == "on_tool_block_updated":
        return name, _block(rest)
    return name, *(_unescaped(text) for text in re.findall(_STRING, rest))


def _unescaped(text):
    """The text of a string as Rust prints it."""
    marks = {"n": "\n", "r": "\r", "t": "\t", "0": "\0"}
    return re.sub(
        r"\\(?:u\{([0-9a-f]+)\}|(.))",
        lambda found: chr(int(found[1], 16)) if found[1] else marks.get(found[2], found[2]),
        text,
    )


def _block(printed):
    """A block as Rust prints it, as the fields of a `ToolBlock`."""

    def text(field):
        found = re.search(rf"[ {{]{field}: (?:Some\()?{_STRING}", printed)
        return _unescaped(found[1]) if found else None

    success = re.search(r" success: Some\((\w+)\)", printed)
    images = re.search(r" images: \[(.*)\] }", printed)
    names = ("id", "name", "parameters", "parameters_chunk", "compact_params", "result", "error", "short_result")
    return {
        **{name: text(name) for name in names},
        "success": success[1] == "true" if success else None,
        "stage": re.search(r" stage: (\w+)", printed)[1].lower(),
        "images": tuple(re.findall(_STRING, images[1] if images else "")),
    }
