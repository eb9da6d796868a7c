"""A sweep in a process of its own, for tests that kill it: ``python sweep_driver.py RUN POINTS BACKEND [DEVICES]``."""

import sys
from pathlib import Path

from sweep_specs import Listener, make_spec, many_shapes

from cake_tune.backends import get_backend
from cake_tune.errors import InterruptedSweep
from cake_tune.journal.run import RunDirectory
from cake_tune.sweep import run_sweep
from cake_tune.sweep.slots import slots_for


class Speaker(Listener):
    """Says on stdout when points start, so that a test knows where the sweep is."""

    def message(self, text):
        print("message", text, flush=True)

    def started(self, shape, done, total, seconds_left):
        print("started", done, flush=True)


def main() -> int:
    run, points, backend, *devices = sys.argv[1:]
    try:
        spec = make_spec(many_shapes(int(points)), backend=backend)
        slots = slots_for(get_backend(backend), *devices)
        return run_sweep(spec, RunDirectory(Path(run)), slots=slots, progress=Speaker()).exit_code
    except InterruptedSweep as interrupted:
        print(interrupted, flush=True)
        return interrupted.exit_code


if __name__ == "__main__":
    sys.exit(main())
