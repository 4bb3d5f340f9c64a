"""The rules by themselves: their syntax, their unit tests, and the copy with shorter times."""

import os
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RULES = sorted(path for path in (ROOT / "deploy/prometheus").glob("*.yml") if path.name != "prometheus.yml")
UNIT_TESTS = sorted((ROOT / "tests/alerts").glob("*.yml"))
PROMTOOL = Path(os.environ["PROMETHEUS_HOME"]) / "usr/bin/promtool"

# In the copy for the faults a minute takes a second. A `for` below a minute stays as it is: it is about
# gauges that count real seconds, and shortened it would hide that such a gauge does not last.
FACTOR = 60
SECONDS = {"h": 3600, "m": 60}
DURATION = re.compile(r"(for: |\[|offset )(\d+)([hm])\b")


def names() -> list[str]:
    return [name for path in RULES for name in re.findall(r"^ *- alert: (\w+)$", path.read_text(), re.MULTILINE)]


def hurried(text: str) -> str:
    """The rules with every duration of a minute or more divided by the factor, and nothing else changed."""
    return DURATION.sub(lambda found: f"{found[1]}{int(found[2]) * SECONDS[found[3]] // FACTOR}s", text)


def write_hurried(folder: Path):
    for path in RULES:
        (folder / path.name).write_text(hurried(path.read_text()))


def promtool(*arguments: str):
    done = subprocess.run([PROMTOOL, *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def check_rules():
    """Promtool accepts the rules."""
    promtool("check", "rules", *map(str, RULES))
    return f"{len(names())} alerts"


def check_hurried():
    """The hurried copy differs in durations alone."""
    for path in RULES:
        text = path.read_text()
        copy = hurried(text)
        assert copy != text, f"{path.name} has no duration"
        blank = re.compile(r"(for: |\[|offset )\d+[hms]\b")
        assert blank.sub(r"\1", copy) == blank.sub(r"\1", text), f"{path.name} has changed elsewhere"
    return "a minute takes a second"


def check_unit_tests():
    """Promtool's unit tests of the rules pass."""
    promtool("test", "rules", *map(str, UNIT_TESTS))


def check_unit_tests_are_complete():
    """Every alert has a series that fires it, and one that does not."""
    text = "".join(path.read_text() for path in UNIT_TESTS)
    told = re.findall(r"^  - name: (\w+) (fires|stays quiet)$", text, re.MULTILINE)
    missing = [f"{name} {what}" for name in names() for what in ("fires", "stays quiet") if (name, what) not in told]
    assert not missing, f"no unit test: {', '.join(missing)}"
    return f"{len(told)} tests"


CHECKS = [check_rules, check_hurried, check_unit_tests, check_unit_tests_are_complete]
