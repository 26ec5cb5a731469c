"""Doubts about rows in which a batch job's table differs: what else than the job may have made them differ.

The offsets of a position without a topic id are those of another log if the topic was deleted and created again. Rows
that were deleted from a table without versions leave no trace. In PostgreSQL, a transaction that had begun before the
job's may have changed rows and ended after it, and looks like an earlier run of the job. Where it is proven that none
of them has happened there is no doubt, where it is proven that one has the table is not comparable, and else the
verdict names it.
"""

from cutover.counts import count_clause, count_noun
from cutover.engine.queries import fetch_number
from cutover.lake import batch_runs
from cutover.lake.control.losses import list_losses
from cutover.pipeline_lake import PipelineLake
from cutover.positions.batch_table import BoundJobTable
from cutover.reconcile.comparison.job_table import JobCounts, JobLink, is_among_sql, reject_job_table
from cutover.reconcile.comparison.sides import Sides
from cutover.reconcile.preconditions.seal import SealEvidence
from cutover.timestamps import parse_micros

_RECORD_IDS = "record `CUTOVER_POSITION`, which has the topic's id"


def find_topic_doubt(lake: PipelineLake, evidence: SealEvidence, link: JobLink, table: BoundJobTable) -> str | None:
    """Find why the offsets of a position may be those of an earlier topic of this name; None: they are not.

    A position that was recorded after the topic with its present id was first seen is one of this topic.

    Raises:
        SealError: The topic was created again, and the position may have been recorded before.
    """
    topic, run = lake.pipeline.source.name, evidence.run
    if topic in table.position.topic_ids:  # compared with the id of the cut before
        return None
    runs = batch_runs.read_recorded_runs(lake)
    seen = [other.finished for other in runs if other.topic_id == run.topic_id]
    seen += [record.processing_time for record in evidence.records if record.topic_id == run.topic_id][:1]
    first_seen = min((parse_micros(time) for time in seen if time), default=None)
    if None not in {first_seen, table.recorded_at} and (table.recorded_at or 0) >= (first_seen or 0):
        return None
    earlier_ids = {other.topic_id for other in runs} | {loss.topic_id for loss in list_losses(lake)}
    if earlier_ids - {run.topic_id}:
        text = f"expected a position with the id of topic `{topic}`, which was created again, got offsets that may be"
        raise reject_job_table(link, f"{text} those of the earlier topic; {_RECORD_IDS}")
    return (
        f"Its position has no topic id: if topic `{topic}` was created again since, its offsets mean other records;"
        f" {_RECORD_IDS}."
    )


def find_deletion_doubt(sides: Sides, link: JobLink, table: BoundJobTable, counts: JobCounts) -> str | None:
    """Find why rows that a table lacks may have been deleted after the job recorded its position; None: they were not.

    A table with versions is read as the job has left it. Of another one, the number of rows tells, if it was recorded.

    Raises:
        SealError: Only rows are missing, and as many have been deleted, or more.
    """
    recorded = table.position.table_rows
    if table.version is not None:
        return None
    deleted = 0 if recorded is None else recorded - fetch_number(sides.connection, f"SELECT count(*) FROM {link.raw}")  # noqa: S608 -- internal
    if recorded is not None and not deleted and not counts.later:
        return None
    if deleted > 0 and not counts.later and counts.missing == counts.different and counts.missing <= deleted:
        text = f"expected the {count_noun(recorded or 0, 'row')} that the job has recorded with its position, got"
        raise reject_job_table(link, f"{text} {deleted:,} fewer: another writer deleted rows")
    return (
        f"The table lacks {count_noun(counts.missing, 'row')}: the job does not write them, or they were deleted after"
        " it recorded its position."
    )


def count_earlier_rows(lake: PipelineLake, sides: Sides, link: JobLink) -> int:
    """Count the rows that differ and are of an earlier transaction than that which recorded the position."""
    if link.is_earlier is None:
        return 0
    is_earlier = is_among_sql(lake, link.earlier, "a")
    return fetch_number(sides.connection, f"SELECT count(*) FROM {link.apart} a WHERE NOT is_missing AND {is_earlier}")  # noqa: S608 -- internal


def describe_earlier_rows(count: int) -> str | None:
    """Describe that rows may have been written after the position by an earlier transaction; None: there are none."""
    if not count:
        return None
    return (
        f"{count_clause(count, 'row', 'is', 'are')} of an earlier transaction than the position: an earlier run of the"
        " job wrote them, or a transaction that had begun before the job's and ended after it. A server with"
        " `track_commit_timestamp = on` tells these apart."
    )
