"""`cutover dimension`: the lake's own dimensions, which pipelines take columns from."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from cutover.counts import count_noun
from cutover.definition.loading import catalogue
from cutover.lake.dimensions import load as dimension_load
from cutover.lake.dimensions.dimension import own_uri, uri
from cutover.lake.dimensions.load import Loaded
from cutover.output.cells import visible
from cutover.output.console import Output, make_table
from cutover.settings import Settings, load_settings

app = typer.Typer(help="Tables that pipelines take columns from (`lookups`).", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="Of the dimension, as `Lookup(table=...)` names it.")]
Confirm = Annotated[
    bool,
    typer.Option(
        "--confirm", help="Write it although it is empty, or lacks half of the rows, keys or values of a column."
    ),
]


@app.callback()
def dimension() -> None:
    """Tables that pipelines take columns from (`lookups`)."""


@app.command()
def load(
    name: Name,
    file: Annotated[Path, typer.Argument(help="CSV with a head line, or Parquet.", exists=True, dir_okay=False)],
    *,
    key: Annotated[
        str | None,
        typer.Option(
            "--key", help="Columns that must be unique and not null: a,b. As before, unless given; '' for none."
        ),
    ] = None,
    schema: Annotated[
        str | None, typer.Option("--schema", help="Types of a CSV's columns: 'ad string, budget decimal(10,2)'.")
    ] = None,
    confirm: Confirm = False,
) -> Output:
    """Replace a dimension by a file, in one commit: running streams take it up within seconds, and record when."""
    settings = load_settings()
    key_columns = None if key is None else [part.strip() for part in key.split(",") if part.strip()]
    joined = None if confirm else _list_joined_keys(settings, name)
    loaded = dimension_load.load_dimension(settings, name, file, key=key_columns, schema=schema, joined=joined)
    return _output_loaded(name, loaded)


@app.command()
def show(
    name: Name,
    *,
    rows: Annotated[int, typer.Option("--rows", min=0, max=1_000, help="Rows that are printed.")] = 5,
    versions: Annotated[int, typer.Option("--versions", min=1, max=1_000, help="Newest versions listed.")] = 10,
) -> Output:
    """List the versions of a dimension, the one in force first, and its first rows."""
    settings = load_settings()
    listed_versions = dimension_load.list_dimension_versions(settings, name, limit=versions)
    head = dimension_load.read_head(settings, name, rows)
    document = {
        "dimension": name,
        "versions": [{**asdict(version), "at": version.at.isoformat()} for version in listed_versions],
        "columns": head.column_names,
        "rows": head.to_pylist(),
    }
    table = make_table(
        ("version", "written", "rows", "key", "from"),
        (
            (
                version.version,
                f"{version.at:%Y-%m-%d %H:%M:%S}",
                "unknown" if version.rows is None else f"{version.rows:,}",
                "unknown" if version.key is None else ", ".join(version.key) or "none",
                version.source or "unknown",
            )
            for version in listed_versions
        ),
    )
    first_rows = make_table(
        head.column_names,
        (("null" if value is None else visible(str(value)) for value in row.values()) for row in head.to_pylist()),
    )
    return Output(document=document, lines=[table, *([first_rows] if head.num_rows else [])])


@app.command()
def rollback(
    name: Name,
    *,
    version: Annotated[int, typer.Option("--version", min=0, help="Whose rows are to be in force again.")],
    confirm: Confirm = False,
) -> Output:
    """Make the rows of an older version the newest version; records read from then on are joined with it."""
    settings = load_settings()
    joined = None if confirm else _list_joined_keys(settings, name)
    loaded = dimension_load.roll_back_dimension(settings, name, version, joined=joined)
    return _output_loaded(name, loaded)


def _list_joined_keys(settings: Settings, name: str) -> list[tuple[str, ...]]:
    """List the columns by which pipelines join a dimension; definitions that do not load join nothing."""
    pipelines, _ = catalogue.scan(settings)
    lookups = (lookup for pipeline in pipelines.values() for lookup in pipeline.lookups.values())
    dimension_uri = own_uri(settings, name)
    return [tuple(lookup.on.values()) for lookup in lookups if uri(settings, lookup).rstrip("/") == dimension_uri]


def _output_loaded(name: str, loaded: Loaded) -> Output:
    columns = ", ".join(f"{column} {kind}" for column, kind in loaded.columns.items())
    text = f"{name}: version {loaded.version}, {count_noun(loaded.rows, 'row')} ({columns})"
    return Output(document=asdict(loaded), lines=[text])


COMMANDS = {"dimension": app}
