"""What a batch run read and wrote, as an OpenLineage event tells it."""

from cutover.definition.model.pipeline import Pipeline
from cutover.lake.batch_runs import BatchRun
from cutover.lake.paths import batch_uri
from cutover.lineage.runs import Touched
from cutover.settings import Settings


def find_touched(settings: Settings, pipeline: Pipeline, found: BatchRun | None) -> Touched:
    """Return the offsets that a run read for the first time and its tables; nothing, where it had nothing to do."""
    if found is None:
        return Touched()
    from cutover.lineage import datasets  # noqa: PLC0415 -- its client takes a second to load: only where somebody listens

    outputs = [datasets.table_written(batch_uri(settings, pipeline), found.batch_version)]
    outputs.append(datasets.table_written(batch_uri(settings, pipeline, "batch_ledger"), found.ledger_version))
    read = datasets.topics(settings, found.topic, found.topic_id, found.cluster_id, found.scanned)
    facets = {"runId": found.run_id, "epoch": found.epoch, "windowRanges": len(found.computed)}
    return Touched(inputs=tuple(read), outputs=tuple(outputs), facets=facets)


def find_touched_by_repair(settings: Settings, pipeline: Pipeline, found: tuple[BatchRun, bool]) -> Touched:
    """Return what a repair wrote; nothing, where it had been published before."""
    made, was_there = found
    return find_touched(settings, pipeline, None if was_there else made)


def find_touched_by_undo(settings: Settings, pipeline: Pipeline, found: tuple[BatchRun | None, str, bool]) -> Touched:
    """Return what taking a repair back wrote; nothing, where it was a draft, or had been taken back before."""
    made, _, was_there = found
    return find_touched(settings, pipeline, None if was_there else made)
