"""``cake-tune sweep``: measure a spec's points, resume what was stopped, and optionally emit and report."""

import json
import shlex
import shutil
import sys
from pathlib import Path
from typing import Annotated

import typer

from cake_tune.errors import InterruptedSweep, PointsFailedError, UndecidedError, UsageError, WrongResultError

RESULTS = Path("results")


def sweep(
    spec: Annotated[Path, typer.Argument(metavar="SPEC", help="YAML sweep spec.", show_default=False)],
    results: Annotated[Path, typer.Option("--results", help="Runs are RESULTS/<device>/<sweep>.")] = RESULTS,
    emit: Annotated[bool, typer.Option("--emit", help="Then emit the table and write the report.")] = False,
    fresh: Annotated[bool, typer.Option("--fresh", help="Measure every point again; old rows are set aside.")] = False,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Measure points without a winner again.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Events on stdout, one JSON object per line.")] = False,
    gpus: Annotated[
        str | None,
        typer.Option(
            "--gpus",
            metavar="all|N|UUID,...",
            help="GPUs to measure on side by side, one worker each; left out: the first visible one.",
            show_default=False,
        ),
    ] = None,
    aa: Annotated[
        int | None,
        typer.Option(
            "--aa",
            metavar="N",
            min=1,
            help="Instead of the sweep: N of its points, each the plan in force against itself, into <run>/aa.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Measure every point of a spec that its run does not hold yet; Ctrl-C keeps what is measured."""
    from cake_tune.backends import get_backend
    from cake_tune.cli.progress import progress_for
    from cake_tune.journal.run import RunDirectory
    from cake_tune.search import conclude, schedule_for
    from cake_tune.spec import load_spec
    from cake_tune.sweep import run_sweep, run_twins
    from cake_tune.sweep.slots import slots_for
    from cake_tune.sweep.words import search_words

    if aa is not None and (fresh or retry_failed or emit):
        raise UsageError("--aa: expected without --fresh, --retry-failed and --emit: A/A points are a run of their own")
    valued = {"--results": None if results == RESULTS else results, "--gpus": gpus, "--aa": aa}
    options = [word for name, value in valued.items() if value is not None for word in (name, str(value))]
    options += [name for name, on in (("--emit", emit), ("--retry-failed", retry_failed), ("--json", as_json)) if on]
    resume = _command("sweep", spec, *options)
    loaded = load_spec(spec)
    slots = slots_for(get_backend(loaded.backend), gpus)
    run = RunDirectory.of(results, slots[0].device, loaded.name)
    try:
        with progress_for(as_json=as_json) as progress:
            if aa is not None:
                summary = run_twins(loaded, run, aa, slots=slots, progress=progress)
                run = run.twins
            else:
                summary = run_sweep(
                    loaded,
                    run,
                    schedule_for=schedule_for,
                    slots=slots,
                    fresh=fresh,
                    retry_failed=retry_failed,
                    progress=progress,
                )
    except InterruptedSweep as stopped:
        if as_json:
            _event("interrupted", run=str(run.path), done=stopped.done, total=stopped.total, resume=resume)
        raise InterruptedSweep(stopped.done, stopped.total, resume) from None
    counts = {status: count for status, count in sorted(summary.counts.items()) if count}
    if as_json:
        left: dict[str, object] = {"resume": resume} if summary.out_of_time else {}
        if aa is None and (search := conclude(loaded, run).search):
            left["search"] = search
        ended = {"seconds": round(summary.seconds, 1), "out_of_time": summary.out_of_time, **left}
        _event("ended", run=str(run.path), total=summary.total, counts=counts, **ended)
    else:
        listed = ", ".join(f"{count} {status}" for status, count in counts.items()) or "none"
        typer.echo(f"{run.path}: {summary.done} of {summary.total} points: {listed} ({summary.seconds:.0f} s)")
        if aa is not None:
            typer.echo(f"{summary.counts.get('ok', 0)} of {summary.decided} A/A points show a difference")
        if aa is None and (search := conclude(loaded, run).search):
            typer.echo(search_words(search))
        if summary.out_of_time:
            typer.echo(f"the time budget is spent; measure what is left with: {resume}", err=True)
    if summary.exit_code == WrongResultError.exit_code:
        raise WrongResultError(f"{run.path}: no point has a plan with right results ({run.journal} says why)")
    if summary.exit_code == UndecidedError.exit_code:
        raise UndecidedError(f"{run.path}: no point has a winner ({run.journal} says why)")
    if emit:
        try:
            _emit(run.path, quiet=as_json)
        except KeyboardInterrupt:
            commands = " && ".join(_command(verb, run.path) for verb in ("emit", "report"))
            if as_json:
                _event("interrupted", run=str(run.path), done=summary.done, total=summary.total, resume=commands)
            kept = f"the rows are kept in {run.journal}"
            typer.echo(f"interrupted: {kept}; write table and report with: {commands}", err=True)
            raise
    if summary.exit_code == PointsFailedError.exit_code:
        failed = summary.done - summary.decided
        raise PointsFailedError(f"{failed} of {summary.done} points have no winner ({run.journal} says why)")


def _command(verb: str, path: Path, *options: str) -> str:
    """A command that goes on from here, ready for the shell. Never with ``--fresh``: that would start anew."""
    program = Path(sys.argv[0])
    if program.name == "__main__.py":
        words = [sys.executable, "-m", "cake_tune.cli"]
    else:
        words = [program.name if shutil.which(program.name) == str(program) else str(program)]
    return shlex.join([*words, verb, str(path), *options])


def _event(event: str, **fields: object) -> None:
    typer.echo(json.dumps({"event": event, **fields}))


def _emit(run: Path, *, quiet: bool) -> None:
    from cake_tune.cli.emit import emit
    from cake_tune.cli.report import report

    stdout = sys.stdout
    try:
        if quiet:
            sys.stdout = sys.stderr
        emit(run)
        report(run)
    finally:
        sys.stdout = stdout
