"""``cake-tune verify``: numerics of a backend over a matrix of shapes."""

from collections import Counter
from typing import Annotated

import typer

from cake_tune.errors import PointsFailedError, UsageError, WrongResultError


def verify(
    backend: Annotated[str, typer.Option("--backend", "-b", help="What to verify: cpu, cuda, ...")] = "cpu",
) -> None:
    """Compare every plan of a matrix of shapes with the reference; exit code 4 if any is wrong, 7 if any cannot run."""
    from cake_tune.backends import get_backend
    from cake_tune.backends.verify import verification_shapes
    from cake_tune.backends.verify import verify as verdicts
    from cake_tune.sweep.words import shape_text

    if backend.startswith("faults:"):
        raise UsageError("--backend: expected one that runs in this process: what faults puts in would end it")
    chosen, shapes = get_backend(backend), verification_shapes()
    device = chosen.device()
    counts: Counter[str] = Counter()
    worst = 0.0
    for verdict in verdicts(chosen, shapes):
        counts[verdict.status] += 1
        worst = max(worst, verdict.relative_error or 0.0)
        if verdict.failure is not None:
            typer.echo(f"{verdict.status}: {verdict.plan} on {shape_text(verdict.shape)}: {verdict.failure}")
    listed = ", ".join(f"{count} {status}" for status, count in sorted(counts.items()))
    typer.echo(
        f"{backend} on {device.name}: {counts.total()} plans on {len(shapes)} shapes: {listed}; "
        f"worst relative error {worst:.1e}"
    )
    if counts["wrong"]:
        raise WrongResultError(f"backend {backend}: {counts['wrong']} plans disagree with the reference")
    if counts["ok"] < counts.total():
        raise PointsFailedError(f"backend {backend}: {counts.total() - counts['ok']} plans could not be compared")
