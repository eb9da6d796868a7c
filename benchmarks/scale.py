"""What a large journal costs: ``python benchmarks/scale.py [--rows N] [--directory DIR]``.

Makes a journal of a million rows (lines of ``measurements.csv``: one plan of one point each), then runs ``cake-tune
fit``, ``emit`` and ``report`` on it as a user would, and prints wall time, CPU time and a bound on the memory of each;
then a look-up in a table of 10,000 exceptions, for shapes asked again and for shapes never asked before.
"""

import argparse
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
import tracemalloc
from pathlib import Path

from scale_journal import INFO, write
from scale_table import table_of

from cake_tune.planner.lookup import decide
from cake_tune.planner.table import load_table

LOOK_UPS, CHUNK = 1_000_000, 2000


def run_command(name: str, run: Path) -> float:
    """Run a command of the tool on ``run`` and print what it took; returns its seconds."""
    start = time.perf_counter()
    child = subprocess.Popen([sys.executable, "-m", "cake_tune.cli", name, str(run)], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    seconds = time.perf_counter() - start
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise SystemExit(f"{name}: exit code {child.returncode}")
    cpu = usage.ru_utime + usage.ru_stime
    # The time is that of both its processes, the memory that of the larger one: together they hold at most twice that.
    most = 2 * usage.ru_maxrss / 2**20
    print(f"{name:<8}{seconds:>8.1f} s wall{cpu:>8.1f} s CPU{most:>8.2f} GiB at most", flush=True)
    return seconds


def look_up(exceptions: int) -> None:
    """Time look-ups in a table of ``exceptions`` intervals, and show that memory does not grow with them."""
    table, shapes = table_of(exceptions)
    rng = random.Random(0)
    rng.shuffle(shapes)
    for name, asked in (("again", shapes[:2000] * 10), ("anew", shapes[:20000])):
        table.answers.clear()
        if name == "again":
            for shape in asked[:2000]:
                decide(table, **shape)
        runs = []
        for first in range(0, len(asked), CHUNK):
            start = time.perf_counter()
            for shape in asked[first : first + CHUNK]:
                decide(table, **shape)
            runs.append((time.perf_counter() - start) / CHUNK * 1e6)
        figures = f"{statistics.median(runs):.2f} us (fastest {min(runs):.2f})"
        print(f"look-up of shapes asked {name}: {figures} in {exceptions} exceptions")
    tracemalloc.start()
    sizes = []
    for _ in range(2):
        for i in range(LOOK_UPS):
            decide(table, **shapes[i % len(shapes)])
        table.answers.clear()
        sizes.append(tracemalloc.get_traced_memory()[0])
    tracemalloc.stop()
    print(f"memory after {LOOK_UPS} look-ups and after as many more: {sizes[0]} and {sizes[1]} bytes")


def main() -> None:
    """Print every figure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--directory", type=Path, help="keep the run here, and use it if it is there")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        run = options.directory or Path(temporary) / INFO.sweep
        if not run.exists():
            points, rows = write(run, options.rows)
            print(f"journal: {points} points, {rows} rows, {(run / 'journal.jsonl').stat().st_size / 2**20:.0f} MiB")
        seconds = sum(run_command(name, run) for name in ("fit", "emit", "report"))
        print(f"together {seconds:.1f} s; {len(load_table(run / 'table.json').exceptions)} exceptions")
    look_up(10_000)


if __name__ == "__main__":
    main()
