"""Rows of the batch path at the position of a team's batch job, with which the job's table is compared.

The table holds the windows that have records on both sides of the position, or all windows if the job has rules of its
own. It is replaced by each run that finds another position, or other such windows. The commit states the position and
the windows, also those without a row.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema

from cutover.events import log
from cutover.lake.tables import checksums, commits, data_files, delta, delta_log
from cutover.lake.tables.schemas import batch_schema
from cutover.pipeline_lake import PipelineLake


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
