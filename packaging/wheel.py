"""The wheel `turnwire`: the program among the scripts of a Python environment, and nothing else."""

import base64
import hashlib
from pathlib import Path

from archives import ROOT, Entry, zip_file
from program import Program

DESCRIPTION = """# Turnwire

Runs agent turns and puts every step on the wire. This package has the program:

    uvx turnwire serve --demo

The client for Python programs is `turnwire-client`.
"""


def build(program: Program, output: Path) -> Path:
    info = f"turnwire-{program.version}.dist-info"
    tags = [f"py3-none-{tag}" for tag in program.wheel_tag.removeprefix("py3-none-").split(".")]
    metadata = (
        f"Metadata-Version: 2.4\nName: turnwire\nVersion: {program.version}\n"
        "Summary: Runs agent turns and puts every step on the wire\nLicense-Expression: Apache-2.0\n"
        "License-File: LICENSE\nRequires-Python: >=3.8\nDescription-Content-Type: text/markdown\n\n" + DESCRIPTION
    )
    wheel = "Wheel-Version: 1.0\nGenerator: turnwire-release\nRoot-Is-Purelib: false\n"
    entries = [
        Entry.of(f"turnwire-{program.version}.data/scripts/turnwire", program.path, 0o755),
        Entry.of(f"{info}/licenses/LICENSE", ROOT / "LICENSE"),
        Entry(f"{info}/METADATA", metadata.encode()),
        Entry(f"{info}/WHEEL", (wheel + "".join(f"Tag: {tag}\n" for tag in tags)).encode()),
    ]
    record = "".join(f"{entry.name},sha256={digest(entry.data)},{len(entry.data)}\n" for entry in entries)
    entries.append(Entry(f"{info}/RECORD", f"{record}{info}/RECORD,,\n".encode()))
    return zip_file(output / f"turnwire-{program.version}-{program.wheel_tag}.whl", entries)


def digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
