"""Two npm packages: `turnwire`, the client and a small command, and one for each platform with the program.

`npx turnwire` fetches the second by itself (clients/typescript/bin/turnwire.mjs), so those who only want the
client do not download the program.
"""

import json
import shutil
import subprocess
import tempfile
from pathlib import Path

from archives import ROOT, Entry, tar_gz
from program import Program


def origin(repository: str | None) -> dict:
    """Where the sources are: npm compares it with the provenance of what is published."""
    return {"repository": {"type": "git", "url": f"git+{repository}.git"}} if repository else {}


def platform_package(program: Program, repository: str | None, output: Path) -> Path:
    name = f"turnwire-cli-linux-{program.node_arch}"
    description = {
        "name": name,
        "version": program.version,
        "description": f"The program of Turnwire for Linux on {program.node_arch}; use it by `npx turnwire`",
        "license": "Apache-2.0",
        **origin(repository),
        "os": ["linux"],
        "cpu": [program.node_arch],
        **({"libc": ["glibc"]} if program.glibc else {}),
        "bin": {f"turnwire-linux-{program.node_arch}": "turnwire"},
        "files": ["turnwire"],
    }
    readme = f"# {name}\n\nThe program of [Turnwire](https://www.npmjs.com/package/turnwire) for one platform. Use it by `npx turnwire`.\n"
    return tar_gz(
        output / f"{name}-{program.version}.tgz",
        [
            Entry("package/package.json", (json.dumps(description, indent=2) + "\n").encode()),
            Entry("package/README.md", readme.encode()),
            Entry.of("package/LICENSE", ROOT / "LICENSE"),
            Entry.of("package/turnwire", program.path, 0o755),
        ],
    )


def client_package(version: str, repository: str | None, output: Path) -> Path:
    """The client, compiled from its sources with the compiler that its lock file names."""
    source = ROOT / "clients/typescript"
    description = json.loads((source / "package.json").read_text())
    if description["version"] != version:
        raise SystemExit(f"release: clients/typescript is version {description['version']}, not {version}")
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "client"
        shutil.copytree(source, copy, ignore=shutil.ignore_patterns("node_modules", "dist", "test"))
        (copy / "package.json").write_text(json.dumps(description | origin(repository), indent=2) + "\n")
        quiet = {"cwd": copy, "check": True, "stdout": subprocess.DEVNULL}
        subprocess.run(["npm", "ci", "--silent", "--no-audit", "--no-fund"], **quiet)
        subprocess.run(["npm", "run", "--silent", "build"], **quiet)
        shutil.copy(ROOT / "LICENSE", copy)
        subprocess.run(["npm", "pack", "--silent", "--pack-destination", output], **quiet)
    return output / f"turnwire-{version}.tgz"
