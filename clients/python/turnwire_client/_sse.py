"""Reading server-sent events from bytes that arrive in any pieces.

A piece may end in the middle of a character, of a line or of a frame. A frame counts once its blank
line has arrived; a frame that the connection cut off is dropped, and the next connection sends it
again. Each piece is looked at once, so a frame of 10 MB costs no more than many small ones.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from dataclasses import dataclass

_LINE_END = re.compile(r"\r\n|\r|\n")


@dataclass(frozen=True)
class SseFrame:
    """One server-sent event."""

    data: str
    """Its `data:` lines, joined by line breaks."""

    id: str
    """Its `id:`, or the last one before it."""


class SseParser:
    """Turns bytes into frames."""

    def __init__(self) -> None:
        self.retry_after: float | None = None
        """The last `retry:` of the server: how long to wait before reconnecting, in seconds."""
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")(errors="replace")
        self._line: list[str] = []
        self._after_cr = False
        self._data: list[str] = []
        self._id = ""

    def push(self, piece: bytes) -> Iterator[SseFrame]:
        """Reads the next bytes and yields the frames that they complete."""
        text = self._decoder.decode(piece)
        start = 1 if self._after_cr and text.startswith("\n") else 0
        # The end of a line may itself arrive in two pieces.
        self._after_cr = text.endswith("\r") or (self._after_cr and not text)
        for end in _LINE_END.finditer(text, start):
            self._line.append(text[start : end.start()])
            start = end.end()
            line = "".join(self._line)
            self._line.clear()
            if line:
                self._read(line)
                continue
            if self._data:
                yield SseFrame("\n".join(self._data), self._id)
            self._data.clear()
        self._line.append(text[start:])

    def _read(self, line: str) -> None:
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        # A line that starts with a colon is a comment: the keep-alive of the server.
        if field == "data":
            self._data.append(value)
        elif field == "id":
            self._id = value
        elif field == "retry" and value.isascii() and value.isdigit():
            self.retry_after = int(value) / 1000
