"""The other files: what Docker, systemd, Prometheus, Grafana and the code host read."""

import json
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
# The score of `systemd-analyze security`: 0 is a service that can do nothing, 10 one that can do all.
MOST_EXPOSED = 1.5
METRIC = re.compile(r"\bturnwire_[a-z_]+\b")


def run(*command, **options) -> str:
    """The output of a command that must succeed."""
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, **options)
    output = done.stdout + done.stderr
    assert done.returncode == 0, f"{command[0]} says:\n{output}"
    return output


def against(schema: str, *patterns: str) -> str:
    paths = [str(path) for pattern in patterns for path in sorted(ROOT.glob(pattern))]
    assert paths, f"there is nothing at {patterns}"
    run("check-jsonschema", "--builtin-schema", schema, *paths)
    return f"{len(paths)} files"


def compose_file():
    """compose.yaml: valid, and every file it mounts exists."""
    against("vendor.compose-spec", "compose.yaml")
    services = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]
    for name, service in services.items():
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            assert not source.startswith(".") or (ROOT / source).exists(), f"{name}: {source}"
        for port in service.get("ports", []):
            assert port.startswith("127.0.0.1:"), f"{name}: {port} can be reached from outside"
    return f"{len(services)} services"


def dockerfile():
    """Dockerfile: no finding of hadolint, and nobody is root."""
    run("hadolint", "Dockerfile")
    text = (ROOT / "Dockerfile").read_text()
    last = text[text.rindex("\nFROM ") :]
    assert re.search(r"^USER 65532:65532$", last, re.MULTILINE), "the image runs as root"


def unit():
    """turnwire.service: valid and hardened."""
    if not shutil.which("systemd-analyze"):
        return "not checked: there is no systemd-analyze"
    text = (ROOT / "deploy/systemd/turnwire.service").read_text()
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "turnwire.service"
        # A program that exists, and no page that does not.
        copy.write_text(re.sub(r"^Documentation=.*\n", "", text.replace("/usr/bin/turnwire", "/bin/true"), flags=re.MULTILINE))
        run("systemd-analyze", "verify", str(copy))
        report = run("systemd-analyze", "security", "--offline=true", "--no-pager", str(copy))
    score = float(re.search(r"exposure level for turnwire\.service: ([0-9.]+)", report)[1])
    assert score <= MOST_EXPOSED, f"it is exposed at {score}"
    return f"exposure {score} of 10"


def family(metric: str) -> str:
    """The name of a metric in docs/metrics.md, which a test of the gateway holds against the server."""
    return re.sub(r"_(bucket|sum|count)$", "", metric)


def metrics_exist():
    """Dashboard and alerts: every metric is one that the gateway has."""
    known = set(re.findall(r"^\| `(turnwire_[a-z_]+)`", (ROOT / "docs/metrics.md").read_text(), re.MULTILINE))
    names = set()
    for path in [*(ROOT / "deploy/grafana/dashboards").glob("*.json"), ROOT / "deploy/prometheus/alerts.yml"]:
        names |= set(METRIC.findall(path.read_text()))
    missing = [name for name in names if family(name) not in known]
    assert names and not missing, f"unknown: {missing}"
    return f"{len(names)} metrics"


def dashboards():
    """Dashboards: they parse, every panel has a query and its own number."""
    for path in (ROOT / "deploy/grafana/dashboards").glob("*.json"):
        panels = json.loads(path.read_text())["panels"]
        assert len({panel["id"] for panel in panels}) == len(panels)
        assert all(target["expr"] for panel in panels for target in panel["targets"])


def programs_of_others():
    """HAProxy and Prometheus: their own programs accept the files."""
    tried = []
    if shutil.which("haproxy"):
        run("haproxy", "-c", "-f", "deploy/haproxy/haproxy.cfg")
        tried.append("haproxy")
    if shutil.which("promtool"):
        run("promtool", "check", "config", "--syntax-only", "deploy/prometheus/prometheus.yml")
        run("promtool", "check", "rules", "deploy/prometheus/alerts.yml")
        tried.append("promtool")
    return ", ".join(tried) or "not checked: neither is installed"


def furniture():
    """Workflows, dependabot and issue forms: valid."""
    counts = [
        against("vendor.github-workflows", ".github/workflows/*.yml"),
        against("vendor.dependabot", ".github/dependabot.yml"),
        against("vendor.github-issue-forms", ".github/ISSUE_TEMPLATE/[!c]*.yml"),
        against("vendor.github-issue-config", ".github/ISSUE_TEMPLATE/config.yml"),
    ]
    return ", ".join(counts)


def supply_chain():
    """Workflows: no finding of zizmor, and every action is a commit with its version beside it."""
    run("zizmor", "--offline", "--no-progress", ".github")
    uses = [
        line.split("uses:")[1].strip()
        for path in (ROOT / ".github/workflows").glob("*.yml")
        for line in path.read_text().splitlines()
        if "uses:" in line
    ]
    loose = [use for use in uses if not re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", use)]
    assert uses and not loose, f"not a commit with its version: {loose}"
    return f"{len(uses)} uses"


def spelling():
    """Spelling: no typo."""
    run("typos", "--config", "typos.toml")


CHECKS = [compose_file, dockerfile, unit, metrics_exist, dashboards, programs_of_others, furniture, supply_chain, spelling]
