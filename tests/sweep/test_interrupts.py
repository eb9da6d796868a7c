"""Requests to stop are counted, told once, and leave no handler behind."""

import os
import signal
import threading

import pytest

from cake_tune.sweep.interrupts import SIGNALS, Interrupts


@pytest.mark.parametrize("number", SIGNALS)
def test_the_first_request_is_told_once_and_the_second_is_insistent(number):
    told = []
    with Interrupts(lambda: told.append("stop")) as interrupts:
        assert not interrupts.requested()
        os.kill(os.getpid(), number)
        assert told == [], "told from inside a signal handler"
        assert interrupts.requested()
        assert not interrupts.insistent()
        os.kill(os.getpid(), number)
        assert interrupts.insistent()
    assert told == ["stop"]


def test_a_hang_up_that_is_ignored_stays_ignored():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Interrupts(lambda: None) as interrupts:
            os.kill(os.getpid(), signal.SIGHUP)
            assert not interrupts.requested()
    finally:
        signal.signal(signal.SIGHUP, before)


def test_handlers_are_put_back():
    before = [signal.getsignal(number) for number in SIGNALS]
    with Interrupts(lambda: None):
        assert [signal.getsignal(number) for number in SIGNALS] != before
    assert [signal.getsignal(number) for number in SIGNALS] == before


def test_another_thread_may_sweep_too():
    seen = []

    def work():
        with Interrupts(lambda: None) as interrupts:
            seen.append(interrupts.requested())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [False]
