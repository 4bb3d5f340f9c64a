"""The list of parts of a release (CycloneDX 1.6): the crates that are compiled into the program, and the
npm packages that are bundled into its page. Made from the lock files, so it needs no build."""

import datetime
import json
import re
import subprocess
import tomllib
import uuid
from pathlib import Path

from archives import ROOT, source_time

PROGRAM = "turnwire-cli"


def crates(target: str) -> tuple[list[dict], list[dict]]:
    """The crates of the program for one target, and which of them need which."""
    command = ["cargo", "metadata", "--format-version=1", "--locked", f"--filter-platform={target}"]
    metadata = json.loads(subprocess.check_output(command, cwd=ROOT, text=True))
    packages = {package["id"]: package for package in metadata["packages"]}
    needs = {
        node["id"]: sorted(dep["pkg"] for dep in node["deps"] if any(kind["kind"] != "dev" for kind in dep["dep_kinds"]))
        for node in metadata["resolve"]["nodes"]
    }
    lock = tomllib.loads((ROOT / "Cargo.lock").read_text())
    checksums = {(package["name"], package["version"]): package.get("checksum") for package in lock["package"]}
    root = next(id for id, package in packages.items() if package["name"] == PROGRAM)
    reached, waiting = set(), [root]
    while waiting:
        if (id := waiting.pop()) not in reached:
            reached.add(id)
            waiting += needs[id]
    in_order = sorted(reached - {root}, key=lambda id: purl(packages[id]))
    components = [component(packages[id], checksums) for id in in_order]
    graph = [
        {"ref": purl(packages[id]), "dependsOn": sorted(purl(packages[other]) for other in needs[id])}
        for id in [root, *in_order]
    ]
    return components, graph


def purl(package: dict) -> str:
    return f"pkg:cargo/{package['name']}@{package['version']}"


def component(package: dict, checksums: dict) -> dict:
    entry = {"type": "library", "bom-ref": purl(package), "name": package["name"], "version": package["version"]}
    if licence := package.get("license"):
        entry["licenses"] = [{"expression": re.sub(r"\s*/\s*", " OR ", licence)}]
    if checksum := checksums.get((package["name"], package["version"])):
        entry["hashes"] = [{"alg": "SHA-256", "content": checksum}]
    return entry | {"purl": purl(package)}


def page_packages() -> list[dict]:
    """What is bundled into the page: the dependencies of web/ that are not for development."""
    lock = json.loads((ROOT / "web/package-lock.json").read_text())["packages"]
    found = []
    for path, package in sorted(lock.items()):
        if not path or package.get("dev") or package.get("optional") or package.get("link"):
            continue
        name = path.split("node_modules/")[-1]
        ref = f"pkg:npm/{name.replace('@', '%40')}@{package['version']}"
        entry = {"type": "library", "bom-ref": ref, "name": name, "version": package["version"]}
        if licence := package.get("license"):
            entry["licenses"] = [{"expression": licence}]
        found.append(entry | {"purl": ref})
    return found


def write(path: Path, version: str, target: str) -> Path:
    components, graph = crates(target)
    components += page_packages()
    root = f"pkg:cargo/{PROGRAM}@{version}"
    when = datetime.datetime.fromtimestamp(source_time(), datetime.timezone.utc)
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "timestamp": when.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "component": {
                "type": "application", "bom-ref": root, "name": "turnwire", "version": version, "purl": root,
                "licenses": [{"expression": "Apache-2.0"}],
                "properties": [{"name": "turnwire:target", "value": target}],
            },
        },
        "components": components,
        "dependencies": graph,
    }
    # The same content has the same number.
    number = uuid.uuid5(uuid.NAMESPACE_OID, json.dumps(document, sort_keys=True))
    document = {"$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json", "serialNumber": f"urn:uuid:{number}"} | document
    path.write_text(json.dumps(document, indent=1) + "\n")
    return path
