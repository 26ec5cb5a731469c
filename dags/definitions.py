"""The definitions that DAG files walk: file by file: a broken one takes nothing but its own DAGs away."""

from cutover.definition import catalogue
from cutover.definition.pipeline import Pipeline
from cutover.errors import DefinitionError
from cutover.settings import load_settings


def pipelines() -> tuple[Pipeline, ...]:
    """Return the pipelines of every file that loads, by name."""
    found, _ = catalogue.scan(load_settings())
    return tuple(found[name] for name in sorted(found))


def broken_definitions() -> tuple[DefinitionError, ...]:
    """Return what is wrong with the files that do not load; each message names its file."""
    _, problems = catalogue.scan(load_settings())
    return tuple(problems)
