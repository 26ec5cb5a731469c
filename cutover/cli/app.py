"""Command line: one Typer app with the commands that each folder registers by entry point.

Summaries of commands are parsed from their source, so listing the commands imports no other module.
"""

import ast
import sys
import traceback
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, EntryPoints, entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import typer
from typer.exceptions import TyperException

from cutover import events
from cutover.errors import CutoverError, mask_logins
from cutover.output import console, terminal
from cutover.output.cells import visible

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


GROUP = "cutover.commands"
USAGE = 2
TAKE_KEYS = frozenset({"explain", "resolve"})
"""Commands with a key as an argument; a key such as `-5,UA` must not be parsed as an option."""

INTERRUPTED = 130


def build_app(command: str | None = None) -> typer.Typer:
    """Build the app with the commands of the module that defines `command`, or with a summary of each command."""
    app = typer.Typer(
        help="Compare a fast streaming path with a trusted batch recompute over one Kafka log.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
    )
    app.callback()(_root)
    entries = _entries()
    if command is None or command not in entries.names:
        for entry in entries:
            app.command(entry.name, help=_read_summary(entry))(_require_command_name)
        return app
    for name, command_spec in _import_commands(entries[command]).items():
        if isinstance(command_spec, typer.Typer):
            for registered in command_spec.registered_commands:
                if registered.callback is not None:
                    registered.callback = console.as_command(registered.callback)
            app.add_typer(command_spec, name=name)
        else:
            settings = {"ignore_unknown_options": name in TAKE_KEYS}
            app.command(name, context_settings=settings)(console.as_command(command_spec))
    return app


def _entries() -> EntryPoints:
    return entry_points(group=GROUP)


def _read_summary(entry: EntryPoint) -> str:
    try:
        return summary(entry.module, entry.name)
    except (FileNotFoundError, LookupError):
        raise _reject_entry(entry) from None


def _import_commands(entry: EntryPoint) -> Mapping[str, Any]:
    try:
        commands: Mapping[str, Any] | None = getattr(import_module(entry.module), TABLE, None)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{entry.module}.".startswith(f"{error.name}."):
            raise
        commands = None
    if commands is None:
        raise _reject_entry(entry)
    return commands


def _reject_entry(entry: EntryPoint) -> CutoverError:
    """Return the error of an entry point of an installation that is older than the code, as after `git pull`."""
    msg = f"Command `{entry.name}`: expected it in the module `{entry.module}`, as installed, got none."
    return CutoverError(f"{msg}\nHint: the code was updated since it was installed: `make setup` installs it again.")


def _require_command_name() -> None:
    """Serve as the callback of a command in the list of all commands."""
    msg = "expected the command's name first"
    raise typer.BadParameter(msg)


def _root() -> None:
    """Compare a fast streaming path with a trusted batch recompute over one Kafka log."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0 agree, 1 differ beyond policy, 2 no answer, 130 interrupted.

    Args:
        argv: The command and its arguments; None: those of this process, whose engines then print to a log file.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    if argv is not None:
        return _run(arguments)
    terminal.take_over_output(arguments[0] if arguments and arguments[0] in _entries().names else "cutover")
    try:
        code = _run(arguments)
        sys.stdout.flush()
        if (engine_log := terminal.engine_log()) is not None:
            sys.stderr.write(f"{engine_log}\n")
    except BrokenPipeError:  # the reader of the output has closed it, as `| head` does
        terminal.discard_output()
        return INTERRUPTED
    return code


def _run(arguments: list[str]) -> int:
    events.configure(pretty=sys.stderr.isatty())
    try:
        for argument in arguments:
            argument.encode("utf-8")
        result = build_app(arguments[0] if arguments else None)(
            args=arguments, prog_name="cutover", standalone_mode=False
        )
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    except CutoverError as error:
        message, code = str(error), error.exit_code
    except TyperException as error:
        message, code = f"{error.format_message()}\nHint: `cutover --help` and `cutover COMMAND --help`.", USAGE
    except UnicodeEncodeError as error:
        message, code = _describe_encoding(error.object), USAGE
    except BrokenPipeError:
        raise
    except OSError as error:
        message, code = _describe_os_error(error), USAGE
    except Exception:  # noqa: BLE001 -- Python's own exit code for it, 1, would be read as a verdict
        sys.stderr.write(mask_logins(traceback.format_exc()))
        message, code = "This is a defect of Cutover: expected a result or an error message, got the above.", USAGE
    else:
        return result if isinstance(result, int) else 0
    sys.stderr.write(f"{mask_logins(message)}\n")
    return code


def _describe_encoding(text: str) -> str:
    """Describe a name or text with bytes that are not UTF-8, which DuckDB, Arrow, Delta Lake and JSON do not accept."""
    return (
        f"`{visible(text[:200])}`: expected text in UTF-8, got other bytes.\n"
        "Hint: rename a file with such a name; `PYTHONUTF8=1` reads all arguments as UTF-8."
    )


def _describe_os_error(error: OSError) -> str:
    """Describe an error of a file, folder or socket that no command handles."""
    place = f"`{error.filename}`" if error.filename else "A file, folder or socket"
    return (
        f"{place}: expected it to be usable, got: {error.strerror or error}.\n"
        "Hint: check the free space, the owner and the limits of this user; `cutover doctor` shows some of them."
    )


if __name__ == "__main__":
    sys.exit(main())
