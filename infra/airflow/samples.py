"""Samples of this project that have DAGs: the demonstration's always, the others after they are turned on.

A file of the installation stores which samples are on. The DAG files read it at each parse, without a restart.
"""

from collections.abc import Iterable

from cutover import files
from cutover.errors import DefinitionError
from cutover.infra.airflow.instance import REPOSITORY
from cutover.pipeline_lake import PipelineLake
from cutover.settings import Settings

FURTHER = ("ad_billing", "ad_budgets", "ad_views", "readings", "transfers")
"""Samples that are off by default, all in this project's folder of definitions."""

_FILE, _ON = "samples.json", "on"


def is_off(lake: PipelineLake) -> bool:
    """Return True for a sample that is not turned on, and False for every definition in another folder."""
    pipeline = lake.pipeline
    is_sample = pipeline.file is not None and pipeline.file.parent == (REPOSITORY / "pipelines").resolve()
    return is_sample and pipeline.name in FURTHER and pipeline.name not in _read(lake.settings)


def turn_on(settings: Settings, names: Iterable[str]) -> tuple[str, ...]:
    """Turn on samples, which get DAGs with the next parse; return the names of all samples that are on.

    Raises:
        DefinitionError: A name is not that of a sample.
    """
    sample_names = set(names)
    unknown = sorted(sample_names - set(FURTHER))
    if unknown:
        msg = f"Option `--sample`: expected one of {', '.join(FURTHER)}, got `{unknown[0][:80]}`."
        raise DefinitionError(msg + "\nHint: the demonstration's sample and all other definitions always have DAGs.")
    enabled = tuple(sorted(_read(settings) | sample_names))
    files.write_json(settings.home.resolve() / _FILE, {_ON: list(enabled)})
    return enabled


def _read(settings: Settings) -> set[str]:
    enabled = (files.read_json_file(settings.home.resolve() / _FILE) or {}).get(_ON)
    return {str(name) for name in enabled} if isinstance(enabled, list) else set()
