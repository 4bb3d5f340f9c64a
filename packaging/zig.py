#!/usr/bin/env python3
"""C compiler and linker for a target with musl, from zig (`pip install ziglang`), which brings the C library with it.

zig's driver knows where the parts of the C library are, but does not let every option of its linker through. So a
program is linked twice: once by the driver, which tells the command, and once by that command with the options that
make the program smaller:

* identical functions are one function (`--icf=all`);
* relocations are packed (`--pack-dyn-relocs=relr`), so that a program that may be loaded anywhere is hardly larger than
  one that may not;
* there are no symbols (`--strip-all`). `TURNWIRE_SYMBOLS=1` keeps them, for profiles.
"""

import os
import shlex
import subprocess
import sys
from pathlib import Path

ZIG = [sys.executable, "-m", "ziglang"]
SMALLER = ["--icf=all", "--pack-dyn-relocs=relr", *([] if os.environ.get("TURNWIRE_SYMBOLS") else ["--strip-all"])]
# What rustc and cc-rs say to a compiler that they take for GCC or Clang, and zig says by itself.
SUPERFLUOUS = ("-m64", "-nodefaultlibs", "-nostartfiles", "-lgcc_s", "-lgcc", "-Wl,--eh-frame-hdr")


def driver(target: str, arguments: list[str]) -> list[str]:
    def translated(argument: str) -> list[str]:
        if argument in SUPERFLUOUS or argument.startswith("--target="):
            return []
        # zig ignores the one word, and links a program that can be loaded at one address only.
        return ["-static", "-pie"] if argument == "-static-pie" else [argument]

    words = [word for argument in arguments for word in translated(argument)]
    return [*ZIG, "cc", "-target", f"{target.split('-')[0]}-linux-musl", *words]


def link(target: str, arguments: list[str]) -> int:
    told = subprocess.run([*driver(target, arguments), "-v"], stderr=subprocess.PIPE, text=True, check=False)
    commands = [line for line in told.stderr.splitlines() if line.startswith("ld.lld ")]
    if told.returncode != 0 or not commands:
        sys.stderr.write(told.stderr)
        return told.returncode or 1
    return subprocess.run([*ZIG, *shlex.split(commands[-1]), *SMALLER], check=False).returncode


def environment(target: str, folder: Path) -> dict[str, str]:
    """What cargo has to know to compile and link for the target. The programs that it names are made in the folder."""

    def program(name: str, command: list[str]) -> str:
        path = folder / name
        path.write_text(f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n')
        path.chmod(0o755)
        return str(path)

    us = [sys.executable, str(Path(__file__).resolve())]
    name = target.replace("-", "_")
    return {
        f"CC_{name}": program("cc", [*us, "cc", target]),
        f"AR_{name}": program("ar", [*ZIG, "ar"]),
        f"RANLIB_{name}": program("ranlib", [*ZIG, "ranlib"]),
        f"CARGO_TARGET_{name.upper()}_LINKER": program("zig-gcc", [*us, "link", target]),
    }


if __name__ == "__main__":
    what, target, *arguments = sys.argv[1:]
    if what == "link":
        sys.exit(link(target, arguments))
    command = driver(target, arguments)
    os.execvp(command[0], command)
