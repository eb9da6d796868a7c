"""``cake-tune verify``: numerics of a backend over a matrix of shapes."""

from typing import Annotated

import typer

from cake_tune.errors import WrongResultError


def verify(
    backend: Annotated[str, typer.Option("--backend", "-b", help="What to verify: cpu, cuda, ...")] = "cpu",
) -> None:
    """Compare every plan of a matrix of shapes with the float32 reference; exit code 4 if any is wrong."""
    from cake_tune.backends import get_backend
    from cake_tune.backends.verify import verification_shapes
    from cake_tune.backends.verify import verify as verdicts

    shapes = verification_shapes()
    checked, worst, wrong = 0, 0.0, 0
    for verdict in verdicts(get_backend(backend), shapes):
        checked += 1
        worst = max(worst, verdict.error or 0.0)
        if verdict.wrong is not None:
            wrong += 1
            typer.echo(f"WRONG {verdict.plan} on {verdict.shape}: {verdict.wrong}")
    typer.echo(f"{backend}: {checked} plans on {len(shapes)} shapes, worst relative error {worst:.1e}, {wrong} wrong")
    if wrong:
        raise WrongResultError(f"backend {backend}: {wrong} of {checked} plans disagree with the reference")
