"""The exceptions of cake-tune: one small tree, each class with the exit code its command ends with.

Exit codes (measurement protocol): 0 ok, 1 internal error, 2 usage or spec, 3 regression, 4 wrong results,
5 undecided, 6 device unfit, 7 some points failed, 130 interrupted.
"""


class CakeTuneError(Exception):
    """Base of every error that cake-tune raises on purpose."""

    exit_code = 1


class UsageError(CakeTuneError, ValueError):
    """An argument, option or file that cannot be used; the message names it, what was expected and what came."""

    exit_code = 2


class ContractError(UsageError):
    """Input of the op or of a planner that breaks the contract (a ``ValueError``, as in FlashInfer)."""


class RegimeError(ContractError):
    """Inputs that would not show the memory regime asked for: their times would carry a false label."""


class SpecError(UsageError):
    """A sweep spec that does not validate; the message holds every problem, each with file:line:column."""


class CardError(SpecError):
    """A model card that does not validate; the message holds every problem, each with file:line:column."""


class TableError(UsageError):
    """A planner table that is malformed, of another schema version, or not for the device at hand."""


class JournalError(UsageError):
    """A run directory or journal that cannot be read, or belongs to another sweep."""


class RegressionError(CakeTuneError):
    """A comparison found something slower than the bound allows."""

    exit_code = 3


class WrongResultError(CakeTuneError):
    """A kernel's output disagrees with the reference."""

    exit_code = 4


class UndecidedError(CakeTuneError):
    """The measurements do not decide the question (too few points, or nothing measured)."""

    exit_code = 5


class DeviceUnfitError(CakeTuneError):
    """The device or its software cannot run what was asked (missing, busy, unsupported)."""

    exit_code = 6


class PointsFailedError(CakeTuneError):
    """The sweep ended, and some of its points hold no usable measurement."""

    exit_code = 7


class InterruptedSweep(CakeTuneError):  # noqa: N818 (nothing went wrong: the user stopped it)
    """The sweep was stopped by the user with ``done`` of ``total`` points measured.

    ``resume`` is the command that measures the others, where it is known: only the command line knows its options.
    """

    exit_code = 130

    def __init__(self, done: int, total: int, resume: str = "") -> None:
        super().__init__(f"{done} of {total} points are measured" + (f"; resume with: {resume}" if resume else ""))
        self.done = done
        self.total = total
        self.resume = resume
