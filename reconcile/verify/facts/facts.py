"""Facts that the invariants are checked by, and the results of these checks.

Facts are gathered once, from one version of each table and from the log. A part that no check of a run needs is
`NOT_REQUESTED`; a part that could not be gathered is `Unknown` with a reason. A check finds violations, or the reason
why it could not be evaluated.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from cutover.definition.model.pipeline import Pipeline
from cutover.lake.epochs.epoch_log import EpochRecord
from cutover.lake.integrity.high_water import Witness
from cutover.lake.journal_rows import Loss
from cutover.records.reference import ResultRow, UncountedPair
from cutover.timestamps import format_micros


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """Place at which an invariant does not hold."""

    check: str  # "N1"
    text: str  # one sentence: thing, place, expected, got


@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown:
    """Fact that could not be gathered."""

    reason: str


class CheckState(StrEnum):
    """State of one check."""

    HELD = "held"
    VIOLATED = "violated"
    NOT_PROVABLE = "not_provable"
    WAIVED = "waived"  # the definition does not promise it


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """Result of one check."""

    name: str
    title: str
    state: CheckState
    reason: str = ""  # set if the check could not be evaluated
    runbook: str | None = None  # set if the check could not be evaluated
    coverage: str = ""  # which epochs, windows or rows were checked
    notes: tuple[str, ...] = ()  # omissions and their reasons
    violations: tuple[Violation, ...] = ()
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """Results of all checks of one pipeline."""

    pipeline: str
    checks: Mapping[str, CheckResult]
    epoch: int | None = None  # newest checked epoch
    table_version: int | None = None
    error: str | None = None  # reason why no check could be evaluated
    runbook: str | None = None
    seconds: float = 0.0
    notes: tuple[str, ...] = field(default=())

    @property
    def violations(self) -> tuple[Violation, ...]:
        """Concatenate what all checks found, in their order."""
        return tuple(violation for result in self.checks.values() for violation in result.violations)

    @property
    def exit_code(self) -> int:
        """Return 0 if all checks hold, 1 if one is violated, 2 if one could not be evaluated."""
        states = {result.state for result in self.checks.values()}
        if CheckState.VIOLATED in states:
            return 1
        return 2 if CheckState.NOT_PROVABLE in states or self.error is not None else 0

    def to_json(self) -> dict[str, Any]:
        """Encode the verification as `cutover verify --json` prints it."""
        return {
            "pipeline": self.pipeline,
            "exit_code": self.exit_code,
            "epoch": self.epoch,
            "table_version": self.table_version,
            "error": self.error,
            "runbook": self.runbook,
            "seconds": self.seconds,
            "checks": [
                {
                    "check": c.name,
                    "title": c.title,
                    "state": c.state.value,
                    "why": c.reason,
                    "looked_at": c.coverage,
                    "notes": list(c.notes),
                    "violations": [v.text for v in c.violations],
                    "seconds": c.seconds,
                }
                for c in self.checks.values()
            ],
        }


MOST = 10
"""Violations of one kind that a check lists; one more violation counts the others."""


def cap_violations(check: str, texts: Sequence[str]) -> Iterable[Violation]:
    """Yield a violation for each of the first `MOST` texts, and one that counts the others."""
    for text in texts[:MOST]:
        yield Violation(check=check, text=text)
    if len(texts) > MOST:
        yield Violation(check=check, text=f"... and {len(texts) - MOST:,} more like the last one.")


def format_utc_time(micros: int | None) -> str:
    """Format microseconds since 1970 as ISO text in UTC."""
    return format_micros(micros) or "none"


Group = tuple[int, int, tuple[Any, ...]]  # window start, window end (microseconds), key
Twin = tuple[Any, int]  # id, event time (microseconds)

NOT_REQUESTED = Unknown(reason="no check requested it")


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochCommit:
    """Commit of the epoch log that the table's history still holds."""

    version: int
    operation: str
    mark: str | None  # epoch record as JSON, or `fold`, `adopted`; None: another writer
    restored_version: int | None = None  # of a RESTORE


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerFault:
    """Fault of a ledger row, with its first position."""

    fault: str
    epoch: int | None
    partition: int | None
    offset: int | None
    rows: int  # with the same fault


@dataclass(frozen=True, slots=True, kw_only=True)
class RowTotals:
    """Totals of the rows of the epoch log."""

    pairs: Mapping[tuple[int, str], int]  # epoch, class -> (record, window) pairs; folded rows under their last epoch
    positions: Mapping[tuple[int, str], int]  # epoch, class -> positions in the ledger
    doubts: tuple[LedgerFault, ...] = ()

    @property
    def accepted(self) -> dict[int, int]:
        """Return the accepted pairs by the epoch that their rows carry, ascending."""
        return {epoch: n for (epoch, name), n in sorted(self.pairs.items()) if name == "accepted"}


@dataclass(frozen=True, slots=True, kw_only=True)
class DoubledPosition:
    """Record that the batch ledger lists more than once in a window."""

    partition: int
    offset: int
    window_start: int | None  # microseconds; None: the record has no window
    rows: int
    runs: tuple[str, ...]  # that wrote these rows


@dataclass(frozen=True, slots=True, kw_only=True)
class RescannedOffsets:
    """Offsets `[start, end)` of a partition that two batch runs scanned."""

    partition: int
    start: int
    end: int
    runs: tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchLedger:
    """Duplicates in the batch path's ledger and index."""

    doubled: tuple[DoubledPosition, ...] = ()
    rescanned: tuple[RescannedOffsets, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LogCounts:
    """Records of the log by epoch, counted by reading."""

    records: Mapping[tuple[int, int], int]  # epoch, partition -> records; of the epochs that were counted
    newest: Mapping[int, int]  # epoch -> newest log timestamp up to its end, microseconds, of the read records
    is_complete: bool  # read from the first epoch on
    omission: str = ""  # which epochs were not counted, and why
    lost_records: str = ""  # epochs whose records the log has lost; they are not in `records`

    @property
    def epochs(self) -> frozenset[int]:
        """Collect the keys of `records` without their partitions."""
        return frozenset(epoch for epoch, _ in self.records)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecomputedPortion:
    """Stored rows of consecutive epochs, with the rows that plain Python computes from the log."""

    first_epoch: int
    last_epoch: int
    records: int
    expected: Mapping[Group, ResultRow]
    actual: Mapping[Group, ResultRow]
    expected_ledger: frozenset[UncountedPair]
    actual_ledger: frozenset[UncountedPair]
    expected_ids: frozenset[Twin] = frozenset()  # ids and event times that appear first in these epochs
    actual_ids: frozenset[Twin] = frozenset()  # that the epoch log retains


@dataclass(frozen=True, slots=True, kw_only=True)
class Prefix:
    """Portions that were recomputed."""

    portions: tuple[RecomputedPortion, ...]
    of_epochs: int  # all epochs with records
    sampled: bool
    seed: int
    folds: tuple["Refold", ...] = ()
    omission: str = ""
    lost_records: str = ""  # epochs whose records the log has lost; they were not recomputed


@dataclass(frozen=True, slots=True, kw_only=True)
class Refold:
    """Committed fold, with the windows whose results differ before and after it."""

    version: int
    windows: int
    different: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Paths:
    """Comparison of both paths at one cut by the reconciler."""

    epoch: int
    windows: int
    rows: int
    late_rows: int  # whose only difference is late records
    unexplained: tuple[str, ...]
    incomplete: int = 0  # windows that lost records, or whose batch result is not complete
    accepted: int = 0  # rows without a cause that acceptance rules accept


@dataclass(frozen=True, slots=True, kw_only=True)
class Reopened:
    """Accepted rows of a window that had closed before their epoch."""

    epoch: int
    window_start: int  # microseconds
    watermark: int
    pairs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Finals:
    """Windows that were final at an earlier version of the table, compared with the current version."""

    version: int
    epoch: int
    windows: int
    changed_windows: tuple[int, ...]  # window starts, microseconds


@dataclass(frozen=True, slots=True, kw_only=True)
class RepeatedRuns:
    """Windows that two batch runs computed at the same cut."""

    first_run: str
    second_run: str
    windows: int
    changed_windows: tuple[int, ...]  # window starts, microseconds


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyFacts:
    """Facts about one stream version."""

    stream: str  # pipeline/fingerprint/stream-n, as messages name it
    pipeline: Pipeline
    records: tuple[EpochRecord, ...]  # all epochs of the version, by number
    transaction: int | None  # of the table's newest epoch commit
    witnesses: tuple[Witness, ...] = ()  # readers of this version's epochs, collected before it was opened
    losses: tuple[Loss, ...] = ()  # recorded for this version
    table_version: int = 0
    commits: tuple[EpochCommit, ...] | Unknown = NOT_REQUESTED  # oldest first
    books: RowTotals | Unknown = NOT_REQUESTED
    batch_ledger: BatchLedger | Unknown = NOT_REQUESTED
    log: LogCounts | Unknown = NOT_REQUESTED
    prefix: Prefix | Unknown = NOT_REQUESTED
    paths: Paths | Unknown = NOT_REQUESTED
    reopened: tuple[Reopened, ...] | Unknown = NOT_REQUESTED
    finals: Finals | Unknown = NOT_REQUESTED
    repeated: tuple[RepeatedRuns, ...] | Unknown = NOT_REQUESTED
    foreign: tuple[str, ...] | Unknown = NOT_REQUESTED  # one message for each change by another writer


def _list_no_notes(_: VerifyFacts) -> Iterable[str]:
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Invariant:
    """Invariant of a pipeline, which pure functions evaluate over the facts."""

    name: str  # "N1"
    title: str
    check: Callable[[VerifyFacts], Iterable[Violation]]
    describe_coverage: Callable[[VerifyFacts], str]
    list_notes: Callable[[VerifyFacts], Iterable[str]] = _list_no_notes  # what the check may omit
    needs: tuple[str, ...]  # parts of the facts without which the check cannot be evaluated
    uses: tuple[str, ...] = ()  # parts that the check reads if they are known
