"""Logs are events: one line of JSON each, counts and offsets, never a payload, never a credential."""

import logging
import sys

import structlog

log: structlog.stdlib.BoundLogger = structlog.get_logger("cutover")


def configure(*, pretty: bool) -> None:
    """Send events to stderr: for people (`pretty`) or as one JSON object a line.

    The JSON renderer escapes control characters, so a value from a record cannot forge a line.
    """
    renderer = structlog.dev.ConsoleRenderer(colors=False) if pretty else structlog.processors.JSONRenderer()
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        # Looked up at each line: a command that runs inside a test or a server writes to the stderr of that moment.
        logger_factory=lambda *_: structlog.PrintLogger(sys.stderr),
        cache_logger_on_first_use=False,
    )
