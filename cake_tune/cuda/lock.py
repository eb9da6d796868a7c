"""One measurement per GPU: a lock by UUID, which ends with the process that holds it, however that ends.

It keeps a user's own sweeps apart; those of other users show as processes on the GPU (see ``monitor``).
"""

import os
from pathlib import Path

from filelock import FileLock, Timeout

from cake_tune.errors import DeviceUnfitError

SHARE = "CAKE_TUNE_SHARE_GPU"
"""Environment variable: "1" measures a GPU that others use too."""
WAIT_SECONDS = 10.0
"""How long to wait for a holder that is just ending: a killed process keeps its files until the driver lets it go."""

_held: dict[Path, FileLock] = {}


def shares_gpu() -> bool:
    """True if the user accepts other users of the GPU; what is measured then is theirs to judge."""
    return os.environ.get(SHARE, "") == "1"


def lock_gpu(uuid: str, *, wait_seconds: float = WAIT_SECONDS, directory: Path | None = None) -> None:
    """Hold the GPU for the rest of this process; asking again is free.

    ``DeviceUnfitError`` if another process holds it for longer than ``wait_seconds``. ``directory`` is where the locks
    lie, None for this user's.
    """
    path = (directory or _directory()) / f"{uuid}.lock"
    if path in _held:
        return
    holder = path.with_suffix(".pid")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(path)
        lock.acquire(timeout=wait_seconds)
        holder.write_text(str(os.getpid()), encoding="ascii")
    except Timeout:
        raise DeviceUnfitError(
            f"{uuid}: process {_read(holder)} measures on this GPU (it holds {path}): "
            f"wait for it, or set {SHARE}=1 to measure beside it"
        ) from None
    except OSError as error:
        raise DeviceUnfitError(f"{uuid}: the GPU cannot be locked: {error}") from error
    _held[path] = lock


def _directory() -> Path:
    from platformdirs import user_cache_path

    return user_cache_path("cake-tune", appauthor=False) / "locks"


def _read(holder: Path) -> str:
    try:
        return holder.read_text(encoding="ascii") or "?"
    except OSError:
        return "?"
