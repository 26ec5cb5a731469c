"""`cutover unserved`: tables that no longer serve anyone, and their deletion by policy."""

from dataclasses import asdict, replace
from typing import Annotated

import typer

from cutover.cli.definitions import find_definition
from cutover.clock import SystemClock
from cutover.definition.loading import catalogue
from cutover.definition.model.pipeline import Pipeline
from cutover.errors import DefinitionError
from cutover.lake.control import swaps
from cutover.lake.serving import unserved as unserved_tables
from cutover.lake.serving.unserved import Unserved
from cutover.output.console import Output
from cutover.settings import Settings, load_settings


def unserved(
    pipeline: Annotated[str, typer.Argument(help="Name of a pipeline.")],
    *,
    delete: Annotated[
        bool, typer.Option("--delete", help="Delete the tables that are due; without it, only list.")
    ] = False,
    reason: Annotated[str | None, typer.Option("--why", help="Reason for the deletion, which is recorded.")] = None,
) -> Output:
    """List streams and batch tables that serve no one, and delete those older than `policy.keep_unserved`.

    They belong to replaced versions and definitions, and to a pipeline whose name another one serves.
    """
    settings, clock = load_settings(), SystemClock()
    definition = _find_definition(settings, pipeline)
    if delete != (reason is not None):
        msg = "Unserved tables: expected `--delete` and `--why` together."
        raise DefinitionError(msg)
    if reason is not None:
        catalogue.get(settings, swaps.served_by(settings, pipeline))  # a deletion requires the definition's file
        deleted = unserved_tables.delete_unserved(settings, definition, clock, why=reason)
        remaining = unserved_tables.list_unserved(settings, definition, clock.now())
        counts = f"{len(deleted):,} deleted, {len(remaining):,} retained"
        totals = f"{pipeline}: {counts}. `cutover unserved {pipeline}` says why."
        return Output(
            document={"deleted": [asdict(table) for table in deleted], "kept": [asdict(table) for table in remaining]},
            lines=[*(f"deleted: {table.text}, {table.files:,} files" for table in deleted), totals],
        )
    tables = unserved_tables.list_unserved(settings, definition, clock.now())
    deletable_count = sum(table.retained_because is None for table in tables)
    following = (
        f'`cutover unserved {pipeline} --delete --why "..."` deletes them' if deletable_count else "nothing to do"
    )
    totals = f"{pipeline}: {len(tables):,} tables that serve no one, {deletable_count:,} can be deleted: {following}."
    return Output(
        document={"deleted": [], "kept": [asdict(table) for table in tables]},
        lines=[*map(_describe_table, tables), totals],
    )


def _describe_table(table: Unserved) -> str:
    return (
        f"{table.text}: {table.files:,} files, since {table.since:%Y-%m-%d %H:%M} UTC, "
        f"{table.retained_because or 'can be deleted'}"
    )


def _find_definition(settings: Settings, name: str) -> Pipeline:
    """Find the definition; if another one serves the name and the file is missing, that one under this name."""
    serves, (pipelines, broken) = swaps.served_by(settings, name), catalogue.scan(settings)
    if serves == name or name in pipelines or broken:  # an invalid file may define the name, with another policy
        return find_definition(settings, name)
    return replace(find_definition(settings, serves), name=name)


COMMANDS = {"unserved": unserved}
