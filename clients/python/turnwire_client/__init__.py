"""Client for Turnwire.

`Turnwire.stream_chat` sends a message and calls back as the answer is made; `Turnwire.follow_run`
yields every event of a run. Both reconnect by themselves.
"""

from ._client import ChatResult, Turnwire
from ._connection import RetryOptions
from ._errors import (
    ApiError,
    AuthenticationError,
    ConflictError,
    ConnectionLostError,
    NotFoundError,
    RunFailedError,
    TurnwireError,
    UnavailableError,
)
from ._messages import Message, ToolBlock
from .events import RecordedEvent, RunEvent, RunOutcome, RunSnapshot, ToolOutcome

__all__ = [
    "ApiError",
    "AuthenticationError",
    "ChatResult",
    "ConflictError",
    "ConnectionLostError",
    "Message",
    "NotFoundError",
    "RecordedEvent",
    "RetryOptions",
    "RunEvent",
    "RunFailedError",
    "RunOutcome",
    "RunSnapshot",
    "ToolBlock",
    "ToolOutcome",
    "Turnwire",
    "TurnwireError",
    "UnavailableError",
]
