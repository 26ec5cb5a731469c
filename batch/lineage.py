"""Inputs and outputs of a batch run, for its OpenLineage event."""

from cutover.lake.batch_runs import BatchRun
from cutover.lineage.runs import RunDatasets
from cutover.pipeline_lake import PipelineLake


def find_touched_by_run(lake: PipelineLake, batch_run: BatchRun | None) -> RunDatasets:
    """Return the offsets that a run read for the first time and its tables; nothing, where it had nothing to do."""
    if batch_run is None:
        return RunDatasets()
    from cutover.lineage import datasets  # noqa: PLC0415 -- its client takes a second to load: only if lineage is configured

    outputs = [datasets.make_output_table(lake.batch_uri(), batch_run.batch_version)]
    outputs.append(datasets.make_output_table(lake.batch_uri("batch_ledger"), batch_run.ledger_version))
    read = datasets.make_input_topics(
        lake.settings, batch_run.topic, batch_run.topic_id, batch_run.cluster_id, batch_run.scanned
    )
    facets = {"runId": batch_run.run_id, "epoch": batch_run.epoch, "windowRanges": len(batch_run.computed)}
    return RunDatasets(inputs=tuple(read), outputs=tuple(outputs), facets=facets)


def find_touched_by_repair(lake: PipelineLake, outcome: tuple[BatchRun, bool]) -> RunDatasets:
    """Return what a repair wrote; nothing, where it had been published before."""
    run, was_published = outcome
    return find_touched_by_run(lake, None if was_published else run)


def find_touched_by_undo(lake: PipelineLake, outcome: tuple[BatchRun | None, str, bool]) -> RunDatasets:
    """Return the outputs of an undone repair; none if it was a draft or was undone before."""
    run, _, was_undone = outcome
    return find_touched_by_run(lake, None if was_undone else run)
