"""Replay: selection policies evaluated on the visits that a run recorded, without a device."""

from collections.abc import Iterable
from dataclasses import fields

from cake_tune.errors import UndecidedError
from cake_tune.journal.record import PointRecord
from cake_tune.journal.run import RunDirectory, RunInfo
from cake_tune.measure.protocol import Protocol
from cake_tune.study.recorded import trial_of
from cake_tune.study.selectors import Selector
from cake_tune.study.trial import REPLAYS, Score, Trial, score


def protocol_of(info: RunInfo) -> Protocol:
    """The protocol a run was measured with; what this version does not know of it is left out."""
    known = {field.name for field in fields(Protocol)}
    return Protocol(**{name: value for name, value in info.protocol.items() if name in known})  # type: ignore[arg-type]


def trials_of(records: Iterable[PointRecord], protocol: Protocol) -> list[Trial]:
    """Every record with at least two plans to select from, in an order that is not the journal's."""
    trials = [trial for record in records if (trial := trial_of(record, protocol)) is not None]
    return sorted(trials, key=lambda trial: trial.shape)


def replay_run(
    run: RunDirectory, selectors: Iterable[Selector], *, replays: int = REPLAYS, seed: int = 0
) -> list[Score]:
    """The selectors on the recorded visits of ``run``, ``replays`` times each.

    ``UndecidedError`` when no point has two plans with visits; ``JournalError`` for what is no run.
    """
    trials = trials_of(run.read_records(), protocol_of(run.read_info()))
    if not trials:
        raise UndecidedError(f"{run.journal}: expected a point with at least two measured plans, found none to replay")
    return score(selectors, trials, replays=replays, seed=seed)
