"""What a comparison read and found, as an OpenLineage event tells it."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from cutover.definition.model.pipeline import Pipeline
from cutover.lake.paths import batch_uri, control_uri, stream_uri
from cutover.lineage.runs import Touched
from cutover.reconcile.result.report import Report
from cutover.reconcile.verdict.audits.audit_record import AuditState, WindowAudit
from cutover.settings import Settings

if TYPE_CHECKING:
    from openlineage.client.event_v2 import InputDataset


def find_touched(settings: Settings, pipeline: Pipeline, found: Report) -> Touched:
    """Return the log up to the cut and both tables, at the versions compared, and the verdict."""
    from cutover.lineage import datasets  # noqa: PLC0415 -- its client takes a second to load: only where somebody listens

    facets = {"runId": found.run.run_id, "epoch": found.finding.seal.epoch, "verdict": str(found.finding.verdict)}
    history = datasets.table_written(control_uri(settings, "reconciliations"), None)
    return Touched(inputs=tuple(_inputs(settings, pipeline, found)), outputs=(history,), facets=facets)


def find_touched_by_audit(settings: Settings, pipeline: Pipeline, found: WindowAudit) -> Touched:
    """Return the stream's table, and what the audit said of the windows that it drew."""
    from cutover.lineage import datasets  # noqa: PLC0415 -- its client takes a second to load: only where somebody listens

    facets = {"state": str(found.state), "windows": len(found.windows), "seed": found.seed, "epoch": found.epoch}
    number = found.stream_version
    read = () if number is None else (datasets.table_read(stream_uri(settings, pipeline, number), None),)
    is_kept = found.state is not AuditState.NOTHING_NEW
    history = (datasets.table_written(control_uri(settings, "audits"), None),) if is_kept else ()
    return Touched(inputs=read, outputs=history, facets=facets)


def _inputs(settings: Settings, pipeline: Pipeline, found: Report) -> "Iterator[InputDataset]":
    from cutover.lineage import datasets  # noqa: PLC0415 -- its client takes a second to load: only where somebody listens

    for one in found.finding.seal.logs:
        read = {int(p): (None, end) for p, end in one.cut.items()}
        yield from datasets.topics(settings, one.topic, one.topic_id, one.cluster_id, read)
    version, tables = found.finding.seal.stream_version, found.run.tables
    if version is not None:
        yield datasets.table_read(stream_uri(settings, pipeline, version), tables.stream)
    if tables.batch is not None:
        yield datasets.table_read(batch_uri(settings, pipeline), tables.batch)
