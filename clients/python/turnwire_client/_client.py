"""The client: one object per server."""

from __future__ import annotations

import inspect
import logging
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Literal
from urllib.parse import quote

import httpx

from ._answer import Answer
from ._callbacks import CallbackProjection
from ._connection import Connection, RetryOptions
from ._errors import BrokenStreamError, ConnectionLostError, RunFailedError
from ._follow import follow_run
from ._messages import MESSAGE_CALLBACKS, Message, MessagesProjection, ToolBlock
from .events import CommandResult, RecordedEvent, RunOutcome, RunSnapshot, Usage

_log = logging.getLogger("turnwire_client")

_Result = Awaitable[None] | None
"""A callback may be a function or a coroutine function."""


@dataclass(frozen=True)
class ChatResult:
    """The answer to a message."""

    run_id: str
    """ID of the run."""
    session_id: str | None
    """ID of the conversation, for the next message."""
    text: str
    """The answer of the model."""
    outcome: RunOutcome
    """How the run ended: completed, incomplete or cancelled."""
    usage: Usage
    """Tokens used."""


class Turnwire:
    """A client of one Turnwire server. Use it with `async with`, or close it with `aclose`."""

    def __init__(
        self,
        base_url: str,
        *,
        api_key: str | None = None,
        headers: Mapping[str, str] | None = None,
        http_client: httpx.AsyncClient | None = None,
        retry: RetryOptions | None = None,
        max_silence: float = 45.0,
    ) -> None:
        """`base_url` is the address of the server, such as `http://127.0.0.1:7878`. A stream without
        a byte for `max_silence` seconds is broken; the server sends a comment every 15 seconds.
        """
        self._client = http_client or httpx.AsyncClient()
        self._owns_client = http_client is None
        key = {"authorization": f"Bearer {api_key}"} if api_key else {}
        self._connection = Connection(
            self._client, base_url, {**key, **(headers or {})}, retry or RetryOptions(), max_silence
        )

    async def __aenter__(self) -> Turnwire:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Closes the connections, unless they belong to the caller."""
        if self._owns_client:
            await self._client.aclose()

    async def stream_chat(
        self,
        message: str,
        *,
        session_id: str | None = None,
        replaces: str | None = None,
        active_file: str | None = None,
        model: str | None = None,
        tools: Sequence[Mapping[str, Any]] | None = None,
        attachments: Sequence[Mapping[str, Any]] | None = None,
        approvals: bool = False,
        inputs: bool = False,
        on_token: Callable[[str], _Result] | None = None,
        on_tool_start: Callable[[str], _Result] | None = None,
        on_tool_end: Callable[[str, str], _Result] | None = None,
        on_event: Callable[[RecordedEvent], _Result] | None = None,
        on_assistant_message_added: Callable[[], _Result] | None = None,
        on_assistant_content_updated: Callable[[str, str], _Result] | None = None,
        on_tool_block_updated: Callable[[ToolBlock], _Result] | None = None,
        on_messages_change: Callable[[list[Message]], _Result] | None = None,
        on_content_update: Callable[[str], _Result] | None = None,
        on_tool_update: Callable[[dict[str, str]], _Result] | None = None,
    ) -> ChatResult:
        """Sends a message and calls back as the answer is made, through any number of disconnects.

        `session_id` of an earlier answer continues its conversation; `replaces` is the ID of the item of
        that conversation that the message replaces, with everything after it. `model`, `tools` and
        `attachments` are those of `/v1/responses`, for example
        `{"type": "mcp", "server_label": "docs"}` and `{"type": "input_image", "image_url": …}`;
        with attachments the message may be empty. With `approvals`, `on_event`
        gets `approval_requested`, and `approve` answers it; with `inputs`, `input_requested` and
        `reply`. Without them such calls are denied, and tools are told that nobody can answer.

        Without `on_tool_start` and `on_tool_end` the status of tools is among the tokens, in
        brackets. A callback that raises is logged and disturbs nothing. A cancelled task stops
        watching; the run continues until `cancel` ends it.
        """
        named = dict(locals())
        callbacks: dict[str, Callable[..., _Result]] = {
            name: value for name, value in named.items() if name.startswith("on_") and value is not None
        }
        body = {
            "message": message or None,
            "session_id": session_id,
            "replaces": replaces,
            "active_file": active_file,
            "model": model,
            "tools": tools,
            "attachments": attachments,
            "tokens": True,
            "approvals": approvals,
            "inputs": inputs,
        }
        run_id = await self._start_chat({name: value for name, value in body.items() if value is not None})
        answer = Answer()
        projections: list[CallbackProjection | MessagesProjection] = [
            CallbackProjection(has_tool_start="on_tool_start" in callbacks, has_tool_end="on_tool_end" in callbacks)
        ]
        # The list of messages copies the text so far with every token, so only if it is wanted.
        if MESSAGE_CALLBACKS & callbacks.keys():
            projections.append(MessagesProjection())
        async for recorded in self.follow_run(run_id):
            answer.apply(recorded)
            await _call(callbacks, "on_event", recorded)
            for projection in projections:
                for name, arguments in projection.apply(recorded):
                    await _call(callbacks, name, *arguments)
        if answer.outcome is None or answer.usage is None:
            raise ConnectionLostError(1, "the run has no end")
        if answer.outcome["status"] == "failed":
            raise RunFailedError(run_id, answer.outcome["failure"])
        return ChatResult(run_id, answer.conversation_id, answer.text, answer.outcome, answer.usage)

    def follow_run(self, run_id: str, *, after: int = 0) -> AsyncGenerator[RecordedEvent, None]:
        """Yields the events of a run after `after`, live or stored, until the run ends.

        Reconnects by itself: no event is lost, and none comes twice. `contextlib.aclosing` closes
        the connection at once when the loop is left early.
        """
        return follow_run(self._connection, run_id, after)

    async def get_run(self, run_id: str) -> RunSnapshot:
        """The current state of a run."""
        snapshot: RunSnapshot = await self._connection.json("GET", _path(run_id))
        return snapshot

    async def cancel(self, run_id: str) -> CommandResult:
        """Cancels a run. `done` is false if it had already ended."""
        return await self._command(f"{_path(run_id)}/cancel", {})

    async def cancel_call(self, run_id: str, call_id: str) -> CommandResult:
        """Cancels one call; the run continues. `done` is false if the call was not in progress."""
        return await self._command(f"{_path(run_id, call_id)}/cancel", {})

    async def approve(
        self,
        run_id: str,
        call_id: str,
        decision: Literal["approve", "deny"] = "approve",
        *,
        reason: str | None = None,
        arguments: Mapping[str, Any] | None = None,
        remember: bool = False,
    ) -> CommandResult:
        """Approves or denies a call that waits for it.

        `reason` of a denial is told to the model. `arguments` replace the model's. `remember` also
        approves later calls of this tool in this conversation.
        """
        body = {"decision": decision, "reason": reason, "arguments": arguments, "remember": remember}
        return await self._command(f"{_path(run_id, call_id)}/approve", body)

    async def reply(
        self,
        run_id: str,
        call_id: str,
        action: Literal["accept", "decline", "cancel"],
        *,
        content: Mapping[str, Any] | None = None,
        input_id: str | None = None,
    ) -> CommandResult:
        """Answers a question that a tool asked: by default the latest one of the call."""
        body = {"action": action, "content": content, "input_id": input_id}
        return await self._command(f"{_path(run_id, call_id)}/input", body)

    async def _command(self, path: str, body: Mapping[str, Any]) -> CommandResult:
        result: CommandResult = await self._connection.json("POST", path, body)
        return result

    async def _start_chat(self, body: Mapping[str, Any]) -> str:
        """Starts the run and returns its ID. The key makes it safe to send the request again: the
        server starts one run, however often it arrives.
        """
        headers = {"idempotency-key": uuid.uuid4().hex}

        async def start() -> str:
            async with self._connection.open("POST", "/chat/stream", body, headers) as stream:
                if run_id := stream.header("turnwire-run-id"):
                    return run_id
                # The ID of a frame is the ID of its run and a cursor: `run_…:12.0`.
                async for frame in stream.frames():
                    return frame.id.rpartition(":")[0]
            raise BrokenStreamError("the stream ended before its first frame")

        return await self._connection.attempt(start)


def _path(run_id: str, call_id: str | None = None) -> str:
    call = "" if call_id is None else f"/calls/{quote(call_id, safe='')}"
    return f"/v1/runs/{quote(run_id, safe='')}{call}"


async def _call(callbacks: Mapping[str, Callable[..., _Result]], name: str, *arguments: Any) -> None:
    """Calls a callback, if it was given. Its errors are logged: the stream goes on."""
    callback = callbacks.get(name)
    if callback is None:
        return
    try:
        result = callback(*arguments)
        if inspect.isawaitable(result):
            await result
    except Exception:
        _log.exception("%s failed", name)
