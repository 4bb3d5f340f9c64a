"""Removes terminal control sequences from a text: colours, cursor moves, window titles, bells.

A model or a tool can write them as easily as any other text, and tokens often end up in a terminal.
The events have the original text. No sequence extends past its line.
"""

from __future__ import annotations

import re

_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")


class Cleaner:
    """Cleans one text that arrives in pieces; a sequence may be split over two of them."""

    def __init__(self) -> None:
        self._state = "text"

    def clean(self, text: str) -> str:
        """Cleans the next piece."""
        if self._state == "text" and not _CONTROL.search(text):
            return text
        kept = []
        for character in text:
            if character == "\n":
                self._state = "text"
            if self._state == "text" and not _CONTROL.match(character):
                kept.append(character)
            else:
                self._state = _next(self._state, character)
        return "".join(kept)

    def reset(self) -> None:
        """Starts a new text."""
        self._state = "text"


def _next(state: str, character: str) -> str:
    """The state after a character that is not shown."""
    if character == "\x1b":
        return "escape"
    if state == "escape":
        if character == "[":
            return "csi"
        if character in "]PX^_":
            return "string"
        return "escape" if " " <= character <= "/" else "text"
    if state == "csi":
        return "text" if "@" <= character <= "~" else "csi"
    if state == "string":
        return "text" if character == "\x07" else "string"
    return "text"


def clean(text: str) -> str:
    """Cleans a whole text."""
    return Cleaner().clean(text)
