"""The catalogue: every pipeline of the folder of definitions, loaded and checked."""

import runpy
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from traceback import extract_tb

from cutover.definition.checks.definition import check
from cutover.definition.model.pipeline import Pipeline
from cutover.errors import DefinitionError
from cutover.settings import Settings


def scan(settings: Settings) -> tuple[dict[str, Pipeline], tuple[DefinitionError, ...]]:
    """Return name to pipeline, of every file in `settings.pipelines` that loads, and what is wrong with the others.

    A name that stands twice is in neither file's favour: it is left out and reported.
    """
    found: dict[str, Pipeline] = {}
    problems: list[DefinitionError] = []
    twice: set[str] = set()
    for path in sorted(settings.pipelines.glob("*.py")):
        try:
            pipelines = load_file(path)
        except DefinitionError as error:
            problems.append(error)
            continue
        for pipeline in pipelines:
            other = found.setdefault(pipeline.name, pipeline)
            if other is not pipeline:
                twice.add(pipeline.name)
                problems.append(_name_taken(path, pipeline.name, other.file))
    return {name: pipeline for name, pipeline in found.items() if name not in twice}, tuple(problems)


def load(settings: Settings) -> dict[str, Pipeline]:
    """Return name to pipeline, of all files in `settings.pipelines`, in the files' order.

    Raises:
        DefinitionError: A file does not load, a definition does not fit, or a name stands twice.
    """
    found, problems = scan(settings)
    if problems:
        raise _join(problems)
    return found


def get(settings: Settings, name: str) -> Pipeline:
    """Return one pipeline; a broken definition beside it does not matter.

    Raises:
        DefinitionError: There is none of this name; says what is broken, or names the known ones.
    """
    known, problems = scan(settings)
    if name in known:
        return known[name]
    mine = settings.pipelines / f"{name}.py"
    if mine.is_file():
        load_file(mine)
    if problems:
        raise _join(problems)
    close = get_close_matches(name, known, n=1)
    hint = f"\nHint: did you mean `{close[0]}`?" if close else "\nHint: `cutover init NAME --from FILE` writes one."
    msg = f"Unknown pipeline `{name[:80]}`: expected one of {', '.join(known) or 'none'} in {settings.pipelines}.{hint}"
    raise DefinitionError(msg)


def _join(problems: Sequence[DefinitionError]) -> DefinitionError:
    """Return one error that says all that is wrong, file by file."""
    return problems[0] if len(problems) == 1 else DefinitionError("\n".join(map(str, problems)))


def _name_taken(path: Path, name: str, other: Path | None) -> DefinitionError:
    msg = f"{path}: pipeline `{name}`: expected a name of its own, but {other} has it too."
    return DefinitionError(msg)


def load_file(path: Path) -> tuple[Pipeline, ...]:
    """Return the pipelines of one file, checked, with `file` set.

    Raises:
        DefinitionError: The file does not run, has no pipeline, or a definition does not fit.
    """
    made = {id(value): value for value in _run(path).values() if isinstance(value, Pipeline)}
    pipelines = [replace(value, file=path.resolve()) for value in made.values()]
    if not pipelines:
        msg = f"{path}: expected a `Pipeline(...)` at the top level, got none."
        raise DefinitionError(msg)
    for pipeline in pipelines:
        check(pipeline)
    return tuple(pipelines)


def _run(path: Path) -> dict[str, object]:
    """Run a file. What it prints goes to standard error: standard output is the command's."""
    try:
        with redirect_stdout(sys.stderr):
            return runpy.run_path(str(path))
    except DefinitionError as error:
        msg = f"{path}: {error}"
        raise DefinitionError(msg) from error
    except (Exception, SystemExit) as error:
        text = "".join(char if char.isprintable() else " " for char in str(error))
        msg = f"{_find_place(path, error)}: expected a definition that loads, got {type(error).__name__}: {text}"
        raise DefinitionError(msg) from error


def _find_place(path: Path, error: BaseException) -> str:
    """Return the file, and the line of it that was running when it failed."""
    lines = [frame.lineno for frame in extract_tb(error.__traceback__) if frame.filename == str(path)]
    return f"{path}:{lines[-1]}" if lines else str(path)
