"""A server that answers as a test says, and a proxy that cuts connections. Both are on loopback."""

import asyncio
import json
import re
from contextlib import asynccontextmanager, suppress
from urllib.parse import urlsplit


class Request:
    """What a client sent."""

    def __init__(self, head, body):
        first, *lines = head.split("\r\n")
        self.method, self.path, _ = first.split(" ")
        self.headers = {
            name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)
        }
        self.body = body


async def read_request(reader):
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    request = Request(head, b"")
    request.body = await reader.readexactly(int(request.headers.get("content-length", 0)))
    return request


@asynccontextmanager
async def listening(handle):
    """Serves connections with `handle(reader, writer)`, and closes them all in the end."""
    tasks = set()

    async def connection(reader, writer):
        tasks.add(asyncio.current_task())
        with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            await handle(reader, writer)
        writer.close()
        tasks.discard(asyncio.current_task())

    server = await asyncio.start_server(connection, "127.0.0.1", 0, limit=2**20)
    try:
        host, port = server.sockets[0].getsockname()
        yield f"http://{host}:{port}", server
    finally:
        server.close()
        for task in list(tasks):
            task.cancel()


class FakeServer:
    """Calls `answer(request, writer, n)` for the n-th request, counted from 1."""

    def __init__(self, answer):
        self.answer = answer
        self.requests = []
        self.open = 0

    async def __call__(self, reader, writer):
        self.requests.append(await read_request(reader))
        self.open += 1
        try:
            await self.answer(self.requests[-1], writer, len(self.requests))
            await writer.drain()
        finally:
            self.open -= 1


@asynccontextmanager
async def fake_server(answer):
    fake = FakeServer(answer)
    async with listening(fake) as (fake.url, fake.server):
        yield fake


def stream_head(extra=""):
    return f"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n{extra}\r\n".encode()


def stream(writer, *pieces):
    """Answers with an event stream that consists of `pieces`."""
    writer.write(stream_head() + b"".join(piece.encode() for piece in pieces))


def refuse(writer, status, code, headers=""):
    body = json.dumps({"error": {"message": "No.", "type": "t", "code": code, "param": None}})
    writer.write(
        f"HTTP/1.1 {status} x\r\nconnection: close\r\n{headers}content-length: {len(body)}\r\n\r\n{body}".encode()
    )


def frame(seq, event=None):
    """One event of a run as the server sends it."""
    event = event or {"type": "tool_phase", "call_id": "c", "phase": "x"}
    return f"id: {seq}\ndata: {json.dumps({'run_id': 'run_1', 'seq': seq, 'at': '2026-01-01T00:00:00Z', 'event': event})}\n\n"


def last_frame(seq):
    """The last event of a run."""
    return frame(seq, {"type": "run_finished", "outcome": {"status": "completed"}, "usage": {}})


class CuttingProxy:
    """Cuts the body of the n-th response after `cut_after(n)` bytes."""

    def __init__(self, target, cut_after):
        self.target = urlsplit(target)
        self.cut_after = cut_after
        self.connections = 0
        self.open = 0

    async def __call__(self, reader, writer):
        self.connections += 1
        self.open += 1
        left = self.cut_after(self.connections)
        upstream, to_upstream = await asyncio.open_connection(self.target.hostname, self.target.port)
        watch = None
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            length = int(Request(head, b"").headers.get("content-length", 0))
            # One response per connection: the limit is for each of them.
            head = re.sub("(?i)^connection: keep-alive", "connection: close", head, flags=re.MULTILINE)
            to_upstream.write(head.encode() + await reader.readexactly(length))
            # A client that goes away ends it too.
            current = asyncio.current_task()
            watch = asyncio.ensure_future(reader.read())
            watch.add_done_callback(lambda _: current.cancel())
            writer.write(await upstream.readuntil(b"\r\n\r\n"))
            while left > 0 and (piece := await upstream.read(65536)):
                writer.write(piece[: int(min(left, len(piece)))])
                left -= len(piece)
                await writer.drain()
        finally:
            if watch:
                watch.cancel()
            to_upstream.close()
            self.open -= 1


@asynccontextmanager
async def cutting_proxy(target, cut_after):
    proxy = CuttingProxy(target, cut_after)
    async with listening(proxy) as (proxy.url, _):
        yield proxy


async def every(iterator):
    """All that an async iterator yields."""
    return [item async for item in iterator]


async def until(what, condition):
    """Waits until a condition holds."""
    for _ in range(200):
        if await condition() if asyncio.iscoroutinefunction(condition) else condition():
            return
        await asyncio.sleep(0.025)
    raise AssertionError(f"{what} did not happen")
