"""Duplicates in the batch path's ledger and index: each offset is scanned once, each position listed once."""

# ruff: noqa: S608 -- every name in a query is ours

from collections.abc import Iterator, Sequence
from itertools import pairwise

from cutover.engine import queries
from cutover.lake import batch_runs
from cutover.lake.batch_runs import BatchRun
from cutover.lake.paths import BatchTable, batch_uri
from cutover.lake.tables import delta
from cutover.lake.tables.schemas import IndexKind
from cutover.reconcile.verify.facts.facts import BatchLedger, DoubledPosition, RescannedOffsets, VerifyFacts
from cutover.reconcile.verify.facts.source import Source
from cutover.records.classes import Class

# Duplicates are those of the windows that a run computed: each run that computes a window again lists them again.
_DOUBLED = f"""
    SELECT position.partition, position."offset", epoch_us(window_start), count(*), list_sort(list(DISTINCT _run))
    FROM (SELECT *, unnest(_positions) AS position FROM batch_ledger_rows WHERE _positions IS NOT NULL)
    GROUP BY position.partition, position."offset", window_start, CASE WHEN _class = '{Class.DUPLICATE}' THEN _run END
    HAVING count(*) > 1 ORDER BY 1, 2, 3
"""

# A run that started from scratch deleted the rows of earlier runs.
_PRESENT = f"""
    SELECT _run FROM batch_ledger_rows UNION SELECT _run FROM batch_index_rows WHERE _kind = '{IndexKind.RANGE}'
"""


def read_batch_ledger(source: Source, facts: VerifyFacts) -> BatchLedger:
    """Find positions listed more than once in the ledger of the newest recorded run, and offsets scanned twice.

    Raises:
        LakeError: A table of the batch path cannot be read.
    """
    runs = [
        run for run in batch_runs.read_effective_runs(source.settings, facts.pipeline) if run.ledger_version is not None
    ]
    if not runs:
        return BatchLedger()
    tables: tuple[tuple[BatchTable, int | None], ...] = (
        ("batch_ledger", runs[-1].ledger_version),
        ("batch_index", None),
    )
    with queries.connect(queries.make_reader_limits(source.settings)) as connection:
        for name, version in tables:
            delta.relation(
                connection, f"{name}_rows", batch_uri(source.settings, facts.pipeline, name), version=version
            )
        doubled = connection.execute(_DOUBLED).fetchall()
        present = {str(run_id) for (run_id,) in connection.execute(_PRESENT).fetchall()}
    return BatchLedger(
        doubled=tuple(
            DoubledPosition(partition=partition, offset=offset, window_start=start, rows=count, runs=tuple(run_ids))
            for partition, offset, start, count, run_ids in doubled
        ),
        rescanned=tuple(_find_rescanned([run for run in runs if run.run_id in present])),
    )


def _find_rescanned(runs: Sequence[BatchRun]) -> Iterator[RescannedOffsets]:
    """Yield the offsets that two runs scanned, whose records are therefore counted twice."""
    for partition in sorted({partition for run in runs for partition in run.scanned}):
        scans = sorted((*run.scanned[partition], run.run_id) for run in runs if partition in run.scanned)
        for (_, first_end, first_run), (second_start, second_end, second_run) in pairwise(scans):
            if second_start < first_end:
                yield RescannedOffsets(
                    partition=partition,
                    start=second_start,
                    end=min(first_end, second_end),
                    runs=(first_run, second_run),
                )
