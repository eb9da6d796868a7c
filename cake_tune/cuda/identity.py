"""Which kernel this is: what a measurement of it must be filed under."""

from cake_tune.cuda.compiler import compiler_version
from cake_tune.cuda.manifest import load_manifest
from cake_tune.cuda.options import chosen_options
from cake_tune.planner.table import KernelIdentity


def kernel_identity() -> KernelIdentity:
    """The kernels of this installation as built by its compiler, on this machine's driver ("" without one).

    Under ``build_options`` the identity names the options that differ from the default. Raises ``DeviceUnfitError``
    without NVRTC.
    """
    manifest, options = load_manifest(), chosen_options()
    parts = [manifest.identity]
    if options.qk != manifest.default_qk:
        parts.append(options.qk)
    if options.variant is not None:
        parts.append(options.variant)
    return KernelIdentity(manifest.family, "+".join(parts), compiler_version(), driver_version())


def driver_version() -> str:
    """The GPU driver's version, or the CUDA version that it offers where only that can be read; "" without a driver."""
    from cuda.core import system

    for read, prefix in ((system.get_kernel_mode_driver_version, ""), (system.get_user_mode_driver_version, "CUDA ")):
        try:
            return prefix + ".".join(map(str, read()))
        except RuntimeError:  # no driver, or bindings that cannot ask
            continue
    return ""
