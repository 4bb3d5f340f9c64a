"""`on_token`, `on_tool_start` and `on_tool_end`.

Without the tool callbacks, tools appear among the tokens as bracketed lines. With both of them,
tokens are the text of the model alone. With one of them, the other appears as text.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ._clean import Cleaner
from ._summary import bracketed_result, result_summary
from .events import RecordedEvent, ToolOutcome, ToolRef

CallbackCall = tuple[str, tuple[Any, ...]]
"""The name of a callback, and its arguments."""


def is_run_by_client(tool: ToolRef) -> bool:
    """Whether the client runs the tool itself, after the run."""
    return tool["kind"] in ("client", "custom")


class CallbackProjection:
    """Says which callbacks are due for the events of one run."""

    def __init__(self, *, has_tool_start: bool, has_tool_end: bool) -> None:
        self._has_tool_start = has_tool_start
        self._has_tool_end = has_tool_end
        self._tools: dict[str, ToolRef] = {}
        self._started: set[str] = set()
        self._ended: set[str] = set()
        self._open = 0
        self._cleaner = Cleaner()
        # Whether the line break before the tools of this turn was sent, and the one after was not.
        self._among_tools = False

    def apply(self, recorded: RecordedEvent) -> Iterator[CallbackCall]:
        """Applies one event. All events have to be applied, in order."""
        event = recorded["event"]
        match event["type"]:
            case "text_added" | "refusal_added":
                if text := self._cleaner.clean(event["text"]):
                    yield "on_token", (text,)
            case "message_started":
                self._cleaner.reset()
            case "call_announced":
                self._tools[event["call_id"]] = event["tool"]
                self._open += not is_run_by_client(event["tool"])
            case "tool_started":
                yield from self._begin(event["call_id"])
            case "tool_finished":
                yield from self._end(event["call_id"], event["outcome"])
            case "turn_started":
                yield from self._leave_tools()
                self._open = 0
            case "run_finished":
                yield from self._leave_tools()

    def _begin(self, call_id: str) -> Iterator[CallbackCall]:
        if call_id not in self._tools or call_id in self._started or call_id in self._ended:
            return
        self._started.add(call_id)
        name = self._tools[call_id]["name"]
        if not self._among_tools:
            self._among_tools = True
            yield from self._break_line()
        yield ("on_tool_start", (name,)) if self._has_tool_start else ("on_token", (f"[Executing tool: {name}]\n",))

    def _end(self, call_id: str, outcome: ToolOutcome) -> Iterator[CallbackCall]:
        if call_id not in self._tools or call_id in self._ended:
            return
        # A call that ends without having been started starts right before it ends.
        yield from self._begin(call_id)
        self._ended.add(call_id)
        tool = self._tools[call_id]
        if self._has_tool_end:
            yield "on_tool_end", (tool["name"], result_summary(outcome))
        else:
            yield "on_token", (f"[Tool result: {bracketed_result(outcome)}]\n",)
        self._open = max(0, self._open - (not is_run_by_client(tool)))
        if self._open == 0:
            yield from self._leave_tools()

    def _leave_tools(self) -> Iterator[CallbackCall]:
        if self._among_tools:
            self._among_tools = False
            yield from self._break_line()

    def _break_line(self) -> Iterator[CallbackCall]:
        if not (self._has_tool_start and self._has_tool_end):
            yield "on_token", ("\n",)
