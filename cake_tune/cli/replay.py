"""``cake-tune replay``: other selection policies on the visits that a run recorded."""

from pathlib import Path
from typing import Annotated

import typer

from cake_tune.cli.arguments import RunArgument, check_file, listed
from cake_tune.cli.opened_run import opened_run


def replay(
    run: RunArgument,
    policies: Annotated[
        list[str] | None,
        typer.Option(
            "--policy",
            "-p",
            metavar="POLICY,...",
            help="race, confirm, argmin:N[:mean|:median]. [default: race, confirm, argmin:1, 3, 5 and 10]",
        ),
    ] = None,
    seeds: Annotated[int, typer.Option("--seeds", min=2, help="Independent repetitions per point.")] = 20,
    seed: Annotated[int, typer.Option("--seed", help="The first draw's seed.")] = 0,
    output: Annotated[Path | None, typer.Option("--csv", help="Also write one row per policy and point here.")] = None,
) -> None:
    """Let selection policies choose again from a run's recorded visits: regret, winner flips, visits spent."""
    from cake_tune.study.gather import POLICIES
    from cake_tune.study.replay import replay_run
    from cake_tune.study.selectors import parse_selector
    from cake_tune.study.tables import write_replays
    from cake_tune.study.words import replay_lines

    selectors = [parse_selector(text) for text in (listed("--policy", policies) if policies else POLICIES)]
    if output is not None:
        check_file("--csv", output)
    with opened_run(run) as directory:
        scores = replay_run(directory, selectors, replays=seeds, seed=seed)
    typer.echo("\n".join(replay_lines(scores)))
    if output is not None:
        typer.echo(f"{write_replays(scores, output)}: one row per policy and point")
