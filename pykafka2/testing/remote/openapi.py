"""The admin port's calls as an OpenAPI 3.1 document, made from their signatures; and paths into results.

    GET /openapi.json

Independent of clusters and HTTP; no state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from inspect import Parameter, getdoc, signature
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints, is_typeddict

import attrs

from pykafka2.broker.config.keys import nearest
from pykafka2.errors import ConfigurationError
from pykafka2.otlp import MetricPoint
from pykafka2.testing.remote.as_data import properties_of
from pykafka2.types import TopicPartition
from pykafka2.version import __version__

Schema = dict[str, Any]
"""A JSON schema; an empty one allows any value."""

COUNT = "count"
"""At the end of a path: the length of a list or an object."""

SIMPLE: Mapping[Any, str] = {
    bool: "boolean",
    bytes: "string",
    float: "number",
    int: "integer",
    str: "string",
    type(None): "null",
}
INFINITE: Schema = {"enum": ["Infinity", "-Infinity"]}
"""Data of an infinite number. In views with a schema, only metrics that clients push have such numbers."""
ERRORS = {
    "400": "wrong arguments, or the error of the call",
    "401": "the token is missing or wrong",
    "404": "unknown call",
    "500": "a bug of pykafka2",
}
ERROR: Schema = {
    "type": "object",
    "properties": {
        "error": {
            "type": "object",
            "properties": {"type": {"type": "string"}, "message": {"type": "string"}},
            "required": ["type", "message"],
        }
    },
    "required": ["error"],
}


def document(calls: Mapping[str, Callable[..., Any]]) -> dict[str, Any]:
    """Return the description of these calls, and of the paths that are not calls."""
    paths: dict[str, Any] = {f"/{name}": {"post": _operation(name, call)} for name, call in calls.items()}
    for path, summary in {"": "the names of all calls", "help": "all calls with their arguments"}.items():
        paths[f"/{path}"] = {"get": {"summary": summary, "responses": _responses({})}}
    for path, summary in {
        "health": "whether the cluster runs: status 200 or 503",
        "openapi.json": "this document",
    }.items():
        paths[f"/{path}"] = {"get": {"summary": summary, "security": [], "responses": _responses({})}}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "pykafka2 broker: admin port",
            "description": "Numbers that JSON does not have are the strings Infinity, -Infinity and NaN.",
            "version": __version__,
        },
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": {"Error": ERROR},
        },
    }


def _operation(name: str, call: Callable[..., Any]) -> dict[str, Any]:
    arguments = _arguments_schema(call)
    words = " ".join((getdoc(call) or "").split("\n\n")[0].split())
    return {
        "operationId": name.replace("/", "_"),
        **({"description": words} if words else {}),
        "requestBody": {
            "required": bool(arguments.get("required")),
            "content": {"application/json": {"schema": arguments}},
        },
        "responses": _responses(result_schema(call)),
    }


def _responses(result: Schema) -> dict[str, Any]:
    body = {"type": "object", "properties": {"result": result}, "required": ["result"]}
    found = {"200": {"description": "the result", "content": {"application/json": {"schema": body}}}}
    error = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
    return found | {status: {"description": text, "content": error} for status, text in ERRORS.items()}


def _arguments_schema(call: Callable[..., Any]) -> Schema:
    hints = get_type_hints(call)
    properties: dict[str, Schema] = {}
    required: list[str] = []
    others: Schema | bool = False
    for name, one in signature(call).parameters.items():
        kind = hints.get(name, Any)
        if name == "self":
            continue
        if one.kind is Parameter.VAR_KEYWORD:
            unpacked = get_args(kind)[0] if get_args(kind) and is_typeddict(get_args(kind)[0]) else None
            if unpacked is None:
                others = schema_of(kind)
            else:
                properties |= schema_of(unpacked)["properties"]
        elif one.kind is Parameter.VAR_POSITIONAL:
            properties[name] = {"type": "array", "items": schema_of(kind)}
        else:
            properties[name] = schema_of(kind)
            if one.default is Parameter.empty:
                required.append(name)
    found: Schema = {"type": "object", "properties": properties, "additionalProperties": others}
    return {**found, "required": required} if required else found


def result_schema(call: Callable[..., Any]) -> Schema:
    """Return the schema of a call's result."""
    return schema_of(get_type_hints(call).get("return", Any))


def schema_of(kind: Any) -> Schema:
    """Return the schema of the JSON data (as_data.py) of a type; an empty one for any other type."""
    origin, inner = get_origin(kind), get_args(kind)
    if kind in SIMPLE:
        return {"type": SIMPLE[kind]}
    if kind is TopicPartition:
        return {"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}]}
    if origin in (Union, UnionType):
        choices = [schema_of(one) for one in inner]
        return {} if {} in choices else {"anyOf": choices}
    if is_typeddict(kind):
        return _object(get_type_hints(kind))
    if origin is tuple and ... not in inner:
        return {"type": "array", "prefixItems": [schema_of(one) for one in inner]}
    if origin in (list, tuple, Sequence, Iterable):
        return {"type": "array", "items": schema_of(inner[0])}
    if origin in (dict, Mapping):
        return {"type": "object", "additionalProperties": schema_of(inner[1])}
    if origin is type:
        return {"type": "string"}  # an API or an error by its name
    if isinstance(kind, type) and issubclass(kind, Enum):
        return {"enum": [one.value for one in kind]}
    if isinstance(kind, type) and attrs.has(kind) and not hasattr(kind, "to_dict"):
        hints = get_type_hints(kind)
        fields = {one.alias: hints.get(one.name, Any) for one in attrs.fields(kind) if one.init}
        found = _object(fields | properties_of(kind))
        if kind is MetricPoint:
            found["properties"]["value"]["anyOf"].append(INFINITE)
        return found
    return {}


def _object(fields: Mapping[str, Any]) -> Schema:
    return {"type": "object", "properties": {name: schema_of(kind) for name, kind in fields.items()}}


def check_path(schema: Schema, path: str, where: str) -> None:
    """Raise `ConfigurationError` for a path ("members.0.client_id") that no result can have.

    The message begins with `where`, and names the nearest field and all others.
    """
    places = [schema]
    for number, step in enumerate(steps := path.split(".")):
        places = [one for place in places for one in place.get("anyOf", [place])]
        is_last = number == len(steps) - 1
        if any(
            not one or (is_last and step == COUNT and one.get("type") in ("array", "object"))
            for one in places
        ):
            return
        inner = [found for one in places for found in _inside(one, step)]
        if not inner:
            known = [name for one in places for name in one.get("properties", ())]
            fields = f"Fields are {', '.join(known)}." if known else "It has no fields."
            raise ConfigurationError(f"{where} has no field {path!r}{nearest(step, known) or '.'} {fields}")
        places = inner


def _inside(schema: Schema, step: str) -> list[Schema]:
    """Return the schema of a field or of an item, in a list that is empty without it."""
    if step.isdecimal() and schema.get("type") == "array":
        return [schema.get("items", {})]
    fields = schema.get("properties")
    if fields is not None:
        return [fields[step]] if step in fields else []
    return [schema["additionalProperties"]] if "additionalProperties" in schema else []
