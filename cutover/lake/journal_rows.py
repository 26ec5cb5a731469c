"""Row types of the control tables that say what is served, held, lost, compared and audited."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import ClassVar, Literal

from cutover.lake.journal import JournalRow

LossKind = Literal["gap", "anew", "inside"]


class VersionEventKind(StrEnum):
    """Kinds of rows in the history of versions."""

    REGISTERED = "registered"
    SERVED = "served"  # an existing version serves in place of another
    DELETED = "deleted"
    DELETION_UNDONE = "deletion_undone"  # nothing was removed


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionEvent(JournalRow):
    """Registration of a streaming version, its promotion to the one that serves, or the deletion of tables."""

    TABLE: ClassVar[str] = "versions"
    REQUIRES_ALL_ROWS: ClassVar[bool] = True

    at: datetime
    event: VersionEventKind
    result_fingerprint: str
    stream_version: int  # of a deletion also `versions.BATCH`
    lateness_fingerprint: str | None = None
    definition: str | None = None  # JSON; None: a deletion
    fork_version: int | None = None  # None: the version begins where the log does
    fork_epoch: int | None = None
    parallel: bool = False  # filled by a replay next to the version that serves, and not promoted yet
    next_sequences: str | None = None  # of a deletion, JSON: control table -> sequence of its first row afterwards
    who: str | None = None
    why: str | None = None

    @property
    def registers(self) -> bool:
        """Return whether the row registers or promotes a version; the others are about deletions."""
        return self.event in {VersionEventKind.REGISTERED, VersionEventKind.SERVED}


@dataclass(frozen=True, slots=True, kw_only=True)
class GateEvent(JournalRow):
    """Move of a pipeline to another stage, or the withdrawal of one."""

    TABLE: ClassVar[str] = "gate"
    REQUIRES_ALL_ROWS: ClassVar[bool] = True

    at: datetime
    event: str
    stage: str  # after the event
    result_fingerprint: str
    stream_version: int | None
    who: str
    why: str
    evidence: str = "{}"  # JSON
    next_comparison: int  # sequence of the first comparison that the decision did not know


@dataclass(frozen=True, slots=True, kw_only=True)
class PinEvent(JournalRow):
    """Pin of an epoch, or its release."""

    TABLE: ClassVar[str] = "pins"
    REQUIRES_ALL_ROWS: ClassVar[bool] = True

    at: datetime
    result_fingerprint: str
    stream_version: int
    epoch: int
    holder: str
    expires_at: datetime
    released: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss(JournalRow):
    """Offsets of one partition that a version of the stream never reads, or reads `again` with other records.

    Of kind `gap`, the version continues after them: epoch `epoch` starts at `next` of these partitions, and where the
    previous epoch ended in all others. Of kind `anew`, the version was opened because of the loss; it reads what the
    log `onward_topic_id` still holds, from its first epoch on. Of kind `inside`, some records between `first` and
    `next` are missing, as after compaction; the version continues and reads the remaining ones of the range.
    """

    TABLE: ClassVar[str] = "losses"
    REQUIRES_ALL_ROWS: ClassVar[bool] = True

    result_fingerprint: str
    stream_version: int  # the version that continues
    epoch: int  # its first epoch after the loss
    kind: LossKind
    topic: str
    topic_id: str  # of the log that lost the records
    partition: int
    first: int  # offset, inclusive
    next: int | None  # offset, exclusive; None: the end of that log is unknown
    onward_topic_id: str  # of the log that the version continues to read
    windows_from: int | None  # start of the first affected window, microseconds; None: no window is affected
    windows_to: int | None  # exclusive
    who: str
    why: str
    at: datetime
    again: bool = False  # the log reuses these offsets: the records read from them are gone, other records follow

    @property
    def windows(self) -> tuple[int, int] | None:
        """Return the affected windows by their starts, `[from, to)` in microseconds; None: no window is affected."""
        if self.windows_from is None or self.windows_to is None:
            return None
        return self.windows_from, self.windows_to


@dataclass(frozen=True, slots=True, kw_only=True)
class SwapEvent(JournalRow):
    """Change of the pipeline that is served under this one's name, or the withdrawal of such a change."""

    TABLE: ClassVar[str] = "swaps"
    REQUIRES_ALL_ROWS: ClassVar[bool] = True

    at: datetime
    served_by: str  # pipeline whose rows are served under this one's name
    who: str
    why: str
    evidence: str  # JSON: the comparison of both pipelines, or what was withdrawn


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowedBatch(JournalRow):
    """Micro-batch of a followed job: Spark keeps the newest 100 in its checkpoint, and Delta not every version."""

    TABLE: ClassVar[str] = "followed_batches"
    REQUIRES_ALL_ROWS: ClassVar[bool] = True

    query_id: str
    number: int
    starts: str  # JSON: partition -> first offset
    ends: str  # JSON: partition -> next offset, exclusive
    planned_at: int  # microseconds, by the clock of the job
    watermark: int  # when it was planned, microseconds; 0: none yet
    judged_by: int  # watermark by which its rows were judged, microseconds; 0: none yet
    table_version: int | None  # newest version of the job's table that contains it and no later batch; None: no table
    foreign_versions: str  # those that another writer wrote since the batch before: `7 (DELETE)`; else empty
    at: datetime  # when it was archived


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonRow(JournalRow):
    """Comparison of both paths; rows of one run id are repeats of one comparison."""

    TABLE: ClassVar[str] = "reconciliations"

    run_id: str
    at: datetime
    epoch: int | None  # of the cut; None: no cut was read
    result_fingerprint: str
    stream_version: int | None
    verdict: str
    exit_code: int
    comparison_key: str  # digest of what was to be compared: definition, version, cut, range
    content_digest: str  # digest of the finding
    skipped_windows: str = "[]"  # ranges of closed windows without a statement, microseconds, JSON
    result: str = "{}"  # JSON
    report: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonResultRow(JournalRow):
    """Result that is kept as JSON under the definition it is about."""

    result_fingerprint: str
    at: datetime
    result: str  # JSON


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowAuditRow(JsonResultRow):
    """Audit of sampled windows."""

    TABLE: ClassVar[str] = "audits"

    stream_version: int | None
    epoch: int
    state: str
    seed: int
