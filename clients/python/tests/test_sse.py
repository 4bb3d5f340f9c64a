"""Event streams in every form that a server or a proxy may give them."""

import time
import unittest

from turnwire_client._sse import SseFrame, SseParser

STREAM = (
    ': ping\nid: 1\ndata: {"a":"naïve 🦀 \u2028"}\n\nretry: 100\nid: 2\ndata:two\ndata: lines\n\n: ping\n\nid\ndata\n\n'
)
FRAMES = [SseFrame('{"a":"naïve 🦀 \u2028"}', "1"), SseFrame("two\nlines", "2"), SseFrame("", "")]


def frames_of(text, size=10**9):
    """The frames of a stream that arrives in pieces of `size` bytes."""
    data, parser = text.encode(), SseParser()
    return [frame for start in range(0, len(data), size) for frame in parser.push(data[start : start + size])]


class Sse(unittest.TestCase):
    def test_a_stream_means_the_same_wherever_it_is_cut_also_inside_a_character(self):
        for size in range(1, len(STREAM.encode()) + 1):
            self.assertEqual(frames_of(STREAM, size), FRAMES, f"pieces of {size}")

    def test_lines_may_end_with_crlf_or_cr_also_if_the_two_arrive_apart(self):
        for line_end in ("\r\n", "\r"):
            for size in range(1, 41):
                self.assertEqual(frames_of(STREAM.replace("\n", line_end), size), FRAMES, f"{line_end!r}, {size}")

    def test_comments_are_no_frames_and_a_byte_order_mark_is_no_part_of_a_field(self):
        self.assertEqual(frames_of(": only\n\n:\n\n"), [])
        self.assertEqual(frames_of("\ufeffdata: x\n\n"), [SseFrame("x", "")])

    def test_a_frame_without_its_blank_line_is_none(self):
        self.assertEqual(frames_of("data: whole\n\ndata: half\n"), [SseFrame("whole", "")])

    def test_retry_is_the_time_to_wait_if_it_is_a_number(self):
        parser = SseParser()
        list(parser.push(b"retry: soon\n"))
        self.assertIsNone(parser.retry_after)
        list(parser.push(b"retry: 100\n"))
        self.assertEqual(parser.retry_after, 0.1)

    def test_a_frame_of_10_mb_in_small_pieces_takes_time_in_proportion_to_its_size(self):
        begin = time.monotonic()
        [frame] = frames_of(f"data: {'é' * 5_000_000}\n\n", 1021)
        self.assertEqual(len(frame.data), 5_000_000)
        self.assertLess(time.monotonic() - begin, 3)


if __name__ == "__main__":
    unittest.main()
