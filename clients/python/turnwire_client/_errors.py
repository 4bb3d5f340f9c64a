"""The errors that the client raises. All of them are `TurnwireError`s."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime

import httpx

from .events import Failure


class TurnwireError(Exception):
    """Base class of all errors of this package."""


class ApiError(TurnwireError):
    """The server refused a request."""

    def __init__(
        self,
        status: int,
        message: str,
        code: str = "unknown",
        param: str | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        """HTTP status."""
        self.code = code
        """Stable error code, as listed in `docs/errors.md`."""
        self.param = param
        """The request field that caused the error, if there is one."""
        self.retry_after = retry_after
        """How long the server asks to wait before a retry (`Retry-After`), in seconds."""


class AuthenticationError(ApiError):
    """401: the API key is missing or wrong."""


class NotFoundError(ApiError):
    """404: there is no such run, call or conversation, or it belongs to somebody else."""


class ConflictError(ApiError):
    """409: the request does not fit the current state, such as an approval already given."""


class UnavailableError(ApiError):
    """429 or 503: the server cannot do it now. `retry_after` says when to try again."""


class ConnectionLostError(TurnwireError):
    """The server could not be reached, and all attempts are used up."""

    def __init__(self, attempts: int, reason: object, last_seq: int | None = None) -> None:
        progress = "" if last_seq is None else f" and event {last_seq}"
        super().__init__(f"Gave up after {attempts} failed attempts in a row{progress}: {reason}")
        self.attempts = attempts
        """Number of failed attempts since the last progress."""
        self.last_seq = last_seq
        """The last event that arrived: `follow_run(id, after=last_seq)` continues from there."""


class RunFailedError(TurnwireError):
    """The run ended without an answer, because the model or the server failed."""

    def __init__(self, run_id: str, failure: Failure) -> None:
        super().__init__(failure["message"])
        self.run_id = run_id
        """ID of the run."""
        self.failure = failure
        """What failed."""


class BrokenStreamError(Exception):
    """A stream that is not what it should be. The client reconnects."""


_CLASSES: dict[int, type[ApiError]] = {
    401: AuthenticationError,
    404: NotFoundError,
    409: ConflictError,
    429: UnavailableError,
    503: UnavailableError,
}
_TEMPORARY = {408, 429, 502, 503, 504}


def error_of(response: httpx.Response) -> ApiError:
    """The error for a response that is not a success and has been read."""
    try:
        error = json.loads(response.content)["error"]
        message, code, param = str(error["message"]), str(error["code"]), error.get("param")
    except (ValueError, LookupError, TypeError):
        message, code, param = f"The server answered with status {response.status_code}.", "unknown", None
    kind = _CLASSES.get(response.status_code, ApiError)
    return kind(response.status_code, message, code, param, _retry_after(response.headers.get("retry-after")))


def is_temporary(error: Exception) -> bool:
    """Whether the same request may succeed later."""
    if isinstance(error, ApiError):
        return error.status in _TEMPORARY
    return isinstance(error, (httpx.TransportError, BrokenStreamError))


def _retry_after(header: str | None) -> float | None:
    """`Retry-After` in seconds: a number of them, or a date."""
    if header is None:
        return None
    try:
        return (
            float(header)
            if header.isdigit()
            else max(0.0, (parsedate_to_datetime(header) - datetime.now(timezone.utc)).total_seconds())
        )
    except (ValueError, TypeError):
        return None
