"""Which of this project's own samples have DAGs: the demonstration's from the start, the others once asked for.

A file of the installation remembers what was asked for. The DAG files read it at each parse, so nothing is restarted.
"""

from collections.abc import Iterable

from cutover import files
from cutover.definition.model.pipeline import Pipeline
from cutover.errors import DefinitionError
from cutover.infra.airflow.instance import REPOSITORY
from cutover.settings import Settings

FURTHER = ("ad_billing", "ad_budgets", "ad_views", "readings", "transfers")
"""Samples beside the demonstration's, all in this project's own folder of definitions."""

_FILE, _ON = "samples.json", "on"


def is_off(settings: Settings, pipeline: Pipeline) -> bool:
    """Return whether a pipeline is a sample that nobody has asked for; never for a definition in another folder."""
    is_ours = pipeline.file is not None and pipeline.file.parent == (REPOSITORY / "pipelines").resolve()
    return is_ours and pipeline.name in FURTHER and pipeline.name not in _read(settings)


def turn_on(settings: Settings, names: Iterable[str]) -> tuple[str, ...]:
    """Let samples have DAGs from the next parse on, and return all that have by now.

    Raises:
        DefinitionError: One of the names is no sample.
    """
    sample_names = set(names)
    unknown = sorted(sample_names - set(FURTHER))
    if unknown:
        msg = f"Option `--sample`: expected one of {', '.join(FURTHER)}, got `{unknown[0][:80]}`."
        raise DefinitionError(msg + "\nHint: the demonstration's sample and your own definitions always have DAGs.")
    enabled = tuple(sorted(_read(settings) | sample_names))
    files.write_json(settings.home.resolve() / _FILE, {_ON: list(enabled)})
    return enabled


def _read(settings: Settings) -> set[str]:
    enabled = (files.read_json(settings.home.resolve() / _FILE) or {}).get(_ON)
    return {str(name) for name in enabled} if isinstance(enabled, list) else set()
