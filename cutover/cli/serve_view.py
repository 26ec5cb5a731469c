"""`cutover serve-view`: a table with a stable name for Spark, DuckDB and delta-rs, whichever path is served."""

import time
from collections.abc import Iterator
from typing import Annotated

import typer

from cutover.cli.definitions import find_definition
from cutover.errors import CutoverError
from cutover.lake.control import swaps
from cutover.lake.serving import serving_table
from cutover.lake.serving.serving_table import Publication
from cutover.output.console import Output, print_warnings
from cutover.quoting import identifier, literal, spark_identifier
from cutover.settings import Settings, load_settings

_CREATE_VIEW = "CREATE OR REPLACE VIEW {name} AS SELECT * FROM {rows};"


def serve_view(
    pipeline: Annotated[str, typer.Argument(help="Name of a pipeline.")],
    *,
    follow: Annotated[
        float | None, typer.Option("--follow", min=0.1, help="Publish again every N seconds, until Ctrl-C.")
    ] = None,
    anyway: Annotated[
        bool,
        typer.Option(
            "--anyway", help="Publish even if the served tables have read less than the published one, or have no row."
        ),
    ] = False,
) -> Iterator[Output]:
    """Publish the served rows as one table with a stable name, in one commit, and print how to read it."""
    settings = load_settings()
    publication = _publish(settings, pipeline, anyway=anyway)
    text = _describe_publication(pipeline, publication)
    yield Output(document=_to_fields(publication), lines=[text, *_list_queries(pipeline, publication)])
    if follow is not None:
        yield from _follow(settings, pipeline, publication, follow)


def _publish(settings: Settings, name: str, *, anyway: bool = False) -> Publication:
    """Publish the pipeline that serves a name; after a swap the definition of that name is not needed."""
    served = find_definition(settings, swaps.served_by(settings, name))
    return serving_table.publish(settings, served, name=name, anyway=anyway)


def _follow(settings: Settings, name: str, publication: Publication, seconds: float) -> Iterator[Output]:
    """Publish until interrupted; failures are reported and retried."""
    while True:
        time.sleep(seconds)
        try:
            latest = _publish(settings, name)
        except CutoverError as error:  # including a definition that is being edited
            print_warnings([*str(error).split("\n"), f"Trying again in {seconds:g} s."])
            continue
        if latest.version != publication.version:
            yield Output(document=_to_fields(latest), lines=[_describe_publication(name, latest)])
        publication = latest


def _describe_publication(name: str, publication: Publication) -> str:
    wrote = f"months written: {len(publication.months):,}" if publication.months else "nothing new"
    epoch = "no epoch" if publication.epoch < 0 else f"epoch {publication.epoch}"
    by = "" if publication.served == name else f" of {publication.served}"
    rows = f"{name}: {publication.rows:,} rows{by} in {publication.stage} up to {epoch}"
    return f"{rows}, version {publication.version} of the table; {wrote}."


def _list_queries(name: str, publication: Publication) -> tuple[str, ...]:
    uri = publication.uri
    copied = () if publication.copy is None else (f"  PostgreSQL SELECT * FROM {publication.copy};",)  # noqa: S608 -- quoted, and only printed
    return (
        f"  Spark      {_CREATE_VIEW.format(name=spark_identifier(name), rows=f'delta.{spark_identifier(uri)}')}",
        f"  DuckDB     {_CREATE_VIEW.format(name=identifier(name), rows=f'delta_scan({literal(uri)})')}",
        f"  delta-rs   DeltaTable({uri!r}).to_pyarrow_table()",
        *copied,
        "Batch runs, moves of the gate and `cutover serve` publish again; while a driver runs, use `--follow 30`.",
    )


def _to_fields(publication: Publication) -> dict[str, object]:
    names = ("uri", "served", "version", "stage", "epoch", "rows", "months", "copy")
    return {name: getattr(publication, name) for name in names}


COMMANDS = {"serve-view": serve_view}
