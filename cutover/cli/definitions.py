"""Definitions for commands that act on what runs, or show what was computed: by name, also where the file fails."""

import sys

from cutover.definition.loading import catalogue
from cutover.definition.model.pipeline import Pipeline
from cutover.lake.recorded_definitions import list_recorded
from cutover.lake.shown_definition import resolve_definition
from cutover.settings import Settings


def find_definition(settings: Settings, name: str, *, running: bool = False) -> Pipeline:
    """Return the definition by which a name is shown; standard error says where that is not the one in the file.

    Args:
        settings: Of the installation.
        name: Of the pipeline.
        running: Return what a living driver runs with, whatever is in the file.

    Raises:
        DefinitionError: The file does not load, or there is none, and none is recorded.
    """
    definition = resolve_definition(settings, name, running=running)
    if definition.note is not None:
        sys.stderr.write(f"{definition.note}\n")
    return definition.pipeline


def find_definitions(settings: Settings) -> dict[str, Pipeline]:
    """Return, by name, the definitions of all pipelines that have a file that loads, or that ever had a driver."""
    pipelines, problems = catalogue.scan(settings)
    for problem in problems:
        sys.stderr.write(f"{problem}\n")
    recorded_pipelines = {
        name: recorded_definition.pipeline for name, recorded_definition in list_recorded(settings).items()
    }
    return recorded_pipelines | pipelines
