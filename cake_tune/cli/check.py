"""``cake-tune check``: validate specs without measuring anything."""

from pathlib import Path
from typing import Annotated

import typer

from cake_tune.errors import SpecError


def check(
    specs: Annotated[list[Path], typer.Argument(metavar="SPEC...", help="YAML sweep specs.", show_default=False)],
) -> None:
    """Validate sweep specs, and say how many points and plans each one measures."""
    from cake_tune.spec import load_spec

    problems: list[str] = []
    for path in specs:
        try:
            spec = load_spec(path)
        except SpecError as error:
            problems.append(str(error))
            continue
        points = spec.points()
        plans = sum(len(point.plans) for point in points)
        typer.echo(f"{path}: ok: {len(points)} points, {plans} plans, backend {spec.backend}")
    if problems:
        raise SpecError("\n".join(problems))
