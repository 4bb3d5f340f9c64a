"""Every fault that an alert is for, made for real: the alert is silent before, fires, and ends.

Each fault has its own gateways, database and Prometheus, so that the faults run at the same time and
no alert is fired by another fault. Prometheus uses the hurried rules of `rules.py`.
"""

import json
import os
import re
import signal
import threading
from collections.abc import Callable

from receiver import SECRET, Receiver
from tls import Authority, TlsFront
from world import HOME, Load, Postgres, Prometheus, TableLock, Trouble, World, wait_for

FAKETIME = next(iter(HOME.rglob("libfaketimeMT.so.1")), None)
NEVER = [{"text": ["I ", "begin"], "pause_ms": 600_000}]
# Alerts without a real fault here, and why.
NOT_MADE = {
    "TurnwireReadersLate": "a delay of seconds on one machine would need a notifier that is slow and not away",
    "TurnwireThreadBlocked": "nothing is known that blocks a thread; the test of the watchdog has a tool that does",
    "TurnwireWebhooksBehind": "a thousand deliveries; the gauge is that of TurnwireWebhooksNotDelivered",
}


def settings(store: str, upstreams: int, more: str = "") -> str:
    return (
        f'[store]\nurl = "{store}"\n'
        f'[models.default]\nkind = "chat_completions"\nbase_url = "http://127.0.0.1:{upstreams}/v1"\nmodel = "scripted"\n'
        f"{more}"
    )


def silent_then_fires_then_ends(prometheus: Prometheus, alerts: list[str], fault: Callable, mend: Callable) -> list[str]:
    wait_for("a few scrapes", lambda: prometheus.query("min(count_over_time(up[10s])) >= 3"))
    for alert in alerts:
        if alert in prometheus.firing():
            raise Trouble(f"{alert} fires before its fault")
    fault()
    for alert in alerts:
        annotations = prometheus.waits_to_fire(alert)["annotations"]
        # What an operator reads is whole: a label that does not exist leaves a gap.
        for text in annotations.values():
            if re.search(r"<no value>|<error|: *$|^ | $|  ", text):
                raise Trouble(f"{alert} says {text!r}")
    mend()
    for alert in alerts:
        prometheus.waits_to_end(alert)
    return [f"{alert} is silent, fires, and ends" for alert in alerts]


def store_away(world: World, _: Postgres):
    """PostgreSQL is stopped."""
    postgres = Postgres(world.folder / "postgres")
    world.endings.append(postgres.stop)
    world.gateway("gateway", settings(postgres.create("away"), world.upstreams()))
    alerts = ["TurnwireHeartbeatLate", "TurnwireStoreAway"]
    return silent_then_fires_then_ends(world.prometheus(), alerts, postgres.stop, postgres.start)


def writer_stuck(world: World, postgres: Postgres):
    """Another session locks the table of the journal."""
    gateway = world.gateway("gateway", settings(postgres.create("stuck"), world.upstreams()))
    locks = []

    def fault():
        locks.append(TableLock(postgres, "stuck", "run_events"))
        world.endings.append(locks[0].release)
        # Something to write; its client waits as long as the lock is there.
        threading.Thread(target=gateway.ask, args=("Good day",), daemon=True).start()

    alerts = ["TurnwireWriterStuck"]
    passed = silent_then_fires_then_ends(world.prometheus(), alerts, fault, lambda: locks[0].release())
    status, body = gateway.ask("Good day")
    if status != 200:
        raise Trouble(f"the gateway does not go on: {status} {body[:300]}")
    return passed


def upstream_failing(world: World, postgres: Postgres):
    """The model server is killed while runs ask it."""
    port = world.upstreams()
    gateway = world.gateway("gateway", settings(postgres.create("upstream"), port))
    alerts = ["TurnwireUpstreamFailing"]
    with Load(lambda: gateway.ask("Good day", background=True)):
        return silent_then_fires_then_ends(
            world.prometheus(), alerts, lambda: world.kill("upstreams"), lambda: world.upstreams(port)
        )


def takeovers_rising(world: World, postgres: Postgres):
    """A gateway with thirty runs at work is killed with SIGKILL."""
    same = settings(postgres.create("takeovers"), world.upstreams())
    first, *_ = [world.gateway(f"gateway-{n}", same) for n in (1, 2, 3)]
    for _ in range(30):
        status, body = first.ask(NEVER, background=True)
        if status != 200:
            raise Trouble(f"a run was refused: {status} {body[:300]}")
    prometheus = world.prometheus()
    of_first = f'turnwire_runs_live{{instance="127.0.0.1:{first.port}"}}'
    wait_for("the runs to be at work", lambda: prometheus.query(f"{of_first} == 30"))
    alerts = ["TurnwireGatewayDown", "TurnwireRunsTakenOver", "TurnwireTakeoversRising"]
    return silent_then_fires_then_ends(
        prometheus, alerts, lambda: world.kill(first.name), lambda: world.gateway(first.name, same, port=first.port)
    )


def retention_behind(world: World, postgres: Postgres):
    """Another session locks a table that retention deletes from, and hours pass on the gateway's clock."""
    clock, minutes = world.folder / "clock", 0

    def pass_minutes(more: int):
        nonlocal minutes
        minutes += more
        fresh = world.folder / "clock.new"
        fresh.write_text(f"+{minutes}m\n")
        fresh.replace(clock)

    pass_minutes(0)
    gateway = world.gateway(
        "gateway", settings(postgres.create("retention"), world.upstreams()),
        LD_PRELOAD=str(FAKETIME), FAKETIME_TIMESTAMP_FILE=str(clock), FAKETIME_NO_CACHE="1",
    )
    prometheus = world.prometheus()

    def age() -> float:
        return gateway.metric("turnwire_retention_age_seconds")

    # Without the fault two hours may pass: it is done in time, so no alert.
    for _ in range(3):
        pass_minutes(50)
        wait_for("retention to be done", lambda: age() < 600)
    if prometheus.query('ALERTS{alertname="TurnwireRetentionBehind"}'):
        raise Trouble("TurnwireRetentionBehind fires although retention is done")
    locks = []

    def fault():
        locks.append(TableLock(postgres, "retention", "request_keys"))
        world.endings.append(locks[0].release)
        pass_minutes(100)
        # The attempt is over before the lock is: the next one is due ten minutes later.
        wait_for("retention to fail", lambda: "retention failed" in world.log("gateway"))

    def mend():
        locks[0].release()
        pass_minutes(11)

    alerts = ["TurnwireRetentionBehind"]
    return silent_then_fires_then_ends(prometheus, alerts, fault, mend)


def certificate_expired(world: World, postgres: Postgres):
    """The certificate of an MCP server expires while runs use its tools."""
    authority = Authority(world.folder / "authority", FAKETIME)
    valid, expired = authority.certificate("valid", "+0"), authority.certificate("expired", "-10d")
    port = mcp_server(world)
    front = TlsFront(port, valid)
    world.endings.append(front.close)
    more = f'[mcp_servers.props]\nurl = "https://localhost:{front.port}/mcp"\nstartup_timeout_sec = 5\n'
    gateway = world.gateway(
        "gateway", settings(postgres.create("certificate"), world.upstreams(), more),
        SSL_CERT_FILE=str(authority.folder / "ca.pem"),
    )
    prometheus = world.prometheus()

    def use():
        gateway.ask(
            [{"calls": [{"name": "echo", "arguments": {"text": "hear"}}]}, {"text": "{results}"}],
            tools=[{"type": "mcp", "server_label": "props", "require_approval": "never"}],
        )

    alerts = ["TurnwireToolServerFailing"]
    with Load(use, pause=0.3):
        listed = 'turnwire_tool_listings_total{server="props",outcome="listed"}'
        wait_for("a run with the tools", lambda: prometheus.query(f"{listed} > 0"))
        passed = silent_then_fires_then_ends(
            prometheus, alerts, lambda: front.exchange(expired), lambda: front.exchange(valid)
        )
    # The alert says that the log and `turnwire mcp` have the reason.
    if not re.search(r"(?i)handshake failed.*invalid peer certificate.*expired", world.log("gateway")):
        raise Trouble("the log does not say that the certificate has expired")
    [server] = [server for server in json.loads(gateway.get("/v1/mcp_servers")[1])["data"] if server["name"] == "props"]
    if "its certificate has expired or is not trusted" not in json.dumps(server["last_error"]):
        raise Trouble(f"the list of servers does not say that the certificate has expired: {server['last_error']}")
    return passed


def mcp_server(world: World) -> int:
    """An MCP server over HTTP; its port."""
    world.start("mcp-props", os.environ["MCP_PROPS_BIN"], "--http", "0")
    return int(wait_for("the MCP server", lambda: world.log("mcp-props").strip()))


def webhook_receiver_dead(world: World, postgres: Postgres):
    """A receiver of webhooks goes away; another time it wants no more."""
    receiver = Receiver()
    world.endings.append(receiver.go)
    store = postgres.create("webhooks")
    gateway = world.gateway("gateway", settings(store, world.upstreams(), receiver.settings()), HOOK_SECRET=SECRET)
    prometheus = world.prometheus()
    gateway.ask("Good day")
    wait_for("the first webhook", lambda: receiver.accepted)

    def away():
        receiver.go()
        for _ in range(3):
            gateway.ask("Good day")

    def back():
        receiver.come()
        for _ in range(3):
            gateway.ask("Good day")

    passed = silent_then_fires_then_ends(prometheus, ["TurnwireWebhooksNotDelivered"], away, back)

    def gone():
        receiver.status = 410
        gateway.ask("Good day")

    return passed + silent_then_fires_then_ends(prometheus, ["TurnwireWebhooksGivenUp"], gone, lambda: None)


def limit_and_garbage(world: World, postgres: Postgres):
    """Clients ask for more runs than allowed; a model server sends what cannot be read."""
    gateway = world.gateway("gateway", settings(postgres.create("limits"), world.upstreams(), "[limits]\nmax_runs = 1\n"))
    prometheus = world.prometheus()

    def garbage():
        gateway.ask([{"text": ["A word ", "and another"], "garbled_after": 1}])

    passed = silent_then_fires_then_ends(prometheus, ["TurnwireModelUnreadable"], garbage, lambda: None)
    load, held = Load(lambda: gateway.ask("Good day", background=True)), []

    def too_many():
        _, body = gateway.ask(NEVER, background=True)
        held.append(json.loads(body)["id"])
        load.__enter__()

    def fewer():
        load.__exit__()
        gateway.post(f"/v1/responses/{held[0]}/cancel", {})

    return passed + silent_then_fires_then_ends(prometheus, ["TurnwireLimitReached"], too_many, fewer)


def settings_not_reloaded(world: World, postgres: Postgres):
    """The settings file gets a mistake, and the gateway is told to read it again."""
    right = settings(postgres.create("reloads"), world.upstreams())
    gateway = world.gateway("gateway", right)
    file, process = world.folder / "gateway.toml", world.processes[gateway.name]

    def reload(text: str):
        file.write_text(text)
        process.send_signal(signal.SIGHUP)

    alerts = ["TurnwireSettingsNotReloaded"]
    return silent_then_fires_then_ends(
        world.prometheus(), alerts, lambda: reload(right + "[limits]\nmax_rums = 1\n"), lambda: reload(right)
    )


# The slowest first.
FAULTS = [
    webhook_receiver_dead, store_away, certificate_expired, limit_and_garbage, writer_stuck, retention_behind,
    takeovers_rising, upstream_failing, settings_not_reloaded,
]
