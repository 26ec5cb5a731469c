"""The command line: one Typer app, filled by the commands that each folder registers by entry point."""

import sys
import traceback
from collections.abc import Sequence
from importlib.metadata import entry_points

import typer
from typer.exceptions import TyperException

from cutover import events
from cutover.errors import CutoverError

USAGE = 2
INTERRUPTED = 130


def build_app(command: str | None = None) -> typer.Typer:
    """Return the app with every installed command, or with those of the room that has `command`."""
    app = typer.Typer(
        help="Compare a fast streaming path with a trusted batch recompute over one Kafka log.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
    )
    app.callback()(_root)
    found = entry_points(group="cutover.commands")
    for room in dict.fromkeys(entry.value for entry in (found.select(name=command) if command else ()) or found):
        next(entry for entry in found if entry.value == room).load()(app)
    return app


def _root() -> None:
    """Compare a fast streaming path with a trusted batch recompute over one Kafka log."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0 agree, 1 differ beyond policy, 2 no answer, 130 interrupted."""
    events.configure(pretty=sys.stderr.isatty())
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        result = build_app(arguments[0] if arguments else None)(
            args=arguments, prog_name="cutover", standalone_mode=False
        )
    except CutoverError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    except KeyboardInterrupt:
        return INTERRUPTED
    except typer.Abort:
        return INTERRUPTED
    except TyperException as error:
        sys.stderr.write(f"{error.format_message()}\nHint: `cutover --help` and `cutover COMMAND --help`.\n")
        return USAGE
    except Exception:  # noqa: BLE001 -- Python's own exit code for it, 1, would be read as a verdict
        traceback.print_exc()
        sys.stderr.write("This is a defect of Cutover: expected a result or a message of its own, got the above.\n")
        return USAGE
    return result if isinstance(result, int) else 0


if __name__ == "__main__":
    sys.exit(main())
