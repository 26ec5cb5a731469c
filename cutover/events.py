"""Logs are events: one line of JSON each, counts and offsets, never a payload, never a credential."""

import logging
import sys
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from structlog.stdlib import BoundLogger


class _Log:
    """The logger of events, made with the first one: most commands have none, and structlog is slow to import."""

    def __getattr__(self, name: str) -> Any:
        return getattr(_logger(), name)


log: "BoundLogger" = _Log()  # type: ignore[assignment]  # it hands every call on to one


def configure(*, pretty: bool, level: int = logging.INFO) -> None:
    """Send events to stderr: for people (`pretty`) or as one JSON object a line.

    The JSON renderer escapes control characters, so a value from a record cannot forge a line.

    Args:
        pretty: For people.
        level: Events below it are left out.
    """
    _configuration.update(pretty=pretty, level=level)
    _logger.cache_clear()


_configuration: dict[str, Any] = {}


@cache
def _logger() -> "BoundLogger":
    import structlog  # noqa: PLC0415 -- see `_Log`

    if _configuration:
        renderer = (
            structlog.dev.ConsoleRenderer(colors=False)
            if _configuration["pretty"]
            else structlog.processors.JSONRenderer()
        )
        structlog.configure(
            processors=[
                structlog.processors.add_log_level,
                structlog.processors.TimeStamper(fmt="iso", utc=True),
                structlog.processors.format_exc_info,
                renderer,
            ],
            wrapper_class=structlog.make_filtering_bound_logger(_configuration["level"]),
            # Looked up at each line: a command that runs inside a test or a server writes to the stderr of that moment.
            logger_factory=lambda *_: structlog.PrintLogger(sys.stderr),
            cache_logger_on_first_use=False,
        )
    logger: BoundLogger = structlog.get_logger("cutover")
    return logger
