import pytest


@pytest.fixture
def device():
    """Where the contract is tested; a GPU's conftest names its own."""
    return "cpu"
