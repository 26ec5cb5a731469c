"""Locations in the lake.

`<lake>/<pipeline>/<result fingerprint>/{batch, batch_index, batch_ledger, stream-<n>/stream}`,
`<lake>/<pipeline>/{serving, sequences}`, `<lake>/<pipeline>/definition.json`, `<lake>/_control/...`.
"""

from typing import Literal

from cutover.definition.compile.fingerprint import result_fingerprint
from cutover.definition.model.joins import CONTROL_FOLDER
from cutover.definition.model.pipeline import Pipeline
from cutover.settings import Settings

BatchTable = Literal["batch", "batch_index", "batch_ledger"]
BATCH_TABLES: tuple[BatchTable, ...] = ("batch", "batch_index", "batch_ledger")


def version_uri(settings: Settings, pipeline: Pipeline) -> str:
    """Return the folder of the tables that one result fingerprint shares."""
    return f"{settings.lake_uri}/{pipeline.name}/{result_fingerprint(pipeline)}"


def stream_uri(settings: Settings, pipeline: Pipeline, number: int, *, fingerprint: str | None = None) -> str:
    """Return `<lake>/<pipeline>/<result fingerprint>/stream-<number>/stream`; the folder need not exist.

    The fingerprint is that of the definition, unless that of an earlier one is given.
    """
    folder = fingerprint or result_fingerprint(pipeline)
    return f"{settings.lake_uri}/{pipeline.name}/{folder}/stream-{number}/stream"


def batch_uri(settings: Settings, pipeline: Pipeline, table: BatchTable = "batch") -> str:
    """Return `<lake>/<pipeline>/<result fingerprint>/<table>`, or that of an audit; the folder need not exist."""
    return f"{settings.batch_tables or version_uri(settings, pipeline)}/{table}"


def serving_uri(settings: Settings, name: str) -> str:
    """Return `<lake>/<pipeline>/serving`: the table for readers of other engines, under a stable name."""
    return f"{settings.lake_uri}/{name}/serving"


def control_uri(settings: Settings, table: str) -> str:
    """Return `<lake>/_control/<table>`: rows of the installation's history."""
    return f"{settings.lake_uri}/{CONTROL_FOLDER}/{table}"


def sequence_marks_uri(settings: Settings, name: str, table: str) -> str:
    """Return `<lake>/<pipeline>/sequences/<table>`: the mark of its latest row in a control table."""
    return f"{settings.lake_uri}/{name}/sequences/{table}"


def definition_uri(settings: Settings, name: str) -> str:
    """Return `<lake>/<pipeline>/definition.json`: the definition that its driver last ran with."""
    return f"{settings.lake_uri}/{name}/definition.json"
