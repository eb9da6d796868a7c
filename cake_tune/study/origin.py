"""Whether runs may be held against each other: the same device, kernel and cache regime."""

from collections.abc import Iterator

from cake_tune.errors import JournalError
from cake_tune.journal.run import RunDirectory, RunInfo


def check_same(first: RunDirectory, other: RunDirectory, *, any_kernel: bool = False) -> None:
    """Raise ``JournalError``, naming everything that differs, unless both runs measured the same thing.

    ``any_kernel`` allows another identity of the kernel family, its compiler and driver.
    """
    ours, theirs = first.read_info(), other.read_info()
    differing = [
        f"{what} {expected}, got {got}"
        for (what, expected), (_, got) in zip(_facts(ours, any_kernel), _facts(theirs, any_kernel), strict=True)
        if expected != got
    ]
    if differing:
        raise JournalError(f"{other.path}: expected the {'; the '.join(differing)} (as in {first.path})")


def _facts(info: RunInfo, any_kernel: bool) -> Iterator[tuple[str, str]]:
    device, kernel = info.device, info.kernel
    yield "device", f"{device.name} ({device.arch}, num_sms {device.num_sms})"
    yield "backend", info.backend
    yield "kernel family", kernel.family
    if not any_kernel:
        yield "kernel identity", kernel.identity
    yield "cache regime", str(info.protocol.get("regime", "cold"))
