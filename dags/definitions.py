"""The definitions that DAG files walk, file by file: a broken one takes nothing but its own DAGs away."""

from collections.abc import Mapping

from croniter import croniter  # Airflow brings it

from cutover.definition.loading import catalogue
from cutover.definition.model.pipeline import Pipeline
from cutover.errors import DefinitionError
from cutover.infra.airflow import samples
from cutover.settings import load_settings


def pipelines() -> tuple[Pipeline, ...]:
    """Return the pipelines of every file that loads and whose schedule Airflow can keep, by name.

    Samples beside the demonstration's are left out until somebody asks for them.
    """
    settings = load_settings()
    found, _ = catalogue.scan(settings)
    unkept = bad_schedules(found)
    shown = (found[name] for name in sorted(found) if name not in unkept)
    return tuple(pipeline for pipeline in shown if not samples.is_off(settings, pipeline))


def broken_definitions() -> tuple[DefinitionError, ...]:
    """Return what is wrong with all others; each message names its file."""
    found, problems = catalogue.scan(load_settings())
    return (*problems, *bad_schedules(found).values())


def bad_schedules(found: Mapping[str, Pipeline]) -> dict[str, DefinitionError]:
    """Return what is wrong with the schedules that are no cron expressions, by pipeline."""
    return {name: _bad(pipeline) for name, pipeline in found.items() if not croniter.is_valid(pipeline.schedule)}


def _bad(pipeline: Pipeline) -> DefinitionError:
    msg = f"{pipeline.file}: pipeline `{pipeline.name}`: schedule: expected cron such as `0 * * * *` or `@daily`, got "
    return DefinitionError(f"{msg}`{pipeline.schedule}`.")
