"""Writes turnwire_client/events.py: the types of events, snapshots and results, from the OpenAPI
document of a server.

    python scripts/generate.py DOCUMENT            writes the file
    python scripts/generate.py DOCUMENT --check    fails if the file differs

DOCUMENT is a file or a URL, such as http://127.0.0.1:7878/openapi.json. Only the schemas that the
client uses are taken, with everything they refer to.
"""

import json
import re
import sys
import textwrap
import urllib.request
from pathlib import Path

ROOTS = ["RecordedEvent", "RunSnapshot", "CommandResult"]
# What would be called like something else.
RENAMED = {"Event": "RunEvent"}
OUTPUT = Path(__file__).resolve().parent.parent / "turnwire_client" / "events.py"
PREFIX = "#/components/schemas/"
HEADER = '''"""Types of what the server sends.

Generated from /openapi.json by scripts/generate.py. Do not edit. A field that is not required may
be missing or None. Servers may add fields and events at any time, so ignore those that are not
known here.
"""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict, Union
'''
SCALARS = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}


def read(document):
    if re.match("https?:", document):
        with urllib.request.urlopen(document) as response:
            return json.load(response)
    return json.loads(Path(document).read_text(encoding="utf-8"))


def referred(schema):
    """The names that a schema refers to, in order."""
    return re.findall(rf'"\$ref": "{PREFIX}(\w+)"', json.dumps(schema))


def in_order(schemas):
    """The names of all schemas that are needed, each after those it refers to."""
    names = []

    def visit(name):
        for other in referred(schemas[name]):
            if other != name and other not in names:
                visit(other)
        if name not in names:
            names.append(name)

    for root in ROOTS:
        visit(root)
    return names


def named(name):
    return RENAMED.get(name, name)


def type_of(schema):
    """The type of a schema, as Python."""
    if "$ref" in schema:
        return named(schema["$ref"].removeprefix(PREFIX))
    if "oneOf" in schema:
        return " | ".join(type_of(choice) for choice in schema["oneOf"])
    if "enum" in schema:
        return f"Literal[{', '.join(json.dumps(value) for value in schema['enum'])}]"
    kind = schema.get("type")
    if isinstance(kind, list):
        return " | ".join(type_of({**schema, "type": one}) for one in kind)
    if kind == "array":
        return f"list[{type_of(schema.get('items', {}))}]"
    if kind == "object":
        return "dict[str, Any]"
    return SCALARS.get(kind, "Any")


def doc(text, indent):
    """A description as a docstring, or as the lines of one."""
    lines = textwrap.wrap(" ".join(text.split()), 100 - len(indent) - 6)
    body = f"\n{indent}".join(lines)
    return f'{indent}"""{body}"""\n' if len(lines) < 2 else f'{indent}"""{body}\n{indent}"""\n'


def class_of(name, schema):
    """A dictionary with the fields of an object."""
    text = f"class {name}(TypedDict):\n{doc(schema.get('description', ''), '    ')}"
    required = set(schema.get("required", []))
    for key, field in schema.get("properties", {}).items():
        kind = type_of(field)
        if key not in required:
            kind = f"NotRequired[{kind if re.search(r'None$', kind) else kind + ' | None'}]"
        text += f"\n    {key}: {kind}\n"
        about = field.get("description") or field.get("oneOf", [{}])[0].get("description")
        if about:
            text += doc(about, "    ")
    return text


def tag_of(choice):
    """The name of one choice: the value of the field that tells it from the others."""
    for field in ("type", "status"):
        values = choice.get("properties", {}).get(field, {}).get("enum", [])
        if len(values) == 1:
            return "".join(word.capitalize() for word in values[0].split("_"))
    return None


def declaration(name, schema):
    choices = schema.get("oneOf", [])
    if not choices:
        if schema.get("type") == "object" and "properties" in schema:
            return class_of(name, schema)
        return f"{name} = {type_of(schema)}\n{doc(schema.get('description', ''), '')}"
    ending = "Event" if name == "RunEvent" else ""
    beginning = "" if name == "RunEvent" else name
    classes = [(f"{beginning}{tag_of(choice)}{ending}", choice) for choice in choices]
    text = "\n\n".join(class_of(one, choice) for one, choice in classes)
    union = "".join(f"    {one},\n" for one, _ in classes)
    return f"{text}\n\n{name} = Union[\n{union}]\n{doc(schema.get('description', ''), '')}"


def main():
    match sys.argv[1:]:
        case [document] | [document, "--check"]:
            schemas = read(document)["components"]["schemas"]
        case _:
            sys.exit(__doc__)
    names = in_order(schemas)
    text = "\n\n".join([HEADER, *(declaration(named(name), schemas[name]) for name in names)])
    if len(sys.argv) == 2:
        OUTPUT.write_text(text, encoding="utf-8")
        print(f"turnwire_client/events.py: {len(names)} types")
    elif OUTPUT.read_text(encoding="utf-8") != text:
        sys.exit("turnwire_client/events.py differs from the document; run scripts/generate.py")
    else:
        print("turnwire_client/events.py is up to date")


if __name__ == "__main__":
    main()
