"""`cutover parity FILE...`: constructs in SQL and Spark jobs on which a stream and a batch cannot agree."""

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from cutover.errors import DefinitionError
from cutover.output.cells import visible
from cutover.parity.job import check_job
from cutover.parity.rules import ParityFinding
from cutover.parity.sql import check_sql


def parity(
    files: Annotated[list[Path], typer.Argument(help="Files of SQL (.sql) or Python (.py).")],
    *,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON array.")] = False,
) -> None:
    """Look at SQL and jobs before anything runs: 0 nothing was found, 1 something was, 2 a file cannot be read."""
    found = [finding for file in files for finding in check_file(file)]
    if as_json:
        told = [asdict(one) | {"sentence": one.sentence} for one in found]
        sys.stdout.write(json.dumps(told) + "\n")
    else:
        for one in found:
            typer.echo(visible(one.sentence))
        typer.echo(
            f"{_count(len(found), 'construct')} in {_count(len(files), 'file')} on which a stream and a batch differ."
            + (" Next: docs/parity.md." if found else "")
        )
    raise typer.Exit(1 if found else 0)


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def check_file(file: Path) -> tuple[ParityFinding, ...]:
    """Return what is found in a file, by its ending.

    Raises:
        DefinitionError: It cannot be read, or is neither SQL nor Python.
    """
    if file.suffix not in {".sql", ".py"}:
        msg = f"`{file}`: expected a file of SQL (.sql) or Python (.py)."
        raise DefinitionError(msg)
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        msg = f"`{file}`: expected a text in UTF-8 that can be read, got: {error}"
        raise DefinitionError(msg) from None
    return check_sql(text, str(file)) if file.suffix == ".sql" else check_job(text, str(file))


COMMANDS = {"parity": parity}
