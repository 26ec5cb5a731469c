"""Checks of what other programs interpret: the contract by Great Expectations, the schedule by Airflow.

Expectations exist in Great Expectations and refer to columns of the result. The package's source is parsed instead of
imported, since the import takes seconds.

A schedule is a cron expression that every scheduler interprets in the same way. Airflow's cron library accepts more: a
step beyond its field (`*/90` minutes is hourly there), a reversed range (all other values), seconds, and random values
that each process draws separately.
"""

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from difflib import get_close_matches
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import NoReturn

from cutover.definition.checks.measures import reject_field
from cutover.definition.compile.compiled import compile_pipeline
from cutover.definition.model.pipeline import Expect, Pipeline, SameDefinition
from cutover.definition.model.topic import check_name

_ROOT_CLASSES = {"ABC", "BaseModel"}  # base classes whose fields are not arguments
_COLUMN, _COLUMNS = ("column", "column_A", "column_B"), "column_list"


def check_contract(pipeline: Pipeline) -> None:
    """Reject an expectation with an unknown severity, type, argument or column.

    The values of its arguments are validated when it runs.

    Raises:
        DefinitionError: The message names the expected values.
    """
    for expectation in pipeline.contract:
        if expectation.severity not in {"critical", "warning", "info"}:
            reject_field("contract", "severity critical, warning or info", repr(expectation.severity))
        check_name(expectation.type, of="contract")
        kind, known_names = expectation.type, list_expectation_types()
        if known_names and kind not in known_names:
            _reject_unknown(
                "an expectation of Great Expectations", kind, known_names, "such as `expect_column_to_exist`"
            )
        argument_names = list_arguments(kind) if known_names else None
        if argument_names is not None:
            _check_arguments(expectation, argument_names)
        _check_columns(expectation, pipeline)


def _check_arguments(expectation: Expect, argument_names: Sequence[str]) -> None:
    owner = f"of `{expectation.type}`"
    for name in expectation.arguments:
        if name not in argument_names:
            _reject_unknown(f"an argument {owner}", name, argument_names, f"it takes {', '.join(argument_names)}")
    for name in _COLUMN:
        if name in argument_names and name not in expectation.arguments:
            reject_field("contract", f"the argument `{name}` {owner}", "none")


def _check_columns(expectation: Expect, pipeline: Pipeline) -> None:
    """Reject columns that the batch result does not have."""
    result_columns = ("window_start", "window_end", *pipeline.key, *pipeline.measures)
    states = compile_pipeline(pipeline).states if isinstance(pipeline.batch, SameDefinition) else ()
    known_names = (*result_columns, "_n", "_epoch", *(state.column for state in states))
    for name in _list_columns(expectation):
        if name not in known_names:
            _reject_unknown(f"a column of {', '.join(result_columns)}", name, known_names)


def _list_columns(expectation: Expect) -> Iterator[str]:
    """Yield the columns that the arguments refer to."""
    for argument in _COLUMN:
        if argument in expectation.arguments:
            yield _check_text(argument, expectation.arguments[argument])
    names = expectation.arguments.get(_COLUMNS)
    if names is not None and not isinstance(names, list | tuple):
        reject_field("contract", f"`{_COLUMNS}` as a list of columns", f"a value of type `{type(names).__name__}`")
    for name in names or ():
        yield _check_text(_COLUMNS, name)


def _check_text(argument: str, name: object) -> str:
    if not isinstance(name, str):
        reject_field("contract", f"`{argument}` to be names of columns", f"a value of type `{type(name).__name__}`")
    return name


def _reject_unknown(expected: str, name: str, known_names: Sequence[str], default_hint: str = "") -> NoReturn:
    close = get_close_matches(name, known_names, n=1)
    reject_field("contract", expected, f"`{name}`", f"did you mean `{close[0]}`?" if close else default_hint)


@cache
def list_expectation_types() -> tuple[str, ...]:
    """List the expectation types that the installed package exports.

    Returns:
        Types such as `expect_column_max_to_be_between`, sorted; empty if the package is not installed.
    """
    folder = _find_folder()
    if folder is None:
        return ()
    exports = ast.parse((folder / "core" / "__init__.py").read_text(encoding="utf-8"))
    modules = (node.module for node in exports.body if isinstance(node, ast.ImportFrom))
    return tuple(sorted(module for module in modules if module and module.startswith("expect_")))


@cache
def list_arguments(expectation_type: str) -> tuple[str, ...] | None:
    """List the argument names of an expectation type, sorted; None if the source does not list all of them.

    The severity is excluded, since it is a field of `Expect`.
    """
    folder = _find_folder()
    if folder is None:
        return None
    module_classes = _list_classes(folder / "core" / f"{expectation_type}.py")
    classes = {**_list_classes(folder / "expectation.py"), **module_classes}
    class_name = expectation_type.replace("_", "")
    names, pending = set[str](), [name for name in module_classes if name.lower() == class_name]
    while pending:
        name = pending.pop()
        if name in _ROOT_CLASSES:
            continue
        if name not in classes:
            return None
        names |= set(_list_fields(classes[name]))
        pending += [ast.unparse(base).rpartition(".")[2] for base in classes[name].bases]
    return tuple(sorted(names - {"severity"})) or None


def _find_folder() -> Path | None:
    package = find_spec("great_expectations")
    return None if package is None or package.origin is None else Path(package.origin).parent / "expectations"


@cache
def _list_classes(module: Path) -> Mapping[str, ast.ClassDef]:
    return {
        node.name: node for node in ast.parse(module.read_text(encoding="utf-8")).body if isinstance(node, ast.ClassDef)
    }


def _list_fields(class_def: ast.ClassDef) -> Iterator[str]:
    """Yield the fields that the body of a pydantic model declares."""
    for node in class_def.body:
        if not isinstance(node, ast.AnnAssign) or not isinstance(node.target, ast.Name):
            continue
        if not ast.unparse(node.annotation).startswith("ClassVar") and not node.target.id.startswith("_"):
            yield node.target.id


_SOME_DAY = datetime(2026, 1, 1, tzinfo=UTC)
_EXPECTED = "cron such as `0 * * * *` or `@daily`"
_PART = re.compile(r"(?:(?P<all>[*?])|(?P<first>[0-9a-z]+)(?:-(?P<last>[0-9a-z]+))?)(?:/(?P<step>[0-9]+))?")
_DAYS = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)  # of the months, in a leap year
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Field:
    """Field of a cron expression."""

    name: str
    minimum: int
    maximum: int
    names: Mapping[str, int] = field(default_factory=dict)

    def parse(self, text: str, *, ends_range: bool = False) -> int:
        """Parse a value by number or name; `sun` at the end of a range is the day after `sat`."""
        number = self.names.get(text)
        if number is None:
            return int(text) if text.isdecimal() else self.minimum
        return 7 if ends_range and text == "sun" else number


_FIELDS = (
    _Field(name="minute", minimum=0, maximum=59),
    _Field(name="hour", minimum=0, maximum=23),
    _Field(name="day of the month", minimum=1, maximum=31),
    _Field(name="month", minimum=1, maximum=12, names={name: n for n, name in enumerate(_MONTHS, start=1)}),
    _Field(
        name="day of the week",
        minimum=0,
        maximum=6,
        names={name: n for n, name in enumerate(("sun", "mon", "tue", "wed", "thu", "fri", "sat"))},
    ),
)


def check_schedule(schedule: str) -> None:
    """Reject an invalid cron expression, and one that schedulers would misinterpret.

    Raises:
        DefinitionError: The message names the expected value and the field.
    """
    from croniter import CroniterBadDateError, croniter  # noqa: PLC0415 -- a tenth of a second that most can do without

    actual = f"`{schedule[:80]}`"
    if not croniter.is_valid(schedule):
        reject_field("schedule", _EXPECTED, actual)
    if not schedule.strip().startswith("@"):
        _check_fields(schedule.lower().split(), actual)
    try:
        croniter(schedule, _SOME_DAY).get_next()
    except CroniterBadDateError:
        reject_field("schedule", "cron that fires, got one of a day that no calendar has", actual)


def _check_fields(texts: list[str], actual: str) -> None:
    if len(texts) != len(_FIELDS):
        reject_field(
            "schedule", f"{_EXPECTED}, of five fields: minute, hour, day of the month, month, day of the week", actual
        )
    for kind, text in zip(_FIELDS, texts, strict=True):
        for part in text.split(","):
            _check_part(kind, part, actual)
    days, months = (list(_list_values(kind, text)) for kind, text in zip(_FIELDS[2:4], texts[2:4], strict=True))
    if days and not any(day <= _DAYS[month - 1] for day in days for month in months or range(1, 13)):
        reject_field("schedule", "cron that fires, got one of a day that no calendar has", actual)


def _check_part(kind: _Field, part: str, actual: str) -> None:
    if part[0] in "hr" and not part.startswith(tuple(kind.names)):
        reject_field("schedule", f"{_EXPECTED}; the {kind.name} `{part}` is random in each process", actual)
    match = _PART.fullmatch(part)
    if match is None:  # such as `L`, `15w`, `mon#2`, which the library has checked
        return
    start = kind.minimum if match["all"] else kind.parse(match["first"])
    range_end = start if match["last"] is None else kind.parse(match["last"], ends_range=True)
    if range_end < start:
        reject_field(
            "schedule",
            f"{_EXPECTED}; the {kind.name} `{part}` ends before it starts; write two ranges with a comma",
            actual,
        )
    end = range_end if match["last"] else kind.maximum
    if match["step"] and int(match["step"]) > end - start:
        expected = f"a step of at most {end - start} from {start} to {end}"
        reject_field("schedule", f"{_EXPECTED}; the {kind.name} `{part}` needs {expected}", actual)


def _list_values(kind: _Field, text: str) -> Iterator[int]:
    """Yield the listed values of a field; none for `*`, or for a special form."""
    for part in text.split(","):
        match = _PART.fullmatch(part)
        if match is not None and not match["all"]:
            start = kind.parse(match["first"])
            end = kind.parse(match["last"]) if match["last"] else kind.maximum if match["step"] else start
            yield from range(start, end + 1, int(match["step"] or 1))
