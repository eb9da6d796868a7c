"""One compiled program: a kernel with every compile-time choice made."""

from collections.abc import Iterator
from dataclasses import dataclass

from cake_tune.cuda.manifest import Manifest, Variant


@dataclass(frozen=True, slots=True)
class Specialisation:
    """One kernel for one architecture; ``variant`` is None for merge, which has no build options."""

    arch: str
    kernel: str
    variant: Variant | None = None
    dual_cache: bool = False
    qk: str = ""

    def macros(self, manifest: Manifest) -> list[tuple[str, str]]:
        """The macros that its program is compiled with."""
        if self.variant is None:
            return []
        given = dict(self.variant.macros) | {
            "CAKE_DUAL_CACHE": int(self.dual_cache),
            "CAKE_QK_NVFP4": manifest.qk_modes[self.qk],
        }
        return [(name, str(value)) for name, value in sorted(given.items())]

    def threads(self, manifest: Manifest) -> int:
        """Threads of a CTA."""
        return manifest.merge_threads if self.variant is None else self.variant.threads

    @property
    def shared_bytes(self) -> int:
        """Dynamic shared memory of a CTA in bytes."""
        return 0 if self.variant is None else self.variant.shared_bytes

    def __str__(self) -> str:
        if self.variant is None:
            return f"{self.arch}/{self.kernel}"
        return f"{self.arch}/{self.kernel}/{self.variant.name}/{'dual' if self.dual_cache else 'single'}/{self.qk}"


def every_specialisation(manifest: Manifest, arch: str, *, only_defaults: bool = False) -> Iterator[Specialisation]:
    """Every program of ``arch``: each variant of each kernel, for one and two caches, for each query mode.

    ``only_defaults`` leaves out the variants that run only when a sweep or a caller asks for them by name.
    """
    default = {name for (of, _, _), name in manifest.defaults.items() if of == arch}
    for variant in manifest.variants.values():
        if arch not in variant.archs or (only_defaults and variant.name not in default):
            continue
        for kernel in variant.kernels:
            for dual_cache in (False, True):
                for qk in manifest.qk_modes:
                    yield Specialisation(arch, kernel, variant, dual_cache, qk)
    yield Specialisation(arch, "merge")
