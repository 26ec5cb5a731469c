"""Handle of one pipeline in an installation, and the locations of the lake.

`<lake>/<pipeline>/<result fingerprint>/{batch, batch_index, batch_ledger, stream-<n>/stream}`,
`<lake>/<pipeline>/{serving, sequences}`, `<lake>/<pipeline>/definition.json`, `<lake>/_control/...`. The functions take
settings and a name where a definition need not be known.
"""

from dataclasses import dataclass
from typing import Any, Literal

from cutover.definition.compile.fingerprint import result_fingerprint
from cutover.definition.model.joins import CONTROL_FOLDER
from cutover.definition.model.pipeline import Pipeline
from cutover.settings import Settings

BatchTable = Literal["batch", "batch_index", "batch_ledger"]
BATCH_TABLES: tuple[BatchTable, ...] = ("batch", "batch_index", "batch_ledger")
JOB_ROWS = "job_rows"
"""Table next to them that only the comparison with a team's batch job reads."""


@dataclass(frozen=True, slots=True)
class PipelineLake:
    """Definition of a pipeline, and the installation that holds its log and its tables."""

    settings: Settings
    pipeline: Pipeline

    @property
    def name(self) -> str:
        """Name of the pipeline."""
        return self.pipeline.name

    def with_settings(self, **changes: Any) -> "PipelineLake":
        """Return the pipeline in other tables, or at another version of its stream, as changed settings select them."""
        return PipelineLake(self.settings.model_copy(update=changes), self.pipeline)

    def version_uri(self) -> str:
        """Return the folder of the tables that one result fingerprint shares."""
        return f"{self.settings.lake_uri}/{self.name}/{result_fingerprint(self.pipeline)}"

    def stream_uri(self, number: int, *, fingerprint: str | None = None) -> str:
        """Return `<lake>/<pipeline>/<result fingerprint>/stream-<number>/stream`; the folder need not exist.

        The fingerprint is that of the definition, unless that of an earlier one is given.
        """
        folder = fingerprint or result_fingerprint(self.pipeline)
        return f"{self.settings.lake_uri}/{self.name}/{folder}/stream-{number}/stream"

    def job_rows_uri(self) -> str:
        """Return the table of rows at the position of a team's batch job, next to the batch tables."""
        return f"{self.settings.batch_tables or self.version_uri()}/{JOB_ROWS}"

    def batch_uri(self, table: BatchTable = "batch") -> str:
        """Return `<lake>/<pipeline>/<result fingerprint>/<table>`, or that of an audit; the folder need not exist."""
        return f"{self.settings.batch_tables or self.version_uri()}/{table}"


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
