"""Starts the services of compose.yaml without Docker and asks through the load balancer.

Each service is started from what the file says about it, by the program of the same name on this
machine: PostgreSQL and Redis by scripts/services, the gateways with the settings in the file, HAProxy and
Prometheus with the files they mount. Host names become addresses of loopback. Grafana is left out.
"""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
COMPOSE = yaml.safe_load((ROOT / "compose.yaml").read_text())
KEY = "a-key-for-the-test"
METRICS_TOKEN = "a-token-for-the-test"
SECONDS = 30
# What a load balancer may add to the longest wait for a word.
SLOWER = 1.3
MORE_SECONDS = 0.02


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def fetch(url: str, body: dict | None = None):
    data = None if body is None else json.dumps(body).encode()
    headers = {"authorization": f"Bearer {KEY}", "content-type": "application/json"}
    return urllib.request.urlopen(urllib.request.Request(url, data, headers), timeout=SECONDS)


def wait_for(what: str, condition):
    end = time.monotonic() + SECONDS
    last = None
    while time.monotonic() < end:
        try:
            if found := condition():
                return found
        except OSError as error:
            last = error
        time.sleep(0.1)
    sys.exit(f"deploy: waited {SECONDS} s for {what}; the last error was: {last}")


class Paced(BaseHTTPRequestHandler):
    """A model that says sixty words, one every twenty milliseconds."""

    protocol_version = "HTTP/1.1"

    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        for _ in range(60):
            time.sleep(0.02)
            self.say({"delta": {"content": "word "}})
        self.say({"delta": {}, "finish_reason": "stop"})
        self.wfile.write(b"data: [DONE]\n\n")

    def say(self, choice: dict):
        chunk = {"id": "c", "object": "chat.completion.chunk", "created": 0, "model": "paced", "choices": [{"index": 0} | choice]}
        self.wfile.write(f"data: {json.dumps(chunk)}\n\n".encode())

    def log_message(self, *_):
        pass


def start_model() -> str:
    """The settings of a paced model."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Paced)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"""
[models.paced]
kind = "chat_completions"
base_url = "http://127.0.0.1:{server.server_port}/v1"
model = "paced"
"""


class Services:
    """What was started, by the name in compose.yaml."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.model = start_model()
        self.processes: dict[str, subprocess.Popen] = {}
        # Where each `host:port` of the files is here.
        self.addresses: dict[str, str] = {}

    def translated(self, text: str) -> str:
        for name, address in self.addresses.items():
            text = text.replace(name, address)
        return text

    def start(self, name: str, *command, **environment):
        log = (self.folder / f"{name}.log").open("wb")
        self.processes[name] = subprocess.Popen(
            command, cwd=self.folder, env=os.environ | environment, stdout=log, stderr=log, stdin=subprocess.DEVNULL
        )

    def databases(self):
        out = subprocess.check_output([ROOT / "scripts/services", "up", "--dir", self.folder / "databases"], text=True)
        found = dict(line.removeprefix("export ").split("=", 1) for line in out.splitlines() if line.startswith("export "))
        self.addresses["postgres://turnwire@postgres/turnwire"] = found["TURNWIRE_TEST_POSTGRES"].strip("'\"")
        self.addresses["redis://valkey:6379/"] = found["TURNWIRE_TEST_REDIS"].strip("'\"")

    def gateway(self, name: str):
        service = COMPOSE["services"][name]
        for port in ("7878", "7879"):
            self.addresses[f"{name}:{port}"] = f"127.0.0.1:{free_port()}"
        settings = COMPOSE["configs"]["settings"]["content"]
        for port in ("7878", "7879"):
            settings = settings.replace(f"0.0.0.0:{port}", self.addresses[f"{name}:{port}"])
        file = self.folder / f"{name}.toml"
        file.write_text(self.translated(settings) + self.model)
        target = service["configs"][0]["target"]
        arguments = [argument.replace(target, str(file)) for argument in service["command"]]
        self.start(name, os.environ["TURNWIRE_BIN"], *arguments, TURNWIRE_API_KEYS=KEY, TURNWIRE_METRICS_TOKEN=METRICS_TOKEN)

    def load_balancer(self) -> str:
        port = free_port()
        config = (ROOT / "deploy/haproxy/haproxy.cfg").read_text()
        # Behind one address here, the gateways have different ports for probes.
        config = config.replace("bind :7878", f"bind 127.0.0.1:{port}").replace("default-server port 7879", "default-server")
        for n in (1, 2, 3):
            probes = self.addresses[f"gateway-{n}:7879"].split(":")[1]
            config = config.replace(f"gateway-{n}:7878", f"{self.addresses[f'gateway-{n}:7878']} port {probes}")
        file = self.folder / "haproxy.cfg"
        file.write_text(config)
        self.start("load-balancer", "haproxy", "-db", "-f", str(file))
        return f"http://127.0.0.1:{port}"

    def prometheus(self) -> str:
        address = f"127.0.0.1:{free_port()}"
        (self.folder / "metrics-token").write_text(METRICS_TOKEN)
        for name in ("prometheus.yml", "alerts.yml"):
            text = (ROOT / "deploy/prometheus" / name).read_text()
            (self.folder / name).write_text(self.translated(text))
        self.start(
            "prometheus", "prometheus", f"--config.file={self.folder}/prometheus.yml",
            f"--storage.tsdb.path={self.folder}/prometheus", f"--web.listen-address={address}",
        )
        return f"http://{address}"

    def stop(self):
        for process in self.processes.values():
            process.terminate()
        for process in self.processes.values():
            process.wait(timeout=SECONDS)
        subprocess.run([ROOT / "scripts/services", "down", "--dir", self.folder / "databases"], check=False, capture_output=True)


def ask(url: str) -> list[str]:
    """The events of a question, by their type."""
    with fetch(f"{url}/chat/stream", {"message": "multiply 5 and 4"}) as stream:
        lines = [line.decode().strip() for line in stream]
    return [json.loads(line.removeprefix("data: "))["type"] for line in lines if line.startswith("data: ")]


def longest_wait(url: str) -> float:
    """Between two words of an answer; the shortest of three tries, as this machine has other work."""
    def once():
        body = {"model": "paced", "input": "Talk.", "stream": True}
        with fetch(f"{url}/v1/responses", body) as stream:
            at = [time.monotonic() for line in stream if line.startswith(b"event: response.output_text.delta")]
        assert len(at) > 10, f"the answer came in {len(at)} pieces"
        return max(later - earlier for earlier, later in zip(at, at[1:]))
    return min(once() for _ in range(3))


def take_over(services: Services, url: str) -> float:
    """Kills the gateway that has a run at work; how long the run took from there to its end."""
    with fetch(f"{url}/v1/responses", {"model": "scripted", "input": "multiply 5 and 4", "background": True,
                                       "tools": [{"type": "mcp", "server_label": "demo", "require_approval": "never"}]}) as answer:
        response = json.load(answer)
    def busy(name):
        metrics = fetch(f"http://{services.addresses[f'{name}:7879']}/metrics").read().decode()
        return "\nturnwire_runs_live 1" in metrics
    name = wait_for("a gateway with the run", lambda: next((n for n in services.processes if n.startswith("gateway") and busy(n)), None))
    services.processes[name].send_signal(signal.SIGKILL)
    begin = time.monotonic()
    def finished():
        status = json.load(fetch(f"{url}/v1/responses/{response['id']}"))["status"]
        return status == "completed"
    wait_for("the end of the run on another gateway", finished)
    return time.monotonic() - begin


def main() -> int:
    for program in ("haproxy", "prometheus"):
        if not shutil.which(program) and not Path(f"/usr/sbin/{program}").exists():
            sys.exit(f"deploy: there is no {program}; apt-get install haproxy prometheus")
    os.environ["PATH"] += ":/usr/sbin"
    passed = 0
    def ok(text):
        nonlocal passed
        passed += 1
        print(f"ok     {text}", flush=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        services = Services(folder)
        try:
            services.databases()
            gateways = [name for name in COMPOSE["services"] if name.startswith("gateway")]
            for gateway in gateways:
                services.gateway(gateway)
            for gateway in gateways:
                wait_for(gateway, lambda: fetch(f"http://{services.addresses[f'{gateway}:7879']}/readyz").status == 200)
            ok(f"{len(gateways)} gateways are ready, on one PostgreSQL and one Redis")
            url = services.load_balancer()
            wait_for("the load balancer", lambda: fetch(f"{url}/readyz").status == 200)
            assert ask(url) == ["tool_call", "tool_result", "response", "done"]
            ok("a run through the load balancer shows its tool")
            bare = longest_wait(f"http://{services.addresses['gateway-1:7878']}")
            balanced = longest_wait(url)
            waits = f"{balanced * 1000:.0f} ms, {bare * 1000:.0f} ms without it"
            assert balanced <= SLOWER * bare + MORE_SECONDS, f"the longest wait for a word through the load balancer: {waits}"
            ok(f"words pass the load balancer as they come: the longest wait is {waits}")
            prometheus = services.prometheus()
            def up():
                found = json.load(fetch(f"{prometheus}/api/v1/query?query=sum(up%7Bjob%3D%22turnwire%22%7D)"))["data"]["result"]
                return found and found[0]["value"][1] == str(len(gateways))
            wait_for("Prometheus to see every gateway", up)
            ok("Prometheus sees every gateway")
            seconds = take_over(services, url)
            ok(f"a gateway was killed, and its run ended on another one {seconds:.1f} s later")
            assert ask(url) == ["tool_call", "tool_result", "response", "done"]
            ok("the load balancer goes on with the gateways that are left")
        except SystemExit:
            for name in services.processes:
                print(f"--- {name}\n{(folder / f'{name}.log').read_text()[-2000:]}", file=sys.stderr)
            raise
        finally:
            services.stop()
    print(f"deploy: {passed} checks passed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
