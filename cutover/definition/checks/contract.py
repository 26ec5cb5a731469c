"""Checks of a contract: its expectations are some that Great Expectations has."""

import ast
from collections.abc import Sequence
from difflib import get_close_matches
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from cutover.definition.checks.measures import refuse
from cutover.definition.model.pipeline import Expect
from cutover.definition.model.schema import check_name


def check_contract(contract: Sequence[Expect]) -> None:
    """Refuse an expectation of another severity or type than there are; its arguments are looked at when it runs.

    Raises:
        DefinitionError: Says what is expected.
    """
    for expectation in contract:
        if expectation.severity not in {"critical", "warning", "info"}:
            refuse("contract", "severity critical, warning or info", repr(expectation.severity))
        check_name(expectation.type, of="contract")
        known = list_expectation_types()
        if known and expectation.type not in known:
            close = get_close_matches(expectation.type, known, n=1)
            hint = f"did you mean `{close[0]}`?" if close else "such as `expect_column_max_to_be_between`"
            refuse("contract", "an expectation of Great Expectations", f"`{expectation.type}`", hint)


@cache
def list_expectation_types() -> tuple[str, ...]:
    """Return the types that the installed package exports, read from its text: to import it takes seconds.

    Returns:
        Such as `expect_column_max_to_be_between`, sorted; none where the package is not installed.
    """
    package = find_spec("great_expectations")
    if package is None or package.origin is None:
        return ()
    exports = Path(package.origin).parent / "expectations" / "core" / "__init__.py"
    modules = (node.module for node in ast.parse(exports.read_text()).body if isinstance(node, ast.ImportFrom))
    return tuple(sorted(module for module in modules if module and module.startswith("expect_")))
