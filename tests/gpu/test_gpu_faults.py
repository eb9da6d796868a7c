"""Faults that a GPU really has end in rows, and the sweep goes on with a new worker."""

from dataclasses import replace

from sweep_specs import QUICK, Listener, make_spec, records_of, run_at

from cake_tune.planner.shape import Shape
from cake_tune.sweep import run_sweep

STRUCK, SPARED = Shape(2, 16, 1024), Shape(2, 16, 64)
FAULTS = {
    "decode/t1/s1x16": ("illegal", "crashed", "illegal memory access"),
    "decode/t1/s2x8": ("hang", "timeout", "no answer for 15 s"),
    "decode/t1/s3x6": ("nan", "wrong", "nan"),
    "decode/t1/s4x4": ("wrong", "wrong", "off by"),
    "decode/t1/s6x3": ("oom", "oom", "out of memory"),
    "decode/t1/s8x2": ("killed", "crashed", "SIGKILL"),
}
"""What each plan of one point does, the status of its row, and what its error says."""


def test_each_fault_is_a_row_and_the_sweep_goes_on(tmp_path):
    """A bad address, an endless kernel, NaNs, a wrong value, too much memory and kill -9 in one point: two plans are
    left to choose from, and the next point knows nothing of it.
    """
    run = run_at(tmp_path)
    faults = ",".join(f"{kind}@{plan}" for plan, (kind, _, _) in FAULTS.items())
    spec = make_spec([STRUCK, SPARED], backend=f"faults:cuda:{faults}", protocol=replace(QUICK, timeout_seconds=15.0))
    listener = Listener()
    summary = run_sweep(spec, run, progress=listener)
    assert summary.counts.keys() <= {"ok", "tied"}, summary.counts
    rows = {str(row.plan): row for row in records_of(run)[STRUCK].rows}
    for plan, (_, status, said) in FAULTS.items():
        row = rows.pop(plan)
        assert (row.status, row.median_us) == (status, None), row
        assert said in row.error.lower() or said in row.error, row
    assert rows.keys() == {"decode/t1/s16x1", "prefill/t1"}
    assert all(row.median_us > 0 for row in [*rows.values(), *records_of(run)[SPARED].rows])
    # Lost: one worker each to the address and the kernel, two to the signals (the first may have come from outside).
    assert sum("starting a new worker" in text for text in listener.messages) == 4
    assert run.read_info().device.arch == "faults"
