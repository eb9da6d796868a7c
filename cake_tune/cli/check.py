"""``cake-tune check``: validate specs without measuring anything."""

from pathlib import Path
from typing import Annotated

import typer

from cake_tune.errors import SpecError, UsageError


def check(
    specs: Annotated[list[Path], typer.Argument(metavar="SPEC...", help="YAML sweep specs.", show_default=False)],
) -> None:
    """Validate sweep specs, and say how many points and plans each one measures; the device need not be here."""
    from cake_tune.backends import check_options, get_backend
    from cake_tune.spec import load_spec
    from cake_tune.sweep.words import counted

    problems: list[str] = []
    for path in specs:
        try:
            spec = load_spec(path)
        except SpecError as error:
            problems.append(str(error))
            continue
        points = spec.points()
        plans = [plan for point in points for plan in point.plans]
        try:
            check_options(get_backend(spec.backend), plans)
        except UsageError as error:
            problems.append(f"{path}: {error}")
            continue
        measured = f"{counted(len(points), 'point')}, {counted(len(plans), 'plan')}"
        typer.echo(f"{path}: ok: {measured}, backend {spec.backend}")
    if problems:
        raise SpecError("\n".join(problems))
