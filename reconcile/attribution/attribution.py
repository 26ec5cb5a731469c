"""Attribution of differences: check the ledger, assign causes to rows, and prove the causes from the log.

A record of the stream's ledger counts as late only if its position, epoch and watermark confirm it. The temporary
tables are `ledger` (one row per record and window: `_class`, `_epoch`, window, keys, `_partition`, `_offset`,
`event_time`, `reason`), `ledger_keys` (records by class, window or component, and key), `doubtful` (window, key, why,
and `_epoch`, `_partition`, `_offset` if the doubt is about one record). For sessions the window is that of the record
alone, with the component in a further column.

Users see the tables of a team's two jobs. That of the streaming side has the records up to its cut without those that
it dropped; the batch job's table has those up to its own position. Between them lie, in this order: what the streaming
job does otherwise than the definition, the records that it dropped, the records between both cuts (`behind`), the rules
of the batch job, and what the batch job does otherwise. Each link was compared before, with its proof. So a row that
differs has a cause where a link of it does, and is counted for each.
"""

# ruff: noqa: S608 -- every name in a query is quoted by `identifier` or our constant

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import duckdb
import pyarrow as pa

from cutover.definition.model.pipeline import WINDOW_START, Pipeline, compute_oldest_remembered
from cutover.engine.queries import fetch_number
from cutover.lake.epochs.epoch_log import EpochRecord
from cutover.pipeline_lake import PipelineLake
from cutover.quoting import identifier, literal
from cutover.reconcile.attribution import causes, dimension
from cutover.reconcile.attribution.causes import NAMES, UNEXPLAINED, Findings, cause_sql
from cutover.reconcile.attribution.log_rows import LogReader
from cutover.reconcile.attribution.proof import UNPROVEN, Proof
from cutover.reconcile.comparison import digests
from cutover.reconcile.comparison.batch_job import RULES_PREFIX, is_judged_sql, select_whole_windows
from cutover.reconcile.comparison.job_table import JobLink, compare_link, is_among_sql
from cutover.reconcile.comparison.layout import SharedTable, stage
from cutover.reconcile.comparison.sides import Sides
from cutover.reconcile.preconditions.seal import SealError, SealEvidence
from cutover.reconcile.result.finding import SealBreach
from cutover.reconcile.result.parts import JobTable, UsersTables
from cutover.records.watermark import compute_late_margin

_POSITIONS = f"""
    CREATE TEMP TABLE {SharedTable.LEDGER} AS
    SELECT _class, _epoch, {{keys}}, window_end, position.partition AS _partition, position."offset" AS _offset,
           position.event_time AS event_time, position.reason AS reason
    FROM (SELECT _class, _epoch, {{keys}}, window_end, unnest(_positions) AS position
          FROM {SharedTable.STREAM_LOG} WHERE _positions IS NOT NULL)
"""
_DOUBTS = {
    "the ledger's counts differ from the records that it lists": f"""
        SELECT {{keys}}, _epoch, CAST(NULL AS INTEGER) AS _partition, CAST(NULL AS BIGINT) AS _offset
        FROM {SharedTable.STREAM_LOG}
        WHERE _class IN ('late', 'future', 'duplicate') AND _n IS DISTINCT FROM coalesce(len(_positions), 0)
    """,
    "a record is in the ledger twice": f"""
        SELECT {{keys}}, _epoch, _partition, _offset FROM {SharedTable.LEDGER}
        QUALIFY count(*) OVER (PARTITION BY _partition, _offset, window_start) > 1
    """,
    "a record is outside the offsets of its epoch": f"""
        SELECT {{keys}}, _epoch, _partition, _offset FROM {SharedTable.LEDGER} l WHERE NOT EXISTS (
        SELECT 1 FROM epoch_offsets o WHERE o.epoch = l._epoch
        AND o.partition = l._partition AND l._offset >= o.first AND l._offset < o.next)
    """,
    "a record is marked late before its window had closed": f"""
        SELECT {{keys}}, _epoch, _partition, _offset FROM {SharedTable.LEDGER} l WHERE _class = 'late' AND NOT EXISTS (
        SELECT 1 FROM {SharedTable.EPOCH_WATERMARKS} w
        WHERE w.epoch = l._epoch AND (epoch_us(l.window_end) + {{grace}} <= w.watermark
        OR epoch_us(l.event_time) < w.remembered))
    """,
    "a record's event time is outside its window": f"""
        SELECT {{keys}}, _epoch, _partition, _offset FROM {SharedTable.LEDGER}
        WHERE window_start IS NOT NULL AND NOT coalesce(event_time >= window_start AND event_time < window_end, false)
    """,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Attribution:
    """Causes of the differences between two sides that have all their stages."""

    sides: Sides
    findings: Findings
    notes: tuple[str, ...]
    proven: tuple[str, ...]  # digests of claims that this comparison proved from the log, see `proof_cache`
    unproven: SealBreach | None  # set if every row has a cause, but some of these causes can no longer be proven


def list_doubts(sides: Sides, pipeline: Pipeline, records: Sequence[EpochRecord]) -> tuple[str, ...]:
    """Create the ledger's tables and return a note for each kind of doubt.

    Args:
        sides: Open sides, with `stream_log` bound.
        pipeline: The definition, for the key and the allowed lateness.
        records: All epochs up to the cut.
    """
    create_ledger_tables(sides.connection, pipeline, records)
    if sides.layout.component:
        for table in (SharedTable.LEDGER, SharedTable.DOUBTFUL):
            digests.assign_components(sides.connection, pipeline, table)
        sides.connection.execute(f"CREATE OR REPLACE TEMP TABLE ledger_keys AS {_keys_sql(sides.layout.place)}")
    doubts = sides.connection.execute(
        f"SELECT why, count(*) FROM {SharedTable.DOUBTFUL} GROUP BY 1 ORDER BY 1"
    ).fetchall()
    return tuple(f"The stream's ledger is in doubt: {reason} ({count} rows)." for reason, count in doubts)


def create_ledger_tables(
    connection: duckdb.DuckDBPyConnection, pipeline: Pipeline, records: Sequence[EpochRecord]
) -> None:
    """Create the ledger's tables from `stream_log`.

    Args:
        connection: Has `stream_log`: rows of the epoch log except those about the epochs themselves.
        pipeline: The definition, for the key and the allowed lateness.
        records: All epochs with rows in `stream_log`.
    """
    keys = ", ".join(map(identifier, ("window_start", *pipeline.key)))
    connection.register("epoch_offsets", _build_offsets(records))
    connection.register(SharedTable.EPOCH_WATERMARKS, _build_watermarks(pipeline, records))
    connection.execute(_POSITIONS.format(keys=keys))
    connection.execute(f"CREATE TEMP TABLE ledger_keys AS {_keys_sql(('window_start', *pipeline.key))}")
    doubts = [
        f"SELECT *, {literal(reason)} AS why FROM ({query.format(keys=keys, grace=compute_late_margin(pipeline))})"
        for reason, query in _DOUBTS.items()
    ]
    connection.execute(f"CREATE TEMP TABLE {SharedTable.DOUBTFUL} AS {' UNION ALL BY NAME '.join(doubts)}")


def _keys_sql(place: Sequence[str]) -> str:
    columns = ", ".join(map(identifier, place))
    ledger = f"{SharedTable.LEDGER} WHERE window_start IS NOT NULL"
    return f"SELECT _class, {columns}, count(*) AS records FROM {ledger} GROUP BY ALL"


def _build_offsets(records: Sequence[EpochRecord]) -> pa.Table:
    rows = [
        {"epoch": record.epoch, "partition": partition, "first": record.start.get(partition, 0), "next": end}
        for record in records
        for partition, end in record.end.items()
    ]
    fields = [pa.field(name, pa.int64()) for name in ("epoch", "partition", "first", "next")]
    return pa.Table.from_pylist(rows, schema=pa.schema(fields))


def _build_watermarks(pipeline: Pipeline, records: Sequence[EpochRecord]) -> pa.Table:
    rows = [
        {"epoch": record.epoch, "watermark": mark, "remembered": compute_oldest_remembered(pipeline, mark)}
        for record, mark in ((record, record.watermark_before) for record in records)
    ]
    fields = [pa.field(name, pa.int64()) for name in ("epoch", "watermark", "remembered")]
    return pa.Table.from_pylist(rows, schema=pa.schema(fields))


def attribute_causes(
    lake: PipelineLake, evidence: SealEvidence, sides: Sides, log: LogReader | None = None
) -> Attribution:
    """Find which rows differ and why; creates the tables `ledger`, `doubtful` and `touched`.

    Args:
        lake: Pipeline that is compared.
        evidence: Tables and records that the sides were opened from.
        sides: Open sides.
        log: Source of the records for each claim; None: the cluster of the settings.

    Raises:
        SealError: Versions of a dimension can be neither proven nor ruled out as a cause.
    """
    doubts = list_doubts(sides, lake.pipeline, evidence.records)
    proof = Proof(lake, evidence, log)
    staged_sides = dimension.stage_refold(lake, evidence, proof.with_swaps(sides))
    plain = causes.diff_stages(staged_sides)
    notes = proof.check(staged_sides, causes.select_claimed_sql(staged_sides))
    return Attribution(
        sides=staged_sides,
        findings=causes.find_causes(staged_sides, plain),
        notes=(*doubts, *notes),
        proven=tuple(proof.proven),
        unproven=None if proof.breach is None or _count_certainly_unexplained(staged_sides) else proof.breach,
    )


def _count_certainly_unexplained(sides: Sides) -> int:
    """Count rows that stay unexplained, whatever the log would prove about the unproven ones."""
    unproven = f"EXISTS (SELECT 1 FROM {UNPROVEN} u WHERE {sides.layout.same_place('u', 't')})"
    return fetch_number(
        sides.connection, f"SELECT count(*) FROM {SharedTable.TOUCHED} t WHERE _explained = 0 AND NOT {unproven}"
    )


BEHIND = "behind"
_OTHERWISE = "{} job"
_CAUSES, _BEHIND_ROWS = "users_tables_causes", "users_tables_behind"


def compare_users_tables(lake: PipelineLake, sides: Sides, jobs: tuple[JobTable, ...]) -> UsersTables | None:
    """Compare the tables of both paths as they are, after the causes were attributed; None: there is no batch job.

    Rows of which the batch job's cannot be judged are left out.
    """
    sides_of_jobs: dict[str, JobTable] = {job.side: job for job in jobs}
    batch = sides_of_jobs.get("batch")
    if batch is None:
        return None
    link = JobLink(
        side="batch",
        place="tables of both paths",
        columns={},
        expected="users_tables_streaming",
        is_judged=is_judged_sql(),
        prefix="users_tables",
    )
    job = JobLink(side="batch", place="", columns={}, expected="")
    streaming_rows = "streaming_job_rows" if "streaming" in sides_of_jobs else stage(0)
    streaming = f"SELECT * FROM {streaming_rows} s WHERE NOT {is_among_sql(lake, job.later, 's')}"
    sides.connection.execute(f"CREATE TEMP VIEW {link.expected} AS {streaming}")
    sides.connection.execute(f"CREATE TEMP VIEW {link.raw} AS SELECT * FROM {job.rows}")
    try:
        counts = compare_link(lake, sides, link)
    except SealError:  # types that are each like the definition's, and not like each other
        return None
    _create_behind(lake, sides, job, has_rules=bool(batch.rules))
    causes = _count_causes(lake, sides, link, _list_conditions(lake, sides, sides_of_jobs))
    return UsersTables(rows=counts.rows, different=counts.different, causes=causes)


def _create_behind(lake: PipelineLake, sides: Sides, job: JobLink, *, has_rules: bool) -> None:
    """Create the table of rows that the definition says otherwise at the cut than at the batch job's position."""
    keys = (WINDOW_START, *lake.pipeline.key)
    selected = ", ".join(f"coalesce(t.{identifier(k)}, p.{identifier(k)}) AS {identifier(k)}" for k in keys)
    same_key = " AND ".join(f"t.{identifier(k)} IS NOT DISTINCT FROM p.{identifier(k)}" for k in keys)
    differs = " OR ".join(f"t.{identifier(m)} IS DISTINCT FROM p.{identifier(m)}" for m in lake.pipeline.measures)
    rows = f"SELECT *, true AS __is_there FROM {SharedTable.EXPECTED}"
    by_rules = f" AND coalesce(t.{WINDOW_START}, p.{WINDOW_START}) NOT IN {select_whole_windows()}" if has_rules else ""
    sides.connection.execute(f"""
        CREATE TEMP TABLE {_BEHIND_ROWS} AS SELECT {selected} FROM ({rows}) t
        FULL JOIN (SELECT *, true AS __is_there FROM {job.judged}) p ON {same_key}
        WHERE (t.__is_there IS NULL OR p.__is_there IS NULL OR {differs}){by_rules}
    """)


def _list_conditions(lake: PipelineLake, sides: Sides, jobs: Mapping[str, JobTable]) -> dict[str, str]:
    """Return by cause the SQL that is true where it contributes to a row `a`, in the order of the chain."""
    conditions = {}
    if "streaming" in jobs:
        conditions[_OTHERWISE.format("streaming")] = is_among_sql(lake, "streaming_job_apart", "a")
    for name in map(str, NAMES):
        touched = f"(SELECT * FROM {SharedTable.TOUCHED} t WHERE {cause_sql(sides, name)})"
        conditions[name] = is_among_sql(lake, touched, "a")
    conditions[BEHIND] = is_among_sql(lake, _BEHIND_ROWS, "a")
    if jobs["batch"].rules:
        conditions["rules"] = is_among_sql(lake, f"{RULES_PREFIX}_job_apart", "a")
    conditions[_OTHERWISE.format("batch")] = is_among_sql(lake, "batch_job_apart", "a")
    return conditions


def _count_causes(lake: PipelineLake, sides: Sides, link: JobLink, conditions: Mapping[str, str]) -> dict[str, int]:
    """Count the rows that differ by cause, and those without any."""
    keys = ", ".join(map(identifier, (WINDOW_START, *lake.pipeline.key)))
    flags = ", ".join(f"{condition} AS {identifier(name)}" for name, condition in conditions.items())
    rows = f"SELECT DISTINCT {keys} FROM {link.apart}"
    sides.connection.execute(f"CREATE TEMP TABLE {_CAUSES} AS SELECT {keys}, {flags} FROM ({rows}) a")
    without = " OR ".join(map(identifier, conditions))
    counts = {
        name: fetch_number(sides.connection, f"SELECT count(*) FROM {_CAUSES} WHERE {identifier(name)}")
        for name in conditions
    }
    counts[UNEXPLAINED] = fetch_number(sides.connection, f"SELECT count(*) FROM {_CAUSES} WHERE NOT ({without})")
    return {name: count for name, count in counts.items() if count}
