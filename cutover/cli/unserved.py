"""`cutover unserved`: tables that serve no one any more, and their deletion by policy."""

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
    delete: Annotated[bool, typer.Option("--delete", help="Delete what may go; without it nothing is done.")] = False,
    why: Annotated[str | None, typer.Option("--why", help="The reason of a deletion; it is kept.")] = None,
) -> Output:
    """List streams and batch tables that serve no one, and delete those past `policy.keep_unserved`.

    They are of versions and definitions that others replaced, and of a pipeline whose name another one serves.
    """
    settings, clock = load_settings(), SystemClock()
    definition = _find_definition(settings, pipeline)
    if delete != (why is not None):
        msg = "Unserved tables: expected `--delete` and `--why` together."
        raise DefinitionError(msg)
    if why is not None:
        catalogue.get(settings, swaps.served_by(settings, pipeline))  # nothing is deleted by a recorded definition
        deleted = unserved_tables.delete_unserved(settings, definition, clock, why=why)
        remaining = unserved_tables.list_unserved(settings, definition, clock.now())
        totals = (
            f"{pipeline}: {len(deleted):,} deleted, {len(remaining):,} stay. `cutover unserved {pipeline}` says why."
        )
        return Output(
            document={"deleted": [asdict(table) for table in deleted], "kept": [asdict(table) for table in remaining]},
            lines=[*(f"deleted: {table.text}, {table.files:,} files" for table in deleted), totals],
        )
    tables = unserved_tables.list_unserved(settings, definition, clock.now())
    deletable_count = sum(table.retained_because is None for table in tables)
    following = (
        f'`cutover unserved {pipeline} --delete --why "..."` deletes them' if deletable_count else "nothing to do"
    )
    totals = f"{pipeline}: {len(tables):,} tables that nobody is served from, {deletable_count:,} may go: {following}."
    return Output(
        document={"deleted": [], "kept": [asdict(table) for table in tables]},
        lines=[*map(_describe_table, tables), totals],
    )


def _describe_table(table: Unserved) -> str:
    return (
        f"{table.text}: {table.files:,} files, since {table.since:%Y-%m-%d %H:%M} UTC, "
        f"{table.retained_because or 'may go'}"
    )


def _find_definition(settings: Settings, name: str) -> Pipeline:
    """Return the definition; of a name that another one serves, whose file may be gone, that one under this name."""
    serves, (pipelines, broken) = swaps.served_by(settings, name), catalogue.scan(settings)
    if serves == name or name in pipelines or broken:  # a broken file may be that of the name, with its own policy
        return find_definition(settings, name)
    return replace(find_definition(settings, serves), name=name)


COMMANDS = {"unserved": unserved}
