"""``cake-tune build``: compile the kernels ahead of their first use."""

from typing import Annotated

import typer

from cake_tune.cli.arguments import listed
from cake_tune.errors import UsageError


def build(
    archs: Annotated[
        list[str] | None,
        typer.Option("--arch", "-a", metavar="ARCH,...", help="sm_90a, sm_120a, sm_121a. [default: all]"),
    ] = None,
    jobs: Annotated[int, typer.Option("--jobs", "-j", min=1, help="Compilers that run side by side.")] = 1,
    flashinfer: Annotated[
        bool, typer.Option("--flashinfer", help="Have FlashInfer compile its kernels for this machine's GPU instead.")
    ] = False,
) -> None:
    """Compile every specialisation of the kernels into the program cache, and print what each takes; needs no GPU."""
    if flashinfer:
        if archs:
            raise UsageError("--arch: expected without --flashinfer, which compiles for the GPU that is here")
        _build_flashinfer()
        return
    from cake_tune.cuda import build_kernels
    from cake_tune.cuda.manifest import load_manifest

    row = "{:<58}{:>10}{:>15}{:>16}{:>13}{:>13}".format
    head = ("specialisation", "registers", "static shared", "dynamic shared", "local bytes", "CTAs per SM")
    asked = listed("--arch", archs) if archs else load_manifest().archs
    for number, built in enumerate(build_kernels(asked, jobs=jobs)):
        if not number:  # what is missing is known by now, and said without a table
            typer.echo(row(*head))
        takes = built.resources
        typer.echo(
            row(
                str(built.specialisation),
                takes.registers,
                takes.static_shared_bytes,
                built.dynamic_shared_bytes,
                takes.local_bytes,
                built.ctas_per_sm,
            )
        )


def _build_flashinfer() -> None:
    """What the first sweep would otherwise wait for, minutes long."""
    from cake_tune.backends import get_backend

    device = get_backend("flashinfer").device()
    from cake_tune.backends.flashinfer_launcher import compile_all

    for part in compile_all("cuda"):
        typer.echo(f"{device.name}: {part}")
