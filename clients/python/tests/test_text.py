"""What is shown of text that is not plain, and of arguments that are not complete."""

import unittest

from turnwire_client._arguments import PartialArguments
from turnwire_client._clean import Cleaner, clean
from turnwire_client._summary import result_summary


def labels(*pieces):
    """The label after each piece."""
    partial = PartialArguments()
    return [(partial.push(piece), partial.label())[1] for piece in pieces]


class Text(unittest.TestCase):
    def test_control_sequences_are_removed_also_if_they_are_split(self):
        """S4-5"""
        text = "a\x1b[31mred\x1b[0m \x1b]0;title\x07b\x00c\x9bd\te"
        for at in range(len(text) + 1):
            cleaner = Cleaner()
            self.assertEqual(cleaner.clean(text[:at]) + cleaner.clean(text[at:]), "ared bcd\te", f"cut at {at}")

    def test_a_sequence_that_is_never_closed_ends_with_its_line(self):
        """S4-5"""
        self.assertEqual(clean("a\x1b]0;title\nb"), "a\nb")

    def test_arguments_are_shown_in_short_form_while_they_are_written(self):
        """S4-11"""
        self.assertEqual(labels('{"query": "ru', "st", '"}'), ["ru", "rust", "rust"])
        self.assertEqual(labels('{"a": 5', ', "b": tr', "ue}"), ["a=5", "a=5", "a=5 b=true"])
        pieces = ('{"a": {"query": "no"}, ', '"path": "x\\"y\\n', "\\u00e9\\ud83e", '\\udd80"}')
        self.assertEqual(labels(*pieces), ['{"a": {"query": "no"},', 'x"y', 'x"y é', 'x"y é🦀'])
        self.assertEqual((labels("{}"), labels("not JSON")), ([""], ["not JSON"]))

    def test_the_label_does_not_depend_on_how_the_arguments_arrive(self):
        """S4-11"""
        text = '{"list": [1, "]", {"x": "}"}], "n": -1.5e3, "none": null, "long": "' + "word " * 50 + '"}'
        [whole] = labels(text)
        self.assertEqual(len(whole), 60)
        self.assertTrue(whole.startswith("n=-1.5e3 long=word word"), whole)
        self.assertEqual(labels(*text)[-1], whole)

    def test_a_summary_is_the_first_100_characters(self):
        """R16"""

        def summary(text):
            return result_summary({"status": "succeeded", "output": {"text": text}})

        self.assertEqual(summary("🦀" * 100), "🦀" * 100)
        self.assertEqual(summary("🦀" * 101), "🦀" * 100 + "...")
        self.assertEqual((summary(" a\n\tb "), summary(" \n ")), ("a b", "(no output)"))


if __name__ == "__main__":
    unittest.main()
