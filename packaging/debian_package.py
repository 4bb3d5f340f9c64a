"""The .deb: the program with its unit, settings, manual pages and completions."""

import gzip
import os
import subprocess
import tempfile
from pathlib import Path

from archives import EFFORT, ROOT, Entry, source_time
from program import Program

MAINTAINER = "Turnwire maintainers <maintainers@turnwire.invalid>"
CONFFILES = ["/etc/turnwire/turnwire.toml"]


def control(program: Program, size: int) -> str:
    libc = [f"libc6 (>= {program.glibc[0]}.{program.glibc[1]})"] if program.glibc else []
    # Without certificates its HTTP clients cannot be made.
    depends = ", ".join([*libc, "ca-certificates"])
    fields = {
        "Package": "turnwire",
        "Version": f"{program.version}-1",
        "Architecture": program.debian_arch,
        "Maintainer": MAINTAINER,
        "Installed-Size": str(size // 1024 + 1),
        "Depends": depends,
        "Suggests": "postgresql, redis-server",
        "Section": "net",
        "Priority": "optional",
        "Description": "runs agent turns and puts every step on the wire",
    }
    text = "".join(f"{name}: {value}\n" for name, value in fields.items() if value)
    return text + (
        " A gateway between chat clients, language models and tools. It runs the loop of\n"
        " an agent, records each step in a journal and shows it to every client, and\n"
        " continues the run when a connection, a process or a machine dies.\n"
    )


def files(program: Program) -> list[Entry]:
    document = "usr/share/doc/turnwire"
    entries = [
        Entry.of("usr/bin/turnwire", program.path, 0o755),
        Entry.of("usr/lib/systemd/system/turnwire.service", ROOT / "deploy/systemd/turnwire.service"),
        Entry.of("etc/turnwire/turnwire.toml", ROOT / "packaging/debian/turnwire.toml"),
        Entry.of(f"{document}/copyright", ROOT / "packaging/debian/copyright"),
        Entry.of(f"{document}/examples/turnwire.toml", ROOT / "examples/turnwire.toml"),
        Entry(f"{document}/changelog.gz", gzip.compress((ROOT / "CHANGELOG.md").read_bytes(), mtime=0)),
    ]
    for paper in program.papers():
        folder, name = paper.name.split("/")
        if folder == "man":
            entries.append(Entry(f"usr/share/man/man1/{name}.gz", gzip.compress(paper.data, mtime=0)))
        else:
            place = {
                "turnwire.bash": "usr/share/bash-completion/completions/turnwire",
                "_turnwire": "usr/share/zsh/vendor-completions/_turnwire",
                "turnwire.fish": "usr/share/fish/vendor_completions.d/turnwire.fish",
            }[name]
            entries.append(Entry(place, paper.data))
    return entries


def build(program: Program, output: Path) -> Path:
    package = output / f"turnwire_{program.version}-1_{program.debian_arch}.deb"
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        root.chmod(0o755)
        entries = files(program)
        size = sum(len(entry.data) for entry in entries)
        entries += [
            Entry("DEBIAN/control", control(program, size).encode()),
            Entry("DEBIAN/conffiles", "".join(f"{path}\n" for path in CONFFILES).encode()),
            *(Entry.of(f"DEBIAN/{path.name}", path, 0o755) for path in sorted((ROOT / "packaging/debian").glob("*rm*"))),
            Entry.of("DEBIAN/postinst", ROOT / "packaging/debian/postinst", 0o755),
        ]
        for entry in entries:
            path = root / entry.name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(entry.data)
            path.chmod(entry.mode)
        for folder in [root, *(path for path in root.rglob("*") if path.is_dir())]:
            folder.chmod(0o755)
        environment = os.environ | {"SOURCE_DATE_EPOCH": str(source_time())}
        command = ["dpkg-deb", "--root-owner-group", "-Zxz", f"-z{min(EFFORT, 6)}", "--build", root, package]
        subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)
    return package
