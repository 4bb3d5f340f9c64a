"""The callbacks, held against what the server's own projections make of every recorded run."""

import unittest
from dataclasses import asdict

from goldens import SCENARIOS, calls_of, events_of

from turnwire_client._answer import Answer
from turnwire_client._callbacks import CallbackProjection
from turnwire_client._messages import MessagesProjection


def replay(projection, scenario):
    """What a projection makes of a recorded run: name and arguments of each callback."""
    return [(name, *arguments) for recorded in events_of(scenario) for name, arguments in projection.apply(recorded)]


def callbacks(scenario, *, start, end):
    return replay(CallbackProjection(has_tool_start=start, has_tool_end=end), scenario)


def plain(call):
    """A call with its block as a dictionary, without what Rust does not print."""
    if call[0] != "on_tool_block_updated":
        return call
    block = asdict(call[1])
    del block["output"]
    return call[0], block


class Projections(unittest.TestCase):
    def test_there_are_recorded_runs(self):
        self.assertGreater(len(SCENARIOS), 50)

    def test_with_both_callbacks_tokens_are_text_alone(self):
        """S0-4"""
        for scenario in SCENARIOS:
            with self.subTest(scenario):
                self.assertEqual(callbacks(scenario, start=True, end=True), calls_of(scenario, "callbacks.txt"))

    def test_without_callbacks_tools_are_bracketed_text_byte_for_byte(self):
        """S0-9"""
        for scenario in SCENARIOS:
            with self.subTest(scenario):
                self.assertEqual(callbacks(scenario, start=False, end=False), calls_of(scenario, "fallback.txt"))

    def test_with_one_callback_the_other_is_text(self):
        """S0-5a, S0-5b"""
        line = ("on_token", "\n")
        start = [line, ("on_tool_start", "multiply"), ("on_token", "[Tool result: 20]\n"), line]
        self.assertEqual(callbacks("one_tool", start=True, end=False)[1:5], start)
        end = [line, ("on_token", "[Executing tool: multiply]\n"), ("on_tool_end", "multiply", "20"), line]
        self.assertEqual(callbacks("one_tool", start=False, end=True)[1:5], end)

    def test_message_callbacks_show_every_run_as_the_rust_crate_does(self):
        """S4-1, S4-6, S4-13"""
        shown = {"on_assistant_message_added", "on_assistant_content_updated", "on_tool_block_updated"}
        for scenario in SCENARIOS:
            with self.subTest(scenario):
                expected = [call for call in calls_of(scenario, "messages.txt") if call[0] in shown]
                calls = [plain(call) for call in replay(MessagesProjection(), scenario) if call[0] in shown]
                self.assertEqual(len(calls), len(expected))
                for call, recorded in zip(calls, expected):
                    is_cut = len(recorded) == 1 and call[0] != "on_assistant_message_added"
                    self.assertEqual(call[:1] if is_cut else call, recorded)

    def test_the_list_of_messages_is_right_at_the_end(self):
        messages = MessagesProjection()
        changes = [call[1] for call in replay(messages, "one_tool") if call[0] == "on_messages_change"]
        self.assertEqual(changes[-1], messages.messages)
        self.assertEqual(
            [(message.role, message.content, message.state) for message in messages.messages],
            [
                ("user", "Go.", "complete"),
                ("assistant", "Let me multiply. ", "complete"),
                ("assistant", "5 times 4 is 20.", "complete"),
            ],
        )

    def test_the_answer_is_the_text_after_the_tools(self):
        answer = Answer()
        for recorded in events_of("one_tool"):
            answer.apply(recorded)
        self.assertEqual((answer.text, answer.outcome), ("5 times 4 is 20.", {"status": "completed"}))


if __name__ == "__main__":
    unittest.main()
