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


def platform_package(program: Program, output: Path) -> Path:
    name = f"turnwire-cli-linux-{program.node_arch}"
    description = {
        "name": name,
        "version": program.version,
        "description": f"The program of Turnwire for Linux on {program.node_arch}; use it by `npx turnwire`",
        "license": "Apache-2.0",
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


def client_package(version: str, output: Path) -> Path:
    """The client, compiled from its sources with the compiler that its lock file names."""
    source = ROOT / "clients/typescript"
    said = json.loads((source / "package.json").read_text())["version"]
    if said != version:
        raise SystemExit(f"release: clients/typescript is version {said}, not {version}")
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "client"
        shutil.copytree(source, copy, ignore=shutil.ignore_patterns("node_modules", "dist", "test"))
        quiet = {"cwd": copy, "check": True, "stdout": subprocess.DEVNULL}
        subprocess.run(["npm", "ci", "--silent", "--no-audit", "--no-fund"], **quiet)
        subprocess.run(["npm", "run", "--silent", "build"], **quiet)
        shutil.copy(ROOT / "LICENSE", copy)
        subprocess.run(["npm", "pack", "--silent", "--pack-destination", output], **quiet)
    return output / f"turnwire-{version}.tgz"
