"""Inputs and result of a comparison as an OpenLineage event."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from cutover.lineage.runs import RunDatasets
from cutover.pipeline_lake import PipelineLake, control_uri
from cutover.reconcile.result.report import Report
from cutover.reconcile.verdict.audits.audit_record import AuditState, WindowAudit

if TYPE_CHECKING:
    from openlineage.client.event_v2 import InputDataset


def find_touched_by_comparison(lake: PipelineLake, report: Report) -> RunDatasets:
    """Return the log up to the cut and both tables, at the versions compared, and the verdict."""
    from cutover.lineage import datasets  # noqa: PLC0415 -- its client takes a second to load: only if lineage is configured

    facets = {"runId": report.run.run_id, "epoch": report.finding.seal.epoch, "verdict": str(report.finding.verdict)}
    history = datasets.make_output_table(control_uri(lake.settings, "reconciliations"), None)
    return RunDatasets(inputs=tuple(_inputs(lake, report)), outputs=(history,), facets=facets)


def find_touched_by_audit(lake: PipelineLake, window_audit: WindowAudit) -> RunDatasets:
    """Return the stream's table, and what the audit said of the windows that it drew."""
    from cutover.lineage import datasets  # noqa: PLC0415 -- its client takes a second to load: only if lineage is configured

    facets = {
        "state": str(window_audit.state),
        "windows": len(window_audit.windows),
        "seed": window_audit.seed,
        "epoch": window_audit.epoch,
    }
    number = window_audit.stream_version
    read = () if number is None else (datasets.make_input_table(lake.stream_uri(number), None),)
    is_kept = window_audit.state is not AuditState.NOTHING_NEW
    history = (datasets.make_output_table(control_uri(lake.settings, "audits"), None),) if is_kept else ()
    return RunDatasets(inputs=read, outputs=history, facets=facets)


def _inputs(lake: PipelineLake, report: Report) -> "Iterator[InputDataset]":
    from cutover.lineage import datasets  # noqa: PLC0415 -- its client takes a second to load: only if lineage is configured

    for log in report.finding.seal.logs:
        read = {int(p): (None, end) for p, end in log.cut.items()}
        yield from datasets.make_input_topics(lake.settings, log.topic, log.topic_id, log.cluster_id, read)
    version, tables = report.finding.seal.stream_version, report.run.tables
    if version is not None:
        yield datasets.make_input_table(lake.stream_uri(version), tables.stream)
    if tables.batch is not None:
        yield datasets.make_input_table(lake.batch_uri(), tables.batch)
