"""Checks everything in deploy/ and the files that services of other people read."""

import sys

import chart
import files


def main() -> int:
    passed, failed = 0, 0
    for check in [*chart.CHECKS, *files.CHECKS]:
        name = check.__doc__.splitlines()[0].rstrip(".")
        try:
            detail = check()
        except AssertionError as error:
            failed += 1
            print(f"FAILED {name}: {error}")
            continue
        passed += 1
        print(f"ok     {name}{f' ({detail})' if detail else ''}")
    print(f"deploy: {failed} checks failed" if failed else f"deploy: {passed} checks passed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
