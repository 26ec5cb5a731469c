"""Metrics of a batch run: its cut, the records that it read and the rows that it wrote."""

from collections.abc import Iterator

from cutover.definition.model.pipeline import Pipeline
from cutover.lake.batch_runs import BatchRun
from cutover.metrics.families import MetricSample


def samples(pipeline: Pipeline, run: BatchRun | None) -> Iterator[MetricSample]:
    """Yield the numbers of a run; none of one that KAPPA left out."""
    if run is None:
        return
    for name, value in (
        ("epoch", run.epoch),
        ("duration_seconds", run.seconds),
        ("scanned_offsets", sum(end - start for start, end in run.scanned.values())),
        ("stale_ranges", len(run.stale)),
        ("incomplete_ranges", len(run.incomplete)),
    ):
        yield MetricSample(f"cutover_batch_{name}", (pipeline.name,), value)
