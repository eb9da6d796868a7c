"""The worker process: one per device, started once, measures one task after another until its pipe closes."""

import ctypes
import gc
import os
import signal
import sys
from multiprocessing.connection import Connection

from cake_tune.backends import get_backend
from cake_tune.measure.protocol import Protocol
from cake_tune.measure.statistics import upper_bound
from cake_tune.planner.shape import Plan
from cake_tune.sweep.bench import Bench
from cake_tune.sweep.interrupts import ignore
from cake_tune.sweep.tasks import BandTask, Board, Broken, Ready, Task

_PR_SET_PDEATHSIG = 1


def worker_main(pipe: Connection, board: Board, backend: str, protocol: Protocol, seed: int, parent: int) -> None:
    """Entry point of the process; ``parent`` is the process id that it must not outlive."""
    ignore()
    _die_with(parent)
    try:
        started = get_backend(backend)
        started.start()
        upper_bound([0.0, 0.0])  # has SciPy loaded here, and not at the end of the first point
        bench = Bench(started, protocol, seed)
        pipe.send(Ready())
        # No collection in the middle of a sample: garbage is collected between tasks.
        gc.disable()
        while True:
            pipe.send(_answer(bench, pipe.recv(), board))
            gc.collect()
            # What is alive now stays alive: the next collection need not look at a tensor library again.
            gc.freeze()
    except EOFError:
        return
    except Exception as error:
        # What no row accounts for may have left the device unusable: the parent starts another process.
        pipe.send(Broken(f"{type(error).__name__}: {error}"))


def _answer(bench: Bench, task: Task, board: Board) -> object:
    places = {plan: place for place, plan in enumerate(task.plans)}

    def announce(plan: Plan) -> None:
        board.note(places[plan])

    board.note(-1)
    if isinstance(task, BandTask):
        return bench.measure_band(task, announce)
    return bench.measure_point(task, announce)


def _die_with(parent: int) -> None:
    """Have the kernel end this process when its parent dies, even by kill -9 while a sample hangs."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        raise SystemExit(1)
