"""The client against real gateways, straight and through a proxy that cuts connections.

TURNWIRE_URL          a gateway whose model plays the script in the message, with the tools of the
                      MCP server `mcp-props`; `add` needs an approval
TURNWIRE_LOCKED_URL   a gateway with the demo, which wants TURNWIRE_LOCKED_KEY

`scripts/client-libraries all` starts both.
"""

import asyncio
import json
import math
import os
import random
import unittest

import httpx
from servers import cutting_proxy, every, until

from turnwire_client import (
    ApiError,
    AuthenticationError,
    ConflictError,
    ConnectionLostError,
    NotFoundError,
    RetryOptions,
    RunFailedError,
    Turnwire,
)

# What a frame has beside its JSON, at least: `id: 1`, `data: ` and three line breaks.
FRAME_BYTES = 14

URL = os.environ["TURNWIRE_URL"]
LOCKED_URL = os.environ["TURNWIRE_LOCKED_URL"]
LOCKED_KEY = os.environ["TURNWIRE_LOCKED_KEY"]
HASTY = RetryOptions(first_delay=0.001, max_delay=0.005)


def script(*turns):
    return json.dumps({"turns": turns})


def call(name, **arguments):
    return {"name": name, "arguments": arguments}


TOOLS = script(
    {"text": "Let me see. ", "calls": [call("echo", text="naïve 🦀"), call("fail", message="no luck")]},
    {"text": ["That is ", "all."]},
)


class Gateway(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self):
        asyncio.get_running_loop().set_debug(False)
        self.http = await self.enterAsyncContext(httpx.AsyncClient(verify=False))
        self.turnwire = Turnwire(URL, http_client=self.http)
        self.demo = Turnwire(LOCKED_URL, api_key=LOCKED_KEY, http_client=self.http)

    def hasty(self, url):
        """A client that does not wait long before it tries again."""
        return Turnwire(url, http_client=self.http, retry=HASTY)

    async def start(self, message, client=None, **options):
        """Starts a chat; returns its task and the ID of its run."""
        known = asyncio.get_running_loop().create_future()

        def on_event(recorded):
            if not known.done():
                known.set_result(recorded["run_id"])

        chat = asyncio.ensure_future((client or self.turnwire).stream_chat(message, on_event=on_event, **options))
        await asyncio.wait((chat, known), return_when=asyncio.FIRST_COMPLETED)
        return chat, known.result()

    async def finished_run(self):
        """A finished run: its ID, its events, the size of the largest and of all on the wire."""
        run_id = (await self.turnwire.stream_chat(TOOLS)).run_id
        whole = await every(self.turnwire.follow_run(run_id))
        sizes = [
            len(json.dumps(recorded, ensure_ascii=False, separators=(",", ":")).encode()) + FRAME_BYTES for recorded in whole
        ]
        return run_id, whole, max(sizes), sum(sizes)

    async def test_a_chat_with_tools_calls_back_in_order(self):
        """S0-1, S0-2"""
        calls = []
        result = await self.demo.stream_chat(
            "multiply 5 and 4",
            on_token=calls.append,
            on_tool_start=lambda name: calls.append(("start", name)),
            on_tool_end=lambda name, summary: calls.append(("end", name, summary)),
        )
        tools = [one for one in calls if not isinstance(one, str)]
        self.assertEqual(tools, [("start", "multiply"), ("end", "multiply", "20")])
        self.assertEqual("".join(calls[: calls.index(tools[0])]), "I will multiply 5 and 4. ")
        self.assertEqual("".join(calls[calls.index(tools[1]) + 1 :]), "5 times 4 is 20.")
        self.assertEqual((result.text, result.outcome), ("5 times 4 is 20.", {"status": "completed"}))

    async def test_without_tool_callbacks_tools_are_bracketed_text(self):
        """S0-3"""
        tokens = []
        await self.demo.stream_chat("multiply 5 and 4", on_token=tokens.append)
        self.assertEqual(
            "".join(tokens),
            "I will multiply 5 and 4. \n[Executing tool: multiply]\n[Tool result: 20]\n\n5 times 4 is 20.",
        )

    async def test_a_block_goes_through_its_stages_and_the_list_is_right_at_the_end(self):
        """S4-7, S4-8, S4-10"""
        updates, lists = [], []
        await self.demo.stream_chat(
            "multiply 5 and 4", on_tool_block_updated=updates.append, on_messages_change=lists.append
        )
        stages = [update.stage for update in updates]
        self.assertEqual((stages[0], stages[-1], stages.count("start"), stages.count("end")), ("start", "end", 1, 1))
        self.assertEqual("".join(update.parameters_chunk or "" for update in updates), updates[-1].parameters)
        self.assertEqual((updates[-1].success, updates[-1].result, updates[-1].compact_params), (True, "20", "5 × 4"))
        self.assertEqual([message.role for message in lists[-1]], ["user", "assistant", "assistant"])

    async def test_a_failing_tool_ends_too_and_the_run_goes_on(self):
        """S0-12"""
        ends = []
        result = await self.turnwire.stream_chat(TOOLS, on_tool_end=lambda *end: ends.append(end))
        self.assertEqual(sorted(ends), [("echo", "naïve 🦀"), ("fail", "Error: no luck")])
        self.assertEqual(result.text, "That is all.")

    async def test_a_conversation_is_continued_by_its_session(self):
        first = await self.demo.stream_chat("multiply 5 and 4")
        second = await self.demo.stream_chat("multiply 2 and 3", session_id=first.session_id)
        self.assertEqual(second.session_id, first.session_id)
        self.assertNotEqual(second.run_id, first.run_id)

    async def test_a_message_picks_its_model_and_tools_and_carries_files(self):
        requests = []

        def note(recorded):
            if recorded["event"]["type"] == "run_queued":
                requests.append(recorded["event"]["request"])

        await self.demo.stream_chat("multiply 5 and 4", on_event=note)
        answer = await self.demo.stream_chat(
            "multiply 5 and 4",
            model=requests[0]["model"],
            tools=[{"type": "mcp", "server_label": "demo"}],
            attachments=[{"type": "input_file", "filename": "a.txt", "file_data": "aGk="}],
            on_event=note,
        )
        self.assertEqual(answer.text, "5 times 4 is 20.")
        self.assertEqual([server["label"] for server in requests[1]["servers"]], ["demo"])
        self.assertEqual([part["type"] for part in requests[1]["input"][0]["content"]], ["text", "file"])
        with self.assertRaises(NotFoundError):
            await self.turnwire.stream_chat("x", model="nobody")

    async def test_the_journal_of_a_finished_run_can_be_read_from_any_event(self):
        run_id, whole, _, _ = await self.finished_run()
        self.assertEqual([recorded["seq"] for recorded in whole], list(range(1, len(whole) + 1)))
        for after in range(len(whole) + 1):
            self.assertEqual(await every(self.turnwire.follow_run(run_id, after=after)), whole[after:])

    async def test_a_run_is_followed_while_it_runs_by_several_readers(self):
        chat, run_id = await self.start(script({"calls": [call("slow", seconds=0.5, steps=5)]}, {"text": "Done."}))
        readers = (every(self.turnwire.follow_run(run_id)), every(self.turnwire.follow_run(run_id, after=2)))
        first, second = await asyncio.gather(*readers)
        self.assertEqual(second, first[2:])
        self.assertIn("tool_progressed", [recorded["event"]["type"] for recorded in first])
        self.assertEqual((await chat).text, "Done.")

    async def test_a_stream_that_is_cut_anywhere_is_whole_after_the_resume(self):
        """C11"""
        run_id, whole, _, size = await self.finished_run()
        for step in range(100):
            most = size * step // 100
            async with (
                cutting_proxy(URL, lambda n: most if n == 1 else math.inf) as proxy,
                self.hasty(proxy.url) as client,
            ):
                self.assertEqual(await every(client.follow_run(run_id)), whole, f"cut after {most} bytes")
            self.assertEqual(proxy.connections, 2, most)

    async def test_a_proxy_that_cuts_every_connection_loses_and_doubles_nothing(self):
        """C11"""
        run_id, whole, largest, size = await self.finished_run()
        for step in range(20):
            most = largest + 100 + (size - largest - 200) * step // 20
            async with cutting_proxy(URL, lambda n: most) as proxy, self.hasty(proxy.url) as client:
                self.assertEqual(await every(client.follow_run(run_id)), whole, f"every {most} bytes")
            self.assertGreater(proxy.connections, 1)

    async def test_a_live_chat_survives_a_proxy_that_cuts_all_of_its_connections(self):
        """C11"""
        _, _, largest, _ = await self.finished_run()
        text = [f"{n} " for n in range(300)]
        tokens, seqs = [], []
        async with cutting_proxy(URL, lambda n: largest + 500) as proxy, self.hasty(proxy.url) as client:
            result = await client.stream_chat(
                script({"text": text, "pace_ms": 1, "calls": [call("echo", text="x")]}, {"text": ["E", "nd."]}),
                on_token=tokens.append,
                on_tool_start=lambda name: tokens.append(f"<{name}>"),
                on_tool_end=lambda _, summary: tokens.append(f"<{summary}>"),
                on_event=lambda recorded: seqs.append(recorded["seq"]),
            )
        self.assertEqual("".join(tokens), f"{''.join(text)}<echo><x>End.")
        self.assertEqual(seqs, list(range(1, len(seqs) + 1)))
        self.assertGreater(proxy.connections, 5)
        self.assertEqual(result.text, "End.")

    async def test_a_start_whose_answer_is_lost_makes_one_run(self):
        """C9"""
        marker = f"once {random.random()}"
        async with cutting_proxy(URL, lambda n: 0 if n <= 3 else math.inf) as proxy, self.hasty(proxy.url) as client:
            result = await client.stream_chat(script({"text": marker}))
        runs = (await self.http.get(f"{URL}/v1/runs?limit=20")).json()["data"]
        texts = [(run["run_id"], (await self.turnwire.get_run(run["run_id"]))["text"]) for run in runs]
        self.assertEqual([one for one in texts if one[1] == marker], [(result.run_id, marker)])

    async def test_a_frame_that_never_fits_through_the_proxy_is_given_up_with_the_way_to_go_on(self):
        run_id, _, _, _ = await self.finished_run()
        async with cutting_proxy(URL, lambda n: 300) as proxy, self.hasty(proxy.url) as client:
            with self.assertRaises(ConnectionLostError) as raised:
                await every(client.follow_run(run_id))
        self.assertEqual(raised.exception.last_seq, 0)

    async def test_an_event_of_10_mb_arrives(self):
        result = await self.turnwire.stream_chat(script({"calls": [call("big", bytes=10_000_000)]}, {"text": "Done."}))
        events = [recorded["event"] for recorded in await every(self.turnwire.follow_run(result.run_id))]
        [finished] = [event for event in events if event["type"] == "tool_finished"]
        self.assertEqual(len(finished["outcome"]["output"]["text"]), 10_000_000)

    async def test_a_cancelled_task_closes_the_connection_and_the_run_goes_on(self):
        """C10"""
        async with cutting_proxy(URL, lambda n: math.inf) as proxy, self.hasty(proxy.url) as client:
            message = script({"calls": [call("slow", seconds=1, steps=2)]}, {"text": "Done."})
            chat, run_id = await self.start(message, client)
            chat.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await chat
            await until("the end of the connection", lambda: proxy.open == 0)
        events = await every(self.turnwire.follow_run(run_id))
        self.assertEqual(events[-1]["event"]["outcome"], {"status": "completed"})

    async def test_a_run_is_cancelled_once(self):
        """C14"""
        chat, run_id = await self.start(script({"text": "Wait. ", "calls": [call("hang")]}))

        async def is_running():
            return any(one["state"] == "running" for one in (await self.turnwire.get_run(run_id))["calls"])

        await until("the start of the tool", is_running)
        self.assertEqual(await self.turnwire.cancel(run_id), {"run_id": run_id, "done": True})
        self.assertEqual((await chat).outcome, {"status": "cancelled"})
        self.assertFalse((await self.turnwire.cancel(run_id))["done"])

    async def test_one_call_is_cancelled_and_the_run_goes_on(self):
        ends, waiting = [], {}

        async def on_event(recorded):
            event = recorded["event"]
            if event["type"] == "call_announced" and event["tool"]["name"] == "wait_for_cancel":
                waiting["call"] = event["call_id"]
            if event["type"] == "tool_started" and event["call_id"] == waiting.get("call"):
                waiting["result"] = await self.turnwire.cancel_call(recorded["run_id"], event["call_id"])

        message = script(
            {"text": "Wait. ", "calls": [call("wait_for_cancel"), call("echo", text="hi")]}, {"text": "Done."}
        )
        result = await self.turnwire.stream_chat(message, on_event=on_event, on_tool_end=lambda *end: ends.append(end))
        self.assertTrue(waiting["result"]["done"])
        self.assertEqual(result.text, "Done.")
        self.assertEqual(sorted(ends), [("echo", "hi"), ("wait_for_cancel", "Error: cancelled")])

    async def ask_for(self, *decision, **options):
        """Runs a chat whose tool `add` needs an approval, and answers it."""
        ends = []

        async def on_event(recorded):
            if recorded["event"]["type"] == "approval_requested":
                answer = await self.turnwire.approve(
                    recorded["run_id"], recorded["event"]["call_id"], *decision, **options
                )
                self.assertTrue(answer["done"])

        message = script({"text": "Well. ", "calls": [call("add", a=5, b=4)]}, {"text": "Done."})
        result = await self.turnwire.stream_chat(
            message, approvals=True, on_event=on_event, on_tool_end=lambda *end: ends.append(end)
        )
        return result.run_id, ends

    async def test_a_call_that_needs_an_approval_waits_for_it(self):
        """C15"""
        self.assertEqual((await self.ask_for())[1], [("add", "9")])
        self.assertEqual((await self.ask_for("approve", arguments={"a": 1, "b": 2}))[1], [("add", "3")])
        run_id, ends = await self.ask_for("deny", reason="not today")
        self.assertEqual(ends, [("add", "Error: denied by the user: not today")])
        call_id = (await self.turnwire.get_run(run_id))["calls"][0]["call_id"]
        with self.assertRaises(ConflictError) as raised:
            await self.turnwire.approve(run_id, call_id)
        self.assertEqual(raised.exception.code, "already_answered")

    async def test_without_approvals_such_a_call_is_denied(self):
        ends = []
        await self.turnwire.stream_chat(
            script({"calls": [call("add", a=5, b=4)]}, {"text": "Done."}), on_tool_end=lambda *end: ends.append(end)
        )
        self.assertEqual(ends[0][0], "add")
        self.assertRegex(ends[0][1], "^Error: denied")

    async def test_a_tool_that_asks_gets_the_reply(self):
        ends = []

        async def on_event(recorded):
            event = recorded["event"]
            if event["type"] == "input_requested":
                await self.turnwire.reply(
                    recorded["run_id"], event["call_id"], "accept", content={"name": "Ada"}, input_id=event["input_id"]
                )

        message = script({"calls": [call("task_that_asks")]}, {"text": "Done."})
        await self.turnwire.stream_chat(
            message, inputs=True, on_event=on_event, on_tool_end=lambda *end: ends.append(end)
        )
        self.assertIn("Ada", ends[0][1])

    async def test_a_run_that_fails_is_an_error_with_its_code(self):
        with self.assertRaises(RunFailedError) as raised:
            await self.turnwire.stream_chat(script({"error": "rejected"}))
        self.assertEqual(raised.exception.failure["code"], "model_rejected")
        self.assertRegex(raised.exception.run_id, "^run_")

    async def test_without_the_right_key_everything_is_refused(self):
        """A2"""
        for key in (None, "wrong"):
            async with Turnwire(LOCKED_URL, api_key=key) as stranger:
                for attempt in (
                    stranger.stream_chat("x"),
                    every(stranger.follow_run("run_x")),
                    stranger.cancel("run_x"),
                ):
                    with self.assertRaises(AuthenticationError) as raised:
                        await attempt
                    self.assertEqual(raised.exception.status, 401)

    async def test_what_does_not_exist_is_not_found(self):
        attempts = (
            every(self.turnwire.follow_run("run_none")),
            self.turnwire.get_run("run_none"),
            self.turnwire.cancel("run_none"),
            self.turnwire.cancel_call("run_none", "call_none"),
            self.turnwire.stream_chat("x", session_id="conv_none"),
        )
        for attempt in attempts:
            with self.assertRaises(NotFoundError) as raised:
                await attempt
            self.assertEqual(raised.exception.code, "not_found")

    async def test_a_cursor_that_the_run_has_not_reached_is_refused(self):
        result = await self.turnwire.stream_chat(script({"text": "Hi"}))
        with self.assertRaises(ApiError) as raised:
            await every(self.turnwire.follow_run(result.run_id, after=9999))
        self.assertEqual((raised.exception.status, raised.exception.code), (400, "invalid_cursor"))


if __name__ == "__main__":
    unittest.main()
