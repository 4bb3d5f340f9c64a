"""Following a run on a server that misbehaves in every way."""

import asyncio
import json
import time
import unittest
from unittest.mock import patch

from servers import every, fake_server, frame, last_frame, refuse, stream, stream_head, until

from turnwire_client import (
    ApiError,
    AuthenticationError,
    ConnectionLostError,
    NotFoundError,
    RetryOptions,
    Turnwire,
    UnavailableError,
)

FAST = RetryOptions(attempts=4, first_delay=0.001, max_delay=0.005)


def client(url, retry=FAST, **options):
    return Turnwire(url, retry=retry, **options)


class Follow(unittest.IsolatedAsyncioTestCase):
    async def seqs(self, *answers, after=0, **options):
        """The numbers of the events that a client gets from a server with these answers."""

        async def answer(request, writer, n):
            stream(writer, *answers[min(n, len(answers)) - 1])

        async with fake_server(answer) as self.server, client(self.server.url, **options) as turnwire:
            return [recorded["seq"] for recorded in await every(turnwire.follow_run("run_1", after=after))]

    async def test_a_stream_that_ends_early_is_continued_after_the_last_event(self):
        self.assertEqual(await self.seqs([frame(1), frame(2), "retry: 1\n"], [frame(3), last_frame(4)]), [1, 2, 3, 4])
        self.assertEqual([request.headers.get("last-event-id") for request in self.server.requests], [None, "2"])

    async def test_events_that_come_again_are_dropped(self):
        self.assertEqual(
            await self.seqs([frame(1), frame(2)], [frame(1), frame(2), frame(2), frame(3), last_frame(4)]), [1, 2, 3, 4]
        )

    async def test_a_gap_is_a_broken_connection_and_the_missing_event_is_asked_for(self):
        self.assertEqual(await self.seqs([frame(1), frame(3)], [frame(2), frame(3), last_frame(4)]), [1, 2, 3, 4])

    async def test_half_a_frame_is_dropped_and_comes_again(self):
        self.assertEqual(await self.seqs([frame(1), frame(2)[:40]], [frame(2), last_frame(3)]), [1, 2, 3])

    async def test_a_frame_that_is_not_json_is_a_broken_connection(self):
        self.assertEqual(await self.seqs([frame(1), "data: {\n\n"], [frame(2), last_frame(3)]), [1, 2, 3])

    async def test_204_means_that_nothing_follows(self):
        async def answer(request, writer, n):
            writer.write(b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n")

        async with fake_server(answer) as server, client(server.url) as turnwire:
            self.assertEqual(await every(turnwire.follow_run("run_1", after=7)), [])
        self.assertEqual(len(server.requests), 1)

    async def test_a_server_that_never_comes_back_ends_it_with_what_was_seen(self):
        async def answer(request, writer, n):
            stream(writer, frame(1), frame(2))
            server.server.close()

        async with fake_server(answer) as server, client(server.url) as turnwire:
            with self.assertRaisesRegex(ConnectionLostError, "4 failed attempts in a row and event 2") as raised:
                await every(turnwire.follow_run("run_1"))
        self.assertEqual((raised.exception.attempts, raised.exception.last_seq), (4, 2))

    async def test_a_server_that_accepts_and_sends_nothing_new_is_given_up_as_well(self):
        with self.assertRaises(ConnectionLostError):
            await self.seqs([frame(1), "retry: 1\n"])
        self.assertEqual(len(self.server.requests), 4)

    async def test_a_proxy_that_answers_for_the_server_is_not_taken_for_it(self):
        async def answer(request, writer, n):
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\nconnection: close\r\n\r\n<html>")

        async with fake_server(answer) as server, client(server.url) as turnwire:
            with self.assertRaisesRegex(ConnectionLostError, "not an event stream"):
                await every(turnwire.follow_run("run_1"))

    async def test_a_silent_connection_is_replaced_and_keep_alives_keep_one(self):
        async def answer(request, writer, n):
            stream(writer, frame(n))
            if n == 1:
                await asyncio.sleep(60)
            for _ in range(24):
                writer.write(b": ping\n")
                await asyncio.sleep(0.05)
            writer.write(last_frame(3).encode())

        async with fake_server(answer) as server, client(server.url, max_silence=0.5) as turnwire:
            self.assertEqual([recorded["seq"] for recorded in await every(turnwire.follow_run("run_1"))], [1, 2, 3])
        self.assertEqual(len(server.requests), 2)

    @patch("turnwire_client._follow.HEALTHY_SECONDS", 0.05)
    async def test_a_quiet_run_outlives_a_proxy_that_cuts_idle_connections(self):
        for is_reset in (False, True):

            async def answer(request, writer, n, is_reset=is_reset):
                stream(writer, frame(1) if n == 1 else last_frame(2) if n == 9 else ": ping\n")
                await asyncio.sleep(0.08)
                if is_reset:
                    writer.transport.abort()

            async with fake_server(answer) as server, client(server.url) as turnwire:
                self.assertEqual([recorded["seq"] for recorded in await every(turnwire.follow_run("run_1"))], [1, 2])
            self.assertEqual(len(server.requests), 9)

    @patch("turnwire_client._follow.HEALTHY_SECONDS", 0.05)
    async def test_a_connection_that_is_dead_every_time_is_given_up(self):
        async def answer(request, writer, n):
            stream(writer, frame(1))
            await asyncio.sleep(60)

        async with fake_server(answer) as server, client(server.url, max_silence=0.3) as turnwire:
            with self.assertRaises(ConnectionLostError) as raised:
                await every(turnwire.follow_run("run_1"))
        self.assertEqual((raised.exception.attempts, raised.exception.last_seq), (4, 1))

    async def test_leaving_the_loop_or_cancelling_the_task_closes_the_connection(self):
        async def leave(turnwire):
            async for _ in turnwire.follow_run("run_1"):
                break

        async def be_cancelled(turnwire):
            task = asyncio.ensure_future(every(turnwire.follow_run("run_1")))
            await asyncio.sleep(0.1)
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task

        for stop in (leave, be_cancelled):
            async with fake_server(hold) as server, client(server.url) as turnwire:
                await stop(turnwire)
                await until("the end of the connection", lambda: server.open == 0)

    async def test_refusals_are_typed_errors_at_once(self):
        for status, kind in ((401, AuthenticationError), (404, NotFoundError), (400, ApiError)):

            async def answer(request, writer, n, status=status):
                refuse(writer, status, "some_code")

            async with fake_server(answer) as server, client(server.url) as turnwire:
                for attempt in (
                    every(turnwire.follow_run("run_1")),
                    turnwire.cancel("run_1"),
                    turnwire.stream_chat("x"),
                ):
                    with self.assertRaises(kind) as raised:
                        await attempt
                    self.assertEqual(
                        (raised.exception.status, raised.exception.code, str(raised.exception)),
                        (status, "some_code", "No."),
                    )
            self.assertEqual(len(server.requests), 3)

    async def test_503_is_tried_again_after_retry_after_and_is_an_unavailable_error_in_the_end(self):
        async def answer(request, writer, n):
            refuse(writer, 503, "shutting_down", "retry-after: 2\r\n")

        async with fake_server(answer) as server:
            async with client(server.url) as turnwire:
                with self.assertRaises(UnavailableError) as raised:
                    await turnwire.get_run("run_1")
                self.assertEqual((raised.exception.retry_after, len(server.requests)), (2.0, 4))
                with self.assertRaises(ConnectionLostError) as lost:
                    await every(turnwire.follow_run("run_1"))
                self.assertIsInstance(lost.exception.__cause__, UnavailableError)
            begin = time.monotonic()
            async with client(server.url, RetryOptions(attempts=2, max_delay=0.3)) as turnwire:
                with self.assertRaises(UnavailableError):
                    await turnwire.get_run("run_1")
            self.assertGreaterEqual(time.monotonic() - begin, 0.29)

    async def test_a_chat_is_started_once_with_the_same_key_and_the_same_body(self):
        async def answer(request, writer, n):
            if request.path != "/chat/stream":
                stream(writer, frame(1), last_frame(2))
            elif n == 2:
                stream(writer, "retry: 1\n")
            elif n == 3:
                stream(writer, "id: run_1:7.0\ndata: {}\n\n")

        async with fake_server(answer) as server, client(server.url) as turnwire:
            self.assertEqual((await turnwire.stream_chat("x")).run_id, "run_1")
        sent = {(request.headers["idempotency-key"], request.body) for request in server.requests[:3]}
        self.assertEqual(len(sent), 1)
        self.assertEqual(json.loads(server.requests[0].body)["message"], "x")

    async def test_the_id_of_the_run_is_taken_from_the_header_if_there_is_one(self):
        async def answer(request, writer, n):
            if request.path != "/chat/stream":
                return stream(writer, frame(1), last_frame(2))
            writer.write(stream_head("turnwire-run-id: run_1\r\n"))
            await asyncio.sleep(60)

        async with fake_server(answer) as server, client(server.url) as turnwire:
            self.assertEqual((await turnwire.stream_chat("x")).run_id, "run_1")

    async def test_a_callback_that_raises_is_logged_and_disturbs_nothing(self):
        """S4-4"""

        async def answer(request, writer, n):
            text = frame(2, {"type": "text_added", "item_id": "m", "text": "Hi"})
            stream(
                writer,
                *(
                    ["id: run_1:7.0\ndata: {}\n\n"]
                    if request.path == "/chat/stream"
                    else [frame(1), text, last_frame(3)]
                ),
            )

        async def fail(*_):
            raise ValueError("callback")

        tokens = []
        async with fake_server(answer) as server, client(server.url) as turnwire:
            with self.assertLogs("turnwire_client", "ERROR") as logs:
                result = await turnwire.stream_chat(
                    "x", on_event=fail, on_assistant_message_added=lambda: 1 / 0, on_token=tokens.append
                )
        self.assertEqual((result.outcome["status"], tokens, len(logs.records)), ("completed", ["Hi"], 4))


async def hold(request, writer, n):
    """Sends one event and holds the stream open until the client closes it."""
    stream(writer, frame(1))
    while not writer.is_closing():
        writer.write(b": ping\n")
        await writer.drain()
        await asyncio.sleep(0.02)


if __name__ == "__main__":
    unittest.main()
