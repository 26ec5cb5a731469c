"""All that the checks judge: gathered once, from one version of each table and from the log.

A part that a run does not ask for is left out, one that cannot be had says why (`Unknown`).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cutover.definition.model.pipeline import Pipeline
from cutover.lake.epochs.epoch_log import EpochRecord
from cutover.lake.integrity.high_water import Witness
from cutover.lake.journal_rows import Loss
from cutover.reconcile.verify.model import Unknown
from cutover.records.reference import ResultRow, UncountedPair

Group = tuple[int, int, tuple[Any, ...]]  # window start, window end (microseconds), key
Twin = tuple[Any, int]  # id, event time (microseconds)

NOT_ASKED = Unknown(why="nobody asked for it")


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochCommit:
    """One commit of the epoch log, as far as the table's own history still tells."""

    version: int
    operation: str
    mark: str | None  # the record of an epoch as JSON, the word of a fold, None: nothing of ours
    back_to: int | None = None  # of a RESTORE: the version that it brought back


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerFault:
    """What is wrong with a row of the ledger."""

    why: str
    epoch: int | None
    partition: int | None
    offset: int | None
    rows: int  # that have the same wrong with them


@dataclass(frozen=True, slots=True, kw_only=True)
class RowTotals:
    """What the rows of the epoch log add up to."""

    pairs: Mapping[tuple[int, str], int]  # epoch, class -> (record, window) pairs; folded rows under their last epoch
    listed: Mapping[tuple[int, str], int]  # epoch, class -> positions in the ledger
    doubts: tuple[LedgerFault, ...] = ()

    @property
    def accepted(self) -> dict[int, int]:
        """Return the accepted pairs by the epoch that their rows carry, ascending."""
        return {epoch: n for (epoch, name), n in sorted(self.pairs.items()) if name == "accepted"}


@dataclass(frozen=True, slots=True, kw_only=True)
class DoubledPosition:
    """A record that stands more than once in a window of the batch path's ledger."""

    partition: int
    offset: int
    window_start: int | None  # microseconds; None: the record has no window
    rows: int
    runs: tuple[str, ...]  # that listed it


@dataclass(frozen=True, slots=True, kw_only=True)
class RescannedOffsets:
    """Offsets `[first, end)` of a partition that two batch runs scanned."""

    partition: int
    first: int
    end: int
    runs: tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchLedger:
    """What stands more than once in the batch path's own ledger and index."""

    doubled: tuple[DoubledPosition, ...] = ()
    rescanned: tuple[RescannedOffsets, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LogCounts:
    """What the log holds, counted by reading."""

    records: Mapping[tuple[int, int], int]  # epoch, partition -> records; of the epochs that were counted
    newest: Mapping[int, int]  # epoch -> newest log timestamp up to its end, microseconds, of what was read
    whole: bool  # whether it was read from the first epoch on
    left_out: str = ""  # which epochs were not counted, and why
    lost: str = ""  # records of which epochs the log has lost: these are not counted either

    @property
    def epochs(self) -> frozenset[int]:
        """Numbers, without their partitions."""
        return frozenset(epoch for epoch, _ in self.records)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecomputedPortion:
    """The epochs `first` to `last`, whose accepted rows stand together, beside what plain Python makes of the log."""

    first: int
    last: int
    records: int
    expected: Mapping[Group, ResultRow]
    found: Mapping[Group, ResultRow]
    expected_ledger: frozenset[UncountedPair]
    found_ledger: frozenset[UncountedPair]
    expected_ids: frozenset[Twin] = frozenset()  # ids and event times that these epochs were the first to show
    found_ids: frozenset[Twin] = frozenset()  # that the epoch log remembers of them


@dataclass(frozen=True, slots=True, kw_only=True)
class Prefix:
    """The portions that were recomputed."""

    portions: tuple[RecomputedPortion, ...]
    of_epochs: int  # epochs with records that there are
    sampled: bool
    seed: int
    folds: tuple["Refold", ...] = ()
    left_out: str = ""
    lost: str = ""  # records of which epochs the log has lost: these are not recomputed


@dataclass(frozen=True, slots=True, kw_only=True)
class Refold:
    """A fold that was committed: the windows that differ before and after it."""

    version: int
    windows: int
    different: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Paths:
    """Both paths at one cut, as the reconciler judges them."""

    epoch: int
    windows: int
    rows: int
    late_rows: int  # that differ by what the ledger calls late, and by nothing else
    unexplained: tuple[str, ...]
    incomplete: int = 0  # windows that lost records, or that batch does not vouch for
    accepted: int = 0  # rows without a cause that rules of people accept


@dataclass(frozen=True, slots=True, kw_only=True)
class Reopened:
    """Accepted rows of a window that had closed before the epoch that holds them."""

    epoch: int
    window_start: int  # microseconds
    watermark: int
    pairs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Finals:
    """Windows that were final at an earlier version of the table, compared with now."""

    version: int
    epoch: int
    windows: int
    changed: tuple[int, ...]  # window starts, microseconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Twice:
    """Windows that two batch runs computed at the same cut."""

    first_run: str
    second_run: str
    windows: int
    changed: tuple[int, ...]  # window starts, microseconds


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyFacts:
    """What is known of one stream version."""

    stream: str  # pipeline/fingerprint/stream-n, as messages name it
    pipeline: Pipeline
    records: tuple[EpochRecord, ...]  # all epochs of the version, by number
    transaction: int | None  # of the table's newest epoch commit
    seen: tuple[Witness, ...] = ()  # whoever saw an epoch of this version before it was opened
    losses: tuple[Loss, ...] = ()  # recorded for this version
    table_version: int = 0
    commits: tuple[EpochCommit, ...] | Unknown = NOT_ASKED  # oldest first
    books: RowTotals | Unknown = NOT_ASKED
    batch_ledger: BatchLedger | Unknown = NOT_ASKED
    log: LogCounts | Unknown = NOT_ASKED
    prefix: Prefix | Unknown = NOT_ASKED
    paths: Paths | Unknown = NOT_ASKED
    reopened: tuple[Reopened, ...] | Unknown = NOT_ASKED
    finals: Finals | Unknown = NOT_ASKED
    twice: tuple[Twice, ...] | Unknown = NOT_ASKED
    foreign: tuple[str, ...] | Unknown = NOT_ASKED  # what another writer did, a message each
