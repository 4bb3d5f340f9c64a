"""The official Python client against the gateway, with raw events and with its helper.

Whatever the client gathered must be, field by field, what the gateway stores.
"""

import http.server
import json
import os
import sys
import threading
import urllib.request
import uuid

import openai
from openai import OpenAI

import request_fields
from fold import Fold, plain, refusal_of, same, text_of
from harness import BASE_URL, MODEL, SCENARIOS, main, rows, script, tools_of, wait_until

# The same model behind other kinds of providers; `scripts/clients all` configures them.
PROVIDERS = ["gpt-5.6-sol", "gpt-6.1-sol"]

client = OpenAI(base_url=f"{BASE_URL}/v1", api_key="test", max_retries=0, timeout=60)
# Holds every answer against its type, null and absent included. Responses are judged in judge.py.
strict = OpenAI(base_url=f"{BASE_URL}/v1", api_key="test", max_retries=0, timeout=60, _strict_response_validation=True)


def dumped(model):
    return model.to_dict(mode="json")


def raw(on_event=None, **body):
    """Gathers with our own fold; returns the response and the fold."""
    fold = Fold()
    with client.responses.create(stream=True, **body) as events:
        for event in events:
            fold.add(dumped(event))
            if on_event:
                on_event(event)
    return fold.response(), fold


def helper(on_event=None, **body):
    """Gathers with `responses.stream()`; returns its response and what came by."""
    fold, last = Fold(), None
    with client.responses.stream(**body) as events:
        for event in events:
            if event.type in ("response.created", "response.output_item.added", "response.output_item.done") or event.type.startswith(
                ("response.mcp_call.", "response.web_search_call.", "response.file_search_call.")
            ):
                fold.add(plain(dumped(event)))
            if on_event:
                on_event(event)
            last = event
        if last.type == "response.completed":
            return dumped(events.get_final_response()), fold
    # The helper has no final response for one that was cut; its last event has.
    assert last.type == "response.incomplete", last.type
    return dumped(last.response), fold


def stored(response_id):
    return dumped(client.responses.retrieve(response_id))


def is_stored(response):
    same(response, stored(response["id"]))


@rows(SCENARIOS["streams"])
def test_stream(scenario, stream):
    response, fold = stream(model=MODEL, input=script(scenario["script"]), tools=tools_of(scenario))
    assert response["status"] == scenario["status"], response["status"]
    assert [item["type"] for item in response["output"]] == scenario["output"], response["output"]
    if "reason" in scenario:
        assert response["incomplete_details"]["reason"] == scenario["reason"]
    if "text" in scenario:
        assert text_of(response) == scenario["text"], text_of(response)
    if "refusal" in scenario:
        assert refusal_of(response) == scenario["refusal"], refusal_of(response)
    for kind, statuses in scenario.get("statuses", {}).items():
        assert [item["status"] for item in response["output"] if item["type"] == kind] == statuses
    if "ends" in scenario:
        ends = [end for end in fold.ends if ".mcp_list_tools." not in end[0]]
        assert [kind for kind, _ in ends] == scenario["ends"], ends
    if "end_order" in scenario:
        assert [index for _, index in ends] == scenario["end_order"], ends
        n_started = next(place for place, kind in enumerate(fold.types) if kind == "response.mcp_call.completed")
        started = {kind for kind in fold.types[:n_started] if kind == "response.mcp_call.in_progress"}
        assert started, "no tool had started before the first end"
    is_stored(response)


@rows(SCENARIOS["streams"])
def test_plain_answer(scenario):
    """Without a stream the answer is the same object."""
    response = dumped(client.responses.create(model=MODEL, input=script(scenario["script"]), tools=tools_of(scenario)))
    assert response["status"] == scenario["status"]
    assert [item["type"] for item in response["output"]] == scenario["output"]
    is_stored(response)


def test_function_call(stream):
    tools = [SCENARIOS["weather_tool"]]
    first, _ = stream(model=MODEL, input=script(SCENARIOS["weather"]), tools=tools)
    assert [item["type"] for item in first["output"]] == ["message", "function_call"], first["output"]
    call = first["output"][1]
    assert (call["name"], call["arguments"], call["status"]) == ("get_weather", '{"city":"Oslo"}', "completed")
    is_stored(first)
    output = {"type": "function_call_output", "call_id": call["call_id"], "output": "sunny"}
    second, _ = stream(model=MODEL, previous_response_id=first["id"], input=[output], tools=tools)
    assert text_of(second) == "In Oslo it is sunny."
    assert second["previous_response_id"] == first["id"]
    is_stored(second)


def test_two_function_calls_in_one_answer(stream):
    tools = [SCENARIOS["weather_tool"]]
    first, _ = stream(model=MODEL, input=script(SCENARIOS["two_weathers"]), tools=tools)
    calls = [item for item in first["output"] if item["type"] == "function_call"]
    assert len(calls) == 2 and calls[0]["call_id"] != calls[1]["call_id"]
    outputs = [
        {"type": "function_call_output", "call_id": call["call_id"], "output": weather}
        for call, weather in zip(calls, ["snow", "sun"])
    ]
    second, _ = stream(model=MODEL, previous_response_id=first["id"], input=outputs, tools=tools)
    assert text_of(second) == "Oslo and Rome: snow, sun.", text_of(second)
    is_stored(second)


def test_function_call_with_the_history_sent_along(stream):
    """Clients that store nothing send everything back."""
    tools, question = [SCENARIOS["weather_tool"]], script(SCENARIOS["weather"])
    first, _ = stream(model=MODEL, input=question, tools=tools, store=False)
    history = [{"role": "user", "content": question}, *plain(first["output"])]
    history.append({"type": "function_call_output", "call_id": first["output"][1]["call_id"], "output": "windy"})
    second, _ = stream(model=MODEL, input=history, tools=tools, store=False)
    assert text_of(second) == "In Oslo it is windy."
    try:
        client.responses.retrieve(second["id"])
    except openai.NotFoundError:
        return
    raise AssertionError("a response that was not to be stored is there")


def test_custom_tool(stream):
    """A custom tool: plain text in pieces, with and without a provider that knows such tools."""
    patch = "*** Begin Patch\n+\"quoted\"\n*** End Patch\n"
    tool = {"type": "custom", "name": "apply_patch", "description": "Edits files."}
    question = script([{"calls": [{"name": "apply_patch", "input": [patch[:7], patch[7:]]}]}, {"text": "It says {results}."}])
    for model in (MODEL, *PROVIDERS):
        first, _ = stream(model=model, input=question, tools=[tool])
        [call] = first["output"]
        assert (call["type"], call["name"], call["input"], call["status"]) == ("custom_tool_call", "apply_patch", patch, "completed"), call
        is_stored(first)
        output = {"type": "custom_tool_call_output", "call_id": call["call_id"], "output": "done"}
        second, _ = stream(model=model, previous_response_id=first["id"], input=[output], tools=[tool])
        assert text_of(second) == "It says done.", second["output"]
        items = client.responses.input_items.list(second["id"]).data
        assert [item.type for item in items] == ["custom_tool_call_output"], items
        history = [{"role": "user", "content": question}, *plain(first["output"]), output]
        assert text_of(stream(model=model, input=history, tools=[tool], store=False)[0]) == "It says done."


def test_logprobs(stream):
    """How likely each token was, on every delta and on the whole."""
    include = ["message.output_text.logprobs"]
    for model in (MODEL, *PROVIDERS):
        response, _ = stream(model=model, input=script([{"text": ["One ", "two."]}]), include=include, top_logprobs=2)
        told = response["output"][0]["content"][0]["logprobs"]
        assert [token["token"] for token in told] == ["One ", "two."], told
        assert [[other["token"] for other in token["top_logprobs"]] for token in told] == [["a", "b"]] * 2, told
        assert "turnwire" not in response, response["turnwire"]
        is_stored(response)


def test_what_is_not_heeded_is_told(stream):
    """C30: a parameter that the provider cannot be told is listed, and one that nobody knows refused."""
    response, _ = stream(model=MODEL, input="Good day", truncation="auto", extra_body={"client_metadata": {"a": "b"}, "seed": 7})
    assert response["turnwire"]["ignored"] == ["client_metadata", "truncation"], response["turnwire"]
    is_stored(response)
    try:
        client.responses.create(model=MODEL, input="x", extra_body={"temprature": 1})
    except openai.BadRequestError as error:
        assert (error.code, error.param) == ("unknown_parameter", "temprature"), error.body
        assert "'temperature'" in error.message, error.message
    else:
        raise AssertionError("an unknown field was taken")


def test_a_model_that_nobody_configured():
    try:
        client.responses.create(model="gpt-none", input="x")
    except openai.NotFoundError as error:
        assert (error.code, error.param) == ("model_not_found", "model"), error.body
    else:
        raise AssertionError("a model that is not there has answered")


def test_every_official_field_has_a_row():
    """C30: a field of the installed request type that docs/request-fields.tsv does not speak of."""
    missing = request_fields.without_row()
    assert not missing, f"{len(missing)} fields of openai {openai.__version__} have no row: {missing[:20]}"


def test_mcp_approvals_one_granted_one_denied(stream):
    """C15: two calls wait for a person at once; one is allowed, the other is not."""
    tools = [SCENARIOS["guarded_mcp_tool"]]
    first, _ = stream(model=MODEL, input=script(SCENARIOS["two_sums"]), tools=tools)
    asked = [item for item in first["output"] if item["type"] == "mcp_approval_request"]
    assert first["status"] == "completed" and first["output"][1]["type"] == "message", first["output"]
    assert [(item["name"], item["server_label"]) for item in asked] == [("add", "props")] * 2, first["output"]
    assert asked[0]["arguments"] != asked[1]["arguments"] and asked[0]["id"] != asked[1]["id"]
    is_stored(first)
    answers = [
        {"type": "mcp_approval_response", "approval_request_id": asked[1]["id"], "approve": False, "reason": "too big"},
        {"type": "mcp_approval_response", "approval_request_id": asked[0]["id"], "approve": True},
    ]
    second, _ = stream(model=MODEL, previous_response_id=first["id"], input=answers, tools=tools)
    calls = [item for item in second["output"] if item["type"] == "mcp_call"]
    assert [call["status"] for call in calls] == ["completed", "failed"], calls
    assert calls[0]["output"] == "9", calls
    assert text_of(second) == "Sums: 9, Error: denied by the user: too big.", text_of(second)
    is_stored(second)
    try:
        client.responses.create(model=MODEL, previous_response_id=second["id"], input=answers[1:], tools=tools)
    except openai.BadRequestError as error:
        assert error.code == "approval_request_not_found", error.code
        return
    raise AssertionError("a question was answered twice")


def test_progress(stream):
    """What a tool reports while it works is on the events that its call has anyway."""
    turns, told = [{"calls": [{"name": "slow", "arguments": {"seconds": 0.4, "steps": 4}}]}, {"text": "Done."}], []

    def look(event):
        if event.type == "response.mcp_call.in_progress":
            progress = (dumped(event).get("turnwire") or {}).get("progress")
            told.extend([] if progress is None else [progress])

    response, _ = stream(on_event=look, model=MODEL, input=script(turns), tools=[SCENARIOS["mcp_tool"]])
    assert len(told) > 1, told
    is_stored(response)


def test_cancel(stream):
    """A second client call cancels a background run while the first one watches."""
    seen = {}

    def look(event):
        if event.type == "response.created":
            seen["id"] = event.response.id
        if event.type == "response.output_text.delta" and "cancelled" not in seen:
            seen["cancelled"] = dumped(client.responses.cancel(seen["id"]))

    response, _ = stream(on_event=look, model=MODEL, input=script(SCENARIOS["endless_text"]), background=True)
    assert response["status"] == "cancelled", response["status"]
    is_stored(response)
    # Again: the same object.
    same(dumped(client.responses.cancel(seen["id"])), response)


def test_cancel_without_a_stream():
    response = client.responses.create(model=MODEL, input=script(SCENARIOS["endless_text"]), background=True)
    assert response.status in ("queued", "in_progress"), response.status
    client.responses.cancel(response.id)
    ended = wait_until(lambda: client.responses.retrieve(response.id).status, lambda status: status not in ("queued", "in_progress"))
    assert ended == "cancelled", ended


def test_cancel_of_a_finished_run_is_refused():
    response = client.responses.create(model=MODEL, input="Good day", background=True)
    wait_until(lambda: client.responses.retrieve(response.id).status, lambda status: status == "completed")
    try:
        client.responses.cancel(response.id)
    except openai.BadRequestError as error:
        assert "Cannot cancel a completed response" in str(error), error
        return
    raise AssertionError("it was not refused")


def test_error_in_mid_stream(stream):
    seen = {}

    def look(event):
        if event.type == "response.created":
            seen["id"] = event.response.id

    try:
        stream(on_event=look, model=MODEL, input=script(SCENARIOS["broken"]))
    except openai.APIError as error:
        assert error.message, error
    else:
        raise AssertionError("the client raised nothing")
    response = stored(seen["id"])
    assert response["status"] == "failed", response["status"]
    assert response["error"]["code"] and response["error"]["message"], response["error"]


@rows(SCENARIOS["refused"])
def test_a_failed_run_is_raised(scenario):
    """A12: the client raises what the provider meant, and sees nothing of what it wrote."""
    question = json.dumps({"refuse": scenario["refuse"]})
    try:
        client.responses.create(model=MODEL, input=question)
    except getattr(openai, scenario["python"]) as error:
        told = error
    assert (told.status_code, told.code) == (scenario["status"], scenario["code"]), told
    assert told.body["turnwire"]["code"] == scenario["own"], told.body
    assert told.response.headers.get("retry-after") == scenario.get("retry_after"), told.response.headers
    kept = stored(told.response.headers["turnwire-response-id"])
    assert kept["status"] == "failed" and kept["error"]["turnwire"]["code"] == scenario["own"], kept
    for text in (told.response.text, str(told.response.headers), json.dumps(kept)):
        assert "sk-UPSTREAMSECRET" not in text, text


@rows(SCENARIOS["refused"])
def test_a_failed_run_is_sent_again_only_if_that_may_help(scenario):
    """With its own retries the client repeats what may pass, and nothing else; with a key it does not even that."""
    if "TURNWIRE_PAGES" not in os.environ:
        return

    def asked_by_a_client(**options):
        mark = str(uuid.uuid4())
        question = json.dumps({"refuse": scenario["refuse"], "mark": mark})
        try:
            client.with_options(max_retries=2).responses.create(model=MODEL, input=question, **options)
        except getattr(openai, scenario["python"]):
            pass
        with urllib.request.urlopen(f"{os.environ['TURNWIRE_PAGES']}/requests?containing={mark}") as asked:
            return len(json.load(asked)["requests"])

    assert asked_by_a_client() == (3 if scenario["status"] == 429 else 1)
    assert asked_by_a_client(extra_headers={"Idempotency-Key": str(uuid.uuid4())}) == 1


def test_a_failed_run_whose_tool_acted_is_returned():
    """A client that raised would send the request again, and the tool would act twice."""
    response = client.responses.create(model=MODEL, input=script(SCENARIOS["acted_then_refused"]), tools=[SCENARIOS["mcp_tool"]])
    assert response.status == "failed" and response.error.code == "invalid_prompt", response
    assert [item.status for item in response.output if item.type == "mcp_call"] == ["completed"], response.output


def test_background():
    response = client.responses.create(model=MODEL, input=script(SCENARIOS["slow_text"]), background=True)
    assert response.status in ("queued", "in_progress"), response.status
    assert response.background is True
    ended = wait_until(lambda: client.responses.retrieve(response.id), lambda now: now.status not in ("queued", "in_progress"))
    assert ended.status == "completed"
    assert ended.output_text == "one two three four five six seven eight nine ten."


def test_background_and_stream(stream):
    response, _ = stream(model=MODEL, input=script(SCENARIOS["slow_text"]), background=True)
    assert response["status"] == "completed" and response["background"] is True
    is_stored(response)


def test_resume():
    """The first part and what comes after it are the whole; the helper agrees."""
    first, last = [], None
    with client.responses.create(stream=True, model=MODEL, input=script(SCENARIOS["slow_text"]), background=True) as events:
        for event in events:
            first.append(dumped(event))
            last = event
            if event.type == "response.output_text.delta":
                break
    response_id = first[0]["response"]["id"]
    with client.responses.retrieve(response_id, stream=True, starting_after=last.sequence_number) as events:
        rest = [dumped(event) for event in events]
    assert rest[0]["sequence_number"] == last.sequence_number + 1
    with client.responses.retrieve(response_id, stream=True) as events:
        whole = [dumped(event) for event in events]
    assert first + rest == whole
    fold = Fold()
    for event in whole:
        fold.add(event)
    is_stored(fold.response())
    for n in range(len(whole) - 1):
        with client.responses.retrieve(response_id, stream=True, starting_after=whole[n]["sequence_number"]) as events:
            assert [dumped(event) for event in events] == whole[n + 1 :], n
    with client.responses.stream(response_id=response_id, starting_after=last.sequence_number) as events:
        resumed = [event.sequence_number for event in events]
        same(dumped(events.get_final_response()), fold.response())
    assert resumed == [event["sequence_number"] for event in rest]


def test_conversation(stream):
    conversation = strict.conversations.create(metadata={"topic": "numbers"})
    try:
        first, _ = stream(model=MODEL, conversation=conversation.id, input="The number is seven.")
        assert text_of(first) == "You said: The number is seven."
        is_stored(first)
        second, _ = stream(model=MODEL, conversation=conversation.id, input=script([{"text": "I know."}]))
        assert text_of(second) == "I know."
        items = list(strict.conversations.items.list(conversation.id, order="asc"))
        assert [item.role for item in items] == ["user", "assistant", "user", "assistant"], items
        assert items[0].content[0].text == "The number is seven."
        assert items[3].content[0].text == "I know."
        found = strict.conversations.items.retrieve(items[1].id, conversation_id=conversation.id)
        assert found.id == items[1].id
        assert strict.conversations.retrieve(conversation.id).metadata == {"topic": "numbers"}
        changed = strict.conversations.update(conversation.id, metadata={"topic": "seven"})
        assert changed.metadata == {"topic": "seven"}
    finally:
        deleted = strict.conversations.delete(conversation.id)
    assert deleted.deleted is True
    try:
        strict.conversations.retrieve(conversation.id)
    except openai.NotFoundError:
        return
    raise AssertionError("the conversation is still there")


def test_items_added_by_hand():
    conversation = strict.conversations.create(items=[{"type": "message", "role": "user", "content": "First."}])
    added = strict.conversations.items.create(
        conversation.id, items=[{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Second."}]}]
    )
    strict.conversations.items.delete(added.data[0].id, conversation_id=conversation.id)
    items = strict.conversations.items.list(conversation.id)
    assert [item.content[0].text for item in items] == ["First."]
    strict.conversations.delete(conversation.id)


def test_input_items():
    messages = [{"role": "user", "content": f"Message {n}."} for n in range(5)]
    response = client.responses.create(model=MODEL, input=messages)
    newest_first = list(strict.responses.input_items.list(response.id, limit=2))
    assert [item.content[0].text for item in newest_first] == [f"Message {n}." for n in (4, 3, 2, 1, 0)]
    oldest = strict.responses.input_items.list(response.id, order="asc", limit=1)
    assert oldest.data[0].content[0].text == "Message 0." and oldest.has_more


def test_input_tokens():
    few = strict.responses.input_tokens.count(model=MODEL, input="Good day")
    many = strict.responses.input_tokens.count(model=MODEL, input="Good day " * 100)
    assert few.object == "response.input_tokens"
    assert 0 < few.input_tokens < many.input_tokens


def test_compact():
    compacted = strict.responses.compact(model=MODEL, input=[{"role": "user", "content": "The number is seven."}])
    assert compacted.object == "response.compaction"
    assert "compaction" in [item.type for item in compacted.output], compacted.output
    again = [*plain(dumped(compacted))["output"], {"role": "user", "content": script([{"text": "Go on."}])}]
    response = client.responses.create(model=MODEL, input=again)
    assert response.output_text == "Go on."


def test_delete():
    response = client.responses.create(model=MODEL, input="Good day")
    client.responses.delete(response.id)
    try:
        client.responses.retrieve(response.id)
    except openai.NotFoundError:
        return
    raise AssertionError("the response is still there")


def test_models():
    models = list(strict.models.list())
    assert MODEL in [model.id for model in models], models
    assert strict.models.retrieve(MODEL).id == MODEL


def test_web_search_with_sources_and_citations(stream):
    """The indexes cut the right text out of the answer: Python counts code points, and so do they."""
    sources = ["web_search_call.action.sources"]
    response, fold = stream(model=MODEL, input=script(SCENARIOS["cited_search"]), tools=[SCENARIOS["web_search_tool"]], include=sources)
    searched, message = response["output"]
    found = [{"type": "url", "url": f"https://example.com/rust-streams/{n}"} for n in (1, 2, 3)]
    assert searched["action"] == {"type": "search", "query": "rust streams", "queries": ["rust streams"], "sources": found}, searched
    part = message["content"][0]
    assert {note["type"] for note in part["annotations"]} == {"url_citation"}, part["annotations"]
    cited = [[part["text"][note["start_index"] : note["end_index"]], note["url"], note["title"]] for note in part["annotations"]]
    assert cited == SCENARIOS["cited_places"], cited
    same(response, dumped(client.responses.retrieve(response["id"], include=sources)))
    # Who does not ask for sources does not get them.
    bare = client.responses.create(model=MODEL, input=script(SCENARIOS["cited_search"]), tools=[SCENARIOS["web_search_tool"]])
    assert "sources" not in dumped(bare)["output"][0]["action"], bare.output[0]


def page_script(*calls):
    turns = [{"calls": [{"name": "web_search", "arguments": call}]} for call in calls]
    return script([*turns, {"text": "So it [says]({}).".replace("{}", calls[0]["url"])}])


def test_pages_are_opened_and_searched(stream):
    pages = os.environ.get("TURNWIRE_PAGES")
    if not pages:
        return
    opened, found = f"{pages}/moved/seals", f"{pages}/pages/seals"
    calls = [{"action": "open_page", "url": opened}, {"action": "find_in_page", "url": found, "pattern": "secret"}]
    response, _ = stream(model=MODEL, input=page_script(*calls), tools=[SCENARIOS["web_search_tool"]])
    actions = [item["action"] for item in response["output"] if item["type"] == "web_search_call"]
    assert actions == [{"type": "open_page", "url": opened}, {"type": "find_in_page", "url": found, "pattern": "secret"}], actions
    assert [item.get("status") for item in response["output"]] == ["completed"] * 3, response["output"]
    (cited,) = response["output"][-1]["content"][0]["annotations"]
    assert (cited["url"], cited["title"]) == (opened, "All about seals"), cited
    is_stored(response)


def test_a_page_inside_is_not_opened(stream):
    """A4: the model names the address, the server does not go there."""
    call = {"action": "open_page", "url": "http://169.254.169.254/latest/meta-data/"}
    response, fold = stream(model=MODEL, input=page_script(call), tools=[SCENARIOS["web_search_tool"]])
    (searched,) = [item for item in response["output"] if item["type"] == "web_search_call"]
    assert (searched["status"], searched["action"]["type"]) == ("failed", "open_page"), searched
    assert response["status"] == "completed" and fold.ends == [], fold.ends


def test_files_and_file_search(stream):
    secret = uuid.uuid4().hex
    file = strict.files.create(file=("notes.txt", f"The secret word is {secret}.".encode()), purpose="assistants")
    assert strict.files.content(file.id).text == f"The secret word is {secret}."
    assert file.id in [found.id for found in strict.files.list()]
    store = strict.vector_stores.create(name="notes")
    added = strict.vector_stores.files.create_and_poll(file.id, vector_store_id=store.id)
    assert added.status == "completed", added
    found = strict.vector_stores.search(store.id, query="secret word")
    assert secret in found.data[0].content[0].text
    tool = {"type": "file_search", "vector_store_ids": [store.id]}
    response, _ = stream(model=MODEL, input=script(SCENARIOS["file_search"]), tools=[tool], include=["file_search_call.results"])
    assert [item["type"] for item in response["output"]] == ["file_search_call", "message"], response["output"]
    searched = response["output"][0]
    assert searched["status"] == "completed" and searched["queries"] == ["secret word"], searched
    assert searched["results"][0]["file_id"] == file.id and secret in searched["results"][0]["text"], searched
    assert secret in text_of(response), text_of(response)
    same(response, dumped(client.responses.retrieve(response["id"], include=["file_search_call.results"])))
    strict.vector_stores.delete(store.id)
    strict.files.delete(file.id)
    try:
        strict.files.retrieve(file.id)
    except openai.NotFoundError:
        return
    raise AssertionError("the file is still there")


def test_upload_into_a_vector_store():
    store = strict.vector_stores.create(name="uploads")
    added = strict.vector_stores.files.upload_and_poll(vector_store_id=store.id, file=("a.md", b"# Ferns\n\nFerns grow in shade."))
    assert added.status == "completed", added
    assert strict.vector_stores.retrieve(store.id).file_counts.completed == 1
    found = strict.vector_stores.search(store.id, query="ferns")
    assert "shade" in found.data[0].content[0].text
    strict.vector_stores.delete(store.id)


def paper(text):
    """A PDF of one page."""
    stream = f"BT /F1 24 Tf 72 720 Td ({text}) Tj ET".encode()
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R /Resources << /Font << /F1 5 0 R >> >> >>",
        b"<< /Length %d >>\nstream\n%s\nendstream" % (len(stream), stream),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
    ]
    pdf, places = b"%PDF-1.4\n", []
    for number, body in enumerate(objects, 1):
        places.append(len(pdf))
        pdf += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    pdf_end = b"xref\n0 6\n0000000000 65535 f \n%strailer\n<< /Size 6 /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n"
    return pdf + pdf_end % (table, len(pdf))


def test_a_pdf_is_searched():
    store = strict.vector_stores.create(name="papers")
    added = strict.vector_stores.files.upload_and_poll(vector_store_id=store.id, file=("p.pdf", paper("Narwhals dive deep")))
    assert added.status == "completed", added
    found = strict.vector_stores.search(store.id, query="narwhal")
    assert "Narwhals dive deep" in found.data[0].content[0].text, found
    broken = strict.vector_stores.files.upload_and_poll(vector_store_id=store.id, file=("b.pdf", b"%PDF-1.4\nnothing"))
    assert broken.status == "failed" and broken.last_error.code == "invalid_file", broken
    strict.vector_stores.delete(store.id)


def test_vector_stores_in_full():
    store = strict.vector_stores.create(
        name="all of it", metadata={"a": "b"}, expires_after={"anchor": "last_active_at", "days": 3}
    )
    assert store.expires_at == store.last_active_at + 3 * 24 * 3600 and store.expires_after.days == 3, store
    store = strict.vector_stores.update(store.id, name="renamed", expires_after=None)
    assert store.name == "renamed" and store.expires_at is None and store.metadata == {"a": "b"}, store
    assert store.id in [one.id for one in strict.vector_stores.list()]

    texts = {"fern.txt": "Ferns grow in shade.", "moss.txt": "Moss grows on stones.", "cactus.txt": "A cactus needs sun."}
    files = [
        strict.files.create(
            file=(name, text.encode()), purpose="assistants", expires_after={"anchor": "created_at", "seconds": 3600}
        )
        for name, text in texts.items()
    ]
    assert all(file.expires_at == file.created_at + 3600 for file in files), files
    static = {"type": "static", "static": {"max_chunk_size_tokens": 200, "chunk_overlap_tokens": 20}}
    batch = strict.vector_stores.file_batches.create_and_poll(
        store.id,
        files=[
            {"file_id": files[0].id, "attributes": {"kind": "green", "year": 2024}, "chunking_strategy": static},
            {"file_id": files[1].id, "attributes": {"kind": "green", "year": 1999}},
            {"file_id": files[2].id, "attributes": {"kind": "dry", "year": 2024}},
        ],
    )
    assert batch.status == "completed" and batch.file_counts.completed == 3, batch
    assert strict.vector_stores.file_batches.retrieve(batch.id, vector_store_id=store.id).status == "completed"
    listed = strict.vector_stores.file_batches.list_files(batch.id, vector_store_id=store.id, filter="completed")
    assert {one.id for one in listed} == {file.id for file in files}
    cancelled = strict.vector_stores.file_batches.cancel(batch.id, vector_store_id=store.id)
    assert cancelled.status == "completed", "it is too late"
    kept = strict.vector_stores.retrieve(store.id)
    assert kept.status == "completed" and kept.file_counts.total == 3 and kept.usage_bytes > 0, kept

    fern = strict.vector_stores.files.retrieve(files[0].id, vector_store_id=store.id)
    assert fern.chunking_strategy.static.max_chunk_size_tokens == 200, fern
    parsed = strict.vector_stores.files.content(files[0].id, vector_store_id=store.id)
    assert [piece.text for piece in parsed] == ["Ferns grow in shade."]

    def names(**options):
        found = strict.vector_stores.search(store.id, **options)
        return [one.filename for one in found]

    green = {"type": "eq", "key": "kind", "value": "green"}
    new = {"type": "gte", "key": "year", "value": 2000}
    assert set(names(query="grow", filters=green)) == {"fern.txt", "moss.txt"}
    assert names(query="grow", filters={"type": "and", "filters": [green, new]}) == ["fern.txt"]
    assert set(names(query=["ferns", "cactus"])[:2]) == {"fern.txt", "cactus.txt"}
    assert len(names(query="grow", max_num_results=1)) == 1
    changed = strict.vector_stores.files.update(files[1].id, vector_store_id=store.id, attributes={"kind": "dry"})
    assert changed.attributes == {"kind": "dry"}, changed
    assert names(query="grow", filters=green) == ["fern.txt"]
    strict.vector_stores.files.delete(files[0].id, vector_store_id=store.id)
    assert files[0].id not in [one.id for one in strict.vector_stores.files.list(store.id)]
    uploads = strict.vector_stores.file_batches.upload_and_poll(store.id, files=[("lichen.txt", b"Lichens live on rock.")])
    assert uploads.status == "completed", uploads
    assert "lichen.txt" in names(query="lichens")
    for file in files:
        strict.files.delete(file.id)
    strict.vector_stores.delete(store.id)


def test_a_bad_request_is_told_as_one():
    for body in ({"model": MODEL, "input": [{"type": "no_such_item"}]}, {"model": MODEL, "input": "x", "previous_response_id": "resp_none"}):
        try:
            client.responses.create(**body)
        except openai.APIStatusError as error:
            assert error.status_code in (400, 404), error.status_code
            assert error.body["message"] and error.body["type"], error.body
        else:
            raise AssertionError(f"{body} was taken")


def test_a_request_is_sent_again_with_its_key():
    """The client sends no key of its own, but passes one on, and on every retry the same."""
    key = {"Idempotency-Key": str(uuid.uuid4())}
    body = {"model": MODEL, "input": script([{"text": "Once."}])}
    first = dumped(client.responses.create(**body, extra_headers=key))
    same(first, dumped(client.responses.create(**body, extra_headers=key)))
    try:
        client.responses.create(model=MODEL, input="Something else.", extra_headers=key)
    except openai.UnprocessableEntityError as error:
        assert error.code == "idempotency_key_reused", error.body
    else:
        raise AssertionError("the key was taken for another request")


def test_websocket_mode():
    """`responses.connect()`: two answers one after the other, then one that goes on from the first."""
    tools = [SCENARIOS["weather_tool"]]
    with client.responses.connect() as socket:

        def ask(**body):
            fold = Fold()
            socket.response.create(model=MODEL, **body)
            while fold.last is None:
                event = dumped(socket.recv())
                assert event["type"] != "error", event
                fold.add(event)
            return fold.response()

        first = ask(input=script(SCENARIOS["weather"]), tools=tools)
        second = ask(input="Good day")
        assert text_of(second) == "You said: Good day"
        output = {"type": "function_call_output", "call_id": first["output"][1]["call_id"], "output": "mild"}
        third = ask(previous_response_id=first["id"], input=[output], tools=tools)
        assert text_of(third) == "In Oslo it is mild."
        for response in (first, second, third):
            is_stored(response)


def test_webhooks_are_accepted():
    """The end of a background response arrives signed, and the client unwraps it; a changed one it does not."""
    if "TURNWIRE_HOOK_PYTHON" not in os.environ:
        return
    secret, arrived = os.environ["TURNWIRE_HOOK_SECRET"], []

    class Receiver(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["content-length"])).decode()
            arrived.append((body, dict(self.headers)))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", int(os.environ["TURNWIRE_HOOK_PYTHON"])), Receiver) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        response = client.responses.create(model=MODEL, input="Good day", background=True)
        [(body, headers)] = wait_until(lambda: [one for one in arrived if response.id in one[0]], bool)
        server.shutdown()
    event = client.webhooks.unwrap(body, headers, secret=secret)
    assert (event.type, event.object, event.data.id) == ("response.completed", "event", response.id), event
    assert type(event).__name__ == "ResponseCompletedWebhookEvent", type(event)
    assert event.id == {name.lower(): value for name, value in headers.items()}["webhook-id"]
    try:
        client.webhooks.unwrap(body.replace("completed", "cancelled"), headers, secret=secret)
    except openai.InvalidWebhookSignatureError:
        return
    raise AssertionError("a changed event is accepted")


if __name__ == "__main__":
    main("python openai", sys.modules[__name__], [raw, helper])
