"""Gathers the chunks of a chat completion into the message that they add up to."""


class ChatFold:
    def __init__(self):
        self.texts = {"content": "", "refusal": "", "reasoning_content": ""}
        self.calls = []
        self.finish_reason = None
        self.usage = None
        self.events = []

    def add(self, chunk):
        self.usage = chunk.get("usage") or self.usage
        event = (chunk.get("turnwire") or {}).get("event")
        if event:
            self.events.append(event["event"]["type"])
        for choice in chunk["choices"]:
            assert self.finish_reason is None, "something follows the finish reason"
            delta = choice["delta"]
            for name in self.texts:
                self.texts[name] += delta.get(name) or ""
            for call in delta.get("tool_calls") or []:
                self.add_call(call)
            self.finish_reason = choice.get("finish_reason")

    def add_call(self, call):
        if call["index"] == len(self.calls):
            self.calls.append({name: value for name, value in call.items() if name != "index"})
            return
        kind = "custom" if call.get("custom") else "function"
        text = "input" if kind == "custom" else "arguments"
        self.calls[call["index"]][kind][text] += call[kind][text]

    def is_same_as(self, whole):
        """Holds what was gathered against the answer without a stream."""
        [choice] = whole["choices"]
        message = choice["message"]
        for name, text in self.texts.items():
            assert text == (message.get(name) or ""), (name, text, message.get(name))
        assert self.calls == message.get("tool_calls", []), (self.calls, message)
        assert self.finish_reason == choice["finish_reason"], self.finish_reason
        assert self.usage == whole["usage"], (self.usage, whole["usage"])
