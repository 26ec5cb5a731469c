"""Errors with messages for the user."""

import re
from typing import ClassVar

_LOGIN = re.compile(r"(://[^\s/@:?#]*):[^\s/@]+@")
_DECORATION = re.compile(r"\x1b\[[0-9;]*m|[\u21b3\x00-\x08]")
_PLACEHOLDER = re.compile(r"(`cutover [^`]*?)\bP\b")


class CutoverError(Exception):
    r"""Error whose message states the thing, the place, what was expected, what was found, and a hint.

    Args:
        message: The message. A hint is on a separate line (`\nHint: ...`).
        runbook: Name of the page in `docs/runbooks/` with instructions, if there is one.

    Attributes:
        text: The message without the reference to the runbook, which `str()` appends on a separate line.
    """

    exit_code: ClassVar[int] = 2

    def __init__(self, message: str, *, runbook: str | None = None) -> None:
        super().__init__(message if runbook is None else f"{message}\nRunbook: docs/runbooks/{runbook}.md")
        self.text, self.runbook = message, runbook

    def name_pipeline(self, pipeline: str) -> None:
        """Replace the placeholder `P` in the commands of the message by the pipeline's name."""
        self.text = insert_pipeline(self.text, pipeline)
        self.args = (insert_pipeline(str(self), pipeline),)


def insert_pipeline(text: str, pipeline: str) -> str:
    """Replace the placeholder `P` in the commands of a text by a pipeline's name."""
    return _PLACEHOLDER.sub(lambda match: match[1] + pipeline, text)


def mask_logins(text: str) -> str:
    """Hide the passwords of all URLs in a text, such as the message of a library: `http://user:***@host`."""
    return _LOGIN.sub(r"\1:***@", text)


def summarize_error(error: Exception) -> str:
    """Return the message of a library's error on one line, with its causes, without colours and passwords."""
    lines = (_DECORATION.sub("", line).strip(" .") for line in str(error).splitlines())
    return mask_logins(": ".join(filter(None, lines)) or type(error).__name__)


class DefinitionError(CutoverError):
    """Invalid pipeline definition, setting or argument."""


class InterruptedRunError(CutoverError):
    """Run that the user interrupted; the message states what was done and how to continue."""

    exit_code = 130


class LogError(CutoverError):
    """Log that is unavailable, not the expected one, or no longer has the required records."""


class LakeError(CutoverError):
    """Table of the lake that is missing, corrupt, or was written by another writer."""


class ContractError(CutoverError):
    """Failed critical expectation: nothing was published."""
