"""The binary that is packed: for which machines it is, what it needs, and what it says about itself."""

import os
import re
import shutil
import struct
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from archives import Entry

SYMBOL_TABLE = 2
MACHINES = {0x3E: "x86_64", 0xB7: "aarch64"}
SHELLS = {"bash": "turnwire.bash", "zsh": "_turnwire", "fish": "turnwire.fish"}


@dataclass(frozen=True)
class Program:
    path: Path
    version: str
    machine: str
    # The newest version of the C library that it asks for; none if it needs no C library.
    glibc: tuple[int, int] | None

    @property
    def target(self) -> str:
        return f"{self.machine}-unknown-linux-{'gnu' if self.glibc else 'musl'}"

    @property
    def debian_arch(self) -> str:
        return {"x86_64": "amd64", "aarch64": "arm64"}[self.machine]

    @property
    def node_arch(self) -> str:
        return {"x86_64": "x64", "aarch64": "arm64"}[self.machine]

    @property
    def wheel_tag(self) -> str:
        if self.glibc:
            return f"py3-none-manylinux_{self.glibc[0]}_{self.glibc[1]}_{self.machine}"
        return f"py3-none-manylinux_2_17_{self.machine}.musllinux_1_1_{self.machine}"

    def run(self, *arguments: str) -> bytes:
        # Nothing of this machine may get into a package.
        environment = {"PATH": os.environ["PATH"], "NO_COLOR": "1"}
        emulator = [] if self.machine == os.uname().machine else [f"qemu-{self.machine}-static"]
        return subprocess.check_output([*emulator, self.path, *arguments], env=environment, cwd="/")

    def papers(self) -> list[Entry]:
        """Manual pages and completions, which the program writes itself."""
        with tempfile.TemporaryDirectory() as folder:
            self.run("man", "--output", folder)
            pages = [Entry.of(f"man/{path.name}", path) for path in sorted(Path(folder).iterdir())]
        completions = [Entry(f"completions/{file}", self.run("completions", shell)) for shell, file in SHELLS.items()]
        return pages + completions


def inspect(binary: Path, version: str) -> Program:
    data = binary.read_bytes()
    if data[:6] != b"\x7fELF\x02\x01":
        raise SystemExit(f"release: {binary} is no 64-bit ELF program")
    machine = MACHINES.get(struct.unpack_from("<H", data, 18)[0])
    if machine is None:
        raise SystemExit(f"release: {binary} is for a machine that has no packages")
    program = Program(binary, version, machine, newest_glibc(data))
    said = program.run("--version").decode().split()[-1]
    if said != version:
        raise SystemExit(f"release: {binary} says that it is {said}, not {version}")
    return program


def sections(data: bytes) -> list[tuple[str, int, bytes]]:
    """Name, kind and content of each section."""
    offset = struct.unpack_from("<Q", data, 0x28)[0]
    size, count, names_index = struct.unpack_from("<HHH", data, 0x3A)
    headers = [struct.unpack_from("<IIQQQQ", data, offset + n * size) for n in range(count)]
    names = headers[names_index][4]

    def name(start: int) -> str:
        return data[names + start : data.index(b"\0", names + start)].decode()

    return [(name(at), kind, data[start : start + length]) for at, kind, _flags, _address, start, length in headers]


def newest_glibc(data: bytes) -> tuple[int, int] | None:
    """From the names of symbol versions in the dynamic string table."""
    for name, _kind, content in sections(data):
        if name == ".dynstr":
            found = re.findall(rb"\0GLIBC_(\d+)\.(\d+)", content)
            return max(((int(a), int(b)) for a, b in found), default=None)
    return None


def stripped(binary: Path, folder: Path) -> Path:
    """A copy without symbols, which take much of the room."""
    copy = folder / "turnwire"
    shutil.copy(binary, copy)
    copy.chmod(0o755)
    # What is made for another machine was linked without symbols: the tools of this one do not know it.
    if any(kind == SYMBOL_TABLE for _name, kind, _content in sections(copy.read_bytes())):
        subprocess.run(["strip", "--strip-unneeded", copy], check=True)
    return copy
