"""The gate: everything that must hold before a change is taken, on a clean checkout of a new machine
with a Rust toolchain, Python 3 and Node. Skips nothing; ends with `N passed, 0 failed`.

What computes comes first, step by step. What mostly waits (clients, browsers, gateways that are
killed) follows in lanes beside each other, and what measures comes last, alone. A step with programs
of other people, or one that failed beside others, is tried once more alone, and the end names it.

TURNWIRE_TARGET  where to build     (default: ~/.cache/turnwire/target)
TURNWIRE_CASES   property cases     (default: 10000)
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CACHE = Path.home() / ".cache/turnwire"
TARGET = os.environ.get("TURNWIRE_TARGET", str(CACHE / "target"))
CASES = int(os.environ.get("TURNWIRE_CASES", "10000"))
BIN = f"{TARGET}/debug"

NEXTEST = "cargo nextest run --profile ci --locked --no-tests fail"
# The programs that the tests were built with.
PROGRAMS = f"TURNWIRE_BIN={BIN}/turnwire UPSTREAMS_BIN={BIN}/upstreams MCP_PROPS_BIN={BIN}/mcp-props"
# Where the document of Open Responses is present, everything is validated against it.
OPEN_RESPONSES = ROOT.parent / "shared/data/openresponses-openapi.json"


@dataclass(frozen=True)
class Step:
    name: str
    # Lines of Bash, which end at the first that fails.
    script: str
    # The line of its output with this beginning is repeated at the end.
    result: str = ""
    # That line ends with `N passed`, and these count.
    counted: bool = False
    # It runs tests of cargo, which count: at least one, none of them ignored.
    tests: bool = False
    # Programs of the system, each with the package that has it.
    needs: dict[str, str] = field(default_factory=dict)
    # Programs of other people, or figures that depend on the machine: it may fail once.
    again: bool = False


# Without optimizations: a tool is built longer than it runs.
TOOLS = f"""
install() {{ env -u RUSTC_WORKSPACE_WRAPPER cargo install --debug --locked --root {CACHE}/tools --version "$@"; }}
cargo nextest --version >/dev/null 2>&1 || install 0.9.143 cargo-nextest
[[ "$(cargo-deny --version 2>/dev/null)" == "cargo-deny 0.20.2" ]] || install 0.20.2 cargo-deny
[[ "$(mdbook --version 2>/dev/null)" == "mdbook v0.5.4" ]] \\
    || install 0.5.4 --no-default-features --features search mdbook
cargo --version; cargo nextest --version; cargo-deny --version; mdbook --version
"""

# The first command a newcomer types: the tool is seen to start and to return 20, and the answer is on
# standard output. With the program that the tests were built with: `cargo run` would choose other
# features for the dependencies, and build them all anew.
QUICKSTART = f"""
cd "$(mktemp -d)"
{BIN}/turnwire run --model scripted "multiply 5 and 4" >answer 2>status
head -v answer status
grep -q multiply status && grep -qw 20 status && grep -qw 20 answer
"""

PREPARE = [
    # For the allocator, which is a C library.
    Step("tools", TOOLS, needs={"make": "make"}),
    Step(
        "databases",
        'scripts/services up --dir "$SERVICES"',
        needs={"/usr/lib/postgresql/*/bin/initdb": "postgresql", "redis-server": "redis-server",
               "pgrep": "procps", "pgbouncer": "pgbouncer"},
    ),
    Step("format", "cargo fmt --all --check"),
    # The page that the gateway serves, which the build embeds.
    Step("web page", "scripts/web-view build", needs={"node": "nodejs", "npm": "npm"}),
    # The documentation, which the build embeds as well; no link in it is dead.
    Step("book", "scripts/book embed", result="book: "),
    Step("build and clippy", "cargo build --workspace --all-targets --locked"),
    Step("tests", f"{NEXTEST} --workspace", tests=True),
]

# The house itself.
OWN = [
    Step("doc tests", "cargo test --doc --workspace --locked", tests=True),
    Step("documentation", "scripts/documentation"),
    Step("direction", "scripts/direction"),
    Step("seeded faults", "git apply --check crates/turnwire-torture/seeded-faults.patch"),
    # Without the list of crates that are there in two versions, which is thousands of lines.
    Step("licences, bans, sources", "cargo deny --locked check --allow duplicate licenses bans sources"),
    # What was known on the date of the snapshot. What is known today needs the net: scripts/advisories.
    Step("advisories", "scripts/advisories offline", result="advisories: "),
    Step("dependencies", "scripts/dependencies check"),
    Step("requirements", "scripts/requirements --quiet", result="requirements: "),
    # PROPERTY SUITE: the integration test `invariants` of turnwire-engine runs TURNWIRE_CASES
    # cases of each property. Change this line when it moves or gets another name.
    Step(
        f"{CASES} cases of each property",
        f"TURNWIRE_CASES={CASES} {NEXTEST} --workspace -E 'package(turnwire-engine) & binary(invariants)'",
        result="Summary [",
    ),
    # Gateways are killed while they work, and nobody may be able to tell.
    Step("torture", f"{BIN}/torture --kills 200 --runs-at-once 25 --seconds-max 900", result="kills of a node at work"),
    Step("examples", "scripts/examples", result="examples: "),
    Step("template", "scripts/template"),
    Step("backup", f"TURNWIRE_BIN={BIN}/turnwire TORTURE_BIN={BIN}/torture scripts/backup", result="backup: "),
    Step("quickstart", QUICKSTART),
    # The packages of a release, made twice from the program of the tests, the same byte for byte, each
    # installed where nothing else is. Compressed less than those of a release.
    Step(
        "packages",
        f"""TURNWIRE_EFFORT=1 scripts/release pack --check --binary {BIN}/turnwire --output "$SERVICES/packages"
        scripts/packages "$SERVICES/packages" """,
        result="packages: ", needs={"minisign": "minisign"}, again=True,
    ),
    Step("deploy", f"""TURNWIRE_BIN={BIN}/turnwire scripts/deploy-check all""", result="deploy: ", again=True),
]

# The clients, the servers and the browsers of others.
OTHERS = [
    # The machine may lack what they need.
    Step(
        "runtimes",
        f"""
        scripts/clients install
        scripts/client-libraries install
        scripts/web-examples install
        scripts/real-mcp-servers {CACHE}/real-mcp
        scripts/mcp-conformance install
        scripts/schemathesis install
        scripts/deploy-check install
        scripts/alerts install
        scripts/identity-provider install
        node --version
        python3 --version
        """,
        needs={"curl": "curl", "chromium": "chromium"}, again=True,
    ),
    # For the whole workspace, like the tests: another choice of packages would build dependencies anew.
    Step("real MCP servers", f"TURNWIRE_REAL_MCP={CACHE}/real-mcp {NEXTEST} --workspace --test real_mcp", tests=True, again=True),
    # Our MCP client against the scenarios of the people who make the protocol.
    Step("MCP conformance", "cargo build --locked --workspace --examples && scripts/mcp-conformance run", result="mcp conformance: ", again=True),
    # The library in a PostgreSQL that has pgvector, which the one of the other tests has not.
    Step("pgvector", f"scripts/pgvector {NEXTEST} --workspace -E 'binary(it_library)'", tests=True, again=True),
    Step("retrieval", "scripts/retrieval", again=True),
    Step(
        "official clients",
        (f"export OPENRESPONSES_OPENAPI={OPEN_RESPONSES}\n" if OPEN_RESPONSES.exists() else "")
        + f"{PROGRAMS} RANDOM_RUNS_BIN={BIN}/random-runs TURNWIRE_REAL_MCP={CACHE}/real-mcp scripts/clients all",
        result="clients: ", counted=True, again=True,
    ),
    # Our own libraries for TypeScript and Python.
    Step("client libraries", f"{PROGRAMS} scripts/client-libraries all", result="client libraries: ", counted=True, again=True),
    Step("web examples", f"{PROGRAMS} scripts/web-examples all", result="web examples: ", counted=True, again=True),
    # The page in a browser, against the gateway that has it.
    Step("web view", f"{PROGRAMS} scripts/web-view all", result="web view: ", counted=True, again=True),
    # Tokens of an identity provider that other people wrote.
    Step("identity provider", f"{PROGRAMS} scripts/identity-provider all", result="identity provider: ", again=True),
    # Requests that are made from our own document, and answers that must be in it. PostgreSQL is the
    # strictest of the stores.
    Step(
        "OpenAPI",
        f"""
        name=schemathesis_$$
        psql --quiet --no-psqlrc --command "create database $name" "$TURNWIRE_TEST_POSTGRES"
        export TURNWIRE_STORE_URL="${{TURNWIRE_TEST_POSTGRES%/*}}/$name"
        {PROGRAMS} scripts/schemathesis all
        """,
        result="schemathesis: ", again=True,
    ),
    # The quickstarts as printed.
    Step("README", f'{PROGRAMS} PYTHON="$(scripts/clients python)" scripts/readme', again=True),
    # Every alert by its fault, and every panel under load, with a real Prometheus.
    Step("alerts", f"{PROGRAMS} scripts/alerts all", result="alerts: ", again=True),
    # Gateways are killed while they send webhooks.
    Step("webhooks", f"{PROGRAMS} scripts/alerts webhooks", result="webhooks: ", again=True),
]

# What measures needs the machine for itself.
ALONE = [
    # The services of compose.yaml behind the load balancer of deploy/.
    Step(
        "load balancer", f"{PROGRAMS} scripts/deploy-check start", result="deploy: ",
        needs={"haproxy": "haproxy", "prometheus": "prometheus"}, again=True,
    ),
    # What strangers send, made from a corpus. Each run tries other inputs, so one may find by chance what has
    # nothing to do with the change: the end names it, and the input is kept.
    Step("fuzzing", f"{BIN}/fuzz --seconds 120", result="fuzz: ", again=True),
    # What a gateway needs when the other side does its worst: readers that do not read, idle
    # connections, floods of runs, one file named many times.
    Step("memory", f"ulimit -n 16384; {PROGRAMS} scripts/memory --check", again=True),
    # Turnwire beside nginx, each on one core: a lost batch shows, a lost percent does not.
    Step(
        "compare", f"ulimit -n 16384; {PROGRAMS} LOAD_BIN={BIN}/load scripts/compare --check",
        needs={"nginx": "nginx-light"}, again=True,
    ),
    # Two thousand streams at once, every one of them whole.
    Step("streams", "ulimit -n 16384; cargo bench --locked --profile dev --workspace --bench streams -- 2000", result="streams in ", again=True),
]


class Failed(Exception):
    pass


class Gate:
    def __init__(self, services: str):
        self.environment = os.environ | {
            "CARGO_TARGET_DIR": TARGET,
            "CARGO_TERM_COLOR": "never",
            # Everything is compiled once, so what incremental builds keep would only fill the disk.
            "CARGO_INCREMENTAL": "0",
            # Clippy compiles the workspace in place of rustc, so that everything is built once:
            # `cargo clippy` would check all dependencies beside the build of the tests.
            "RUSTC_WORKSPACE_WRAPPER": "clippy-driver",
            "CLIPPY_ARGS": "-Dwarnings__CLIPPY_HACKERY__",
            "PATH": f"{CACHE}/tools/bin:{os.environ['PATH']}:/usr/sbin",
            "SERVICES": services,
        }
        self.passed = 0
        self.failed = 0
        self.results: list[str] = []
        self.seconds: dict[str, float] = {}
        self.flaky: list[str] = []
        self.printing = threading.Lock()
        self.installing = threading.Lock()

    def install(self, step: Step):
        """Packages of the system that the machine lacks; none is fine."""
        missing = [package for program, package in step.needs.items()
                   if not (shutil.which(program, path=self.environment["PATH"]) or list(Path("/").glob(program.lstrip("/"))))]
        if missing:
            with self.installing:
                subprocess.run(["apt-get", "update", "-qq"], check=True, stdout=subprocess.DEVNULL)
                subprocess.run(["apt-get", "install", "-y", "-qq", *missing], check=True, stdout=subprocess.DEVNULL,
                               env=self.environment | {"DEBIAN_FRONTEND": "noninteractive"})

    def run(self, step: Step, aside: bool = False):
        """Runs a step and counts what it tested. Beside others, its output is printed when it has ended."""
        begin = time.monotonic()
        if not aside:
            print(f"\n=== {step.name}", flush=True)
        self.install(step)
        process = subprocess.Popen(["bash", "-euo", "pipefail", "-c", step.script], cwd=ROOT, env=self.environment, text=True,
                                   errors="replace", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        lines = []
        for line in process.stdout:
            lines.append(line.rstrip("\n"))
            if not aside:
                print(lines[-1], flush=True)
        status = process.wait()
        seconds = time.monotonic() - begin
        with self.printing:
            if aside:
                print("\n".join([f"\n=== {step.name}", *lines]))
            print(f"--- {step.name}: {seconds:.0f} s", flush=True)
            self.seconds[step.name] = self.seconds.get(step.name, 0) + seconds
            self.judge(step, status, lines)
        if step.name == "databases":
            exports = [shlex.split(line)[1].split("=", 1) for line in lines if line.startswith("export TURNWIRE_TEST_")]
            self.environment |= dict(exports)

    def judge(self, step: Step, status: int, lines: list[str]):
        passed = failed = 0
        if step.tests:
            ended = [line for line in lines if re.match(r" *Summary \[|test result: ", line)]
            passed, failed, skipped = (total(ended, word) for word in ("passed", "failed", r"(?:skipped|ignored)"))
            self.flaky += sorted({line for line in lines if re.match(r" *FLAKY ", line)})
            # pgvector and real MCP servers are a choice of the tests, so the others are "skipped".
            if step.name in ("tests", "doc tests") and skipped:
                status = status or 1
                print(f"{skipped} tests are ignored")
            if status == 0 and passed == 0:
                status = 1
                print("no test ran")
        found = [line.strip() for line in lines if step.result and step.result in line][-1:]
        if step.result and not found:
            status = status or 1
            print(f"it does not say `{step.result}`")
        if step.counted and found:
            counts = re.search(r": (\d+) passed$", found[0])
            status = status or int(not counts)
            passed = int(counts[1]) if counts else 0
        if status:
            self.failed += failed or 1
            raise Failed(step.name)
        self.passed += passed
        self.results += found or ([f"{step.name}: {passed} passed"] if passed else [])

    def lane(self, steps: list[Step], failures: list[Step]):
        for step in steps:
            try:
                self.run(step, aside=True)
            except Exception as error:  # noqa: BLE001: whatever it was, the step has not passed
                print(f"{step.name} failed beside others: {error}", flush=True)
                failures.append(step)

    def lanes(self, *lanes: list[Step]):
        """Runs lanes beside each other, then tries what failed there once more, alone."""
        failures: list[Step] = []
        threads = [threading.Thread(target=self.lane, args=(steps, failures)) for steps in lanes]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for step in failures:
            self.failed = 0
            self.run(step)
        return [step.name for step in failures]

    def alone(self, steps: list[Step]):
        again = []
        for step in steps:
            try:
                self.run(step)
            except Failed:
                if not step.again:
                    raise
                self.failed = 0
                again.append(step.name)
                self.run(step)
        return again


def total(lines: list[str], word: str) -> int:
    return sum(int(number) for line in lines for number in re.findall(rf"(\d+) {word}", line))


def main() -> int:
    begin = time.monotonic()
    services = tempfile.mkdtemp()
    gate = Gate(services)
    try:
        again = gate.alone(PREPARE)
        again += gate.lanes(OWN, OTHERS)
        again += gate.alone(ALONE)
    except (Failed, subprocess.CalledProcessError) as error:
        print(f"\nstopped at: {error}\n{gate.passed} passed, {gate.failed or 1} failed")
        return 1
    finally:
        subprocess.run([ROOT / "scripts/services", "down", "--dir", services], check=False, capture_output=True)
        shutil.rmtree(services, ignore_errors=True)
    print(f"\n=== all of it: {time.monotonic() - begin:.0f} s; the longest steps:")
    for name, seconds in sorted(gate.seconds.items(), key=lambda entry: -entry[1])[:12]:
        print(f"{seconds:6.0f} s  {name}")
    print("\n".join(gate.results))
    print("\n".join(f"flaky, to be mended: {line.strip()}" for line in gate.flaky), end="\n" if gate.flaky else "")
    print("\n".join(f"passed when tried again, to be mended: {name}" for name in again), end="\n" if again else "")
    print(f"{gate.passed} passed, 0 failed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
