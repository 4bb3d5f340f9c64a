"""What a test needs around it: PostgreSQL, gateways, their model server, and a Prometheus.

Everything listens on free ports of loopback and keeps its files in one folder. `World.close` ends what
was started here, by its process, and nothing else.
"""

import json
import os
import random
import shutil
import signal
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from contextlib import suppress
from pathlib import Path

import rules

HOME = Path(os.environ["PROMETHEUS_HOME"])
SECONDS = 60
METRICS_TOKEN = "a-token-for-the-test"


class Trouble(AssertionError):
    """Something that a test waited for did not happen."""


class NotYet(Exception):
    """An answer of a server that is starting."""


# Below those that the system gives to connections: a port stays free while its server is away.
PORTS = iter(random.sample(range(20_000, 32_000), 4_000))
ONE_AT_A_TIME = threading.Lock()


def free_port() -> int:
    """A port that nobody uses, and that is not returned again."""
    with ONE_AT_A_TIME:
        for port in PORTS:
            with socket.socket() as listener, suppress(OSError):
                listener.bind(("127.0.0.1", port))
                return port
    raise Trouble("no port is free")


def wait_for(what: str, condition, seconds: float = SECONDS):
    """What `condition` returns, once it is something."""
    end = time.monotonic() + seconds
    last = None
    while time.monotonic() < end:
        try:
            if found := condition():
                return found
        except (OSError, subprocess.SubprocessError, NotYet) as error:
            last = error
        time.sleep(0.1)
    raise Trouble(f"waited {seconds} s for {what}" + (f"; the last error was: {last}" if last else ""))


def request(url: str, body=None, headers=None, timeout: float = SECONDS, method=None):
    """Status and body of an answer, whatever its status."""
    data = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    asked = urllib.request.Request(url, data, {"content-type": "application/json"} | (headers or {}), method=method)
    try:
        with urllib.request.urlopen(asked, timeout=timeout) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()


def get_json(url: str):
    status, body = request(url)
    if status == 503:
        raise NotYet(f"{url} answered 503")
    if status != 200:
        raise Trouble(f"{url} answered {status}: {body[:500]}")
    return json.loads(body)


class Postgres:
    """A PostgreSQL of its own, which can be stopped and started again at the same port."""

    def __init__(self, folder: Path):
        self.folder, self.port = folder, free_port()
        folder.mkdir()
        if os.getuid() == 0:
            shutil.chown(folder, "postgres")
        self.run("initdb", "--auth=trust", "--username=postgres", "--encoding=UTF8", "--no-locale", "--no-sync",
                 "--pgdata", str(folder / "data"))
        self.start()

    def run(self, name: str, *arguments: str):
        # Debian does not put PostgreSQL's programs into the path.
        found = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
        program = str(found[-1]) if found else name
        # PostgreSQL refuses to be root.
        become = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"] if os.getuid() == 0 else []
        # To a file: a server that inherits a pipe keeps it open.
        with (self.folder.parent / f"{self.folder.name}.log").open("ab") as log:
            done = subprocess.run([*become, program, *arguments], stdout=log, stderr=log, stdin=subprocess.DEVNULL, check=False)
        if done.returncode != 0:
            raise Trouble(f"{name} ended with {done.returncode}")

    def start(self):
        options = f"-p {self.port} -c listen_addresses=127.0.0.1 -c unix_socket_directories='' -c fsync=off -c max_connections=200"
        self.run("pg_ctl", "--pgdata", str(self.folder / "data"), "--wait", "--silent", "--options", options, "start")

    def stop(self, mode: str = "immediate"):
        self.run("pg_ctl", "--pgdata", str(self.folder / "data"), "--wait", "--silent", "--mode", mode, "stop")

    def url(self, database: str) -> str:
        return f"postgres://postgres@127.0.0.1:{self.port}/{database}"

    def psql(self, sql: str, database: str = "postgres") -> str:
        command = ["psql", "--quiet", "--no-psqlrc", "--tuples-only", "--no-align", "--command", sql, self.url(database)]
        return subprocess.check_output(command, text=True, stderr=subprocess.STDOUT).strip()

    def create(self, database: str) -> str:
        self.psql(f"create database {database}")
        return self.url(database)


class TableLock:
    """A lock of a table, held by a session of its own."""

    def __init__(self, postgres: Postgres, database: str, table: str):
        command = ["psql", "--quiet", "--no-psqlrc", "--tuples-only", "--no-align", postgres.url(database)]
        self.session = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.session.stdin.write(f"begin; lock table {table} in access exclusive mode; select 'locked';\n")
        self.session.stdin.flush()
        if self.session.stdout.readline().strip() != "locked":
            raise Trouble(f"{table} was not locked")

    def release(self):
        self.session.stdin.close()
        self.session.wait(timeout=SECONDS)
        self.session.stdout.close()


class World:
    """The processes of one test."""

    def __init__(self, folder: Path):
        self.folder = folder
        folder.mkdir()
        folder.chmod(0o755)
        self.processes: dict[str, subprocess.Popen] = {}
        self.targets: list[str] = []
        self.endings = []

    def start(self, name: str, *command, **environment) -> subprocess.Popen:
        log = (self.folder / f"{name}.log").open("ab")
        process = subprocess.Popen(
            [str(part) for part in command], cwd=self.folder, env=os.environ | environment,
            stdout=log, stderr=log, stdin=subprocess.DEVNULL,
        )
        log.close()
        self.processes[name] = process
        return process

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def kill(self, name: str):
        process = self.processes.pop(name)
        process.kill()
        process.wait(timeout=SECONDS)

    def close(self):
        for ending in reversed(self.endings):
            with suppress(Exception):
                ending()
        for process in self.processes.values():
            process.send_signal(signal.SIGCONT)
            process.terminate()
        for process in self.processes.values():
            try:
                process.wait(timeout=15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(timeout=15)

    def upstreams(self, port: int = 0) -> int:
        """The model server whose answers are in the questions; its port."""
        port = port or free_port()
        self.start("upstreams", os.environ["UPSTREAMS_BIN"], "--port", port)
        wait_for("the model server", lambda: request(f"http://127.0.0.1:{port}/v1/models")[0] == 200)
        return port

    def gateway(self, name: str, settings: str, *arguments: str, port: int = 0, **environment) -> "Gateway":
        """Starts a gateway; with the name of one before, the same again."""
        port = port or free_port()
        file = self.folder / f"{name}.toml"
        file.write_text(settings)
        self.start(name, os.environ["TURNWIRE_BIN"], "serve", "--config", file, "--listen", f"127.0.0.1:{port}",
                   *arguments, TURNWIRE_METRICS_TOKEN=METRICS_TOKEN, **environment)
        gateway = Gateway(name, f"http://127.0.0.1:{port}", port)
        process = self.processes[name]

        def is_ready():
            if process.poll() is not None:
                raise Trouble(f"{name} ended: {self.log(name)[-1500:]}")
            return request(f"{gateway.url}/readyz")[0] == 200

        wait_for(f"{name} to be ready", is_ready)
        if (target := f"127.0.0.1:{port}") not in self.targets:
            self.targets.append(target)
        return gateway

    def prometheus(self) -> "Prometheus":
        """A Prometheus with the hurried rules that asks the gateways every second."""
        port = free_port()
        folder = self.folder / "prometheus"
        folder.mkdir()
        rules.write_hurried(folder)
        config = {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [path.name for path in rules.RULES],
            "scrape_configs": [{
                "job_name": "turnwire",
                "authorization": {"credentials": METRICS_TOKEN},
                "static_configs": [{"targets": self.targets}],
            }],
        }
        # JSON is YAML.
        (folder / "prometheus.yml").write_text(json.dumps(config))
        self.start("prometheus", HOME / "usr/bin/prometheus", f"--config.file={folder}/prometheus.yml",
                   f"--storage.tsdb.path={folder}/data", f"--web.listen-address=127.0.0.1:{port}")
        prometheus = Prometheus(f"http://127.0.0.1:{port}")
        up = f"sum(up) == {len(self.targets)}"
        wait_for("Prometheus to see the gateways", lambda: prometheus.query(up))
        return prometheus


class Gateway:
    def __init__(self, name: str, url: str, port: int):
        self.name, self.url, self.port = name, url, port

    def post(self, path: str, body, timeout: float = SECONDS, **headers):
        return request(f"{self.url}{path}", body, headers, timeout)

    def get(self, path: str, **headers):
        return request(f"{self.url}{path}", None, headers)

    def metric(self, name: str) -> float:
        """The value that a metric without labels has now, not at the last scrape."""
        _, body = self.get("/metrics", authorization=f"Bearer {METRICS_TOKEN}")
        [value] = [line.split()[1] for line in body.decode().splitlines() if line.startswith(f"{name} ")]
        return float(value)

    def ask(self, script, **fields):
        """A response of the model server that plays the script."""
        text = script if isinstance(script, str) else json.dumps({"turns": script})
        return self.post("/v1/responses", {"model": "default", "input": text} | fields)


class Prometheus:
    def __init__(self, url: str):
        self.url = url

    def query(self, expression: str) -> list:
        found = get_json(f"{self.url}/api/v1/query?{urllib.parse.urlencode({'query': expression})}")
        return found["data"]["result"]

    def query_range(self, expression: str, start: float, end: float, step: float = 1) -> list:
        asked = urllib.parse.urlencode({"query": expression, "start": start, "end": end, "step": step})
        return get_json(f"{self.url}/api/v1/query_range?{asked}")["data"]["result"]

    def firing(self) -> dict[str, dict]:
        """The alerts that fire, by name."""
        alerts = get_json(f"{self.url}/api/v1/alerts")["data"]["alerts"]
        return {alert["labels"]["alertname"]: alert for alert in alerts if alert["state"] == "firing"}

    def waits_to_fire(self, name: str, seconds: float = SECONDS) -> dict:
        return wait_for(f"{name} to fire", lambda: self.firing().get(name), seconds)

    def waits_to_end(self, name: str, seconds: float = SECONDS):
        wait_for(f"{name} to end", lambda: name not in self.firing(), seconds)


class Load:
    """Does something again and again until it is left."""

    def __init__(self, work, pause: float = 0.1):
        self.work, self.pause, self.stop = work, pause, threading.Event()
        self.thread = threading.Thread(target=self.loop, daemon=True)

    def loop(self):
        while not self.stop.is_set():
            # What a request meets while a fault is there is not what is tested.
            with suppress(OSError):
                self.work()
            self.stop.wait(self.pause)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        self.thread.join(timeout=SECONDS)
