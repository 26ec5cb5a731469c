"""Batch index: the offsets that hold the records of each window, and the recorded runs; each offset is scanned once.

A run's `range` and ledger rows are committed before its `run` row, so rows without a run belong to a run that was
killed: they are never read, and are removed before the next run writes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

import duckdb
import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import CommitFailedError

from cutover.batch.plan import TouchedWindow, is_outdated
from cutover.definition.compile.fingerprint import batch_fingerprint
from cutover.definition.model.pipeline import Pipeline
from cutover.definition.windows.window_fn import Interval
from cutover.engine import queries
from cutover.errors import LakeError, LogError
from cutover.events import log
from cutover.lake import batch_runs
from cutover.lake.batch_runs import BatchRun, Range
from cutover.lake.journal_rows import Loss
from cutover.lake.tables import checksums, commits, data_files, delta
from cutover.lake.tables.schemas import BATCH_INDEX, IndexKind, batch_ledger_schema
from cutover.log.cut import LogId
from cutover.pipeline_lake import BATCH_TABLES, BatchTable, PipelineLake
from cutover.records.reading.scan import Offsets, OffsetSpan

_RANGES = f"""
    WITH scans AS (SELECT unnest($runs::VARCHAR[]) AS run, unnest(range(len($runs::VARCHAR[]))) AS scan)
    SELECT scan, _partition, epoch_us(window_start) AS window_start, epoch_us(window_end) AS window_end,
           first_offset, last_offset
    FROM batch_index JOIN scans ON run = _run WHERE _kind = '{IndexKind.RANGE}'
"""  # noqa: S608 -- a constant


ORPHANS = {"userMetadata": "rows of runs that do not count"}
NO_ROWS: Mapping[BatchTable, int] = {}
_GROWING: tuple[BatchTable, ...] = ("batch_index", "batch_ledger")


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexHistory:
    """Runs whose scans are still valid: same definition, same batch side."""

    runs: tuple[BatchRun, ...]  # oldest first; the index is the ordinal of the scan
    next_sequence: int = 0  # of the next run; it is recorded only if no other run was recorded meanwhile

    @property
    def scanned(self) -> dict[int, int]:
        """Return the next offset of each partition that no run has scanned."""
        ends: dict[int, int] = {}
        for run in self.runs:
            ends |= {partition: end for partition, (_, end) in run.scanned.items()}
        return ends

    @property
    def newest(self) -> BatchRun | None:
        """Latest run; None before the first one."""
        return self.runs[-1] if self.runs else None

    @property
    def in_force(self) -> str | None:
        """Return the digest of the settings of the runs; None if none of them read records."""
        return None if self.newest is None else self.newest.in_force


def load_history(
    lake: PipelineLake, log: LogId, losses: Sequence[Loss] = (), *, settings_digest: str | None = None
) -> IndexHistory:
    """Load the runs that this one builds on: the latest ones with the current batch definition.

    Earlier runs do not count before a run with other SQL, which replaced the table and the index, before a run with
    other settings than those of `settings_digest`, if given, or before a run on a log that a recorded loss gave up: its
    results stay, but its offsets are no longer valid.

    Raises:
        LogError: The runs read another log.
        LakeError: The index cannot be read.
    """
    fingerprint = batch_fingerprint(lake.pipeline)
    sequence = batch_runs.read_next_run_sequence(lake)
    runs_of_version = batch_runs.read_effective_runs(lake)
    first_in_force = max((number for number, run in enumerate(runs_of_version) if run.anew), default=0)
    latest_runs = reversed(runs_of_version[first_in_force:])

    def is_reusable(run: BatchRun) -> bool:
        is_alike = settings_digest is None or run.in_force in {None, settings_digest}
        return is_alike and run.batch_fingerprint == fingerprint and not is_outdated(run, losses)

    runs = [*takewhile(is_reusable, latest_runs)]
    for run in reversed(runs):
        if run.topic_id != log.topic_id:
            name = lake.name
            msg = f"Batch of `{name}`: expected its earlier runs' topic id {run.topic_id}, got {log.topic_id}."
            hint = f"\nHint: the topic was created again; `cutover accept-loss {name}` shows how to continue."
            raise LogError(msg + hint, runbook="TopicIdentityChanged")
    return IndexHistory(runs=tuple(runs[::-1]), next_sequence=sequence)


def bind_ranges(connection: duckdb.DuckDBPyConnection, lake: PipelineLake, history: IndexHistory) -> None:
    """Create the table `ranges`: scan, `_partition`, window (microseconds), first and last offset."""
    uri = lake.batch_uri("batch_index")
    if history.runs and delta.exists(uri):
        delta.relation(connection, "batch_index", uri)
    else:
        connection.register("batch_index", BATCH_INDEX.empty_table())
    runs = [run.run_id for run in history.runs]
    connection.execute(f"CREATE OR REPLACE TEMP TABLE ranges AS {_RANGES}", {"runs": runs})


def add_ranges(connection: duckdb.DuckDBPyConnection, rows: str, scan: int) -> None:
    """Add the index rows of the current scan to `ranges`."""
    connection.execute(
        f"INSERT INTO ranges SELECT {int(scan)}, _partition, epoch_us(window_start), epoch_us(window_end), "  # noqa: S608 -- internal names
        f"first_offset, last_offset FROM {rows}"
    )


def list_touched_windows(connection: duckdb.DuckDBPyConnection) -> list[TouchedWindow]:
    """List all windows that hold records, with the latest scan that found one."""
    rows = connection.execute("SELECT window_start, window_end, max(scan) FROM ranges GROUP BY ALL").fetchall()
    return [TouchedWindow(window=Interval(start, end), scan=scan) for start, end, scan in rows]


def find_expired_windows(
    connection: duckdb.DuckDBPyConnection, earliest: Mapping[int, int], scan: int
) -> frozenset[int]:
    """Find the starts of windows with records of earlier scans that have left the log."""
    _bind_offsets(connection, "earliest", earliest)
    query = """
        SELECT DISTINCT window_start FROM ranges JOIN earliest ON partition = _partition
        WHERE first_offset < first AND scan < ?
    """
    return frozenset(row[0] for row in connection.execute(query, [scan]).fetchall())


def find_windows_beyond(connection: duckdb.DuckDBPyConnection, cut: Mapping[int, int]) -> frozenset[int]:
    """Find the starts of windows that hold records beyond a cut."""
    _bind_offsets(connection, "cut", cut)
    query = """
        SELECT DISTINCT window_start FROM ranges LEFT JOIN cut ON cut.partition = _partition
        WHERE last_offset >= coalesce(cut.first, 0)
    """
    return frozenset(row[0] for row in connection.execute(query).fetchall())


def list_spans(connection: duckdb.DuckDBPyConnection, windows: str, *, scan: int) -> list[OffsetSpan]:
    """List the offsets of the records of some windows, from scans before a given one.

    Args:
        connection: With `ranges`.
        windows: A relation with `window_start` (microseconds).
        scan: Ordinal of the first scan that is not included.
    """
    query = f"SELECT _partition, first_offset, last_offset FROM ranges SEMI JOIN {windows} USING (window_start) WHERE scan < ?"  # noqa: S608, E501 -- internal names
    rows = connection.execute(query, [scan]).fetchall()
    return [OffsetSpan(partition=partition, first_offset=start, last_offset=end) for partition, start, end in rows]


def inside_sql(ranges: Sequence[Range]) -> str:
    """Return DuckDB's condition that a window lies wholly inside one of the ranges."""
    parts = (f"(epoch_us(window_start) >= {a} AND epoch_us(window_end) <= {b})" for a, b in ranges)
    return " OR ".join(parts) or "false"


def record_scan(lake: PipelineLake, history: IndexHistory, *, ranges: pa.Table, ledger: pa.Table, run: BatchRun) -> int:
    """Write the results of a scan; repeating it after a kill writes nothing twice.

    A run that trusts no earlier one removes unreadable files from the tables.

    Returns:
        The version of the ledger.

    Raises:
        LakeError: Another run was recorded since `history` was read, or is recorded now; nothing was removed.
    """
    try:
        _replace_orphans(lake, "batch_index", history, ranges, run)
        return _replace_orphans(lake, "batch_ledger", history, ledger, run)
    except CommitFailedError as error:
        raise _make_overtaken_error(lake.pipeline, history.next_sequence) from error


def record_run(
    lake: PipelineLake, run: BatchRun, *, sequence: int, rows: Mapping[BatchTable, int] = NO_ROWS
) -> BatchRun:
    """Record a run with the weights of each table's files, which makes it valid; return it.

    Args:
        lake: Pipeline that the run belongs to.
        run: The run, with the versions of its tables.
        sequence: Sequence that the run was planned for.
        rows: Rows of its scan that a table must still hold: another host removes rows of unrecorded runs.

    Raises:
        LakeError: Another run was recorded with this sequence, or removed the rows of this one; it is not recorded.
    """
    table = delta.ensure(lake.batch_uri("batch_index"), BATCH_INDEX)
    _reject_overtaken(table, lake.pipeline, sequence)
    for name, count in rows.items():
        index_table = table if name == "batch_index" else delta.open_table(lake.batch_uri(name))
        if count and not _holds_scan(index_table, run.run_id, count):
            raise _make_overtaken_error(lake.pipeline, sequence)
    stem = checksums.new_stem("run", run.run_id)
    weights = {name: _weight(lake, name) for name in BATCH_TABLES}
    weights["batch_index"] += checksums.compute_weight("", stem)
    files = {str(name): checksums.encode_weight(weight) for name, weight in weights.items()}
    sealed = replace(run, files=files, sequence=sequence)
    row = {"_kind": IndexKind.RUN, "_run": run.run_id, "_epoch": run.epoch, "_record": sealed.to_json()}
    counts = Transaction(batch_runs.SEQUENCE, sequence)
    commit = CommitProperties(max_commit_retries=0, app_transactions=[counts])  # at the version that was checked
    try:
        commits.append(table, pa.Table.from_pylist([row], schema=BATCH_INDEX), stem=stem, commit=commit)
    except CommitFailedError as error:
        raise _make_overtaken_error(lake.pipeline, sequence) from error
    for name in _GROWING:  # after the commit: no version of a recorded run is older than a day and merged since
        commits.clean(lake.batch_uri(name))
    return sealed


def _holds_scan(table: DeltaTable, run_id: str, count: int) -> bool:
    """Return whether a table holds the rows that a run has written, in its own file or in a merged one."""
    if any(f"-{run_id}-" in path for path in delta.paths(table)):
        return True
    with queries.open_duckdb() as connection, delta.naming(table):
        delta.bind(connection, "found", table)
        ((row_count,),) = connection.execute("SELECT count(*) FROM found WHERE _run = ?", [run_id]).fetchall()
    return int(row_count) == count


def _reject_overtaken(table: DeltaTable, pipeline: Pipeline, sequence: int) -> None:
    """Check that no run of a host with a separate lock was recorded first.

    Raises:
        LakeError: Another run was.
    """
    newest = delta.transaction(table, batch_runs.SEQUENCE)
    if newest is not None and newest >= sequence:
        raise _make_overtaken_error(pipeline, sequence)


def _make_overtaken_error(pipeline: Pipeline, sequence: int) -> LakeError:
    msg = f"Batch of `{pipeline.name}`: expected to record run {sequence}, another process recorded it meanwhile."
    hint = f"\nHint: this run does not count; run `cutover batch {pipeline.name}` again, from one host at a time."
    return LakeError(msg + hint, runbook="BatchNotFresh")


def _weight(lake: PipelineLake, name: BatchTable) -> int:
    uri = lake.batch_uri(name)
    return checksums.total(delta.paths(delta.open_table(uri))) if delta.exists(uri) else 0


def _replace_orphans(lake: PipelineLake, name: BatchTable, history: IndexHistory, rows: pa.Table, run: BatchRun) -> int:
    schema = BATCH_INDEX if name == "batch_index" else batch_ledger_schema(lake.pipeline)
    uri = lake.batch_uri(name)
    table = delta.ensure(uri, schema)
    if name == "batch_index":
        _reject_overtaken(table, lake.pipeline, history.next_sequence)
    run_ids = [run.run_id for run in history.runs]
    _remove_orphans(table, f"_kind = '{IndexKind.RANGE}'" if name == "batch_index" else "true", run_ids, run)
    if commits.compact(uri):  # before the rows of this run, so that the recorded version holds the merged file
        table = delta.open_table(uri)
    if rows.num_rows:
        commits.append(table, rows, stem=checksums.new_stem(name.removeprefix("batch_"), run.run_id))
    return int(table.version())


def _remove_orphans(table: DeltaTable, ours: str, run_ids: Sequence[str], run: BatchRun) -> None:
    """Remove the rows of unrecorded runs: files with such rows are replaced by files without them."""
    remaining_sql = f"NOT ({ours}) OR list_contains(?, _run)"
    removed, added = [], []
    for action in delta.actions(table):
        try:
            with queries.open_duckdb() as connection, delta.naming(table):
                delta.bind(connection, "found", table, paths=(str(action["path"]),))
                query = f"SELECT * FROM found WHERE {remaining_sql}"  # noqa: S608 -- made of names and marks
                rows = queries.query_table(connection, query, params=[list(run_ids)])
        except LakeError as error:
            if not run.anew:
                raise
            log.warning("unreadable_file_dropped", table=table.table_uri, why=error.text.partition("\n")[0])
            removed.append(action)
            continue
        if rows.num_rows < int(action["num_records"]):
            removed.append(action)
            added += [rows] if rows.num_rows else []
    if removed:
        with commits.converting_write_errors(table.table_uri):
            schema = delta.read_schema(table)
            files = [
                data_files.write_data_file(table.table_uri, r.cast(schema), checksums.new_stem("kept")) for r in added
            ]
        commits.replace(table, removed, files, commit=CommitProperties(max_commit_retries=0, custom_metadata=ORPHANS))


def _bind_offsets(connection: duckdb.DuckDBPyConnection, name: str, offsets: Mapping[int, int]) -> None:
    schema = pa.schema([("partition", pa.int32()), ("first", pa.int64())])
    connection.register(name, pa.table({"partition": list(offsets), "first": list(offsets.values())}, schema=schema))


def find_new_offsets(history: IndexHistory, cut: Mapping[int, int]) -> Offsets:
    """Return what no run has scanned: `[previous cut, cut)` by partition; partitions without any are left out."""
    scanned = history.scanned
    spans_ = {partition: (scanned.get(partition, 0), end) for partition, end in cut.items()}
    return {partition: span for partition, span in spans_.items() if span[0] < span[1]}
