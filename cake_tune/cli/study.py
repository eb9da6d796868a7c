"""``cake-tune study``: figures on how well the tool chooses, from journals of runs."""

from pathlib import Path
from typing import Annotated

import typer

from cake_tune.cli.arguments import check_writable

study = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


@study.callback()
def options() -> None:
    """Show how well plans are chosen: a report with figures, CSV files and plots."""


@study.command()
def gpu(
    first: Annotated[Path, typer.Argument(metavar="RUN_A", help="A sweep, whose table is judged.", show_default=False)],
    second: Annotated[
        Path, typer.Argument(metavar="RUN_B", help="The same points on another occasion.", show_default=False)
    ],
    held_out: Annotated[
        Path | None, typer.Option("--held-out", metavar="RUN_C", help="A sweep of shapes that run A has not.")
    ] = None,
    twins: Annotated[
        list[Path] | None,
        typer.Option("--aa", metavar="RUN", help="A run with A/A points; repeatable. [default: runs A and B]"),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Directory of the report. [default: study, beside RUN_A]")
    ] = None,
    replays: Annotated[int, typer.Option("--replays", min=0, help="Repetitions of each policy; 0: no replay.")] = 20,
    replay_points: Annotated[int, typer.Option("--replay-points", min=1, help="Points replayed at most.")] = 200,
    seed: Annotated[int, typer.Option("--seed", help="Seed of what is drawn.")] = 0,
) -> None:
    """Agreement of two sweeps, A/A differences, regret on measured and held-out shapes, overhead, race against argmin.

    Writes report.md, CSV files and plots; the same runs give the same bytes.
    """
    from contextlib import ExitStack

    from cake_tune.cli.opened_run import opened_run
    from cake_tune.errors import UsageError
    from cake_tune.study.gather import gather
    from cake_tune.study.twins import twin_run
    from cake_tune.study.words import figure_lines
    from cake_tune.study.write import write_study

    directory = out or first.parent / "study"
    check_writable("--out", directory)
    with ExitStack() as stack:
        a, b = (stack.enter_context(opened_run(path)) for path in (first, second))
        c = None if held_out is None else stack.enter_context(opened_run(held_out))
        twin_runs = [stack.enter_context(opened_run(path)) for path in twins or ()]
        for run in twin_runs:
            if not twin_run(run).journal.exists():
                raise UsageError(f"--aa: expected a run with A/A points, found no {twin_run(run).journal}")
        evidence = gather(a, b, c, twin_runs, replays=replays, replay_points=replay_points, seed=seed)
    figures = write_study(evidence, directory)
    typer.echo("\n".join(figure_lines(figures)))
    typer.echo(f"files: {directory / 'report.md'}, CSV files and plots beside it")


@study.command()
def fit(
    devices: Annotated[int, typer.Option("--devices", min=1, help="Random devices, of the seeds from 0 on.")] = 200,
    short: Annotated[bool, typer.Option("--short", help="A smaller grid, and 6 devices at most.")] = False,
    out: Annotated[Path, typer.Option("--out", "-o", help="Directory of the report.")] = Path(
        "results/simulated/fit-study"
    ),
    processes: Annotated[
        int | None, typer.Option("--processes", min=1, help="Processes that share the work. [default: usable cores]")
    ] = None,
) -> None:
    """Fits, adaptive search and the race on simulated devices, judged by their true times; needs no GPU.

    Writes report.md, CSV files and plots; the same devices give the same bytes, by however many
    processes. 200 devices take 40 minutes of processor time and more.
    """
    import sys

    from cake_tune.host import usable_cores
    from cake_tune.study.fit.evidence import gather
    from cake_tune.study.fit.size import FULL, SHORT
    from cake_tune.study.fit.write import write_fit_study
    from cake_tune.study.words import figure_lines

    count, size = (min(devices, 6), SHORT) if short else (devices, FULL)
    check_writable("--out", out)
    evidence = gather(
        count, size, lambda text: print(text, file=sys.stderr), processes=processes or len(usable_cores())
    )
    command = f"cake-tune study fit --devices {count}{' --short' if short else ''} --out {out}"
    figures = write_fit_study(evidence, out, command)
    typer.echo("\n".join(figure_lines(figures)))
    typer.echo(f"files: {out / 'report.md'}, CSV files and plots beside it")
