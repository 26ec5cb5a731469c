"""Results that are kept as JSON, a row each, under the definition that they are about."""

from typing import Protocol, TypeVar

from cutover import json_text
from cutover.clock import Clock
from cutover.definition.compile.fingerprint import result_fingerprint
from cutover.definition.model.pipeline import Pipeline
from cutover.lake.control import control_tables
from cutover.lake.paths import ControlTable
from cutover.settings import Settings


class KeptResult(Protocol):
    """A dataclass that says what it is about."""

    @property
    def pipeline(self) -> str:
        """Its name."""

    @property
    def result_fingerprint(self) -> str:
        """Of the definition that was in force."""


Kind = TypeVar("Kind")


def keep(settings: Settings, table: ControlTable, found: KeptResult, clock: Clock, **columns: object) -> None:
    """Append a result to its history.

    Args:
        settings: Where the lake is.
        table: The history.
        found: The result.
        clock: When that was.
        columns: What else the table's row holds.
    """
    row = {
        "pipeline": found.pipeline,
        "result_fingerprint": found.result_fingerprint,
        "at": clock.now(),
        "result": json_text.write(found),
    }
    control_tables.append(settings, table, [row | columns])


def list_texts(settings: Settings, table: ControlTable, pipeline: Pipeline, **columns: object) -> list[str]:
    """Return the results under the definition in force as they are kept, oldest first.

    Args:
        settings: Where the lake is.
        table: The history.
        pipeline: The definition.
        columns: What else the table's row must hold.

    Raises:
        LakeError: The history cannot be read.
    """
    wanted = columns | {"result_fingerprint": result_fingerprint(pipeline)}
    rows = control_tables.read(settings, table, pipeline.name)
    return [row["result"] for row in rows if all(row[name] == value for name, value in wanted.items())]


def list_results(settings: Settings, table: ControlTable, pipeline: Pipeline, kind: type[Kind]) -> list[Kind]:
    """Return the results under the definition in force, oldest first.

    Raises:
        LakeError: The history cannot be read.
    """
    return [json_text.read(kind, text) for text in list_texts(settings, table, pipeline)]


def newest(
    settings: Settings, table: ControlTable, pipeline: Pipeline, kind: type[Kind], **columns: object
) -> Kind | None:
    """Return the newest result under the definition in force; None: there is none. No older one is looked into.

    Raises:
        LakeError: The history cannot be read.
    """
    texts = list_texts(settings, table, pipeline, **columns)
    return json_text.read(kind, texts[-1]) if texts else None
