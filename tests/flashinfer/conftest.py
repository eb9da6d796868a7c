"""FlashInfer as released, from its wheels: read, unpacked where a test wants it installed, and never imported."""

import shutil
import sys
import zipfile
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest
from flashinfer_standin import StandIn

from cake_tune.backends import flashinfer as backend
from cake_tune.flashinfer import compiler, interface, kernels, package
from cake_tune.planner import environment, registry

WHEELS = sorted(Path(sys.prefix, "flashinfer").glob("flashinfer_python-*.whl"))
KEPT = ("flashinfer/__init__.py", "flashinfer/mla/", package.MANIFEST.name)
"""Parts of a wheel that are unpacked, besides its metadata."""


def version_of(wheel):
    return wheel.name.split("-")[1]


@pytest.fixture(autouse=True)
def nothing_remembered(monkeypatch, tmp_path):
    """No table given or installed, and every answer about FlashInfer asked anew."""
    monkeypatch.delenv(environment.ENVIRONMENT, raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    caches = (
        package._package,
        interface._check_drivable,
        kernels.load_mla,
        kernels.check_served,
        kernels._sparse,
        compiler.compiler_version,
        backend._device,
    )
    registry.forget_tables()
    for cache in caches:
        cache.cache_clear()
    with registry.use_table(None), registry.use_device(None), registry.use_backend(None):
        yield
    registry.forget_tables()
    for cache in caches:
        cache.cache_clear()


@pytest.fixture(scope="session")
def unpacked(tmp_path_factory):
    """The folders of the wheels' Python sources, metadata and manifest, by version."""
    if not WHEELS:
        pytest.fail(f"no FlashInfer wheel in {Path(sys.prefix, 'flashinfer')}: 'make test' downloads them")
    folders = {}
    for wheel in WHEELS:
        folders[version_of(wheel)] = folder = tmp_path_factory.mktemp("flashinfer")
        with zipfile.ZipFile(wheel) as archive:
            for name in archive.namelist():
                if name.startswith(KEPT[:2]) or name.endswith((KEPT[2], ".dist-info/METADATA")):
                    archive.extract(name, folder)
    return folders


@pytest.fixture(params=[version_of(wheel) for wheel in WHEELS] or [None])
def release(request, unpacked):
    """Every release that the tests know, one after the other."""
    return package.Package(unpacked[request.param] / "flashinfer", request.param)


@pytest.fixture
def missing():
    """Skips where FlashInfer is installed: what is said of a missing one cannot be heard there."""
    with suppress(PackageNotFoundError):
        pytest.skip(f"{package.DISTRIBUTION} {version(package.DISTRIBUTION)} is installed")


@pytest.fixture
def site(unpacked, monkeypatch):
    """The folder of the newest release, which Python finds as if it were installed."""
    folder = unpacked[max(unpacked, key=package.Version)]
    monkeypatch.syspath_prepend(folder)
    monkeypatch.delitem(sys.modules, "flashinfer", raising=False)
    return folder


@pytest.fixture
def installed(unpacked, tmp_path, monkeypatch):
    """Installs a copy of the newest release under a version, and returns its folder."""

    def install(version):
        newest = max(unpacked, key=package.Version)
        shutil.copytree(unpacked[newest], tmp_path / "site")
        [metadata] = (tmp_path / "site").glob("*.dist-info")
        text = (metadata / "METADATA").read_text()
        (metadata / "METADATA").write_text(text.replace(f"\nVersion: {newest}\n", f"\nVersion: {version}\n"))
        metadata.rename(metadata.with_name(f"flashinfer_python-{version}.dist-info"))
        monkeypatch.syspath_prepend(tmp_path / "site")
        monkeypatch.delitem(sys.modules, "flashinfer", raising=False)
        return tmp_path / "site" / "flashinfer"

    return install


@pytest.fixture
def standin(site, monkeypatch):
    """FlashInfer's functions as they are declared in the wheel, over this project's op."""
    made = StandIn(package.find_package())
    for name, module in made.modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    return made
