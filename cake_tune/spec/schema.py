"""The JSON schema of specs, for editors and other tools (draft-07, the dialect that YAML editors understand)."""

from typing import Any

from cake_tune.spec.models import Document


def json_schema() -> dict[str, Any]:
    """Draft-07 schema of the spec format: every key with its type, bounds, default and description.

    It cannot express what depends on several values (constraints' grammar, values that yield no point); the loader
    checks these.
    """
    generated = Document.model_json_schema()
    definitions = generated.pop("$defs", {})
    body: dict[str, Any] = _simplified(generated, definitions)
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "cake-tune sweep spec",
        **body,
    }


def _simplified(schema: Any, definitions: dict[str, Any]) -> Any:
    """The schema without references (draft-07 ignores what stands beside them), generated titles, and null values."""
    if isinstance(schema, list):
        return [_simplified(item, definitions) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        target = definitions[schema["$ref"].rsplit("/", 1)[-1]]
        schema = {**target, **{key: value for key, value in schema.items() if key != "$ref"}}
    if {"type": "null"} in schema.get("anyOf", ()):
        (only,) = (item for item in schema["anyOf"] if item != {"type": "null"})
        schema = {**only, **{key: value for key, value in schema.items() if key not in ("anyOf", "default")}}
    simple = {}
    for key, value in schema.items():
        if key == "properties":
            simple[key] = {name: _simplified(item, definitions) for name, item in value.items()}
        elif key == "default":
            simple[key] = value
        elif key != "title":
            simple[key] = _simplified(value, definitions)
    return simple
