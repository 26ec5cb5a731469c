"""Checks of a contract: its expectations exist in Great Expectations and refer to columns of the result.

The package's source is parsed instead of imported, since the import takes seconds.
"""

import ast
from collections.abc import Iterator, Mapping, Sequence
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
