from pathlib import Path

import pytest
from compiled_kernels import build_all
from filelock import FileLock


@pytest.fixture(scope="session")
def programs(request: pytest.FixtureRequest) -> Path:
    """A program cache that test runs share, so that unchanged kernels are compiled once per checkout."""
    return Path(request.config.cache.mkdir("kernels")) / "cake-tune" / "programs"


@pytest.fixture(scope="session")
def built(programs):
    """Every specialisation, compiled."""
    with FileLock(programs.parents[1] / "building.lock"):
        return build_all(programs)
