"""Pipeline definitions from which the DAG files build DAGs; a broken file removes only the DAGs of its pipelines."""

from cutover.definition.loading import catalogue
from cutover.definition.model.pipeline import Pipeline
from cutover.driver_state import list_running_drivers
from cutover.errors import DefinitionError
from cutover.infra.airflow import instance
from cutover.pipeline_lake import PipelineLake
from cutover.settings import Settings, load_settings


def pipelines() -> tuple[Pipeline, ...]:
    """Load the pipelines of all valid files, and recorded definitions in place of files that no longer load, by name.

    Samples other than the demonstration's are left out until they are turned on.
    """
    settings = load_settings()
    current = catalogue.read_catalogue(settings)
    definitions = _list_recorded(settings, current) | current.pipelines
    ordered = (definitions[name] for name in sorted(definitions))
    return tuple(pipeline for pipeline in ordered if not instance.is_sample_off(PipelineLake(settings, pipeline)))


def _list_recorded(settings: Settings, current: catalogue.Catalogue) -> dict[str, Pipeline]:
    """List recorded definitions whose files do not load, so that their streams can still be stopped in Airflow."""
    if not current.problems and set(list_running_drivers(settings)) <= set(current.pipelines):
        return {}
    from cutover.lake import recorded_definitions  # noqa: PLC0415 -- brings pyarrow, which no DAG file needs otherwise

    return recorded_definitions.list_shown(settings, current)


def broken_definitions() -> tuple[DefinitionError, ...]:
    """Return the errors of all files that do not load; each message names its file."""
    return catalogue.scan(load_settings())[1]
