import pytest

from cake_tune.planner import environment, registry


@pytest.fixture(autouse=True)
def nothing_given(monkeypatch, tmp_path):
    """No table given, none installed: what the host has in force must not decide a test."""
    monkeypatch.delenv(environment.ENVIRONMENT, raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    registry.forget_tables()
    with registry.use_table(None), registry.use_device(None), registry.use_backend(None):
        yield
    registry.forget_tables()


@pytest.fixture(scope="session")
def shipped():
    """The published tables by num_sms."""
    tables = [table for table in registry.shipped_tables() if table.provenance.kind == "published"]
    return {table.device.num_sms: table for table in tables}
