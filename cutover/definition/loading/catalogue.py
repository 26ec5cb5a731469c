"""Catalogue of all pipelines in the folder of definitions, loaded and checked.

A definition is user code: it may raise, exit, hang or print. Each file runs in a separate thread with a time limit, so
that a file that hangs delays a command by that limit and does not affect other pipelines. Calls that would end the
process or change its working directory raise there. No guard exists against a crash of the interpreter.
"""

import ctypes
import io
import os
import signal
import sys
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import cache, wraps
from pathlib import Path
from traceback import extract_tb
from types import ModuleType
from typing import Any

from cutover.definition.checks.definition import check_definition
from cutover.definition.model.pipeline import Pipeline
from cutover.errors import DefinitionError
from cutover.settings import Settings

LOADS_WITHIN_SECONDS = 10.0
"""Time limit for loading; several files that hang share it. A DAG file, which waits for it, has 30 s."""

_FIRST_SECONDS = 1.0  # a slower file continues in parallel with the next ones
_FORBIDDEN_CALLS = {
    os: ("_exit", "abort", "execv", "execve", "fork", "kill", "killpg", "chdir", "fchdir"),
    signal: ("alarm", "pthread_kill", "raise_signal", "setitimer"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalogue:
    """Definitions of a folder."""

    pipelines: dict[str, Pipeline]  # by name, in the order of the files
    problems_by_file: dict[Path, tuple[DefinitionError, ...]]  # absolute; each message names its file

    @property
    def problems(self) -> tuple[DefinitionError, ...]:
        """Return the errors of all files, without duplicates."""
        return tuple(dict.fromkeys(problem for problems in self.problems_by_file.values() for problem in problems))


def read_catalogue(settings: Settings) -> Catalogue:
    """Load every file in `settings.pipelines`.

    A pipeline name that is defined twice is excluded from the catalogue and reported for both files.
    """
    loads = _load_files(sorted(settings.pipelines.glob("*.py")))
    pipelines: dict[str, Pipeline] = {}
    problems: defaultdict[Path, list[DefinitionError]] = defaultdict(list)
    duplicate_names: set[str] = set()
    for load in loads:
        if load.problem is not None:
            problems[load.path.resolve()].append(load.problem)
        for pipeline in load.pipelines:
            other = pipelines.setdefault(pipeline.name, pipeline)
            if other is not pipeline:
                duplicate_names.add(pipeline.name)
                error = _make_duplicate_error(load.path, pipeline.name, other.file)
                for file in filter(None, (other.file, pipeline.file)):
                    problems[file].append(error)
    unique = {name: pipeline for name, pipeline in pipelines.items() if name not in duplicate_names}
    return Catalogue(pipelines=unique, problems_by_file={file: tuple(problem) for file, problem in problems.items()})


def scan(settings: Settings) -> tuple[dict[str, Pipeline], tuple[DefinitionError, ...]]:
    """Return the pipelines in `settings.pipelines` by name, and the problems of files that do not load."""
    catalogue = read_catalogue(settings)
    return catalogue.pipelines, catalogue.problems


def get(settings: Settings, name: str) -> Pipeline:
    """Return a pipeline; an invalid definition in another file does not matter.

    Raises:
        DefinitionError: No pipeline has this name; the message has the problems of files, or the known names.
    """
    catalogue = read_catalogue(settings)
    pipelines = catalogue.pipelines
    if name in pipelines:
        return pipelines[name]
    if catalogue.problems:
        own_problems = catalogue.problems_by_file.get((settings.pipelines / f"{name}.py").resolve())
        raise _join_problems(own_problems or catalogue.problems)
    close = get_close_matches(name, pipelines, n=1)
    hint = (
        f"\nHint: did you mean `{close[0]}`?"
        if close
        else "\nHint: `cutover init NAME --from FILE` writes one, `cutover adopt` that of a job of your own."
    )
    msg = f"Unknown pipeline `{name[:80]}`: expected one of {', '.join(pipelines) or 'none'} in `{settings.pipelines}`."
    raise DefinitionError(msg + hint)


def _join_problems(problems: Sequence[DefinitionError]) -> DefinitionError:
    """Combine problems into one error, a line each."""
    return problems[0] if len(problems) == 1 else DefinitionError("\n".join(map(str, problems)))


def _make_duplicate_error(path: Path, name: str, other: Path | None) -> DefinitionError:
    msg = f"{path}: pipeline `{name}`: expected a unique name, but {other} defines it, too."
    return DefinitionError(msg)


def load_file(path: Path) -> tuple[Pipeline, ...]:
    """Return the pipelines of one file, checked, with `file` set.

    Raises:
        DefinitionError: The file does not load within the limit, has no pipeline, or a definition is invalid.
    """
    (load,) = _load_files([path])
    if load.problem is not None:
        raise load.problem
    return load.pipelines


class _LoadThread(threading.Thread):
    """Thread that executes a definition file."""


@dataclass(slots=True)
class _Load:
    """Loading of a file in a separate thread."""

    path: Path
    pipelines: tuple[Pipeline, ...] = ()
    problem: DefinitionError | None = field(init=False)
    thread: threading.Thread = field(init=False)

    def __post_init__(self) -> None:
        self.problem = DefinitionError(f"{self.path}: expected a definition that loads, its execution ended early.")
        self.thread = _LoadThread(target=self._run, name=f"definition {self.path.name}", daemon=True)

    def _run(self) -> None:
        try:
            self.pipelines = _load_now(self.path)
        except BaseException as error:  # noqa: BLE001 -- including `sys.exit`
            self.problem = _make_error(self.path, error)
        else:
            self.problem = None

    def stop_if_running(self) -> "_Load":
        """Return the load, or a problem if it still runs; its later results are ignored."""
        if not self.thread.is_alive():
            return self
        # Ends a loop in Python code; a call that blocks outside Python ends with the process.
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self.thread.ident or 0), ctypes.py_object(SystemExit))
        msg = f"{self.path}: expected a definition that loads within {LOADS_WITHIN_SECONDS:g} s, it still runs."
        hint = "\nHint: a definition only describes a pipeline; it should not wait or read another system."
        stopped = _Load(self.path)
        stopped.problem = DefinitionError(msg + hint)
        return stopped


def _load_files(paths: Sequence[Path]) -> list[_Load]:
    """Load files one after another; a slow one continues in parallel with the next ones until the limit."""
    _guard_process()
    loads = [_Load(path) for path in paths]
    with _redirect_streams():
        for load in loads:
            load.thread.start()
            load.thread.join(_FIRST_SECONDS)
        slow = [load for load in loads if load.thread.is_alive()]
        for load in slow:
            load.thread.join((LOADS_WITHIN_SECONDS - _FIRST_SECONDS) / len(slow))
    return [load.stop_if_running() for load in loads]


@cache
def _guard_process() -> None:
    """Make calls that affect the whole process raise in the threads that execute definitions."""
    for module, names in _FORBIDDEN_CALLS.items():
        for name in names:
            setattr(module, name, _forbid_in_definitions(getattr(module, name), f"{module.__name__}.{name}"))


def _forbid_in_definitions(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    @wraps(function)
    def run(*args: object, **kwargs: object) -> object:
        if isinstance(threading.current_thread(), _LoadThread):
            msg = f"expected a definition that only describes a pipeline, got a call of `{name}`."
            raise DefinitionError(msg)
        return function(*args, **kwargs)

    return run


@contextmanager
def _redirect_streams() -> Iterator[None]:
    """Redirect prints of definitions to standard error, and give them an empty standard input."""
    original_stdin, sys.stdin = sys.stdin, io.StringIO()
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        sys.stdin = original_stdin


def _load_now(path: Path) -> tuple[Pipeline, ...]:
    definitions = {id(value): value for value in _execute(path).values() if isinstance(value, Pipeline)}
    if not definitions:
        msg = f"{path}: expected a `Pipeline(...)` at the top level, got none."
        raise DefinitionError(msg)
    pipelines = tuple(replace(definition, file=path.resolve()) for definition in definitions.values())
    for pipeline in pipelines:
        check_definition(pipeline)
    return pipelines


def _execute(path: Path) -> dict[str, object]:
    module = ModuleType("<definition>")
    module.__file__ = str(path)
    try:
        code = compile(path.read_bytes(), str(path), "exec", dont_inherit=True)
        exec(code, module.__dict__)  # noqa: S102 -- a definition is code of the user's own
    except DefinitionError as error:
        msg = f"{path}: {error}"
        raise DefinitionError(msg) from error
    return dict(vars(module))


def _make_error(path: Path, error: BaseException) -> DefinitionError:
    if isinstance(error, DefinitionError):
        return error
    try:
        text = f"{type(error).__name__}: {error}"
    except BaseException:  # noqa: BLE001 -- its `__str__` is the user's code
        text = "an exception whose message cannot be read"
    printable = "".join(char if char.isprintable() else " " for char in text)
    msg = f"{_find_location(path, error)}: expected a definition that loads, got {printable}"
    return DefinitionError(msg)


def _find_location(path: Path, error: BaseException) -> str:
    """Return the file, with the line that failed if it is known."""
    lines = [frame.lineno for frame in extract_tb(error.__traceback__) if frame.filename == str(path)]
    return f"{path}:{lines[-1]}" if lines else str(path)
