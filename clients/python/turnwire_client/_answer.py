"""The answer of a run: the text of the last turn that has any, or the refusal if there is none.

Text before tool calls ("let me look that up") is not part of it, and neither is a turn that was
withdrawn because its server died.
"""

from __future__ import annotations

from ._clean import clean
from .events import RecordedEvent, RunOutcome, Usage


class Answer:
    """Gathers the answer from the events of one run."""

    def __init__(self) -> None:
        self.conversation_id: str | None = None
        self.outcome: RunOutcome | None = None
        self.usage: Usage | None = None
        self._settled = ("", "")
        self._open = ("", "")

    @property
    def text(self) -> str:
        """The text to show."""
        text, refusal = self._open if any(self._open) else self._settled
        return text or refusal

    def apply(self, recorded: RecordedEvent) -> None:
        """Applies one event. All events have to be applied, in order."""
        event = recorded["event"]
        match event["type"]:
            case "run_queued":
                self.conversation_id = event["request"].get("conversation_id")
            case "turn_started":
                self._settled = self._open if any(self._open) else self._settled
                self._open = ("", "")
            case "turn_abandoned":
                self._open = ("", "")
            case "message_finished" if event["completeness"] != "superseded":
                text, refusal = self._open
                self._open = (text + clean(event["text"]), refusal + clean(event.get("refusal") or ""))
            case "run_finished":
                self.outcome, self.usage = event["outcome"], event["usage"]
