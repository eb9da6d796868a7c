"""``cake-tune schema``: the JSON Schema of sweep specs."""

import json
from pathlib import Path
from typing import Annotated

import typer


def schema(
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write here instead of to stdout.")] = None,
) -> None:
    """Write the JSON Schema (draft-07) of sweep specs, for editors and for other tools."""
    from cake_tune.spec import json_schema

    text = json.dumps(json_schema(), indent=2) + "\n"
    if output is None:
        typer.echo(text, nl=False)
    else:
        output.write_text(text, encoding="utf-8")
