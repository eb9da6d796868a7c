"""Which table a question goes to, as ``plan`` and ``coverage`` ask it, and what is said where that was a choice."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cake_tune.errors import UsageError

if TYPE_CHECKING:
    from cake_tune.planner.backend import Backend
    from cake_tune.planner.table import PlannerTable

TableOption = Annotated[Path | None, typer.Option("--table", help="Planner table to ask. [default: the one in force]")]
SmsOption = Annotated[int | None, typer.Option("--num-sms", help="Multiprocessors of the GPU planned for.")]
DeviceOption = Annotated[
    str | None,
    typer.Option(
        "--device", metavar="NAME", help="GPU planned for, by a part of its name; tells GPUs of as many SMs apart."
    ),
]


def asked_table(
    table: Path | None, device: str | None, num_sms: int | None, backend: "Backend | None"
) -> "tuple[PlannerTable, int | None]":
    """The table that answers, and the number of SMs to ask it for (None: its own).

    ``table``, else the one in force, else that of ``device``, else one of a GPU with ``num_sms``: where several have as
    many, stderr says which one answers and how to ask another.
    """
    from cake_tune.planner.candidates import gpu_named, gpus_with
    from cake_tune.planner.environment import environment_table
    from cake_tune.planner.registry import table_for, use_table

    if device is not None and table is not None:
        raise UsageError("--device, --table: expected one of them")
    if num_sms is not None and num_sms < 1:
        raise UsageError(f"--num-sms: expected an integer >= 1, got {num_sms}")
    gpu = None if device is None else gpu_named(device, num_sms, backend)
    with use_table(table):
        answers, _ = table_for(gpu, num_sms if gpu is None else None, backend)
    if gpu is not None:
        return answers, gpu.num_sms if num_sms is None else num_sms
    if num_sms is not None and table is None and environment_table() is None:
        others = [each.name for each in gpus_with(num_sms, backend) if each.name != answers.device.name]
        if others:
            typer.echo(
                f"{num_sms} SMs: {answers.label} answers; --device asks for another GPU with as many: "
                + ", ".join(others),
                err=True,
            )
    return answers, num_sms
