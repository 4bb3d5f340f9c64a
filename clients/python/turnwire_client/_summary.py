"""Short forms of results, the same as on every surface of the server."""

from __future__ import annotations

import re

from ._clean import clean
from .events import ToolOutcome

SUMMARY_CHARS = 100
_WORD = re.compile(r"\S+")


def result_summary(outcome: ToolOutcome) -> str:
    """The result of a call on one line, never empty: the first 100 characters, then `...` if there
    are more. A failure starts with `Error: `.
    """
    text, has_more = _result_text(outcome)
    line, cut = _squeeze(text, SUMMARY_CHARS)
    if not line:
        return _images_only(outcome) or "(no output)"
    return line + ("..." if cut or has_more else "")


def bracketed_result(outcome: ToolOutcome) -> str:
    """The same with its line breaks, for the bracketed text among the tokens."""
    text, has_more = _result_text(outcome)
    if not text:
        return _images_only(outcome)
    return text[:SUMMARY_CHARS] + ("..." if len(text) > SUMMARY_CHARS or has_more else "")


def problem_of(outcome: ToolOutcome) -> str | None:
    """Why a call did not succeed; None if it did."""
    match outcome["status"]:
        case "succeeded":
            return None
        case "failed":
            return outcome["failure"]["message"]
        case "timed_out":
            tenths = outcome["after_ms"] // 100
            return f"timed out after {tenths / 10 if tenths % 10 else tenths // 10} s"
        case "cancelled":
            return "cancelled"
        case "denied":
            return f"denied by the user: {outcome['reason']}" if outcome["reason"] else "denied by the user"
        case "invalid_arguments":
            return f"invalid arguments: {outcome['message']}"
        case "skipped":
            return f"not carried out: {outcome['reason']}"
        case _:
            return outcome["message"]


def shortened(text: str, most: int) -> str:
    """The text on one line, with at most `most` characters, the last one `…` if there are more."""
    line, cut = _squeeze(clean(text), most)
    return line[: most - 1] + "…" if cut else line


def _result_text(outcome: ToolOutcome) -> tuple[str, bool]:
    if outcome["status"] == "succeeded":
        return clean(outcome["output"]["text"]), outcome["output"].get("rest") is not None
    return clean(f"Error: {problem_of(outcome)}"), False


def _images_only(outcome: ToolOutcome) -> str:
    images = (outcome["output"].get("images") or []) if outcome["status"] == "succeeded" else []
    return f"({len(images)} image{'s' if len(images) > 1 else ''})" if images else ""


def _squeeze(text: str, most: int) -> tuple[str, bool]:
    """The first `most` characters with white space collapsed, and whether there are more."""
    line = ""
    for word in _WORD.finditer(text):
        joined = f"{line} {word[0]}" if line else word[0]
        line = joined[:most]
        if len(line) < len(joined):
            return line, True
    return line, False
