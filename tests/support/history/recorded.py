"""A history and reports without an engine: a comparison is written and recorded as `cutover reconcile` does it."""

from dataclasses import replace
from datetime import UTC, datetime

from cutover.definition.compile.fingerprint import result_fingerprint
from cutover.definition.model.pipeline import Pipeline
from cutover.reconcile.judgement import history
from cutover.reconcile.report import files
from cutover.reconcile.result.outcome import Reconciliation
from cutover.settings import Settings


def record(settings: Settings, pipeline: Pipeline, found: Reconciliation) -> str:
    """Write the report of a comparison, record it, and return the name of its page."""
    named = replace(found, pipeline=pipeline.name)
    path = files.write(settings, named)
    made = replace(named, page=f"{pipeline.name}/{path.name}", report=f"{pipeline.name}/{path.stem}.json")
    entry = history.find_entry(
        settings, made, fingerprint=result_fingerprint(pipeline), version=None, at=datetime.now(UTC)
    )
    history.record(settings, made, entry)
    return path.name
