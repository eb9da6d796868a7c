"""``cake-tune devices``: what can be measured here, and which table answers for it."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from cake_tune.planner.shape import Device


def devices() -> None:
    """List this machine's devices with the planner table that answers for each one."""
    from cake_tune.errors import TableError
    from cake_tune.planner.registry import table_for

    for index, device in _devices():
        l2 = f", L2 {device.l2_bytes / 2**20:.0f} MiB" if device.l2_bytes else ""
        unit = "SMs" if device.is_gpu else "workers"
        typer.echo(f"{index}: {device.name} ({device.arch}, {device.num_sms} {unit}{l2})")
        try:
            table, own = table_for(device, backend="cake_tune")
            typer.echo(f"  table: {table.label}{'' if own else ', extrapolated: no table of its own'}")
            other, own = table_for(device, backend="flashinfer")
            if own and other != table:
                typer.echo(f"  table for FlashInfer's kernels: {other.label}")
        except TableError as error:
            typer.echo(f"  table: {error}")


def _devices() -> Iterator[tuple[str, "Device"]]:
    from cake_tune.host import cpu_device

    yield "cpu", cpu_device()
    import torch

    from cake_tune.mla.device import device_of

    for index in range(torch.cuda.device_count()):
        yield f"cuda:{index}", device_of(torch.device("cuda", index))
