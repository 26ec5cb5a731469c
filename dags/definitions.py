"""The definitions that DAG files walk, file by file: a broken one takes nothing but its own DAGs away."""

from cutover.definition.loading import catalogue
from cutover.definition.model.pipeline import Pipeline
from cutover.driver_state import list_living_drivers
from cutover.errors import DefinitionError
from cutover.infra.airflow import samples
from cutover.settings import Settings, load_settings


def pipelines() -> tuple[Pipeline, ...]:
    """Return the pipelines of every file that loads, and those recorded of files that no longer do, by name.

    Samples beside the demonstration's are left out until somebody asks for them.
    """
    settings = load_settings()
    current = catalogue.read_catalogue(settings)
    definitions = _list_recorded(settings, current) | current.pipelines
    ordered = (definitions[name] for name in sorted(definitions))
    return tuple(pipeline for pipeline in ordered if not samples.is_off(settings, pipeline))


def _list_recorded(settings: Settings, current: catalogue.Catalogue) -> dict[str, Pipeline]:
    """Return what has to stay in Airflow without a file that loads, so that a person can stop it there."""
    if not current.problems and set(list_living_drivers(settings)) <= set(current.pipelines):
        return {}
    from cutover.lake import recorded_definitions  # noqa: PLC0415 -- brings pyarrow, which no DAG file needs otherwise

    return recorded_definitions.list_shown(settings, current)


def broken_definitions() -> tuple[DefinitionError, ...]:
    """Return what is wrong with all others; each message names its file."""
    return catalogue.scan(load_settings())[1]
