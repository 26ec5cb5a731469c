"""`cutover parity FILE...`: constructs in SQL, Spark jobs and plans on which a stream and a batch cannot agree."""

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from cutover.errors import DefinitionError
from cutover.output.cells import visible
from cutover.parity.job import check_job
from cutover.parity.plan import check_text
from cutover.parity.rules import ParityFinding
from cutover.parity.sql import check_sql


def parity(
    files: Annotated[list[Path] | None, typer.Argument(help="Files of SQL (.sql) or Python (.py).")] = None,
    *,
    plans: Annotated[
        list[Path] | None,
        typer.Option("--plan", help='What df.explain("extended") printed, or toJSON of a plan; may be given again.'),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON array.")] = False,
) -> None:
    """Look at SQL, jobs and plans before anything runs: 0 nothing found, 1 something was, 2 a file cannot be read."""
    given, planned = files or [], plans or []
    if not given and not planned:
        msg = "expected files of SQL (.sql) or Python (.py), or --plan FILE."
        raise DefinitionError(msg)
    found = [finding for file in given for finding in check_file(file)]
    found += [finding for file in planned for finding in check_plan(file)]
    if as_json:
        told = [asdict(one) | {"sentence": one.sentence, "page": one.page} for one in found]
        sys.stdout.write(json.dumps(told) + "\n")
    else:
        for one in found:
            typer.echo(visible(one.sentence))
        files_read = _count(len(given) + len(planned), "file")
        typer.echo(
            f"{_count(len(found), 'construct')} in {files_read} on which a stream and a batch differ."
            + (" Next: write what stands behind `instead`, or compare what both give." if found else "")
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
    text = _read(file)
    return check_sql(text, str(file)) if file.suffix == ".sql" else check_job(text, str(file))


def check_plan(file: Path) -> tuple[ParityFinding, ...]:
    """Return what is found in a plan's text or JSON.

    Raises:
        DefinitionError: It cannot be read, or is no plan.
    """
    return check_text(_read(file), str(file))


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        msg = f"`{file}`: expected a text in UTF-8 that can be read, got: {error}"
        raise DefinitionError(msg) from None


COMMANDS = {"parity": parity}
