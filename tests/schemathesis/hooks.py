"""What Schemathesis has to know about the document beside what is in it.

In OpenAPI 3.1 nothing says how a stream of events is described. As in OpenAI's own document, the
schema of `text/event-stream` is that of the `data` of each event. Schemathesis takes it for that of
the event as a whole, so it is told: an event has `data`, which is JSON of that schema, or the
`[DONE]` that ends a response.
"""

import schemathesis


def as_event(schema):
    data = {"type": "string", "contentMediaType": "application/json", "contentSchema": schema}
    return {
        "type": "object",
        "required": ["data"],
        "properties": {"data": {"anyOf": [data, {"const": "[DONE]"}]}},
    }


@schemathesis.hook
def before_load_schema(context, raw_schema):
    for operations in raw_schema["paths"].values():
        for operation in operations.values():
            for response in operation["responses"].values():
                stream = response.get("content", {}).get("text/event-stream")
                if stream is not None:
                    stream["schema"] = as_event(stream["schema"])
