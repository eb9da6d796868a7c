"""The Typer application, and the one place where errors become messages and exit codes.

Each command is one module that imports what it runs only when it runs, so that ``--help`` stays fast.
"""

import os
import sys

import typer

from cake_tune.cli import (
    build,
    check,
    compare,
    coverage,
    devices,
    emit,
    fit,
    plan,
    replay,
    report,
    schema,
    study,
    sweep,
    verify,
)
from cake_tune.errors import CakeTuneError, InterruptedSweep, SpecError, UsageError

app = typer.Typer(
    name="cake-tune",
    help="Calibrate the Cake SM120 NVFP4 sparse-MLA kernels: sweep, fit the crossovers, emit planner tables.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for module in (check, sweep, fit, emit, report, compare, replay, plan, coverage, schema, devices, verify, build):
    app.command()(getattr(module, module.__name__.rpartition(".")[2]))
app.add_typer(study.study, name="study")


def _version(value: bool) -> None:
    if value:
        from cake_tune import __version__

        typer.echo(f"cake-tune {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: bool = typer.Option(False, "--version", help="Print the version and exit.", callback=_version),
) -> None:
    """Calibrate the Cake SM120 NVFP4 sparse-MLA kernels: sweep, fit the crossovers, emit planner tables."""


def run() -> None:
    """Run the command line; every deliberate error is one message on stderr and its exit code.

    So is what the system refuses: a file that cannot be written, a full disk. A reader that hangs up is no error.
    """
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the shell
            setattr(sys, name, open(os.devnull, "w"))  # noqa: PTH123, SIM115
    try:
        app()
    except CakeTuneError as error:
        print(_message(error), file=sys.stderr)
        sys.exit(error.exit_code)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except OSError as error:
        if error.errno is None:  # not the system's word, but that of some code: a bug, or a broken installation
            raise
        place = "" if error.filename is None else f"{os.fsdecode(error.filename)}: "
        print(f"error: {place}{error.strerror}", file=sys.stderr)
        sys.exit(UsageError.exit_code)


def _message(error: CakeTuneError) -> str:
    """What is printed; lines about a spec start with their place, where editors look for it."""
    if isinstance(error, SpecError):
        return str(error)
    return f"interrupted: {error}" if isinstance(error, InterruptedSweep) else f"error: {error}"
