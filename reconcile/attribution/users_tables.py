"""Tables of a team's two paths as users see them: in which rows they differ, and by which link of the chain.

The table of the streaming side has the records up to its cut without those that it dropped; the batch job's table has
those up to its own position. Between them lie, in this order: what the streaming job does otherwise than the
definition, the records that it dropped, the records between both cuts (`behind`), the rules of the batch job, and what
the batch job does otherwise. Each link was compared before, with its proof. So a row that differs has a cause where a
link of it does, and is counted for each.
"""

# ruff: noqa: S608 -- every name in a query is quoted by `identifier` or internal

from collections.abc import Mapping

from cutover.definition.model.spark_stream import WINDOW_START
from cutover.engine.queries import fetch_number
from cutover.pipeline_lake import PipelineLake
from cutover.quoting import identifier
from cutover.reconcile.attribution.causes import NAMES, UNEXPLAINED, cause_sql
from cutover.reconcile.comparison.batch_job import RULES_PREFIX, is_judged_sql, select_whole_windows
from cutover.reconcile.comparison.job_table import JobLink, compare_link, is_among_sql
from cutover.reconcile.comparison.layout import SharedTable, stage
from cutover.reconcile.comparison.sides import Sides
from cutover.reconcile.preconditions.seal import SealError
from cutover.reconcile.result.parts import JobTable, UsersTables

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
