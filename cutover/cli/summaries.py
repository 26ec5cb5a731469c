"""Summaries of commands, parsed from their source, so that listing commands imports no other module."""

import ast
from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path

TABLE = "COMMANDS"


def summary(module: str, command: str) -> str:
    """Return the first line of a command's help, found through the table `COMMANDS` of its module.

    Args:
        module: Name of the module with the table; it is read, and not imported.
        command: A key of the table: a function, whose docstring it is, or a `Typer(help=...)`.

    Raises:
        LookupError: The module has no such table, or nothing with a help line stands under the key.
    """
    for node in _tree(module).body:
        if _names(node) == [TABLE] and isinstance(value := getattr(node, "value", None), ast.Dict):
            values = [value for key, value in zip(value.keys, value.values, strict=True) if _text(key) == command]
            if values:
                return _help(module, values[0]).strip().splitlines()[0]
    raise LookupError(f"{module}.{TABLE}[{command!r}]")  # noqa: EM102 -- of our own code's making


def _help(module: str, value: ast.expr) -> str:
    """Return the help of what an expression of a module names."""
    imported = _map_imports(module)
    if isinstance(value, ast.Attribute) and isinstance(value.value, ast.Name):
        package, name = imported[value.value.id]
        return _help(f"{package}.{name}", ast.Name(value.attr))
    name_text = ast.unparse(value)
    if name_text in imported:
        package, name = imported[name_text]
        return _help(package, ast.Name(name))
    for node in _tree(module).body:
        if isinstance(node, ast.FunctionDef) and node.name == name_text:
            return ast.get_docstring(node) or ""
        if _names(node) == [name_text] and isinstance(call := getattr(node, "value", None), ast.Call):
            return next(_text(keyword.value) for keyword in call.keywords if keyword.arg == "help")
    raise LookupError(f"{module}.{name_text}")  # noqa: EM102 -- of our own code's making


@cache
def _tree(module: str) -> ast.Module:
    # Not `find_spec(module)`: it imports the packages above.
    room, *submodules = module.split(".")
    spec = find_spec(room)
    if spec is None or spec.origin is None:
        raise LookupError(module)
    file = Path(spec.origin).parent.joinpath(*submodules)
    return ast.parse((file / "__init__.py" if file.is_dir() else file.with_suffix(".py")).read_text(encoding="utf-8"))


@cache
def _map_imports(module: str) -> Mapping[str, tuple[str, str]]:
    """Return name to module and name there, of what a module imports by `from`."""
    return {
        alias.asname or alias.name: (node.module, alias.name)
        for node in _tree(module).body
        if isinstance(node, ast.ImportFrom) and node.module is not None
        for alias in node.names
    }


def _names(node: ast.stmt) -> list[str]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return [target.id for target in targets if isinstance(target, ast.Name)]


def _text(node: ast.expr | None) -> str:
    return str(node.value) if isinstance(node, ast.Constant) else ""
