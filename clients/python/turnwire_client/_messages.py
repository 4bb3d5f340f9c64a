"""A list of messages that keeps itself up to date, with callbacks for what changes.

Each turn of the model is one assistant message. Each call is one block with four stages that never
go back: `start` once, `streaming` per piece of its arguments, `running` while the tool works or
waits for a person, `end` once. Whatever a cancel or a crash leaves open is ended too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from ._arguments import LABEL_CHARS, PartialArguments
from ._callbacks import CallbackCall, is_run_by_client
from ._clean import Cleaner
from ._summary import problem_of, result_summary, shortened
from .events import Image, RecordedEvent, RunEvent, ToolOutcome, ToolRef

Stage = Literal["start", "streaming", "running", "end"]
MessageState = Literal["streaming", "complete", "cut", "superseded"]

MESSAGE_CALLBACKS = {
    "on_assistant_message_added",
    "on_assistant_content_updated",
    "on_tool_block_updated",
    "on_messages_change",
    "on_content_update",
    "on_tool_update",
}
"""Callbacks that need the list of messages."""


@dataclass(frozen=True)
class ToolBlock:
    """The state of a call."""

    id: str
    """ID of the call."""
    name: str
    """Name of the tool."""
    parameters: str = ""
    """The arguments so far, as JSON text; partial while the model writes them."""
    parameters_chunk: str | None = None
    """The new part of the arguments, in the stage `streaming`."""
    compact_params: str | None = None
    """The arguments so far, in short form."""
    result: str | None = None
    """The result."""
    success: bool | None = None
    """Whether the tool succeeded."""
    error: str | None = None
    """Why the tool did not succeed."""
    stage: Stage = "start"
    """Stage of the call."""
    short_result: str | None = None
    """The result, in short form."""
    images: tuple[str, ...] = ()
    """Images that the tool returned, as `data:` URLs."""
    output: str = ""
    """Output that the tool sent while it was working."""


@dataclass(frozen=True)
class Message:
    """A message of the list. It is never changed: another object replaces it."""

    id: str
    """Stable ID of the message."""
    role: str
    """Who wrote it."""
    content: str = ""
    """The text so far."""
    reasoning: str = ""
    """The reasoning so far."""
    tool_blocks: tuple[ToolBlock, ...] = ()
    """The calls of this message, in the order of the model."""
    state: MessageState = "streaming"
    """`superseded` if the server died and another message replaces this one."""


@dataclass
class _Place:
    """Where the block of a call is, and what is needed to keep it up to date."""

    message: int
    block: int
    tool: ToolRef
    partial: PartialArguments
    output: Cleaner = field(default_factory=Cleaner)


class MessagesProjection:
    """Keeps the list for the events of one run, and says which callbacks are due."""

    def __init__(self) -> None:
        self._messages: list[Message] = []
        self._places: dict[str, _Place] = {}
        # Index of the message of this turn, which is the last one.
        self._current: int | None = None
        self._telling: dict[str, list[str]] = {}
        self._content = Cleaner()
        self._reasoning = Cleaner()

    @property
    def messages(self) -> list[Message]:
        """The list so far."""
        return list(self._messages)

    def apply(self, recorded: RecordedEvent) -> Iterator[CallbackCall]:
        """Applies one event. All events have to be applied, in order."""
        event = recorded["event"]
        match event["type"]:
            case "run_queued":
                yield from self._add_input(event["request"])
            case "turn_started":
                self._current = None
            case "turn_abandoned":
                yield from self._abandon_turn()
            case "turn_finished":
                yield from self._close("complete" if event["finish"] in ("answered", "called_tools") else "cut")
            case "message_started":
                yield from self._open(event["item_id"])
                self._content.reset()
            case "text_added" | "refusal_added":
                yield from self._add_content(event["item_id"], event["text"])
            case "reasoning_added":
                yield from self._add_reasoning(event["item_id"], event["text"])
            case "message_finished" | "reasoning_finished":
                yield from self._note_completeness(event["completeness"])
            case "run_finished":
                yield from self._finish(event["outcome"]["status"])
            case _:
                yield from self._apply_to_call(event)

    def _apply_to_call(self, event: RunEvent) -> Iterator[CallbackCall]:
        match event["type"]:
            case "call_announced":
                yield from self._open(event["item_id"])
                yield from self._add_block(event["call_id"], event["tool"])
            case "arguments_added":
                yield from self._add_parameters(event["call_id"], event["text"])
            case "arguments_finished":
                yield from self._set_parameters(event["call_id"], event["arguments"])
                yield from self._note_completeness(event["completeness"])
            case "approval_resolved":
                if (arguments := event.get("arguments")) is not None:
                    yield from self._replace_parameters(event["call_id"], arguments)
            case "tool_started":
                label = event.get("label")
                yield from self._run(
                    event["call_id"], **({"compact_params": shortened(label, LABEL_CHARS)} if label else {})
                )
            case "tool_output_added":
                yield from self._add_output(event["call_id"], event["text"])
            case (
                "approval_requested"
                | "tool_phase"
                | "tool_progressed"
                | "input_requested"
                | "input_resolved"
                | "tool_stayed_silent"
                | "tool_retried"
            ):
                yield from self._run(event["call_id"])
            case "tool_finished":
                yield from self._end(event["call_id"], event["outcome"])

    def _add_input(self, request: dict[str, Any]) -> Iterator[CallbackCall]:
        self._telling = {tool["name"]: tool.get("telling_arguments", []) for tool in request.get("tools", [])}
        for item in request.get("input", []):
            if item["type"] == "message":
                content = "".join(part.get("text", f"[{part['type']}]") for part in item.get("content", []))
                self._messages.append(
                    Message(f"input_{len(self._messages) + 1}", item["role"], content, state="complete")
                )
        if self._messages:
            yield self._changed()

    def _open(self, item_id: str) -> Iterator[CallbackCall]:
        """Makes sure that this turn has a message."""
        if self._current is None:
            self._current = len(self._messages)
            self._messages.append(Message(item_id, "assistant"))
            self._content.reset()
            self._reasoning.reset()
            yield "on_assistant_message_added", ()
            yield self._changed()

    def _add_content(self, item_id: str, text: str) -> Iterator[CallbackCall]:
        yield from self._open(item_id)
        if chunk := self._content.clean(text):
            content = self._messages[-1].content + chunk
            self._update(-1, content=content)
            yield "on_assistant_content_updated", (chunk, content)
            yield "on_content_update", (content,)
            yield self._changed()

    def _add_reasoning(self, item_id: str, text: str) -> Iterator[CallbackCall]:
        yield from self._open(item_id)
        self._update(-1, reasoning=self._messages[-1].reasoning + self._reasoning.clean(text))
        yield self._changed()

    def _close(self, state: MessageState) -> Iterator[CallbackCall]:
        """Sets the final state of the message of this turn, unless it has one."""
        if self._current is not None and self._messages[self._current].state == "streaming":
            self._update(self._current, state=state)
            yield self._changed()

    def _note_completeness(self, completeness: Literal["complete", "cut", "superseded"]) -> Iterator[CallbackCall]:
        if completeness != "complete":
            yield from self._close(completeness)

    def _abandon_turn(self) -> Iterator[CallbackCall]:
        if self._current is not None:
            yield from self._end_open_blocks("the answer was withdrawn", self._current)
            self._update(self._current, state="superseded")
            self._current = None
            yield self._changed()

    def _finish(self, status: str) -> Iterator[CallbackCall]:
        yield from self._end_open_blocks(_REASONS[status])
        yield from self._close("complete" if status == "completed" else "cut")
        yield self._changed()

    def _add_block(self, call_id: str, tool: ToolRef) -> Iterator[CallbackCall]:
        message = len(self._messages) - 1
        blocks = self._messages[message].tool_blocks
        partial = PartialArguments(self._telling.get(tool["name"], ()))
        self._places[call_id] = _Place(message, len(blocks), tool, partial)
        self._update(message, tool_blocks=(*blocks, ToolBlock(call_id, tool["name"])))
        yield from self._report(self._places[call_id])

    def _add_parameters(self, call_id: str, text: str) -> Iterator[CallbackCall]:
        place = self._open_place(call_id)
        if place is None or self._at(place).stage == "running":
            return
        place.partial.push(text)
        parameters = self._at(place).parameters + text
        self._change(place, stage="streaming", parameters=parameters, compact_params=place.partial.label() or None)
        yield from self._report(place, text)
        yield "on_tool_update", ({"id": call_id, "name": place.tool["name"], "parameters": parameters},)

    def _set_parameters(self, call_id: str, parameters: str) -> Iterator[CallbackCall]:
        """The complete arguments. From a provider that does not stream them, the only piece."""
        place = self._open_place(call_id)
        if place is None or self._at(place).parameters == parameters:
            return
        if not self._at(place).parameters:
            yield from self._add_parameters(call_id, parameters)
            return
        self._change(place, parameters=parameters, compact_params=place.partial.label() or None)
        yield self._changed()

    def _replace_parameters(self, call_id: str, parameters: str) -> Iterator[CallbackCall]:
        """A person has changed the arguments."""
        if place := self._open_place(call_id):
            place.partial = PartialArguments(self._telling.get(place.tool["name"], ()))
            place.partial.push(parameters)
            yield from self._set_parameters(call_id, parameters)

    def _add_output(self, call_id: str, text: str) -> Iterator[CallbackCall]:
        if place := self._open_place(call_id):
            yield from self._run(call_id, output=self._at(place).output + place.output.clean(text))

    def _run(self, call_id: str, **change: Any) -> Iterator[CallbackCall]:
        if place := self._open_place(call_id):
            self._change(place, **change, stage="running")
            yield from self._report(place)

    def _end(self, call_id: str, outcome: ToolOutcome) -> Iterator[CallbackCall]:
        if place := self._open_place(call_id):
            self._change(place, **_end_of(outcome), stage="end")
            yield from self._report(place)

    def _end_open_blocks(self, reason: str, message: int | None = None) -> Iterator[CallbackCall]:
        for call_id, place in self._places.items():
            if not is_run_by_client(place.tool) and message in (None, place.message):
                yield from self._end(call_id, {"status": "skipped", "reason": reason})

    def _open_place(self, call_id: str) -> _Place | None:
        """Where the block of a call is that has not ended."""
        place = self._places.get(call_id)
        return place if place and self._at(place).stage != "end" else None

    def _at(self, place: _Place) -> ToolBlock:
        return self._messages[place.message].tool_blocks[place.block]

    def _change(self, place: _Place, **change: Any) -> None:
        blocks = list(self._messages[place.message].tool_blocks)
        blocks[place.block] = replace(blocks[place.block], **change)
        self._update(place.message, tool_blocks=tuple(blocks))

    def _update(self, message: int, **change: Any) -> None:
        self._messages[message] = replace(self._messages[message], **change)

    def _report(self, place: _Place, chunk: str | None = None) -> Iterator[CallbackCall]:
        yield "on_tool_block_updated", (replace(self._at(place), parameters_chunk=chunk),)
        yield self._changed()

    def _changed(self) -> CallbackCall:
        return "on_messages_change", (self.messages,)


_REASONS = {
    "completed": "the run was over",
    "incomplete": "the run reached a limit",
    "failed": "the run failed",
    "cancelled": "the run was cancelled",
}


def _end_of(outcome: ToolOutcome) -> dict[str, Any]:
    """What the end of a call changes in its block."""
    if outcome["status"] != "succeeded":
        return {"success": False, "error": problem_of(outcome), "short_result": result_summary(outcome)}
    output = outcome["output"]
    short = output.get("short")
    return {
        "success": True,
        "result": output["text"],
        "short_result": shortened(short, 100) if short else result_summary(outcome),
        "images": tuple(_image_url(image) for image in output.get("images") or []),
    }


def _image_url(image: Image) -> str:
    """A `data:` URL, or the address of an image that the server stores."""
    base64 = image["base64"]
    return base64 if base64.startswith("turnwire-file:") else f"data:{image['media_type']};base64,{base64}"
