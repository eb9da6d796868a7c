"""What the compiled kernels need from the machine, and what is said when it is missing."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from cake_tune.cuda.manifest import load_manifest
from cake_tune.errors import DeviceUnfitError


@contextmanager
def cuda_packages() -> Iterator[None]:
    """Imports inside may miss the packages of the ``cuda`` extra: then ``DeviceUnfitError`` says how to get them."""
    try:
        yield
    except ImportError as error:
        raise DeviceUnfitError(
            "the compiled kernels need cuda-core, cuda-bindings and nvidia-cuda-nvrtc "
            f"({error}): pip install 'cake-tune[cuda]'"
        ) from error


def arch_of(capability: tuple[int, int], name: str, archs: Sequence[str] | None = None) -> str:
    """The architecture of a GPU of this compute capability; ``DeviceUnfitError`` if the kernels do not run on it.

    ``archs`` are those that the kernels are written for; by default, those of this project's.
    """
    arch = f"sm_{capability[0]}{capability[1]}a"
    archs = load_manifest().archs if archs is None else archs
    if arch not in archs:
        raise DeviceUnfitError(
            f"{name}: the kernels run on {', '.join(archs)}, and this device is sm_{capability[0]}{capability[1]}"
        )
    return arch
