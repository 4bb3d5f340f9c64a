"""A gateway is killed fifty times while webhooks wait and are sent, and none is lost.

For a while nothing listens at the receiver, and it is slow otherwise, so that kills hit attempts. A
delivery that has failed twice waits five minutes; the last gateway's clock is that much ahead.
"""

import json
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from receiver import SECRET, Receiver
from world import HOME, Postgres, Trouble, World, wait_for

KILLS = 50
# While these are made, nothing listens at the receiver.
AWAY = range(15, 25)
FAKETIME = next(iter(HOME.rglob("libfaketimeMT.so.1")), None)


def asked(gateway, **fields) -> str:
    status, body = gateway.post("/v1/responses", {"input": "Good day"} | fields)
    if status != 200:
        raise Trouble(f"a run was refused: {status} {body[:300]}")
    return json.loads(body)["id"]


def killed(world: World, store: str) -> str:
    """Kills gateways with this store, and says what became of their webhooks."""
    receiver = Receiver()
    world.endings.append(receiver.go)
    receiver.pause = 0.05
    settings = f'[store]\nurl = "{store}"\n{receiver.settings()}'
    environment = {"HOOK_SECRET": SECRET, "TURNWIRE_DEMO_PACE_MS": "0"}
    expected, gateway = set(), None
    for n in range(KILLS):
        if n == AWAY.start:
            receiver.go()
        if n == AWAY.stop:
            receiver.come()
        gateway = world.gateway("gateway", settings, "--demo", port=gateway.port if gateway else 0, **environment)
        # Two that have ended when it dies, and one that may be at work.
        expected |= {asked(gateway), asked(gateway), asked(gateway, background=True)}
        world.kill("gateway")
    gateway = world.gateway(
        "gateway", settings, "--demo", port=gateway.port, LD_PRELOAD=str(FAKETIME), FAKETIME="+6m", **environment
    )

    def arrived() -> set[str]:
        return {event["data"]["id"] for _, event in receiver.accepted}

    wait_for("every webhook", lambda: arrived() >= expected, 90)
    for event_id, event in receiver.accepted:
        if event["id"] != event_id:
            raise Trouble(f"{event_id} has another ID in its body: {event}")
    # One ID for each run, however often it was sent: whoever drops repeats has each of them once.
    ids = {(event["data"]["id"], event_id) for event_id, event in receiver.accepted}
    if len(ids) != len(expected) or arrived() != expected:
        raise Trouble(f"{len(expected)} runs have {len(ids)} IDs")
    wait_for("the last answer to be stored", lambda: not listed(gateway, "pending"))
    if listed(gateway, "failed"):
        raise Trouble("some were given up")
    n_repeats = sum(Counter(event_id for event_id, _ in receiver.accepted).values()) - len(expected)
    return f"{KILLS} kills, {len(expected)} webhooks arrived, {n_repeats} repeats with the same ID"


def listed(gateway, status: str) -> list:
    return json.loads(gateway.get(f"/v1/webhooks/deliveries?status={status}")[1])["data"]


def main() -> int:
    began, failed = time.monotonic(), 0
    with tempfile.TemporaryDirectory(prefix="turnwire-kills-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        postgres = Postgres(folder / "postgres")
        stores = {"PostgreSQL": postgres.create("kills"), "SQLite": f"sqlite://{folder}/runs.db"}
        worlds = {store: World(folder / store) for store in stores}
        try:
            with ThreadPoolExecutor(len(stores)) as pool:
                ends = {store: pool.submit(killed, worlds[store], url) for store, url in stores.items()}
                for store, end in ends.items():
                    try:
                        print(f"ok     {store}: {end.result()}", flush=True)
                    except (AssertionError, OSError) as error:
                        failed += 1
                        print(f"FAILED {store}: {error}\n{worlds[store].log('gateway')[-2000:]}", flush=True)
        finally:
            for world in worlds.values():
                world.close()
            postgres.stop()
    seconds = time.monotonic() - began
    print(f"webhooks: {failed} stores lost some" if failed else f"webhooks: {len(stores) * KILLS} kills, none lost, {seconds:.0f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
