"""NVRTC: from a specialisation to a cubin. Needs neither a GPU nor a driver."""

from functools import cache
from importlib.metadata import PackageNotFoundError, version

from cake_tune.cuda.manifest import Manifest
from cake_tune.cuda.requirements import cuda_packages
from cake_tune.cuda.specialisation import Specialisation
from cake_tune.errors import CakeTuneError, DeviceUnfitError


def compile_cubin(manifest: Manifest, specialisation: Specialisation) -> bytes:
    """The cubin of ``specialisation``; ``CakeTuneError`` holds the compiler's log where it does not compile."""
    with cuda_packages():
        from cuda.core import Program, ProgramOptions

    compiler_version()  # says what is missing before cuda.core would fail in its own words
    source = manifest.sources[specialisation.kernel]
    log = _Log()
    options = ProgramOptions(
        name=source.file,
        arch=specialisation.arch,
        std=_standard(manifest),
        include_path=str(manifest.folder),
        define_macro=specialisation.macros(manifest) or None,
    )
    try:
        program = Program((manifest.folder / source.file).read_text(encoding="utf-8"), "c++", options)
        code = program.compile("cubin", logs=log).code
    except Exception as error:
        raise CakeTuneError(f"{specialisation}: {compiler_version()} cannot compile it: {error}\n{log}") from error
    return bytes(code)


@cache
def compiler_version() -> str:
    """NVRTC's version, as precise as this installation says; ``DeviceUnfitError`` where it is missing."""
    with cuda_packages():
        from cuda.bindings import nvrtc
    try:
        _, major, minor = nvrtc.nvrtcVersion()
    except RuntimeError as error:
        raise DeviceUnfitError(f"NVRTC cannot be loaded ({error}): pip install 'cake-tune[cuda]'") from error
    try:
        package = version("nvidia-cuda-nvrtc")
    except PackageNotFoundError:
        package = ""
    return f"nvrtc {package if package.startswith(f'{major}.{minor}.') else f'{major}.{minor}'}"


def _standard(manifest: Manifest) -> str:
    """The manifest's one compile option, the language standard, as cuda.core takes it."""
    [option] = manifest.compile_options
    return option.removeprefix("-std=")


class _Log:
    """Collects what NVRTC prints; cuda.core calls ``write``."""

    def __init__(self) -> None:
        self._parts: list[str] = []

    def write(self, text: str) -> None:
        self._parts.append(text)

    def __str__(self) -> str:
        return "".join(self._parts).replace("\0", "").strip()
