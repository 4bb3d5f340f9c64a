"""The types of the official Python package over every recorded and every random run of AG-UI."""

import json
import sys
from pathlib import Path

from ag_ui.core import Event
from pydantic import TypeAdapter, ValidationError

sys.path.insert(0, str(Path(__file__).parent.parent / "python"))
from harness import main, rows, runs_in  # noqa: E402

EVENT = TypeAdapter(Event)
FILES = ["ag_ui.txt", "ag_ui_before_1.txt"]


RECORDED = runs_in("TURNWIRE_GOLDENS")
RANDOM = runs_in("TURNWIRE_RANDOM_RUNS")


def judge(path):
    for line in path.read_text(encoding="utf-8").split("\n"):
        if not line.startswith("data: "):
            continue
        data = line.removeprefix("data: ")
        try:
            event = EVENT.validate_json(data)
        except ValidationError as error:
            raise AssertionError(f"{data[:300]}: {error}") from error
        kept = event.model_dump(mode="json", by_alias=True, exclude_none=True)
        lost = set(json.loads(data)) - set(kept)
        assert not lost, f"the types do not know {lost} in {data[:300]}"


@rows([{"name": f"{folder.name}, {file}", "path": folder / file} for folder in RECORDED for file in FILES])
def test_every_event_is_one_of_the_protocol(scenario):
    judge(scenario["path"])


@rows([{"name": f"{len(RANDOM)} runs, {file}", "file": file} for file in FILES if RANDOM])
def test_every_event_of_random_runs_is_one_of_the_protocol(scenario):
    for folder in RANDOM:
        judge(folder / scenario["file"])


if __name__ == "__main__":
    main("ag_ui python", sys.modules[__name__])
