"""Running a sweep: points to a worker process, records to the journal, on from where it stopped."""

from typing import TYPE_CHECKING

from cake_tune._lazy import lazy_names

if TYPE_CHECKING:
    from cake_tune.sweep.progress import Progress, SweepSummary
    from cake_tune.sweep.run import run_sweep, run_twins

__all__ = ["Progress", "SweepSummary", "run_sweep", "run_twins"]

# Lazily: a worker process imports this package too, and needs neither the spec nor the journal.
__getattr__, __dir__ = lazy_names(__name__, __all__, ("cake_tune.sweep.progress", "cake_tune.sweep.run"))
