"""Requests to one server: JSON with retries, and event streams that are watched for silence."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import anyio
import httpx

from ._errors import ApiError, BrokenStreamError, ConnectionLostError, error_of, is_temporary
from ._sse import SseFrame, SseParser

T = TypeVar("T")


@dataclass(frozen=True)
class RetryOptions:
    """How persistent the client is."""

    attempts: int = 10
    """Attempts without any progress before the client gives up."""
    first_delay: float = 0.1
    """Pause after the first failed attempt, in seconds. Doubles with each."""
    max_delay: float = 10.0
    """Longest pause, in seconds. Also limits what a server asks for."""


class Retry:
    """Counts failed attempts and waits between them."""

    def __init__(self, options: RetryOptions) -> None:
        self.failures = 0
        self._options = options

    def progressed(self) -> None:
        """Notes that the connection works."""
        self.failures = 0

    async def another(self, asked_for: float | None) -> bool:
        """Notes a failed attempt. Returns whether another one is due, after the pause before it."""
        self.failures += 1
        if self.failures >= self._options.attempts:
            return False
        # Clients that lost the same server do not all come back at the same moment.
        backoff = self._options.first_delay * 2 ** (self.failures - 1) * random.uniform(0.75, 1.25)
        await anyio.sleep(min(max(asked_for or 0.0, backoff), self._options.max_delay))
        return True


class EventStream:
    """An open event stream."""

    def __init__(self, response: httpx.Response) -> None:
        self._response = response
        self._parser = SseParser()

    @property
    def is_over(self) -> bool:
        """Whether the server says that nothing follows (204)."""
        return self._response.status_code == 204

    @property
    def retry_after(self) -> float | None:
        """How long the server asks to wait before reconnecting, in seconds."""
        return self._parser.retry_after

    def header(self, name: str) -> str | None:
        """A header of the response."""
        value: str | None = self._response.headers.get(name)
        return value

    async def frames(self) -> AsyncIterator[SseFrame]:
        """The frames, until the stream ends or breaks."""
        async for piece in self._response.aiter_bytes():
            for frame in self._parser.push(piece):
                yield frame


class Connection:
    """A server, and what is needed to reach it."""

    def __init__(
        self,
        client: httpx.AsyncClient,
        base_url: str,
        headers: Mapping[str, str],
        retry: RetryOptions,
        max_silence: float,
    ) -> None:
        self._client = client
        self._base_url = base_url.rstrip("/")
        self._headers = dict(headers)
        self._retry = retry
        self._timeout = httpx.Timeout(max_silence)

    def retry(self) -> Retry:
        """Counts attempts as the options say."""
        return Retry(self._retry)

    async def json(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """Sends a request that may be repeated, and returns the JSON of the response."""

        async def send() -> Any:
            response = await self._client.request(
                method, self._base_url + path, json=body, headers=self._headers, timeout=self._timeout
            )
            if not response.is_success:
                raise error_of(response)
            return response.json()

        return await self.attempt(send)

    @asynccontextmanager
    async def open(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, headers: Mapping[str, str] | None = None
    ) -> AsyncIterator[EventStream]:
        """Opens an event stream, in one attempt."""
        headers = {**self._headers, **(headers or {})}
        async with self._client.stream(
            method, self._base_url + path, json=body, headers=headers, timeout=self._timeout
        ) as response:
            if not response.is_success:
                await response.aread()
                raise error_of(response)
            if response.status_code != 204 and not response.headers.get("content-type", "").startswith(
                "text/event-stream"
            ):
                raise BrokenStreamError(
                    "the response is not an event stream; is there a proxy that answers for the server?"
                )
            yield EventStream(response)

    async def attempt(self, action: Callable[[], Awaitable[T]]) -> T:
        """Repeats `action` until it succeeds, fails for good, or the attempts are used up."""
        retry = self.retry()
        while True:
            try:
                return await action()
            except Exception as error:
                if not is_temporary(error):
                    raise
                is_api_error = isinstance(error, ApiError)
                if await retry.another(error.retry_after if isinstance(error, ApiError) else None):
                    continue
                if is_api_error:
                    raise
                raise ConnectionLostError(retry.failures, reason_of(error)) from error


def reason_of(error: Exception) -> str:
    """Why an attempt failed. Errors of the network often have a name only."""
    return str(error) or type(error).__name__
