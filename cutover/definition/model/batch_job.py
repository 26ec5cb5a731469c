"""Batch job that Cutover did not write, described by the table that it writes."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from cutover.definition.model.pipeline import Delta, Pipeline, SameDefinition


@dataclass(frozen=True, slots=True)
class Iceberg:
    """Iceberg table of a job; Cutover reads it and never writes it."""

    table: str  # its folder (an absolute path, or a URI), or `iceberg://catalog/namespace.table`


@dataclass(frozen=True, slots=True)
class Parquet:
    """Parquet files of a job; Cutover reads them and never writes them."""

    path: str  # a folder or a file on this machine, absolute


@dataclass(frozen=True, slots=True, kw_only=True)
class Postgres:
    """Table of a PostgreSQL server that a job writes; Cutover reads it and never writes it."""

    table: str  # `schema.table`
    server: str  # environment variable with the address of the server, so that no definition has a password


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactedTopic:
    """Compacted topic of Kafka with JSON objects that a job writes; Cutover reads it and never writes it.

    Its fields have no types: they are those of the definition's columns.
    """

    topic: str  # in the cluster of the settings, or `kafka://broker:9092/topic`
    time_format: str = "iso"  # of times in its values; or `seconds`, `millis`, `micros`, `nanos` since 1970

    @property
    def address(self) -> str:
        """Address of the topic, as `cutover diff` names it."""
        return self.topic if "://" in self.topic else f"kafka:///{self.topic}"


JobTableKind = CompactedTopic | Delta | Iceberg | Parquet | Postgres


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchJob(SameDefinition):
    """Batch job of a team, one row a window and key, which is meant to compute this definition.

    Cutover's batch path computes the definition from the log, as without a job, and each comparison checks whether the
    job's table has the same rows at its own position: the offsets that the job recorded with its data.
    """

    table: JobTableKind
    columns: Mapping[str, str] = field(default_factory=dict)
    """Name in the definition (`window_start`, a column of the key, a measure) -> the table's column, `a.b` in a struct.
    Others have the same name; without `window_start` the table's `window.start` counts."""
    where: str | None = None
    """Condition of the job in addition to that of the definition, whose other records the job leaves out."""
    once_by: tuple[str, ...] = ()
    """Column by which the job counts a record once that was sent several times, and the definition each time."""

    def __post_init__(self) -> None:
        if isinstance(self.columns, Mapping):  # the checks reject anything else, and name the field
            object.__setattr__(self, "columns", MappingProxyType(dict(self.columns)))

    def __hash__(self) -> int:
        """Hash the table: mappings have no hash."""
        return hash(self.table)

    @property
    def has_rules(self) -> bool:
        """Return whether the job differs from the definition in a way that the definition of the pipeline states."""
        return self.where is not None or bool(self.once_by)

    def describe_rules(self) -> str:
        """Describe in what the job differs from the definition; empty: in nothing."""
        parts = [f"where {self.where}"] if self.where is not None else []
        return ", ".join([*parts, f"once by {', '.join(self.once_by)}"] if self.once_by else parts)


def make_job_definition(pipeline: Pipeline, job: BatchJob) -> Pipeline:
    """Make the definition of what a batch job computes: that of its pipeline, with the rules of the job."""
    conditions = [condition for condition in (pipeline.where, job.where) if condition is not None]
    where = " AND ".join(f"({condition})" for condition in conditions) if job.where else pipeline.where
    source = replace(pipeline.source, record_id=job.once_by[0]) if job.once_by else pipeline.source
    return replace(pipeline, where=where, source=source, batch=SameDefinition())


def find_batch_job(batch: object) -> BatchJob | None:
    """Return the batch job of a pipeline's `batch`; None: there is none."""
    return batch if isinstance(batch, BatchJob) else None


def describe_job_table(table: JobTableKind) -> str:
    """Describe where a table is: the checks of a definition reject an address with a password."""
    match table:
        case Postgres():
            return f"env:{table.server}#{table.table}"
        case CompactedTopic():
            return table.address
        case Iceberg():
            return table.table
        case _:
            return table.path
