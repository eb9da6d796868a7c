"""What all tests stand on: property tests that no slow machine fails, and signals that reach whom they are sent to."""

import signal

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("repeatable", settings.get_profile("untimed"), derandomize=True)
settings.load_profile("untimed")


@pytest.fixture(scope="session", autouse=True)
def signals():
    """SIGINT and SIGHUP as in the foreground of a terminal, for the tests and all that they start.

    A shell starts background jobs with the one ignored, and nohup ignores the other; children inherit that.
    """
    before = {
        signal.SIGINT: signal.signal(signal.SIGINT, signal.default_int_handler),
        signal.SIGHUP: signal.signal(signal.SIGHUP, signal.SIG_DFL),
    }
    yield
    for number, handler in before.items():
        signal.signal(number, handler)
