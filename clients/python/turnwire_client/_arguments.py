"""Reads the arguments of a call while the model is still writing them, for display.

It continues where it stopped, so that a piece costs its own length, however much came before. Of
the JSON object it keeps the top-level strings, numbers and booleans; of nested values only where
they end. It is lenient, and when it cannot continue it keeps what it has.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ._summary import shortened

TELLING = ("query", "path", "file_path", "command", "url", "name", "id")
"""Arguments that usually describe a call, most telling first."""
LABEL_CHARS = 60
KEPT_CHARS = 4 * LABEL_CHARS
"""Characters of one argument that are kept: more than are shown, because spaces are collapsed."""
TAIL_CHARS = 30
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}
_SCALAR = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?|true|false")
_IN_WORD = re.compile(r"[\w+.-]", re.ASCII)
_SURROGATE = re.compile("[\ud800-\udfff]")


class PartialArguments:
    """The arguments of one call so far."""

    def __init__(self, telling: Sequence[str] = ()) -> None:
        self._telling = [*telling, *TELLING]
        self._entries: dict[str, str] = {}
        self._state = "before"
        self._key = ""
        # The string, number or literal being read.
        self._text = ""
        # An escape sequence of which the end has not arrived: `\`, `\u12`.
        self._escape = ""
        self._depth = 0
        self._tail = ""

    def push(self, piece: str) -> None:
        """Reads the next piece."""
        self._tail = (self._tail + piece[-TAIL_CHARS:])[-TAIL_CHARS:]
        for character in piece:
            if self._state in ("key text", "text", "nested text"):
                self._read_text(character)
            elif self._state == "word" and _IN_WORD.match(character):
                self._text += character
            else:
                self._end_word()
                if not character.isspace():
                    self._read_mark(character)

    def label(self) -> str:
        """The arguments in short form: the most telling one, or all that are not nested as
        `a=5 b=4`, or the end of the raw text.
        """
        entries = self._so_far()
        for key in self._telling:
            if value := shortened(entries.get(key, ""), LABEL_CHARS):
                return value
        pairs = [f"{key}={value}" for key, value in entries.items() if value]
        if pairs:
            return shortened(" ".join(pairs), LABEL_CHARS)
        return "" if self._state == "done" else shortened(self._tail.replace("\n", "\\n"), LABEL_CHARS)

    def _so_far(self) -> dict[str, str]:
        """The entries, with what is certain of the one that is being read."""
        is_certain = self._state == "text" or (self._state == "word" and _SCALAR.fullmatch(self._text))
        return {**self._entries, self._key: _whole(self._text)} if is_certain else self._entries

    def _end_word(self) -> None:
        if self._state == "word":
            if _SCALAR.fullmatch(self._text):
                self._entries[self._key] = self._text
            self._state = "after value"

    def _read_mark(self, mark: str) -> None:
        """Reads a character outside of strings, numbers and literals."""
        match self._state, mark:
            case "before", "{":
                self._state = "key"
            case "key", '"':
                self._begin_text("key text")
            case "key", "}":
                self._state = "done"
            case "colon", _:
                self._state = "value" if mark == ":" else "stopped"
            case "value", '"':
                self._begin_text("text")
            case "value", "{" | "[":
                self._entries.pop(self._key, None)
                self._depth, self._state = 1, "nested"
            case "value", _:
                self._text, self._state = mark, "word" if _IN_WORD.match(mark) else "stopped"
            case "nested", '"':
                self._begin_text("nested text")
            case "nested", "{" | "[":
                self._depth += 1
            case "nested", "}" | "]":
                self._depth -= 1
                self._state = "nested" if self._depth else "after value"
            case "after value", _:
                self._state = {",": "key", "}": "done"}.get(mark, "stopped")

    def _begin_text(self, state: str) -> None:
        self._text, self._state = "", state

    def _read_text(self, character: str) -> None:
        if self._escape:
            self._escape += character
            self._end_escape()
        elif character == "\\":
            self._escape = character
        elif character == '"':
            self._end_text()
        else:
            self._append(character)

    def _append(self, text: str) -> None:
        if len(self._text) < KEPT_CHARS:
            self._text += text

    def _end_escape(self) -> None:
        letter, digits = self._escape[1], self._escape[2:]
        if letter == "u":
            if len(digits) < 4:
                return
            is_code = re.fullmatch("[0-9a-fA-F]{4}", digits)
            self._append(chr(int(digits, 16)) if is_code else "\ufffd")
        else:
            self._append(_ESCAPES.get(letter, letter))
        self._escape = ""

    def _end_text(self) -> None:
        if self._state == "key text":
            self._key, self._state = _whole(self._text)[:LABEL_CHARS], "colon"
        elif self._state == "text":
            self._entries[self._key], self._state = _whole(self._text), "after value"
        else:
            self._state = "nested"


def _whole(text: str) -> str:
    """Joins the halves of characters. A half whose other half is missing is dropped."""
    if not _SURROGATE.search(text):
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "ignore")
