"""`cutover dimension`: the lake's own dimensions, which pipelines take columns from."""

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from cutover.lake.dimensions import load as dimension_load
from cutover.settings import load_settings

app = typer.Typer(help="Tables that pipelines take columns from (`lookups`).", no_args_is_help=True)


@app.callback()
def dimension() -> None:
    """Tables that pipelines take columns from (`lookups`)."""


@app.command()
def load(
    name: Annotated[str, typer.Argument(help="Of the dimension, as `Lookup(table=...)` names it.")],
    file: Annotated[Path, typer.Argument(help="CSV with a head line, or Parquet.", exists=True, dir_okay=False)],
    *,
    key: Annotated[str | None, typer.Option("--key", help="Columns that must be unique and not null: a,b")] = None,
    schema: Annotated[
        str | None, typer.Option("--schema", help="Types of a CSV's columns: 'ad string, budget decimal(10,2)'.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Replace a dimension by a file, in one commit: running streams take it up within seconds, and record when."""
    wanted = [part.strip() for part in key.split(",") if part.strip()] if key else []
    done = dimension_load.load(load_settings(), name, file, key=wanted, schema=schema)
    if as_json:
        sys.stdout.write(json.dumps(asdict(done)) + "\n")
        return
    columns = ", ".join(f"{column} {kind}" for column, kind in done.columns.items())
    Console(highlight=False).print(f"{name}: version {done.version}, {done.rows:,} rows ({columns})", markup=False)


COMMANDS = {"dimension": app}
