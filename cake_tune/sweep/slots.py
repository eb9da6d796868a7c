"""The devices that a sweep may use side by side: GPUs, each by its UUID, or several of a device that is made up."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cake_tune.backends import Backend
from cake_tune.errors import DeviceUnfitError, UsageError
from cake_tune.planner.shape import Device

if TYPE_CHECKING:
    from cake_tune.cuda.devices import Gpu

ON_GPU = frozenset({"cuda", "flashinfer"})
"""Backends that measure on a GPU."""

MADE_UP = "simulated"
"""The backend whose device does not exist, so that there can be any number of it."""

MOST = 64


@dataclass(frozen=True, slots=True)
class Slot:
    """A place where one worker process measures.

    ``name`` goes into the records (a GPU's UUID; empty for the only device that is none), ``environment`` into the
    worker's environment, which tells its backend where to measure.
    """

    name: str
    device: Device
    environment: Mapping[str, str] = field(default_factory=dict, hash=False)


def slots_for(backend: Backend, gpus: str | None = None) -> tuple[Slot, ...]:
    """The slots that ``gpus`` asks for: ``all``, a number, or UUIDs (or unique beginnings of them) with commas.

    None: the first visible GPU, whose worker keeps the user's environment (which may name a MIG device), or the
    backend's only device. ``UsageError`` for what is not there, and for a number of devices of a backend that has one;
    ``DeviceUnfitError`` for GPUs that are not of one kind.
    """
    kind, _, configuration = backend.name.partition(":")
    base = configuration.partition(":")[0] if kind == "faults" else kind
    if base in ON_GPU:
        return _on_gpus(backend, gpus)
    device = backend.device()
    if gpus is None:
        return (Slot("", device),)
    if base != MADE_UP:
        raise UsageError(f"--gpus: the backend {backend.name} measures on no GPU: expected no such option, got {gpus}")
    count = _number(gpus)
    if count is None or not 1 <= count <= MOST:
        raise UsageError(f"--gpus: expected from 1 to {MOST} simulated devices, got {gpus}")
    return tuple(Slot(f"{MADE_UP}-{number}", device) for number in range(count))


def chosen(visible: "Sequence[Gpu]", gpus: str | None) -> "list[Gpu]":
    """Those of the visible GPUs that ``gpus`` asks for, as in ``slots_for``."""
    if gpus is None or gpus == "all":
        return list(visible[: 1 if gpus is None else None])
    count = _number(gpus)
    if count is not None:
        if not 1 <= count <= len(visible):
            raise UsageError(f"--gpus: expected from 1 to {len(visible)} visible GPUs, got {count}")
        return list(visible[:count])
    found = []
    for word in gpus.split(","):
        matching = [gpu for gpu in visible if word and gpu.uuid.startswith(word)]
        if len(matching) != 1:
            there = ", ".join(gpu.uuid for gpu in visible) or "none"
            raise UsageError(f"--gpus: expected all, a number, or UUIDs of visible GPUs ({there}), got {word!r}")
        if matching[0] in found:
            raise UsageError(f"--gpus: {matching[0].uuid} is named twice")
        found += matching
    return found


def same_kind(gpus: "Sequence[Gpu]") -> None:
    """``DeviceUnfitError`` unless all ``gpus`` have one name and one number of SMs: rows of one run must compare."""
    kinds = {(gpu.name, gpu.num_sms): gpu.uuid for gpu in gpus}
    if len(kinds) > 1:
        listed = "; ".join(f"{name} with {sms} SMs ({uuid})" for (name, sms), uuid in kinds.items())
        raise DeviceUnfitError(f"--gpus: expected GPUs of one kind, got {listed}: name those of one kind by UUID")


def _on_gpus(backend: Backend, gpus: str | None) -> tuple[Slot, ...]:
    from cake_tune.cuda.devices import gpu_device, visible_gpus

    visible = visible_gpus()
    device = backend.device()  # which says why there is none, or why its kernels do not run here
    if not visible:
        return (Slot("", device),)
    found = chosen(visible, gpus)
    same_kind(found)
    plain = not backend.name.startswith("faults:")
    return tuple(
        Slot(
            gpu.uuid,
            gpu_device(gpu.index) if plain else backend.device(),
            {} if gpus is None else {"CUDA_VISIBLE_DEVICES": gpu.uuid},
        )
        for gpu in found
    )


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 9 else None
