"""Command line: one Typer app with the commands that each folder registers by entry point."""

import sys
import traceback
from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import EntryPoints, entry_points

import typer
from typer.exceptions import TyperException

from cutover import events
from cutover.cli.summaries import summary
from cutover.errors import CutoverError
from cutover.output import console, terminal

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
            app.command(entry.name, help=summary(entry.module, entry.name))(_require_command_name)
        return app
    for name, command_spec in import_module(entries[command].module).COMMANDS.items():
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
        result = build_app(arguments[0] if arguments else None)(
            args=arguments, prog_name="cutover", standalone_mode=False
        )
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    except CutoverError as error:
        message, code = str(error), error.exit_code
    except TyperException as error:
        message, code = f"{error.format_message()}\nHint: `cutover --help` and `cutover COMMAND --help`.", USAGE
    except BrokenPipeError:
        raise
    except OSError as error:
        message, code = _describe_os_error(error), USAGE
    except Exception:  # noqa: BLE001 -- Python's own exit code for it, 1, would be read as a verdict
        traceback.print_exc()
        message, code = "This is a defect of Cutover: expected a result or an error message, got the above.", USAGE
    else:
        return result if isinstance(result, int) else 0
    sys.stderr.write(f"{message}\n")
    return code


def _describe_os_error(error: OSError) -> str:
    """Describe an error of a file, folder or socket that no command handles."""
    place = f"`{error.filename}`" if error.filename else "A file, folder or socket"
    return (
        f"{place}: expected it to be usable, got: {error.strerror or error}.\n"
        "Hint: check the free space, the owner and the limits of this user; `cutover doctor` shows some of them."
    )


if __name__ == "__main__":
    sys.exit(main())
