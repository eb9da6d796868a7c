"""What this project calls of FlashInfer, and the checks that the installed one can be driven so: before any call."""

from functools import cache

from cake_tune.errors import DeviceUnfitError
from cake_tune.flashinfer.drift import Difference, limit_differences
from cake_tune.flashinfer.isolated import PREFIX
from cake_tune.flashinfer.package import Package, find_package
from cake_tune.planner.shape import Device

DECODE = f"{PREFIX}decode"
PREFILL = f"{PREFIX}prefill"
WRAPPER = "SparseMLASm120Wrapper"
PACK = "nvfp4_quantize_pack_sparse_mla_cache"

_TENSORS = ("q", "kv_cache", "indices", "output", "out_lse", "sm_scale")
_OPTIONAL = ("topk_length", "attn_sink", "extra_kv_cache", "extra_indices", "extra_topk_length", "lse_scale")
_CALLS: dict[str, tuple[str | None, tuple[str, ...], tuple[str, ...]]] = {
    DECODE: (None, _TENSORS, (*_OPTIONAL, "mid_out", "mid_lse", "num_splits", "head_tiles")),
    PREFILL: (None, _TENSORS, (*_OPTIONAL, "head_tiles")),
    PACK: (None, ("latent_kv",), ()),
    f"{WRAPPER}()": ("__init__", (), ("kv_cache_format", "backend")),
    f"{WRAPPER}.run": ("run", ("q", "kv_cache", "indices", "output", "sm_scale"), (*_OPTIONAL, "out_lse")),
}
"""What is called, with which arguments by position, and which by keyword."""


def drivable_package() -> Package:
    """The installed FlashInfer, if its kernels can be driven from here; ``DeviceUnfitError`` says what prevents it."""
    package = find_package()
    _check_drivable(package)
    return package


def served_archs(package: Package) -> list[str]:
    """The architectures that FlashInfer's Cake kernels run on, as its source lists them: sm_120a, sm_121a."""
    return [f"sm_{capability}a" for capability in package.sources.capabilities(DECODE)]


def check_device(package: Package, device: Device) -> None:
    """Raise ``DeviceUnfitError`` unless FlashInfer's Cake kernels run on ``device``."""
    known = served_archs(package)
    if device.arch not in known:
        raise DeviceUnfitError(
            f"{device.name}: FlashInfer's Cake kernels run on {', '.join(known)}, and this device is {device.arch}"
        )


@cache
def _check_drivable(package: Package) -> None:
    found = [*limit_differences(package), *_uncallable(package)]
    if found:
        raise DeviceUnfitError(
            f"{package}: this cake-tune cannot drive its kernels: {'; '.join(map(str, found))}; "
            "a newer cake-tune may, or an older FlashInfer"
        )


def _uncallable(package: Package) -> list[Difference]:
    """Calls that the installed functions do not take."""
    found = []
    for called, (method, positional, keywords) in _CALLS.items():
        name = called.partition("(")[0].partition(".")[0]
        signature = package.sources.signature(name, method)
        parameters = list(signature.parameters)
        if tuple(parameters[: len(positional)]) != positional:
            found.append(Difference(called, f"({', '.join(positional)}, ...)", str(signature)))
            continue
        try:
            signature.bind(*positional, **dict.fromkeys(keywords))
        except TypeError as error:
            found.append(Difference(called, f"called with {', '.join((*positional, *keywords))}", f"{error}"))
    return found
