"""Definitions by name for commands that act on running drivers or show results, even if the file is invalid."""

import sys
from typing import Annotated

import typer

from cutover.definition.loading import catalogue
from cutover.definition.model.pipeline import Pipeline
from cutover.lake.recorded_definitions import list_recorded_definitions
from cutover.lake.shown_definition import resolve_definition
from cutover.settings import Settings, load_settings


def load_command_definition(settings: Settings, name: str, *, running: bool = False) -> Pipeline:
    """Find the definition for a name, and warn on standard error if it is not the one in the file.

    Args:
        settings: Settings of the installation.
        name: Name of the pipeline.
        running: Return the definition of the running driver instead of the one in the file.

    Raises:
        DefinitionError: The file is invalid or missing, and no definition is recorded.
    """
    definition = resolve_definition(settings, name, running=running)
    if definition.note is not None:
        sys.stderr.write(f"{definition.note}\n")
    return definition.pipeline


def choose_pipeline(
    context: typer.Context, pipeline: Annotated[str, typer.Argument(help="Name of a pipeline.")]
) -> None:
    """Select the pipeline that all commands of a group show or change; `load_chosen_definition` returns it."""
    context.obj = (load_settings(), pipeline)


def load_chosen_definition(context: typer.Context) -> tuple[Settings, Pipeline]:
    """Load the definition that `choose_pipeline` selected, with the settings, as `load_command_definition` does."""
    settings, name = context.obj
    return settings, load_command_definition(settings, name)


def find_definitions(settings: Settings) -> dict[str, Pipeline]:
    """Find the definitions by name of all pipelines with a valid file, or with a recorded driver."""
    pipelines, problems = catalogue.scan(settings)
    for problem in problems:
        sys.stderr.write(f"{problem}\n")
    recorded_pipelines = {
        name: recorded_definition.pipeline for name, recorded_definition in list_recorded_definitions(settings).items()
    }
    return recorded_pipelines | pipelines
