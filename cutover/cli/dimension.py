"""`cutover dimension`: the lake's own dimensions, which pipelines take columns from."""

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from cutover.definition.loading import catalogue
from cutover.lake.dimensions import load as dimension_load
from cutover.lake.dimensions.dimension import own_uri, uri
from cutover.lake.dimensions.load import Loaded
from cutover.output.cells import visible
from cutover.output.markup import literal_text
from cutover.settings import Settings, load_settings

app = typer.Typer(help="Tables that pipelines take columns from (`lookups`).", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="Of the dimension, as `Lookup(table=...)` names it.")]
Confirm = Annotated[
    bool,
    typer.Option("--confirm", help="Write it although it is empty, or lacks half of the rows or keys, or a column."),
]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object.")]


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
    as_json: AsJson = False,
) -> None:
    """Replace a dimension by a file, in one commit: running streams take it up within seconds, and record when."""
    settings = load_settings()
    key_columns = None if key is None else [part.strip() for part in key.split(",") if part.strip()]
    joined = None if confirm else _list_joined_keys(settings, name)
    loaded = dimension_load.load(settings, name, file, key=key_columns, schema=schema, joined=joined)
    _print_loaded(name, loaded, as_json=as_json)


@app.command()
def show(
    name: Name,
    *,
    rows: Annotated[int, typer.Option("--rows", min=0, max=1_000, help="Rows that are printed.")] = 5,
    versions: Annotated[int, typer.Option("--versions", min=1, max=1_000, help="Newest versions listed.")] = 10,
    as_json: AsJson = False,
) -> None:
    """List the versions of a dimension, the one in force first, and its first rows."""
    settings = load_settings()
    listed_versions = dimension_load.list_versions(settings, name, most=versions)
    head = dimension_load.read_head(settings, name, rows)
    if as_json:
        version_rows = [
            {**asdict(listed_version), "at": listed_version.at.isoformat()} for listed_version in listed_versions
        ]
        description = {
            "dimension": name,
            "versions": version_rows,
            "columns": head.column_names,
            "rows": head.to_pylist(),
        }
        sys.stdout.write(json.dumps(description, default=str) + "\n")
        return
    table = Table("version", "written", "rows", "key", "from", box=None, pad_edge=False)
    for listed_version in listed_versions:
        number = "unknown" if listed_version.rows is None else f"{listed_version.rows:,}"
        key = "unknown" if listed_version.key is None else ", ".join(listed_version.key) or "none"
        source = literal_text(listed_version.source or "unknown")
        table.add_row(
            str(listed_version.version), f"{listed_version.at:%Y-%m-%d %H:%M:%S}", number, literal_text(key), source
        )
    console = Console(highlight=False)
    console.print(table)
    if head.num_rows:
        cells = Table(*map(literal_text, head.column_names), box=None, pad_edge=False)
        for row in head.to_pylist():
            cells.add_row(*("null" if value is None else literal_text(visible(str(value))) for value in row.values()))
        console.print(cells)


@app.command()
def rollback(
    name: Name,
    *,
    version: Annotated[int, typer.Option("--version", min=0, help="Whose rows are to be in force again.")],
    confirm: Confirm = False,
    as_json: AsJson = False,
) -> None:
    """Make the rows of an older version the newest version; records read from then on are joined with it."""
    settings = load_settings()
    joined = None if confirm else _list_joined_keys(settings, name)
    loaded = dimension_load.roll_back(settings, name, version, joined=joined)
    _print_loaded(name, loaded, as_json=as_json)


def _list_joined_keys(settings: Settings, name: str) -> list[tuple[str, ...]]:
    """List the columns by which pipelines join a dimension; definitions that do not load join nothing."""
    pipelines, _ = catalogue.scan(settings)
    lookups = (lookup for pipeline in pipelines.values() for lookup in pipeline.lookups.values())
    dimension_uri = own_uri(settings, name)
    return [tuple(lookup.on.values()) for lookup in lookups if uri(settings, lookup).rstrip("/") == dimension_uri]


def _print_loaded(name: str, loaded: Loaded, *, as_json: bool) -> None:
    if as_json:
        sys.stdout.write(json.dumps(asdict(loaded)) + "\n")
        return
    columns = ", ".join(f"{column} {kind}" for column, kind in loaded.columns.items())
    Console(highlight=False).print(f"{name}: version {loaded.version}, {loaded.rows:,} rows ({columns})", markup=False)


COMMANDS = {"dimension": app}
