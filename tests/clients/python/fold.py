"""What a client gathers from raw events, and what must hold of any stream.

The fold is made of the events alone. It trusts none of them: what the deltas add up to must be
what the finishing event says, and what the items add up to must be the response at the end.
"""

import copy

TERMINAL = {"response.completed", "response.incomplete", "response.failed"}

# Lifecycle events of tools, which must speak of an item that was announced.
LIFECYCLE = ("response.mcp_call.", "response.mcp_list_tools.", "response.web_search_call.", "response.file_search_call.")


def likely(logprobs):
    """Tokens and how likely they are, also those beside them."""
    tops = lambda token: [(top["token"], top["logprob"]) for top in token.get("top_logprobs") or []]
    return [(token["token"], token["logprob"], tops(token)) for token in logprobs]


class Fold:
    def __init__(self):
        self.first = self.last = None
        self.items, self.done = [], set()
        self.numbers, self.types, self.ends = [], [], []

    def add(self, event):
        kind = event["type"]
        assert self.last is None, f"{kind} after the end"
        self.numbers.append(event["sequence_number"])
        self.types.append(kind)
        if self.first is None:
            assert kind == "response.created", f"the first event is {kind}"
            self.first = event["response"]
        if kind.startswith("turnwire:"):
            # Events of the extended profile stand beside the official ones and change nothing.
            return
        if "output_index" in event and kind != "response.output_item.added":
            item = self.items[event["output_index"]]
            if "item_id" in event:
                assert item["id"] == event["item_id"], f"{kind} speaks of {event['item_id']}, not of {item['id']}"
            assert event["output_index"] not in self.done, f"{kind} after the item's end"
        if kind.startswith(LIFECYCLE):
            self.lifecycle(event)
        handler = getattr(self, "on_" + kind.removeprefix("response.").replace(".", "_"), None)
        if handler:
            handler(event)
        if kind in TERMINAL:
            self.last = event["response"]
            assert event["response"]["id"] == self.first["id"], "the response has another id"

    def lifecycle(self, event):
        """S1-FR-005: the tool's name is on every lifecycle event."""
        kind = event["type"]
        assert event["item_id"], f"{kind} has no item"
        if ".mcp_list_tools." not in kind:
            assert event.get("name"), f"{kind} has no name"
        if kind.endswith((".completed", ".failed")):
            self.ends.append((kind, event["output_index"]))

    def part(self, event):
        return self.items[event["output_index"]]["content"][event["content_index"]]

    def on_output_item_added(self, event):
        assert event["output_index"] == len(self.items), f"item {event['output_index']} is out of order"
        self.items.append(copy.deepcopy(event["item"]))

    def on_output_item_done(self, event):
        mine, item = self.items[event["output_index"]], event["item"]
        assert (mine["id"], mine["type"]) == (item["id"], item["type"])
        for field in ("content", "arguments"):
            if mine.get(field):
                assert mine[field] == item[field], f"{field} of {item['id']}: {mine[field]!r} is not {item[field]!r}"
        self.items[event["output_index"]] = copy.deepcopy(item)
        self.done.add(event["output_index"])

    def on_content_part_added(self, event):
        content = self.items[event["output_index"]].setdefault("content", [])
        assert event["content_index"] == len(content)
        content.append(copy.deepcopy(event["part"]))

    def on_content_part_done(self, event):
        mine, part = self.part(event), event["part"]
        if "logprobs" in part:
            # The deltas tell them without the bytes.
            assert likely(mine["logprobs"]) == likely(part["logprobs"]), f"{mine} is not {part}"
            mine["logprobs"] = copy.deepcopy(part["logprobs"])
        assert mine == part, f"{mine} is not {part}"

    def on_output_text_delta(self, event):
        part = self.part(event)
        part["text"] += event["delta"]
        part["logprobs"] += copy.deepcopy(event["logprobs"])

    def on_output_text_done(self, event):
        part = self.part(event)
        assert part["text"] == event["text"]
        assert likely(part["logprobs"]) == likely(event["logprobs"])

    def on_output_text_annotation_added(self, event):
        annotations = self.part(event)["annotations"]
        assert event["annotation_index"] == len(annotations)
        annotations.append(event["annotation"])

    def on_refusal_delta(self, event):
        self.part(event)["refusal"] += event["delta"]

    def on_refusal_done(self, event):
        assert self.part(event)["refusal"] == event["refusal"]

    def on_reasoning_text_delta(self, event):
        self.part(event)["text"] += event["delta"]

    def on_reasoning_text_done(self, event):
        assert self.part(event)["text"] == event["text"]

    def on_function_call_arguments_delta(self, event):
        self.items[event["output_index"]]["arguments"] += event["delta"]

    def on_function_call_arguments_done(self, event):
        assert self.items[event["output_index"]]["arguments"] == event["arguments"]

    on_mcp_call_arguments_delta = on_function_call_arguments_delta
    on_mcp_call_arguments_done = on_function_call_arguments_done

    def response(self):
        """The response at the end, if it is what the events added up to."""
        assert self.last is not None, f"the stream has no end: {self.types[-3:]}"
        # S1-FR-008: numbers from 0 without gaps, over the whole stream.
        assert self.numbers == list(range(len(self.numbers))), self.numbers
        assert len(self.done) == len(self.items), f"items {self.done} of {len(self.items)} are done"
        assert self.items == self.last["output"], f"{self.items} is not {self.last['output']}"
        return self.last


def plain(value):
    """Without the fields that a client adds for its own user."""
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        added = {"parsed", "parsed_arguments", "output_text", "output_parsed"}
        return {name: plain(item) for name, item in value.items() if name not in added}
    return value


def same(mine, theirs):
    mine, theirs = plain(mine), plain(theirs)
    if mine == theirs:
        return
    if isinstance(mine, dict) and isinstance(theirs, dict):
        names = [name for name in {**mine, **theirs} if mine.get(name, "(absent)") != theirs.get(name, "(absent)")]
        details = "\n".join(f"  {name}: {mine.get(name, '(absent)')!r}\n    is not {theirs.get(name, '(absent)')!r}" for name in names)
        raise AssertionError(f"the two differ in {names}\n{details}")
    raise AssertionError(f"{mine!r} is not {theirs!r}")


def text_of(response):
    parts = [part for item in response["output"] if item["type"] == "message" for part in item["content"]]
    return "".join(part.get("text", "") for part in parts)


def refusal_of(response):
    parts = [part for item in response["output"] if item["type"] == "message" for part in item["content"]]
    return "".join(part.get("refusal", "") for part in parts)
