"""`cutover serve-view`: one stable name that Spark, DuckDB and delta-rs read, whichever path is served."""

import json
import time
from typing import Annotated

import typer

from cutover.cli.definitions import find_definition
from cutover.errors import CutoverError
from cutover.lake.control import swaps
from cutover.lake.serving import serving_table
from cutover.lake.serving.serving_table import Publication
from cutover.quoting import identifier, literal, spark_identifier
from cutover.settings import Settings, load_settings

_TAKEN = "CREATE OR REPLACE VIEW {name} AS SELECT * FROM {rows};"


def serve_view(
    pipeline: Annotated[str, typer.Argument(help="Name of a pipeline.")],
    *,
    follow: Annotated[
        float | None, typer.Option("--follow", min=0.1, help="Publish again every N seconds, until Ctrl-C.")
    ] = None,
    anyway: Annotated[
        bool, typer.Option("--anyway", help="Also where what serves has read less than is shown, or has no row.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a publication.")] = False,
) -> None:
    """Publish what is served as one table of a stable name, in one commit, and say how to read it."""
    settings = load_settings()
    publication = _publish(settings, pipeline, anyway=anyway)
    typer.echo(_object(publication) if as_json else _describe_publication(pipeline, publication))
    if not as_json:
        typer.echo(_list_queries(pipeline, publication))
    if follow is not None:
        _follow(settings, pipeline, publication, follow, as_json=as_json)


def _publish(settings: Settings, name: str, *, anyway: bool = False) -> Publication:
    """Publish the pipeline that serves a name; the definition of that name is not needed once another replaced it."""
    served = find_definition(settings, swaps.served_by(settings, name))
    return serving_table.publish(settings, served, name=name, anyway=anyway)


def _follow(settings: Settings, name: str, publication: Publication, seconds: float, *, as_json: bool) -> None:
    """Publish until a person ends it; failures are reported and retried."""
    while True:
        time.sleep(seconds)
        try:
            found = _publish(settings, name)
        except CutoverError as error:  # also of a definition that is being edited
            typer.echo(f"{error}\nTrying again in {seconds:g} s.", err=True)
            continue
        if found.version != publication.version:
            typer.echo(_object(found) if as_json else _describe_publication(name, found))
        publication = found


def _describe_publication(name: str, publication: Publication) -> str:
    wrote = f"months written: {len(publication.months):,}" if publication.months else "nothing new"
    epoch = "no epoch" if publication.epoch < 0 else f"epoch {publication.epoch}"
    by = "" if publication.served == name else f" of {publication.served}"
    rows = f"{name}: {publication.rows:,} rows{by} in {publication.stage} up to {epoch}"
    return f"{rows}, version {publication.version} of the table; {wrote}."


def _list_queries(name: str, publication: Publication) -> str:
    uri = publication.uri
    copied = () if publication.copy is None else (f"  PostgreSQL SELECT * FROM {publication.copy};",)  # noqa: S608 -- quoted, and only printed
    return "\n".join(
        (
            f"  Spark      {_TAKEN.format(name=spark_identifier(name), rows=f'delta.{spark_identifier(uri)}')}",
            f"  DuckDB     {_TAKEN.format(name=identifier(name), rows=f'delta_scan({literal(uri)})')}",
            f"  delta-rs   DeltaTable({uri!r}).to_pyarrow_table()",
            *copied,
            "Batch runs, moves of the gate and `cutover serve` publish again; beside a driver `--follow 30` does.",
        )
    )


def _object(publication: Publication) -> str:
    names = ("uri", "served", "version", "stage", "epoch", "rows", "months", "copy")
    return json.dumps({name: getattr(publication, name) for name in names})


COMMANDS = {"serve-view": serve_view}
