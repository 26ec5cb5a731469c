"""Structured logging: each event is one line of JSON with counts and offsets, without payloads and credentials."""

import logging
import sys
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from structlog.stdlib import BoundLogger


class _Log:
    """Logger that is created with the first event: most commands log nothing, and structlog is slow to import."""

    def __getattr__(self, name: str) -> Any:
        return getattr(_logger(), name)


log: "BoundLogger" = _Log()  # type: ignore[assignment]  # it forwards every call to a BoundLogger


def configure(*, pretty: bool, level: int = logging.INFO) -> None:
    """Write events to stderr, either formatted for people or as one JSON object per line.

    The JSON renderer escapes control characters, so a value from a record cannot forge a line.

    Args:
        pretty: Format events for people.
        level: Minimum level of events.
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
            # Evaluated per event, since tests and servers replace `sys.stderr`.
            logger_factory=lambda *_: structlog.PrintLogger(sys.stderr),
            cache_logger_on_first_use=False,
        )
    logger: BoundLogger = structlog.get_logger("cutover")
    return logger
