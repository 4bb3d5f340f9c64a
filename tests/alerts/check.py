"""Runs the checks of the alerts and of the dashboard, and counts them.

The faults and the dashboard run at the same time, because they wait most of the time.
"""

import sys
import tempfile
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import dashboard
import faults
import rules
from world import Postgres, World

AT_ONCE = 5


class Tally:
    def __init__(self):
        self.passed, self.failed = [], 0

    def ok(self, text: str):
        self.passed.append(text)
        print(f"ok     {text}", flush=True)

    def fail(self, text: str):
        self.failed += 1
        print(f"FAILED {text}", flush=True)


def check_rules(tally: Tally):
    for check in rules.CHECKS:
        name = check.__doc__.splitlines()[0].rstrip(".")
        try:
            detail = check()
        except AssertionError as error:
            tally.fail(f"{name}: {error}")
            continue
        tally.ok(f"{name}{f' ({detail})' if detail else ''}")


def in_a_world(test, folder: Path, postgres: Postgres, tally: Tally):
    """Runs a test that starts processes, and ends them."""
    name, began = test.__name__.replace("_", " "), time.monotonic()
    world = World(folder / test.__name__)
    try:
        for passed in test(world, postgres):
            tally.ok(f"{name}: {passed}")
    except Exception as error:  # noqa: BLE001: one failure must not hide the others
        tally.fail(f"{name}: {error}")
        if not isinstance(error, AssertionError):
            traceback.print_exc()
        for process in [*world.processes]:
            if process != "prometheus":
                print(f"--- {name}: {process}\n{world.log(process)[-1500:]}", file=sys.stderr, flush=True)
    finally:
        world.close()
        print(f"--- {name}: {time.monotonic() - began:.0f} s", flush=True)


def check_faults_are_complete(tally: Tally):
    told = " ".join(tally.passed).split()
    missing = [name for name in rules.names() if name not in told and name not in faults.NOT_MADE]
    if missing:
        tally.fail(f"no fault has fired {', '.join(missing)}")
    else:
        tally.ok(f"every alert was fired by its fault, except {', '.join(faults.NOT_MADE)}")


def main(wish: str, only: list[str]) -> int:
    tally = Tally()
    check_rules(tally)
    tests = [] if wish in ("rules", "dashboard") else [test for test in faults.FAULTS if not only or test.__name__ in only]
    tests += [dashboard.panels_have_data] if wish in ("all", "dashboard") else []
    if tests:
        with tempfile.TemporaryDirectory(prefix="turnwire-alerts-") as name:
            folder = Path(name)
            folder.chmod(0o755)
            postgres = Postgres(folder / "postgres")
            try:
                with ThreadPoolExecutor(AT_ONCE) as pool:
                    list(pool.map(lambda test: in_a_world(test, folder, postgres, tally), tests))
            finally:
                postgres.stop()
    if wish == "all":
        check_faults_are_complete(tally)
    print(f"alerts: {tally.failed} checks failed" if tally.failed else f"alerts: {len(tally.passed)} checks passed")
    return 1 if tally.failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
