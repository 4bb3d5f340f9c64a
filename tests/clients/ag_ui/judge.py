"""The types of the official Python package over every recorded run of AG-UI."""

import json
import os
import sys
from pathlib import Path

from ag_ui.core import Event
from pydantic import TypeAdapter, ValidationError

sys.path.insert(0, str(Path(__file__).parent.parent / "python"))
from harness import main, rows  # noqa: E402

EVENT = TypeAdapter(Event)
FILES = ["ag_ui.txt", "ag_ui_before_1.txt"]


def goldens():
    for folder in sorted(Path(os.environ["TURNWIRE_GOLDENS"]).iterdir()):
        for file in FILES:
            lines = (folder / file).read_text(encoding="utf-8").split("\n")
            yield {
                "name": f"{folder.name}, {file}",
                "data": [line.removeprefix("data: ") for line in lines if line.startswith("data: ")],
            }


@rows(list(goldens()))
def test_every_event_is_one_of_the_protocol(scenario):
    for data in scenario["data"]:
        try:
            event = EVENT.validate_json(data)
        except ValidationError as error:
            raise AssertionError(f"{data[:300]}: {error}") from error
        kept = event.model_dump(mode="json", by_alias=True, exclude_none=True)
        lost = set(json.loads(data)) - set(kept)
        assert not lost, f"the types do not know {lost} in {data[:300]}"


if __name__ == "__main__":
    main("ag_ui python", sys.modules[__name__])
