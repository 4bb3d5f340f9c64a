"""Following the journal of a run through any number of connections.

Events are numbered without gaps, so the client knows what it has: after a disconnect it asks for
what follows its last event, drops what it has already seen, and treats a gap as a broken
connection. The caller sees every event once, in order, and no trace of the disconnect.
"""

from __future__ import annotations

import json
import time
from collections.abc import AsyncGenerator
from urllib.parse import quote

import httpx

from ._connection import Connection, EventStream, reason_of
from ._errors import ApiError, BrokenStreamError, ConnectionLostError, is_temporary
from ._sse import SseFrame
from .events import RecordedEvent

HEALTHY_SECONDS = 5.0
"""A connection that the other side ended after this long was healthy, even if no event came: the run
is just quiet, and there is a proxy that does not like it.
"""


async def follow_run(connection: Connection, run_id: str, after: int) -> AsyncGenerator[RecordedEvent, None]:
    """Yields the events of a run after `after`, until the run ends."""
    path = f"/v1/runs/{quote(run_id, safe='')}/events"
    retry = connection.retry()
    last_seq = after
    while True:
        opened_at = time.monotonic()
        stream: EventStream | None = None
        failure: Exception = BrokenStreamError("the stream ended before the run did")
        try:
            # Only with this header does the server say that an ended run has no more events.
            headers = {"last-event-id": str(last_seq)} if last_seq > 0 else {}
            async with connection.open("GET", path, headers=headers) as stream:
                if stream.is_over:
                    return
                async for frame in stream.frames():
                    recorded = _read(frame)
                    if recorded["seq"] <= last_seq:
                        continue
                    if recorded["seq"] > last_seq + 1:
                        raise BrokenStreamError(f"event {last_seq + 1} is missing")
                    last_seq = recorded["seq"]
                    retry.progressed()
                    yield recorded
                    if recorded["event"]["type"] == "run_finished":
                        return
        except Exception as error:
            if not is_temporary(error):
                raise
            failure = error
        is_silent = isinstance(failure, httpx.TimeoutException)
        if stream and not is_silent and time.monotonic() - opened_at >= HEALTHY_SECONDS:
            retry.progressed()
        asked_by = failure if isinstance(failure, ApiError) else stream
        asked_for = asked_by.retry_after if asked_by else None
        if not await retry.another(asked_for):
            raise ConnectionLostError(retry.failures, reason_of(failure), last_seq) from failure


def _read(frame: SseFrame) -> RecordedEvent:
    try:
        recorded: RecordedEvent = json.loads(frame.data)
    except ValueError as error:
        raise BrokenStreamError(f"a frame is not JSON: {error}") from error
    return recorded
