"""The catalogue: every pipeline of the folder of definitions, loaded and checked.

A definition is code of its users: it may raise, exit, wait for ever or print. Each file runs in a separate thread
with a limit, so that one that hangs delays a command by that limit and takes no other pipeline with it.
"""

import ctypes
import io
import sys
import threading
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from traceback import extract_tb
from types import ModuleType

from cutover.definition.checks.definition import check
from cutover.definition.model.pipeline import Pipeline
from cutover.errors import DefinitionError
from cutover.settings import Settings

LOADS_WITHIN_SECONDS = 10.0
"""How long one definition may take; several that hang share it. A DAG file, which waits for it, has 30 s."""

_FIRST_SECONDS = 1.0  # a slower file continues in parallel to the next ones


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalogue:
    """The definitions of a folder."""

    pipelines: dict[str, Pipeline]  # by name, in the files' order
    problems_by_file: dict[Path, tuple[DefinitionError, ...]]  # absolute; each message names its file

    @property
    def problems(self) -> tuple[DefinitionError, ...]:
        """Return what is wrong, each problem once."""
        return tuple(dict.fromkeys(item for found in self.problems_by_file.values() for item in found))


def read_catalogue(settings: Settings) -> Catalogue:
    """Load every file in `settings.pipelines`.

    A name that is defined twice is in neither file's favour: it is left out and reported.
    """
    loads = _load_files(sorted(settings.pipelines.glob("*.py")))
    pipelines: dict[str, Pipeline] = {}
    problems: defaultdict[Path, list[DefinitionError]] = defaultdict(list)
    doubled: set[str] = set()
    for load in loads:
        if load.problem is not None:
            problems[load.path.resolve()].append(load.problem)
        for pipeline in load.pipelines:
            other = pipelines.setdefault(pipeline.name, pipeline)
            if other is not pipeline:
                doubled.add(pipeline.name)
                error = _name_taken(load.path, pipeline.name, other.file)
                for file in filter(None, (other.file, pipeline.file)):
                    problems[file].append(error)
    unique = {name: pipeline for name, pipeline in pipelines.items() if name not in doubled}
    return Catalogue(pipelines=unique, problems_by_file={file: tuple(problem) for file, problem in problems.items()})


def scan(settings: Settings) -> tuple[dict[str, Pipeline], tuple[DefinitionError, ...]]:
    """Return name to pipeline, of every file in `settings.pipelines` that loads, and what is wrong with the others."""
    catalogue = read_catalogue(settings)
    return catalogue.pipelines, catalogue.problems


def get(settings: Settings, name: str) -> Pipeline:
    """Return one pipeline; a broken definition in another file does not matter.

    Raises:
        DefinitionError: There is none of this name; says what is broken, or names the known ones.
    """
    found = read_catalogue(settings)
    if name in found.pipelines:
        return found.pipelines[name]
    if found.problems:
        raise _join(found.problems_by_file.get((settings.pipelines / f"{name}.py").resolve()) or found.problems)
    pipelines = found.pipelines
    close = get_close_matches(name, pipelines, n=1)
    hint = f"\nHint: did you mean `{close[0]}`?" if close else "\nHint: `cutover init NAME --from FILE` writes one."
    msg = f"Unknown pipeline `{name[:80]}`: expected one of {', '.join(pipelines) or 'none'} in {settings.pipelines}."
    raise DefinitionError(msg + hint)


def _join(problems: Sequence[DefinitionError]) -> DefinitionError:
    """Return one error that says all that is wrong, file by file."""
    return problems[0] if len(problems) == 1 else DefinitionError("\n".join(map(str, problems)))


def _name_taken(path: Path, name: str, other: Path | None) -> DefinitionError:
    msg = f"{path}: pipeline `{name}`: expected a name of its own, but {other} has it too."
    return DefinitionError(msg)


def load_file(path: Path) -> tuple[Pipeline, ...]:
    """Return the pipelines of one file, checked, with `file` set.

    Raises:
        DefinitionError: The file does not run within the limit, has no pipeline, or a definition is invalid.
    """
    (load,) = _load_files([path])
    if load.problem is not None:
        raise load.problem
    return load.pipelines


@dataclass(slots=True)
class _Load:
    """Loading of one file, in a separate thread."""

    path: Path
    pipelines: tuple[Pipeline, ...] = ()
    problem: DefinitionError | None = None
    thread: threading.Thread = field(init=False)

    def __post_init__(self) -> None:
        self.thread = threading.Thread(target=self._run, name=f"definition {self.path.name}", daemon=True)

    def _run(self) -> None:
        try:
            pipelines = _load_now(self.path)
        except DefinitionError as error:
            self.problem = error
        else:
            self.pipelines = pipelines

    def give_up(self) -> "_Load":
        """Return the load as it is; of one that still runs, a problem that later results cannot change."""
        if not self.thread.is_alive():
            return self
        # Ends a loop of Python code; a call that waits outside Python ends with the process.
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self.thread.ident or 0), ctypes.py_object(SystemExit))
        msg = f"{self.path}: expected a definition that loads within {LOADS_WITHIN_SECONDS:g} s, it still runs."
        hint = "\nHint: a definition only describes; it waits for nothing and reads no other system."
        return _Load(self.path, problem=DefinitionError(msg + hint))


def _load_files(paths: Sequence[Path]) -> list[_Load]:
    """Load files in turn; a slow one continues in parallel to the next ones until the limit."""
    loads = [_Load(path) for path in paths]
    with _quiet_streams():
        for load in loads:
            load.thread.start()
            load.thread.join(_FIRST_SECONDS)
        slow = [load for load in loads if load.thread.is_alive()]
        for load in slow:
            load.thread.join((LOADS_WITHIN_SECONDS - _FIRST_SECONDS) / len(slow))
    return [load.give_up() for load in loads]


@contextmanager
def _quiet_streams() -> Iterator[None]:
    """Let definitions print to standard error, since standard output is the command's, and read nothing."""
    before, sys.stdin = sys.stdin, io.StringIO()
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        sys.stdin = before


def _load_now(path: Path) -> tuple[Pipeline, ...]:
    made = {id(value): value for value in _execute(path).values() if isinstance(value, Pipeline)}
    if not made:
        msg = f"{path}: expected a `Pipeline(...)` at the top level, got none."
        raise DefinitionError(msg)
    pipelines = tuple(replace(value, file=path.resolve()) for value in made.values())
    for pipeline in pipelines:
        try:
            check(pipeline)
        except DefinitionError:
            raise
        except Exception as error:
            raise _make_error(path, error) from error  # a value of a type that no check expects
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
    except BaseException as error:  # also of `sys.exit`
        raise _make_error(path, error) from error
    return dict(vars(module))


def _make_error(path: Path, error: BaseException) -> DefinitionError:
    text = "".join(char if char.isprintable() else " " for char in str(error))
    msg = f"{_find_place(path, error)}: expected a definition that loads, got {type(error).__name__}: {text}"
    return DefinitionError(msg)


def _find_place(path: Path, error: BaseException) -> str:
    """Return the file, and the line of it that was running when it failed."""
    lines = [frame.lineno for frame in extract_tb(error.__traceback__) if frame.filename == str(path)]
    return f"{path}:{lines[-1]}" if lines else str(path)
