"""The fields of the official request type, and the rows of docs/request-fields.tsv.

A field is written as where it stands: `tools[](function).strict` is `strict` of a tool of the type
`function`.
"""

import types
import typing
from pathlib import Path

from openai.types.responses.response_create_params import ResponseCreateParamsStreaming
from typing_extensions import Annotated, Literal, NotRequired, Required, get_type_hints, is_typeddict

TABLE = Path(__file__).resolve().parents[3] / "docs" / "request-fields.tsv"

# Deeper than any type goes that is not made of itself.
DEEPEST = 8


def bare(kind):
    """A type without what is said about it."""
    while True:
        if typing.get_origin(kind) in (Required, NotRequired, Annotated):
            kind = typing.get_args(kind)[0]
        elif isinstance(kind, getattr(typing, "TypeAliasType", ())):
            kind = kind.__value__
        else:
            return kind


def objects_in(kind):
    """The objects that a value of this type may be, each with `[]` if it is in a list."""
    kind = bare(kind)
    origin = typing.get_origin(kind)
    if is_typeddict(kind):
        yield kind, ""
    elif origin in (typing.Union, types.UnionType):
        for one in typing.get_args(kind):
            yield from objects_in(one)
    elif origin not in (None, Literal, dict):
        for one in typing.get_args(kind):
            for found, place in objects_in(one):
                yield found, "[]" + place


def tag_of(kind):
    """The `type` that marks an object, in brackets."""
    hint = get_type_hints(kind, include_extras=True).get("type")
    for one in (hint, *typing.get_args(bare(hint))):
        if typing.get_origin(bare(one)) is Literal:
            return f"({typing.get_args(bare(one))[0]})"
    return ""


def fields_of(kind, path="", parents=()):
    for name, hint in get_type_hints(kind, include_extras=True).items():
        field = f"{path}.{name}" if path else name
        yield field
        for inner, place in objects_in(hint):
            if inner not in parents and len(parents) < DEEPEST:
                yield from fields_of(inner, field + place + tag_of(inner), (*parents, inner))


def rows():
    lines = TABLE.read_text(encoding="utf-8").splitlines()
    return [line.split("\t")[0] for line in lines if line and not line.startswith("#")][1:]


def without_row():
    """The official fields that no row speaks of."""
    known = rows()
    exact = set(known)
    begins = tuple(row[:-1] for row in known if row.endswith("*"))
    fields = sorted(set(fields_of(ResponseCreateParamsStreaming)))
    assert len(fields) > 500, "these are not all fields"
    return [field for field in fields if field not in exact and not field.startswith(begins)]
