"""Epoch log for readers: the record of each epoch, the rows up to an epoch, and the view `epochs`.

After a fold, in a fork, and in adopted files, epochs share a row for their partial aggregates.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

import duckdb
import pyarrow as pa
from deltalake import DeltaTable

from cutover import json_text
from cutover.definition.model.pipeline import Delivery
from cutover.engine import queries
from cutover.engine.effective_settings import EffectiveSettings
from cutover.engine.usage import PathCost
from cutover.errors import LakeError
from cutover.json_text import EXACT
from cutover.lake.tables import delta
from cutover.lake.tables.schemas import COUNTED, RowKind
from cutover.log.cut import Cut, LogId, Marks
from cutover.quoting import identifier

SPAN = re.compile(r"/(fold|fork|adopted)-(\d+)-(\d+)-w")
"""Part of the path of a file whose rows may belong to any epoch from the first to the second number."""

Span = tuple[int, int]  # first and last epoch

_TIME = pa.timestamp("us", tz="UTC")
_OFFSETS = pa.map_(pa.int32(), pa.int64())
_COUNTS = pa.map_(pa.string(), pa.int64())
_NAMED = {"start_offsets": "start", "end_offsets": "end"}


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochRecord:
    """Record of one epoch: offsets, watermarks and counts; a row of the commit that carries its partial aggregates."""

    __pydantic_config__ = EXACT

    epoch: int
    run_id: str
    topic: str
    topic_id: str
    cluster_id: str
    start: Mapping[int, int]  # partition -> first offset read
    end: Mapping[int, int]  # partition -> next offset, exclusive
    max_event: Mapping[int, int]  # partition -> newest event time so far, microseconds; absent: none yet
    watermark_before: int | None  # microseconds; judged this epoch's rows
    watermark_after: int | None
    idle: tuple[int, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)  # class -> (record, window) pairs
    records: int = 0  # records read
    unknown: int = 0  # records with fields that the schema does not name
    lag: int = 0  # records still unread when the epoch was planned
    processing_time: str = ""  # ISO 8601, UTC
    seconds: float = 0.0
    tick: bool = False  # an epoch without data
    final: bool = False  # closes all windows seen so far and seals the version
    result_fingerprint: str = ""
    lateness_fingerprint: str = ""
    isolation: str = "read_committed"  # as the clients that read its records were configured
    folded_to: int | None = None  # newest epoch whose accepted partials are folded
    conflicts: int = 0  # commits refused since the epoch before, each written again
    one_key_share: float | None = None  # accepted pairs of the largest key / all; None: no key, or not known
    id_conflicts: int = 0  # records that count though one with their id and another event time is remembered
    panes: str | None = None  # fingerprint of trigger and accumulation; None: no panes come out
    dimensions: Mapping[str, int] = field(default_factory=dict)  # lookup -> version of the table that rows took from
    dimension_ids: Mapping[str, str] = field(default_factory=dict)  # lookup -> id of that table
    delivery: Delivery = "exactly_once"  # how its data and its offsets were committed
    marks: Marks = field(default_factory=dict)  # partition -> the last records before `end`
    leaders: Mapping[int, int] = field(default_factory=dict)  # partition -> leader epoch when it was read
    files: str = field(default="0", compare=False)  # what all listed files weigh after it: `checksums`, 32 hex digits
    in_force: str | None = None  # digest of the settings that its records were judged by; None: no record was
    in_force_items: Mapping[str, Mapping[str, str]] | None = None  # them, in the first epoch that a driver ran so
    rows: int = 0  # partial rows that it added: as many as its (class, window, key) groups, and one a record kept alone
    oldest_log_time: int | None = None  # of the records that it read, microseconds; None: it read none, or not known
    cost: PathCost | None = None  # of its driver, from the driver's start up to it; None: not recorded
    job_batch: int | None = None  # number of the micro-batch that it repeats of a followed job; None: of our own query
    schemas: Mapping[str, str] = field(
        default_factory=dict
    )  # id in the registry -> digest; those that its driver had not recorded before
    windows: tuple[int, int] | None = None  # where that is apart: first start and last end of its rows, microseconds

    @property
    def end_moved(self) -> tuple[int, ...]:
        """Return the partitions of which the epoch read something."""
        return tuple(p for p, end in self.end.items() if end > self.start.get(p, 0))

    @property
    def cut(self) -> Cut:
        """Return the log position at the end of this epoch."""
        log = LogId(cluster_id=self.cluster_id, topic=self.topic, topic_id=self.topic_id)
        return Cut(log=log, offsets=dict(self.end))

    def to_json(self) -> str:
        """Encode the record as one line of JSON, keys sorted: the column `_record` of an epoch's row."""
        return json_text.encode_dataclass(self)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Parse the text that `to_json` wrote.

        Raises:
            LakeError: The text is not a record of this release.
        """
        try:
            return json_text.parse_dataclass(cls, text)
        except ValueError as error:
            msg = f"Record of an epoch: expected the fields of this release as JSON, got another text ({error})."
            raise LakeError(msg, runbook="EpochHistoryBroken") from error


def collect_in_force(records: Iterable[EpochRecord]) -> dict[str, EffectiveSettings]:
    """Collect the settings that epochs have recorded, by digest."""
    return {
        record.in_force: EffectiveSettings(record.in_force_items)
        for record in records
        if record.in_force and record.in_force_items
    }


def open_log(uri: str, version: int | None = None) -> DeltaTable:
    """Open the epoch log's table; its rows are not read.

    Raises:
        LakeError: The table is missing, cannot be opened, or would silently open at an older version.
    """
    try:
        return delta.open_table(uri, version)
    except delta.TableLogError as error:
        msg = f"Epoch log {error.sentence}\nHint: nothing is written until the file is restored."
        raise LakeError(msg, runbook="EpochHistoryBroken") from error


class EpochLog:
    """The epoch log at one version of its table, read without a JVM.

    Raises:
        LakeError: The table is missing or cannot be read.
    """

    def __init__(self, uri: str, version: int | None = None) -> None:
        self.uri = uri
        self.table = open_log(uri, version)
        self.version = int(self.table.version())

    def transaction(self, app_id: str) -> int | None:
        """Return the number of the newest commit that carries an application id."""
        return delta.transaction(self.table, app_id)

    def records(self, *, after: int = -1) -> list[EpochRecord]:
        """Return the records of all epochs beyond `after`, in order of their numbers."""
        connection = queries.open_duckdb()
        delta.bind(connection, "log", self.table, kinds=(RowKind.EPOCH,))
        query = "SELECT _record FROM log WHERE _epoch > ? ORDER BY _epoch"
        with delta.naming(self.table):
            rows = connection.execute(query, [after]).fetchall()
        return [EpochRecord.from_json(row[0]) for row in rows]

    def recent(self, number: int) -> list[EpochRecord]:
        """Return the records of the newest epochs, at most `number`, in order; other records are not read."""
        connection = queries.open_duckdb()
        delta.bind(connection, "log", self.table, kinds=(RowKind.EPOCH,))
        with delta.naming(self.table):
            row = connection.execute("SELECT max(_epoch) FROM log").fetchone()
        return [] if row is None or row[0] is None else self.records(after=int(row[0]) - number)

    def newest(self) -> EpochRecord | None:
        """Return the record of the newest epoch; None before the first."""
        connection = queries.open_duckdb()
        delta.bind(connection, "log", self.table, kinds=(RowKind.EPOCH,))
        query = "SELECT _record FROM log ORDER BY _epoch DESC LIMIT 1"
        with delta.naming(self.table):
            row = connection.execute(query).fetchone()
        return None if row is None else EpochRecord.from_json(row[0])

    def in_force(self, digest: str | None) -> EffectiveSettings | None:
        """Return the settings of a digest; None: no epoch of the version has recorded it."""
        connection = queries.open_duckdb()
        delta.bind(connection, "log", self.table, kinds=(RowKind.EPOCH,))
        query = "SELECT _record FROM log WHERE contains(_record, '\"in_force_items\": {')"
        with delta.naming(self.table):
            rows = connection.execute(query).fetchall()
        return collect_in_force(EpochRecord.from_json(row[0]) for row in rows).get(digest or "")

    def relation(self, connection: duckdb.DuckDBPyConnection, view: str, *, epoch: int) -> None:
        """Bind a view to the partial aggregates and the ledger of all epochs up to `epoch`."""
        self._view(connection, view, COUNTED, epoch)

    def panes(self, connection: duckdb.DuckDBPyConnection, view: str, *, epoch: int) -> None:
        """Bind a view to the panes of all epochs up to `epoch`."""
        self._view(connection, view, (RowKind.PANE,), epoch)

    def _view(self, connection: duckdb.DuckDBPyConnection, view: str, kinds: Collection[str], epoch: int) -> None:
        delta.bind(connection, f"{view}_all", self.table, kinds=kinds)
        rows = f"SELECT * FROM {identifier(f'{view}_all')} WHERE _epoch <= {int(epoch)}"  # noqa: S608 -- quoted
        connection.execute(f"CREATE OR REPLACE TEMP VIEW {identifier(view)} AS {rows}")


def has_read_as_much(record: EpochRecord, other: EpochRecord) -> bool:
    """Return whether an epoch has read all that another one has, of the same log, in every partition."""
    return record.topic_id == other.topic_id and all(record.end.get(p, 0) >= end for p, end in other.end.items())


def read_newest_epoch(epoch_log: EpochLog) -> EpochRecord:
    """Return the newest epoch.

    Raises:
        LakeError: There is none.
    """
    records = epoch_log.records()
    if not records:
        msg = f"Epoch log `{epoch_log.table.table_uri}`: expected an epoch, it has none yet."
        raise LakeError(msg + "\nHint: its driver is to commit one first.")
    return records[-1]


def list_merged_spans(table: DeltaTable) -> list[Span]:
    """List the spans of epochs that were merged into files with partial aggregates, by the files' names."""
    partials = (action for action in delta.actions(table) if str(action["partition._kind"]) == RowKind.PARTIAL)
    matches = (SPAN.search(str(partial["path"])) for partial in partials)
    return sorted({(int(match[2]), int(match[3])) for match in matches if match})


def find_span(spans: Sequence[Span], epoch: int) -> Span:
    """Find the first and the last epoch to which a row with an epoch's number may belong."""
    containing = [span for span in spans if span[0] <= epoch <= span[1]]
    return (min((start for start, _ in containing), default=epoch), max((end for _, end in containing), default=epoch))


COLUMNS: Mapping[str, pa.DataType] = {
    "epoch": pa.int64(),
    "processing_time": pa.string(),
    "records": pa.int64(),  # read
    "rows": pa.int64(),  # partial rows that it added to the epoch log
    "start_offsets": _OFFSETS,  # partition -> first offset that was read
    "end_offsets": _OFFSETS,  # partition -> next offset: the epoch's cut
    "counts": _COUNTS,  # class -> (record, window) pairs
    "watermark_before": _TIME,  # judged the epoch's rows
    "watermark_after": _TIME,
    "idle": pa.list_(pa.int32()),  # partitions that held the watermark no longer
    "lag": pa.int64(),  # records still unread when it was planned
    "seconds": pa.float64(),
    "tick": pa.bool_(),  # an epoch without data
    "final": pa.bool_(),
    "conflicts": pa.int64(),
    "dimensions": _COUNTS,  # lookup -> version of its table
    "run_id": pa.string(),
}


def epoch_rows(records: Sequence[EpochRecord]) -> pa.Table:
    """Return a table with the columns of `COLUMNS`, one row per record, in the order of the records."""
    arrays = [
        pa.array([_plain(getattr(record, _NAMED.get(name, name))) for record in records], kind)
        for name, kind in COLUMNS.items()
    ]
    return pa.Table.from_arrays(arrays, names=list(COLUMNS))


def _plain(value: object) -> object:
    """Convert a mapping to its sorted pairs, as Arrow requires; other values are unchanged."""
    if isinstance(value, Mapping):
        return sorted(value.items())
    return list(value) if isinstance(value, tuple) else value
