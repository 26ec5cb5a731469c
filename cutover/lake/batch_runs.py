"""Records of batch runs, and rows of the batch path at the position of a team's batch job.

A run records the cut, the windows that were computed, and the table version that was written.

The table of rows at the job's position, with which the job's table is compared, holds the windows that have records on
both sides of the position, or all windows if the job has rules of its own. It is replaced by each run that finds
another position, or other such windows. The commit states the position and the windows, also those without a row.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema

from cutover import json_text
from cutover.engine import queries
from cutover.engine.effective_settings import EffectiveSettings
from cutover.engine.usage import PathCost
from cutover.errors import LakeError
from cutover.events import log
from cutover.json_text import EXACT
from cutover.lake.dimensions.joined_versions import VersionSpan
from cutover.lake.tables import checksums, commits, data_files, delta, delta_log
from cutover.lake.tables.schemas import IndexKind, batch_schema
from cutover.log.cut import Marks
from cutover.pipeline_lake import PipelineLake

Range = tuple[int, int]  # [start, end) in microseconds of event time

SEQUENCE = "batch runs"
"""Application id whose transaction in the index is the sequence of the newest recorded run."""

EXPIRED = "expired"  # records expired before batch had read them, or before it had to read them again
LOST = "lost"  # a recorded loss: the stream could not read them either


@dataclass(frozen=True, slots=True, kw_only=True)
class Incomplete:
    """Window, or all windows inside a range of time, that can no longer be computed from the log."""

    __pydantic_config__ = EXACT
    window_start: int  # microseconds; the earliest possible one, if records were lost before they were scanned
    window_end: int
    reason: str  # EXPIRED, LOST


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectationResult:
    """Result of one expectation on the staged rows."""

    __pydantic_config__ = EXACT
    expectation: str
    severity: str
    success: bool
    observed: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Repair:
    """Repair of windows by a run, and the rows that were served of them until then."""

    __pydantic_config__ = EXACT
    windows: tuple[Range, ...]  # as requested; of a repair of all dirty windows, those that it computed
    who: str
    why: str
    stage: str  # which side people were served from
    stream_epoch: int  # newest epoch of the stream as the repair was published
    batch_run: str | None  # whose table was served before; None: there was none
    batch_version: int | None  # of the batch table that was served before
    counts: Mapping[str, int] = field(default_factory=dict)  # outcome of the rows that were served: changed, added, ...
    served_from: str | None = None  # time at which the oldest of these rows was served, ISO 8601; None: unknown
    files: Mapping[str, str] = field(default_factory=dict)  # `served`, `before` -> file in the folder of the repair


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRun:
    """Run of the batch path."""

    __pydantic_config__ = EXACT
    run_id: str
    epoch: int  # the cut's
    stream_version: int
    topic: str
    topic_id: str
    cluster_id: str
    cut: Mapping[int, int]
    scanned: Mapping[int, Range]  # partition -> offsets [from, to) that this run scanned for the first time
    watermark: int | None  # of the stream at the cut, microseconds
    result_fingerprint: str
    batch_fingerprint: str  # "same", or the hash of the team's SQL
    isolation: str  # as the clients that read its records were configured
    computed: tuple[Range, ...]  # windows written by this run, wholly inside: [first start, last end)
    wanted: Range | None = None  # as whole windows; None: all that were dirty, or what `repair` says
    stale: tuple[Range, ...] = ()  # dirty closed windows that this run left alone
    incomplete: tuple[Incomplete, ...] = ()  # all that are known so far
    batch_version: int | None = None  # Delta version of `batch` after this run
    ledger_version: int | None = None
    counts: Mapping[str, int] = field(default_factory=dict)  # class -> pairs, in what was scanned; duplicate: computed
    id_conflicts: int = 0  # counted records in computed windows whose id another record has at an earlier event time
    files: Mapping[str, str] = field(default_factory=dict)  # table -> what its listed files weigh after this run
    anew: bool = False  # whether it built on no earlier run: it read the whole log and replaced the table
    kept: tuple[Range, ...] = ()  # of such a run: windows of earlier runs whose rows it kept where it computed none
    left_out: Mapping[str, tuple[Range, ...]] = field(
        default_factory=dict
    )  # reason (expired, lost, open, ahead) -> windows of `wanted` that it did not compute
    contract: tuple[ExpectationResult, ...] = ()
    marks: Marks = field(default_factory=dict)  # partition -> the last records before `cut`
    open_from: int | None = None  # of sessions: start of the first one that was not final, or not to be computed
    dimensions: Mapping[str, tuple[VersionSpan, ...]] = field(
        default_factory=dict
    )  # lookup -> what it read of which version
    in_force: str | None = None  # digest of the settings that records were judged by; None: none was, up to this run
    in_force_items: Mapping[str, Mapping[str, str]] | None = None  # them, of the first run with this digest
    schemas: Mapping[str, str] = field(default_factory=dict)  # id in the registry -> digest of what Avro is decoded by
    repair: Repair | None = None  # None: a run by schedule, or of a range
    undoes: str | None = None  # id of the repair whose rows this run took back
    said: str = ""  # of such a run: who, and why
    cost: PathCost | None = None  # from its start up to its record; None: not recorded
    started: str = ""  # with `finished` for people alone: hosts' clocks differ, and a clock can go back
    finished: str = ""
    seconds: float = 0.0
    sequence: int = -1  # place among the recorded runs, from 0; -1: not recorded, or by a release that kept none

    @property
    def does_nothing(self) -> bool:
        """Return whether a range was requested and no window of it was computed."""
        return self.wanted is not None and not self.computed

    def to_json(self) -> str:
        """Encode the run as one line of JSON, keys sorted, for its commit and its row in `runs`."""
        return json_text.encode_dataclass(self)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Parse the text that `to_json` wrote.

        Raises:
            LakeError: The text is not a run of this release.
        """
        try:
            return json_text.parse_dataclass(cls, text)
        except ValueError as error:
            msg = f"Record of a batch run: expected the fields of this release as JSON, got another text ({error})."
            raise LakeError(msg, runbook="TableUnreadable") from error


def find_effective_settings(batch_runs: Iterable[BatchRun], run: BatchRun) -> EffectiveSettings | None:
    """Find the settings by which a run, and the runs on which it builds, classified records; None if not recorded."""
    settings_by_digest = {
        recorded_run.in_force: EffectiveSettings(recorded_run.in_force_items)
        for recorded_run in batch_runs
        if recorded_run.in_force and recorded_run.in_force_items
    }
    return None if run.in_force is None else settings_by_digest.get(run.in_force)


def read_effective_runs(lake: PipelineLake) -> list[BatchRun]:
    """Read the runs under the definition's result fingerprint, in the order of recording, with undone repairs applied.

    A repair that was undone has no computed windows, but still the ranges that it scanned.
    """
    batch_runs = read_recorded_runs(lake)
    undone = {run.undoes for run in batch_runs}
    return [replace(run, computed=()) if run.run_id in undone else run for run in batch_runs]


def read_next_run_sequence(lake: PipelineLake) -> int:
    """Return the sequence of the next run; read it before the runs that the run builds on.

    Raises:
        LakeError: The index cannot be read.
    """
    uri = lake.batch_uri("batch_index")
    if not delta.exists(uri):
        return 0
    newest = delta.transaction(delta.open_table(uri), SEQUENCE)
    try:
        runs = read_recorded_runs(lake)
    except LakeError:
        if newest is None:
            raise
        return newest + 1
    return max(len(runs) - 1, -1 if newest is None else newest, *(run.sequence for run in runs)) + 1


def check_sequence(index: DeltaTable, runs: Sequence[BatchRun]) -> None:
    """Check that the newest sequence in the index's log is that of the newest run, unless one was recorded meanwhile.

    Args:
        index: The handle.
        runs: All recorded runs, oldest first, read after the handle was opened.

    Raises:
        TableLogError: It differs because an entry of the log was changed.
    """
    newest = delta.transaction(index, SEQUENCE)
    if newest != (runs[-1].sequence if runs else None):
        delta.reject_damaged_log(index.table_uri)


def list_held_ranges(batch_runs: Sequence[BatchRun]) -> list[Range]:
    """Return the ranges of windows whose rows the batch table holds after the last of some runs, ascending.

    A window inside them without a row has no result. A run that read the whole log again has the windows that it
    computed and those that it kept; it replaces the windows of earlier runs.

    Args:
        batch_runs: As `read_effective_runs` returns them, oldest first.
    """
    start = max((number for number, run in enumerate(batch_runs) if run.anew), default=0)
    return sorted({span for run in batch_runs[start:] for span in (*run.computed, *run.kept)})


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedTable:
    """Batch table after the newest recorded run, without later changes of other writers."""

    table: DeltaTable  # its files hold the bytes that were committed
    held: tuple[Range, ...]


def open_recorded_table(lake: PipelineLake) -> RecordedTable | None:
    """Open the batch table at the version of the newest recorded run, and check its files.

    Returns:
        None if there is no trusted table: no run, a table or file that cannot be read, or other files than recorded.
    """
    uri = lake.batch_uri()
    try:
        known_runs = read_effective_runs(lake)
        newest = next((run for run in reversed(known_runs) if run.batch_version is not None), None)
        if newest is None:
            return None
        table = delta.open_table(uri, newest.batch_version)
        delta.check_listed_files(table, delta.actions(table))
        names = [checksums.parse_name(path) for path in delta.paths(table)]
        if None not in names and checksums.encode_weight(checksums.total(delta.paths(table))) == newest.files.get(
            "batch"
        ):
            return RecordedTable(table=table, held=tuple(list_held_ranges(known_runs)))
        reason = "its files are not those that the run recorded"
    except LakeError as error:
        reason = error.text.partition("\n")[0]
    log.warning("recorded_rows_not_kept", table=uri, why=reason)
    return None


def read_recorded_runs(lake: PipelineLake) -> list[BatchRun]:
    """Read all runs as they were recorded, including undone repairs, in the order of recording.

    Raises:
        LakeError: The index cannot be read.
    """
    uri = lake.batch_uri("batch_index")
    return checksums.remember(uri, "runs", lambda: _read_runs(uri)).copy() if delta.exists(uri) else []


def _read_runs(uri: str) -> list[BatchRun]:
    connection = queries.open_duckdb()
    index = delta.open_table(uri)
    delta.bind(connection, "batch_index", index)
    with delta.naming(index):
        rows = connection.execute("SELECT _record FROM batch_index WHERE _kind = ?", [IndexKind.RUN]).fetchall()
    return sort_runs(BatchRun.from_json(row[0]) for row in rows)


def sort_runs(batch_runs: Iterable[BatchRun]) -> list[BatchRun]:
    """Sort runs in the order of recording, independent of hosts' clocks."""
    return sorted(batch_runs, key=_get_order)


def _get_order(run: BatchRun) -> tuple[int, int, int, str]:
    """Return the sort key of a run: its sequence; without one, the table versions after it, which only increase.

    Only two runs without a sequence that both changed no table are ordered by a clock.
    """
    ledger, batch = (-1 if version is None else version for version in (run.ledger_version, run.batch_version))
    return run.sequence, ledger, batch, run.finished


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRowsNote:
    """What the newest commit of the table states."""

    run_id: str  # of the batch run
    topic_id: str
    ends: Mapping[int, int]  # partition -> next offset: the position
    windows: frozenset[int]  # starts of the windows whose rows the table holds, microseconds
    rules: str = ""  # of the job, in what it differs from the definition; empty: in nothing


def open_job_rows(lake: PipelineLake) -> tuple[JobRowsNote, DeltaTable] | None:
    """Open the table, and read which rows it holds; None: there is no table, or another release wrote it.

    Raises:
        LakeError: The table cannot be read.
    """
    uri = lake.job_rows_uri()
    if not delta.exists(uri):
        return None
    table = delta.open_table(uri)
    entry = delta_log.read_entry(uri, int(table.version()))
    text = delta_log.info(entry or []).get("userMetadata")
    try:
        stated: dict[str, Any] = json.loads(str(text))
        note = JobRowsNote(
            run_id=str(stated["run_id"]),
            topic_id=str(stated["topic_id"]),
            ends={int(partition): int(end) for partition, end in stated["ends"].items()},
            windows=frozenset(map(int, stated["windows"])),
            rules=str(stated.get("rules", "")),
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        log.warning("job_rows_unreadable", pipeline=lake.name, table=uri)
        return None
    return note, table


def replace_job_rows(lake: PipelineLake, note: JobRowsNote, rows: pa.Table) -> None:
    """Replace the rows of the table, and what its commit states, in one commit.

    Args:
        lake: The pipeline.
        note: What the rows are.
        rows: In the batch table's schema.

    Raises:
        LakeError: The table cannot be written.
    """
    uri, schema = lake.job_rows_uri(), batch_schema(lake.pipeline)
    text = json.dumps(
        {
            "run_id": note.run_id,
            "topic_id": note.topic_id,
            "ends": {str(partition): end for partition, end in sorted(note.ends.items())},
            "windows": sorted(note.windows),
            "rules": note.rules,
        }
    )
    table = delta.ensure(uri, schema)
    with commits.converting_write_errors(uri):
        stem = checksums.new_stem("job", note.run_id)
        files = [data_files.write_data_file(uri, rows.cast(schema), stem)] if rows.num_rows else []
        commit = CommitProperties(custom_metadata={"userMetadata": text}, max_commit_retries=0)
        commits.overwrite(table, files, Schema.from_arrow(schema), commit=commit)
    commits.clean(uri)
