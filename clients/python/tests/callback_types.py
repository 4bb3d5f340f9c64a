"""Checked by `mypy --strict`: a wrong callback is an error (S0-8, S4-14).

Each `type: ignore` is an error by itself if its line is correct.
"""

from turnwire_client import Message, RecordedEvent, ToolBlock, Turnwire


def two(name: str, result: str) -> None: ...
def three(name: str, result: str, more: str) -> None: ...
def number(name: int) -> None: ...
def nothing() -> None: ...
def one(text: str) -> None: ...
async def later(text: str) -> None: ...
def block(update: ToolBlock) -> None: ...
def messages(changed: list[Message]) -> None: ...


async def correct(turnwire: Turnwire) -> None:
    await turnwire.stream_chat("x", on_token=one, on_tool_start=one, on_tool_end=two)
    await turnwire.stream_chat("x", on_token=later, on_tool_start=later)
    await turnwire.stream_chat("x", on_assistant_message_added=nothing, on_assistant_content_updated=two)
    await turnwire.stream_chat("x", on_tool_block_updated=block, on_messages_change=messages, on_content_update=one)


async def wrong(turnwire: Turnwire) -> None:
    await turnwire.stream_chat("x", on_tool_start=nothing)  # type: ignore[arg-type]
    await turnwire.stream_chat("x", on_tool_start=two)  # type: ignore[arg-type]
    await turnwire.stream_chat("x", on_tool_start=number)  # type: ignore[arg-type]
    await turnwire.stream_chat("x", on_tool_end=one)  # type: ignore[arg-type]
    await turnwire.stream_chat("x", on_tool_end=three)  # type: ignore[arg-type]
    await turnwire.stream_chat("x", on_token=nothing)  # type: ignore[arg-type]
    await turnwire.stream_chat("x", on_assistant_message_added=one)  # type: ignore[arg-type]
    await turnwire.stream_chat("x", on_assistant_message_added=two)  # type: ignore[arg-type]
    await turnwire.stream_chat("x", on_assistant_content_updated=one)  # type: ignore[arg-type]
    await turnwire.stream_chat("x", on_tool_block_updated=one)  # type: ignore[arg-type]
    await turnwire.approve("run_1", "call_1", "maybe")  # type: ignore[arg-type]
    await turnwire.reply("run_1", "call_1", "maybe")  # type: ignore[arg-type]


def text_of(recorded: RecordedEvent) -> str:
    """Events are told apart by their type, and so are outcomes."""
    event = recorded["event"]
    if event["type"] == "text_added":
        return event["text"]
    if event["type"] == "tool_finished" and event["outcome"]["status"] == "succeeded":
        return event["outcome"]["output"]["text"]
    return event["text"]  # type: ignore[typeddict-item]
