"""Archive of a followed job: its micro-batches with their offsets, watermarks and versions of its table.

Spark keeps the newest 100 batches in a checkpoint, and Delta removes old entries of its log, so each batch is copied to
a control table as soon as it has committed. What was removed earlier is never guessed.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_fixed

from cutover.clock import Clock
from cutover.definition.model.pipeline import SparkStream
from cutover.errors import DefinitionError, LakeError
from cutover.lake.journal import Journal, SequenceConflictError
from cutover.lake.journal_rows import FollowedBatch
from cutover.lake.tables import delta
from cutover.log.topic_partitions import name_log, number_partition, split_topics
from cutover.pipeline_lake import PipelineLake
from cutover.positions.delta_versions import TableLog, TableVersion, list_table_versions
from cutover.positions.spark_checkpoint import (
    DEDUPLICATIONS,
    GROUPING,
    JOIN,
    SESSIONS,
    Batch,
    LateRule,
    Operator,
    SparkCheckpoint,
    find_newest_commit,
    has_new_commits,
    read_checkpoint,
)

RUNBOOK = "FollowedJobBroken"
LISTED_VERSIONS = 200
"""Versions before the newest archived one that are listed again, so that it is clear what marks the job's own."""

_RETRYING = Retrying(
    retry=retry_if_exception_type(LakeError), stop=stop_after_attempt(4), wait=wait_fixed(0.5), reraise=True
)
"""A job that runs removes old files of its checkpoint while they are listed."""

_Ends = Mapping[int, int]  # partition -> offset


def get_stream(lake: PipelineLake) -> SparkStream:
    """Return the job that a pipeline follows.

    Raises:
        DefinitionError: Its streaming path is Cutover's own.
    """
    if lake.pipeline.stream is None:
        msg = f"Pipeline `{lake.name}`: expected a definition with `stream=SparkStream(...)`, got Cutover's own path."
        raise DefinitionError(msg + f"\nHint: `cutover stream {lake.name}` drives it.")
    return lake.pipeline.stream


def read_followed_checkpoint(lake: PipelineLake, previous: SparkCheckpoint | None = None) -> SparkCheckpoint:
    """Read the checkpoint of the job that a pipeline follows.

    Args:
        lake: Pipeline.
        previous: Result of an earlier call, of which the batches are not read again.

    Raises:
        DefinitionError: Its streaming path is Cutover's own.
        LakeError: The checkpoint is missing, incomplete, or cannot be read.
    """
    try:
        # A job that runs removes old files while they are listed.
        checkpoint: SparkCheckpoint = _RETRYING(read_checkpoint, get_stream(lake).checkpoint, previous)
    except LakeError as error:
        if not read_archive(lake):  # the job may not have begun
            raise
        raise LakeError(error.text, runbook=RUNBOOK) from error
    return checkpoint


def read_archive(lake: PipelineLake) -> list[FollowedBatch]:
    """Read the archived batches of a pipeline's job, ascending.

    Raises:
        LakeError: The control table cannot be read or lacks rows.
    """
    return Journal(lake.settings, lake.name, FollowedBatch).read()


class JobArchive:
    """Archive of a job that is being followed: each update reads only what is new."""

    def __init__(self, lake: PipelineLake, clock: Clock) -> None:
        """Read what is archived.

        Raises:
            LakeError: The control table cannot be read or lacks rows.
        """
        self.batches: Sequence[FollowedBatch] = read_archive(lake)
        self._lake, self._clock, self._stream = lake, clock, get_stream(lake)
        self._checkpoint: SparkCheckpoint | None = None
        self._log = TableLog()

    def update(self) -> Sequence[FollowedBatch]:
        """Copy the batches that have committed since the last call, and return all that are archived.

        Raises:
            DefinitionError: The job reads another topic, or drops records by a rule that cannot be repeated.
            LakeError: The checkpoint is that of another query, was replaced, or lost batches before they were archived;
                its files or its table cannot be read.
        """
        stream, archived = self._stream, self.batches
        if self._checkpoint is not None and archived and not self._has_new_commits(archived[-1].number):
            return archived
        # Before the table, which may lack what a batch writes and commits while it is read.
        newest_commit = _RETRYING(find_newest_commit, stream.checkpoint)
        table = delta.open_table(stream.table.path) if delta.exists(stream.table.path) else None
        # After the table, so that it knows every batch that the table contains.
        checkpoint = read_followed_checkpoint(self._lake, self._checkpoint)
        check_rules(self._lake, checkpoint)
        _check_same_query(self._lake, checkpoint, archived)
        self._checkpoint = checkpoint
        committed = [batch for batch in checkpoint.batches if batch.is_committed and batch.number <= newest_commit]
        new_batches = [batch for batch in committed if not archived or batch.number > archived[-1].number]
        if new_batches:
            version = archived[-1].table_version if archived else None
            oldest, place = max(0, (version or 0) - LISTED_VERSIONS), stream.table.path
            versions = (
                () if table is None else list_table_versions(place, checkpoint, table, oldest=oldest, log=self._log)
            )
            if version is None and self._log.begins_empty:
                version = 0  # batches that have written no rows yet left the table as it was created
            by_batch = map_versions(versions, committed[-1].number, version)
            self._append(list(_make_rows(self._lake, self._clock, checkpoint, archived, new_batches, by_batch)))
        return self.batches

    def _has_new_commits(self, newest: int) -> bool:
        checkpoint = self._checkpoint
        if checkpoint is None:
            return True
        try:
            return bool(_RETRYING(has_new_commits, self._stream.checkpoint, checkpoint.query_id, newest))
        except LakeError:  # reading it says why it cannot be read
            return True

    def _append(self, rows: Sequence[FollowedBatch]) -> None:
        if not rows:
            return
        journal, archived = Journal(self._lake.settings, self._lake.name, FollowedBatch), self.batches
        try:
            sequence = journal.append(*rows, expected_sequence=archived[-1].sequence + 1 if archived else 0)
        except SequenceConflictError:  # another follower, such as a replay, has archived them
            self.batches = journal.read()
            return
        self.batches = [*archived, *(replace(row, sequence=sequence) for row in rows)]


def read_offsets(text: str) -> dict[int, int]:
    """Parse the offsets of an archived batch."""
    return {int(partition): offset for partition, offset in json.loads(text).items()}


def check_rules(lake: PipelineLake, checkpoint: SparkCheckpoint) -> None:
    """Check that a job reads the topics of a definition, and has the operators that it names, by rules that are known.

    Raises:
        DefinitionError: It does not; says why.
    """
    expected_topics = split_topics(name_log(lake.pipeline))
    topics = {name for batch in checkpoint.batches for name in batch.ends}
    if topics != {*expected_topics}:
        names = " and ".join(f"`{name}`" for name in expected_topics)
        msg = f"Pipeline `{lake.name}`: expected a job that reads {names} alone, its checkpoint has offsets of "
        raise DefinitionError(msg + f"{', '.join(f'`{name}`' for name in sorted(topics))}.")
    mismatch = _find_mismatch(lake, checkpoint.operators)
    if mismatch is None:
        return
    operators = ", ".join(
        f"{operator.name} by {', '.join(operator.columns)} ({operator.late_rule})" for operator in checkpoint.operators
    )
    shape = _describe_shape(lake)
    msg = f"Pipeline `{lake.name}`: expected a job {shape}, its checkpoint has {operators or 'no state'}."
    raise DefinitionError(msg + f"\nHint: {mismatch}.")


def _find_mismatch(lake: PipelineLake, operators: Sequence[Operator]) -> str | None:
    """Find why a job's operators are not those of the definition, or cannot be repeated; None: they can."""
    if lake.pipeline.join is not None:
        return _find_mismatched_join(operators)
    groupings = [operator for operator in operators if operator.name not in DEDUPLICATIONS]
    deduplications = [operator for operator in operators if operator.name in DEDUPLICATIONS]
    names, rules = ({operator.name for operator in groupings}, [operator.late_rule for operator in groupings])
    has_ids, is_ungrouped = lake.pipeline.source.record_id is not None, get_stream(lake).row_per_record
    grouping = SESSIONS if lake.pipeline.window.merges else GROUPING
    reasons = {
        "a job that joins two topics has `join=Join(..., between=...)`; one that joins a topic with itself reads it up "
        "to two positions, and an epoch has one": JOIN in names,
        "only one grouping by windows can be followed: which records other operators drop is not recorded": (
            bool(names - {GROUPING, SESSIONS}) or len(groupings) > 1
        ),
        "`row_per_record=True` is for jobs without a grouping": is_ungrouped and bool(groupings),
        "a job without a grouping has `row_per_record=True`": not is_ungrouped and not groupings,
        "`Sessions(...)` is for jobs with `session_window`, and other windows for jobs with `window`": (
            bool(names - {grouping})
        ),
        "the job groups by something else than windows of the event time, or by those of another watermark": (
            not set(rules) <= {LateRule.WINDOW, LateRule.NEVER}
        ),
    }
    mismatch = next((reason for reason, is_one in reasons.items() if is_one), None)
    if mismatch is not None:
        return mismatch
    return _find_mismatched_ids(deduplications, rules, has_ids=has_ids, is_ungrouped=is_ungrouped)


def _find_mismatched_join(operators: Sequence[Operator]) -> str | None:
    """Find why a job's operators are not one join that can be repeated; None: they are."""
    if [operator.name for operator in operators if operator.name == JOIN] != [JOIN]:
        return "`join` is for jobs with one join of two topics"
    if len(operators) > 1:
        return "which records an operator before or behind a join drops is not recorded"
    if operators[0].late_rule is not LateRule.ROW:
        return "both sides of the join have a watermark on their event time"
    return None


def _find_mismatched_ids(
    deduplications: Sequence[Operator], rules: Sequence[LateRule], *, has_ids: bool, is_ungrouped: bool
) -> str | None:
    """Find why a job's deduplication is not that of the definition; None: it is."""
    if not deduplications:  # a function of foreachBatch may merge by an id without any state
        return None if is_ungrouped or not has_ids else "`source.record_id` is for jobs with `dropDuplicates`"
    if not has_ids:
        return "a job with `dropDuplicates` has `source.record_id`"
    if [_is_by_id(operator) for operator in deduplications] != [True]:
        return "a deduplication is by an id, and by the event time if it has a watermark"
    if LateRule.NEVER in rules and any(operator.late_rule is LateRule.ROW for operator in deduplications):
        return "a grouping without the event time has lost the watermark of the deduplication before it"
    return None


def _is_by_id(operator: Operator) -> bool:
    """Return whether a deduplication is by one column, and by the event time if it forgets ids by it."""
    if operator.late_rule is LateRule.NEVER:
        return len(operator.columns) in {1, 2}
    return operator.late_rule is LateRule.ROW and len(operator.columns) == (2 if operator.name == "dedupe" else 1)


def _describe_shape(lake: PipelineLake) -> str:
    if lake.pipeline.join is not None:
        return "with one join of two topics, both with a watermark, and no other state"
    has_ids = lake.pipeline.source.record_id is not None
    grouping = "with one grouping by sessions" if lake.pipeline.window.merges else "with one grouping"
    grouping = "without a grouping" if get_stream(lake).row_per_record else grouping
    return f"{grouping} that deduplicates by id and event time before it" if has_ids else grouping


def drops_late_records(lake: PipelineLake, checkpoint: SparkCheckpoint) -> bool:
    """Return whether the job drops late records: those of closed windows, or old duplicates.

    A grouping in complete mode drops none, but one by sessions does.

    Raises:
        LakeError: It has not committed a batch yet, so that its operators are unknown.
    """
    stream = get_stream(lake)
    if checkpoint.newest_committed is None:
        msg = f"Checkpoint `{stream.checkpoint}`: expected a committed batch, the query has not finished its first one."
        raise LakeError(msg)
    rules = [operator.late_rule for operator in checkpoint.operators]
    has_closing_windows = stream.output_mode != "complete" or lake.pipeline.window.merges
    return LateRule.ROW in rules or (LateRule.WINDOW in rules and has_closing_windows)


def _check_same_query(lake: PipelineLake, checkpoint: SparkCheckpoint, archived: Sequence[FollowedBatch]) -> None:
    """Check that the checkpoint continues what was archived.

    Raises:
        LakeError: It does not; what its table contains is unknown then.
    """
    if not archived:
        return
    stream, last, oldest = get_stream(lake), archived[-1], checkpoint.batches[0]
    if checkpoint.query_id != last.query_id:
        raise _reject(stream, f"the query {last.query_id}, got {checkpoint.query_id}: the checkpoint was replaced")
    if oldest.number > last.number + 1:
        lost = f"{last.number + 1} to {oldest.number - 1}"
        raise _reject(stream, f"every batch after {last.number}, Spark removed {lost} before they were archived")
    if checkpoint.batches[-1].number < last.number:
        actual = f"{checkpoint.batches[-1].number}: the checkpoint is an older copy"
        raise _reject(stream, f"batch {last.number}, which was archived, its newest is {actual}")
    archived_ends = {row.number: read_offsets(row.ends) for row in archived}
    for batch in checkpoint.batches:
        if batch.number in archived_ends and _number_offsets(lake, batch.ends) != archived_ends[batch.number]:
            raise _reject(stream, f"batch {batch.number} as it was archived, it has other offsets now")


def _reject(stream: SparkStream, expected: str) -> LakeError:
    msg = f"Checkpoint `{stream.checkpoint}`: expected {expected}."
    hint = (
        "\nHint: which records its table contains is unknown from here on; a definition with another name begins anew."
    )
    return LakeError(msg + hint, runbook=RUNBOOK)


def _number_offsets(lake: PipelineLake, by_topic: Mapping[str, _Ends]) -> dict[int, int]:
    """Return the offsets of all topics by the numbers that their partitions have in the pipeline's log."""
    return {
        number_partition(turn, partition): offset
        for turn, topic in enumerate(split_topics(name_log(lake.pipeline)))
        for partition, offset in by_topic.get(topic, {}).items()
    }


def map_versions(
    versions: Sequence[TableVersion], newest: int, version: int | None
) -> dict[int, tuple[int | None, str]]:
    """Map each batch to the newest version that contains it and no later one, and to what others wrote meanwhile.

    Args:
        versions: Of the table, ascending.
        newest: Number of the newest batch that has committed.
        version: Newest one that is archived, for batches that write none; None: none is archived.
    """
    state: dict[int, tuple[int | None, str]] = {}
    foreign: list[str] = []
    by_number: dict[int, list[TableVersion]] = {}
    current = -1
    for entry in versions:
        current = current if entry.batch is None else max(current, entry.batch)
        by_number.setdefault(current, []).append(entry)
    for number in range(-1, newest + 1):
        for entry in by_number.get(number, []):
            version = entry.version
            foreign += [f"{entry.version} ({entry.operation})"] if entry.is_foreign else []
        state[number] = (version, ", ".join(foreign))
        foreign = []
    return state


def _make_rows(
    lake: PipelineLake,
    clock: Clock,
    checkpoint: SparkCheckpoint,
    archived: Sequence[FollowedBatch],
    new_batches: Sequence[Batch],
    versions: Mapping[int, tuple[int | None, str]],
) -> Iterator[FollowedBatch]:
    starts: _Ends | None = read_offsets(archived[-1].ends) if archived else None
    judged_by: int | None = archived[-1].watermark if archived else None
    if not archived and new_batches[0].number == 0:
        starts, judged_by = _number_offsets(lake, checkpoint.starts) or None, 0
    for batch in new_batches:
        ends = _number_offsets(lake, batch.ends)
        if starts is not None and judged_by is not None:
            table_version, foreign_versions = versions.get(batch.number, (None, ""))
            yield FollowedBatch(
                pipeline=lake.name,
                query_id=checkpoint.query_id,
                number=batch.number,
                starts=json.dumps({partition: starts.get(partition, 0) for partition in sorted(ends)}),
                ends=json.dumps(dict(sorted(ends.items()))),
                planned_at=batch.planned_at,
                watermark=batch.watermark,
                judged_by=judged_by,
                table_version=table_version,
                foreign_versions=foreign_versions,
                at=clock.now(),
            )
        starts, judged_by = ends, batch.watermark
