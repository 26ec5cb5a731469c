"""The definitions that DAG files walk, file by file: a broken one takes nothing but its own DAGs away."""

from cutover.definition.loading import catalogue
from cutover.definition.model.pipeline import Pipeline
from cutover.errors import DefinitionError
from cutover.infra.airflow import samples
from cutover.settings import load_settings


def pipelines() -> tuple[Pipeline, ...]:
    """Return the pipelines of every file that loads, by name.

    Samples beside the demonstration's are left out until somebody asks for them.
    """
    settings = load_settings()
    found, _ = catalogue.scan(settings)
    shown = (found[name] for name in sorted(found))
    return tuple(pipeline for pipeline in shown if not samples.is_off(settings, pipeline))


def broken_definitions() -> tuple[DefinitionError, ...]:
    """Return what is wrong with all others; each message names its file."""
    return catalogue.scan(load_settings())[1]
