"""Windows that only an earlier version of the stream can serve: the log that it read was recreated or rewritten.

The current version cannot read the lost records again. Of each window that they affect, the version that counted more
records is served, so that no window disappears or shrinks; its state is `incomplete(lost)`.
"""

from collections.abc import Iterator, Sequence

import duckdb

from cutover.definition.compile.fingerprint import lateness_fingerprint
from cutover.definition.model.pipeline import Pipeline
from cutover.errors import LakeError
from cutover.events import log
from cutover.lake.control import losses, versions
from cutover.lake.control.versions import Version
from cutover.lake.epochs.epoch_log import EpochLog
from cutover.lake.journal_rows import Loss
from cutover.quoting import identifier
from cutover.records.fold import finish_sql
from cutover.settings import Settings


def list_earlier(settings: Settings, pipeline: Pipeline, version: Version) -> list[Version]:
    """List the versions that read records which the log of a version no longer holds, newest first."""
    accepted, lateness = losses.list_up_to(settings, version), lateness_fingerprint(pipeline)
    candidates = {
        version.number: version
        for version in versions.list_versions(settings, pipeline)
        if version.lateness_fingerprint == lateness and not version.beside
    }
    return list(_follow(candidates, accepted, version.number))


def _follow(candidates: dict[int, Version], losses: Sequence[Loss], number: int) -> Iterator[Version]:
    while any(loss.stream_version == number and _is_of_another_log(loss) for loss in losses):
        previous = max((n for n in candidates if n < number), default=None)
        if previous is None:
            return
        yield candidates[previous]
        number = previous


def _is_of_another_log(loss: Loss) -> bool:
    """Return whether the previous version read another log; otherwise its own table was broken, and is not used."""
    return loss.kind == "anew" and (loss.again or loss.topic_id != loss.onward_topic_id)


def bind_served_rows(
    connection: duckdb.DuckDBPyConnection, settings: Settings, pipeline: Pipeline, version: Version, *, is_lost: str
) -> str:
    """Return the relation of the rows that the streaming side serves.

    Args:
        connection: Has the view `streaming` of the version.
        settings: Location of the lake.
        pipeline: The definition.
        version: The current version.
        is_lost: Condition that recorded losses affect a window.
    """
    relation = "streaming"
    for earlier in list_earlier(settings, pipeline, version):
        name = f"lost_{earlier.number}"
        if _bind_lost(connection, pipeline, earlier, name=name, is_lost=is_lost):
            connection.execute(f"CREATE TEMP VIEW {name}_served AS {_merge_sql(pipeline, relation, name)}")
            relation = f"{name}_served"
    return relation


def _bind_lost(
    connection: duckdb.DuckDBPyConnection, pipeline: Pipeline, earlier: Version, *, name: str, is_lost: str
) -> bool:
    """Read the affected windows of an earlier version; return False if its table can no longer be read."""
    try:
        epochs = EpochLog(earlier.uri)
        newest = epochs.newest()
        if newest is None:
            return False
        epochs.relation(connection, f"{name}_log", epoch=newest.epoch)
        rows = f"SELECT * FROM ({finish_sql(pipeline, f'{name}_log')}) WHERE {is_lost}"  # noqa: S608 -- ours
        connection.execute(f"CREATE TEMP TABLE {name} AS {rows}")
    except (LakeError, duckdb.Error) as error:
        log.warning("earlier_version_unreadable", version=earlier.app_id, error=str(error).partition("\n")[0])
        return False
    return True


def _merge_sql(pipeline: Pipeline, relation: str, earlier: str) -> str:
    """Return the query of a relation's rows, with the windows of an earlier version of which it holds fewer records.

    Of sessions, those of the earlier version are added that touch no session of the same key.
    """
    columns = ", ".join(map(identifier, ("window_start", "window_end", *pipeline.key, *pipeline.measures, "_n")))
    newer, older = f"SELECT {columns} FROM {relation} AS newer", f"SELECT {columns} FROM {earlier} AS older"  # noqa: S608 -- quoted
    if pipeline.window.merges:
        same_key = (f"r.{key} IS NOT DISTINCT FROM older.{key}" for key in map(identifier, pipeline.key))
        touches = " AND ".join(("r.window_start <= older.window_end AND older.window_start <= r.window_end", *same_key))
        return f"{newer} UNION ALL {older} WHERE NOT EXISTS (SELECT 1 FROM {relation} AS r WHERE {touches})"  # noqa: S608 -- quoted
    totals = "SELECT window_start, sum(_n) AS records FROM {} GROUP BY window_start"
    larger = (
        f"SELECT window_start FROM ({totals.format(earlier)}) AS before"  # noqa: S608 -- ours
        f" LEFT JOIN ({totals.format(relation)}) AS since USING (window_start)"
        " WHERE before.records > coalesce(since.records, 0)"
    )
    return f"{newer} WHERE window_start NOT IN ({larger}) UNION ALL {older} WHERE window_start IN ({larger})"
