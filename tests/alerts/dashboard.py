"""Every line of every panel of the dashboard has data under the load of the demo.

Two gateways of the demo and one with a model server share a database. The load uses what the panels
show: tools, approvals, failures, cancellations, limits, webhooks, files, readers elsewhere, a kill.
"""

import json
import math
import os
import signal
import socket
import time
import uuid

import rules
from receiver import SECRET, Receiver
from world import Gateway, Load, Postgres, Trouble, World, request, wait_for

DASHBOARDS = sorted((rules.ROOT / "deploy/grafana/dashboards").glob("*.json"))
# What Grafana fills in: four times the scrape interval, which is a second here.
VARIABLES = {"$__rate_interval": "4s", "$__interval": "1s", "$__range": "60s"}
SECONDS_OF_LOAD = 12
# Lines that are rightly 0 all the time, and why. All others must show something else, too.
MAY_BE_ZERO = {
    "turnwire_drains_total": "a gateway that shuts down may be gone before it is asked again",
    "turnwire_runs_refused_while_closing_total": "the same",
    "turnwire_journal_appends_waiting": "they wait for milliseconds",
    "turnwire_journal_writer_busy_seconds": "the same",
    "turnwire_store_connections_busy": "the same",
    "turnwire_retention_runs_deleted_total": "no run is old enough",
}
TOOLS = [{"type": "mcp", "server_label": "props", "require_approval": "never"}]
NEVER = [{"text": ["I ", "begin"], "pause_ms": 600_000}]


def expressions():
    """Title of the panel and expression, of every line."""
    for path in DASHBOARDS:
        dashboard = json.loads(path.read_text())
        variables = {f"${one['name']}": ".*" for one in dashboard.get("templating", {}).get("list", [])} | VARIABLES
        for panel in dashboard["panels"]:
            for target in panel["targets"]:
                expression = target["expr"]
                for name, value in variables.items():
                    expression = expression.replace(name, value)
                if "$" in expression:
                    raise Trouble(f"{panel['title']}: a variable is unknown in {expression}")
                yield f"{panel['title']} {target['refId']}", expression


def wrong_with(expression: str, found: list) -> str | None:
    """What a person who looks at the panel would miss."""
    values = [float(value) for series in found for _, value in series["values"]]
    values = [value for value in values if not math.isnan(value)]
    if not values:
        return "it has no data"
    if not any(values) and not any(metric in expression for metric in MAY_BE_ZERO):
        return "it is 0 all the time"
    return None


class DemoLoad:
    """One round of everything, for gateways that share a database."""

    def __init__(self, first: Gateway, second: Gateway, third: Gateway):
        self.first, self.second, self.third = first, second, third
        self.trouble: Exception | None = None

    def round(self):
        try:
            self.everything()
        except OSError:
            raise
        except Exception as trouble:  # noqa: BLE001: it is told at the end
            self.trouble = trouble

    def everything(self):
        self.chat()
        self.approval()
        self.responses()
        self.failures()
        self.refusals()
        self.files()
        self.socket()

    def chat(self):
        self.first.post("/chat/stream", {"message": "multiply 5 and 4"})
        self.first.post("/v1/chat/completions", {"model": "scripted", "messages": [{"role": "user", "content": "Good day"}]})

    def approval(self):
        """A run waits for a person, whom another gateway asks."""
        tools = [{"type": "mcp", "server_label": label} for label in ("ci", "git")]
        _, body = self.first.post("/v1/responses", {"model": "scripted", "input": "use delete_branch {\"name\": \"old\"}", "tools": tools})
        asked = [item for item in json.loads(body).get("output", []) if item["type"] == "mcp_approval_request"]
        for item in asked:
            answer = {"type": "mcp_approval_response", "approval_request_id": item["id"], "approve": True}
            self.first.post("/v1/responses", {"model": "scripted", "previous_response_id": json.loads(body)["id"], "input": [answer], "tools": tools})

    def responses(self):
        """Tools of an MCP server, a reader at another gateway who comes back, a repeated request, a cancel."""
        call = {"calls": [{"name": "echo", "arguments": {"text": "hear"}}]}
        key = {"idempotency-key": str(uuid.uuid4())}
        slowly = [call, {"text": ["word "] * 20, "pace_ms": 20}]
        for _ in range(2):
            _, body = self.third.post(
                "/v1/responses", {"model": "default", "input": json.dumps({"turns": slowly}), "tools": TOOLS, "background": True}, **key
            )
        run = json.loads(body)["id"].replace("resp_", "run_", 1)
        request(f"{self.second.url}/v1/runs/{run}/events")
        request(f"{self.first.url}/v1/runs/{run}/events?format=ndjson")
        request(f"{self.first.url}/v1/runs/{run}/events", headers={"last-event-id": "2"})
        _, body = self.third.ask([{"text": ["I ", "begin"], "pause_ms": 60_000}], background=True)
        self.third.post(f"/v1/responses/{json.loads(body)['id']}/cancel", {})

    def failures(self):
        """A model that fails, one that is asked again, one that sends garbage, a run and a tool at their limits."""
        self.third.ask([{"error": "rejected"}])
        self.third.ask([{"error": "unavailable", "retry_after_ms": 10}])
        self.third.ask([{"text": ["A word ", "and another"], "garbled_after": 1}])
        again = {"calls": [{"name": "echo", "arguments": {"text": "again"}}]}
        self.third.ask([again, again, again, {"text": "done"}], tools=TOOLS, max_tool_calls=1)
        self.third.ask([{"calls": [{"name": "fail", "arguments": {"message": "no"}}]}, {"text": "done"}], tools=TOOLS)

    def crash(self):
        """A tool whose server dies of it; it is called again."""
        brittle = [{"type": "mcp", "server_label": "brittle", "require_approval": "never"}]
        self.third.ask([{"calls": [{"name": "crash", "arguments": {}}]}, {"text": "done"}], tools=brittle)

    def refusals(self):
        """Requests with a mistake, and beyond a quota."""
        self.third.post("/v1/responses", {"model": "default"})
        for _ in range(2):
            self.second.post("/v1/responses", {"model": "scripted", "input": "Good day"})

    def files(self):
        mark = uuid.uuid4().hex
        parts = [
            ("purpose", None, b"assistants"),
            ("file", "notes.txt", b"The cellar is flooded."),
        ]
        body = b""
        for name, filename, content in parts:
            named = f'; filename="{filename}"' if filename else ""
            body += f'--{mark}\r\ncontent-disposition: form-data; name="{name}"{named}\r\n\r\n'.encode() + content + b"\r\n"
        body += f"--{mark}--\r\n".encode()
        status, said = request(f"{self.first.url}/v1/files", body, {"content-type": f"multipart/form-data; boundary={mark}"})
        if status != 200:
            raise Trouble(f"a file was refused: {status} {said[:300]}")


    def socket(self):
        """A message on a WebSocket, and the first one that comes back."""
        with socket.create_connection(("127.0.0.1", self.first.port), timeout=10) as connection:
            connection.sendall(
                b"GET /ws/chat HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: upgrade\r\nupgrade: websocket\r\n"
                b"sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
            )
            answer = b""
            while b"\r\n\r\n" not in answer:
                answer += connection.recv(4096) or b"\r\n\r\n"
            if not answer.startswith(b"HTTP/1.1 101"):
                raise Trouble(f"no WebSocket: {answer[:300]}")
            message = json.dumps({"type": "message", "conversation_id": None, "content": "Good day"}).encode()
            # A short text, masked with zeros.
            connection.sendall(bytes([0x81, 0x80 | len(message)]) + bytes(4) + message)
            connection.recv(4096)


def panels_have_data(world: World, postgres: Postgres) -> list[str]:
    receiver = Receiver()
    world.endings.append(receiver.go)
    store = f'[store]\nurl = "{postgres.create("demo")}"\n{receiver.settings()}'
    models = (
        f'[models.default]\nkind = "chat_completions"\nbase_url = "http://127.0.0.1:{world.upstreams()}/v1"\nmodel = "scripted"\n'
        "price = { input = 10_000.0, output = 10_000.0 }\n"
        f'[mcp_servers.props]\ncommand = "{os.environ["MCP_PROPS_BIN"]}"\n'
        f'[mcp_servers.brittle]\ncommand = "{os.environ["MCP_PROPS_BIN"]}"\ntools.crash = {{ effect = "pure" }}\n'
    )
    quota = "[quotas.per_tenant]\nrequests_per_minute = 1\n"
    budget = "[quotas]\nwarn_at = 0.01\n[quotas.per_tenant]\ncost_per_month = 1000.0\n"
    environment = {"HOOK_SECRET": SECRET, "TURNWIRE_DEMO_PACE_MS": "5", "TURNWIRE_DEMO_TOOL_MS": "20"}
    first = world.gateway("demo-1", store, "--demo", **environment)
    second = world.gateway("demo-2", store + quota, "--demo", **environment)
    third = world.gateway("gateway-1", store + models + budget, **environment)
    fourth = world.gateway("gateway-2", store + models + budget, **environment)
    prometheus = world.prometheus()
    began = time.time()
    load = DemoLoad(first, second, third)
    with Load(load.round, pause=0.2), Load(load.crash, pause=1):
        fourth.ask(NEVER, background=True)
        # For the reloads of settings.
        world.processes[third.name].send_signal(signal.SIGHUP)
        time.sleep(SECONDS_OF_LOAD / 3)
        # For webhooks that are given up, and for some that wait to be tried again.
        receiver.status = 410
        time.sleep(SECONDS_OF_LOAD / 3)
        receiver.status = 503
        time.sleep(SECONDS_OF_LOAD / 3)
        world.kill(fourth.name)
        wait_for("a takeover", lambda: prometheus.query("sum(rate(turnwire_runs_taken_over_total[4s])) > 0"))
    if load.trouble:
        raise load.trouble
    # Counted every ten seconds.
    wait_for("webhooks that wait", lambda: prometheus.query("turnwire_webhooks_pending > 0"))
    end = time.time()
    passed, wrong = [], []
    for name, expression in expressions():
        found = prometheus.query_range(expression, began, end)
        if trouble := wrong_with(expression, found):
            wrong.append(f"{name}: {trouble}: {expression}")
        else:
            passed.append(f"{name} has {len(found)} series")
    if wrong:
        raise Trouble("\n       ".join([f"{len(wrong)} lines", *wrong]))
    return passed
