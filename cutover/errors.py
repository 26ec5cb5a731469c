"""Failures that the reader of their message can act on."""

from typing import ClassVar


class CutoverError(Exception):
    r"""A failure that its reader can act on: thing, place, expected, got, hint.

    Args:
        message: The sentence. A hint is on a separate line (`\nHint: ...`).
        runbook: Name of the page in `docs/runbooks/` that says what to do, if there is one.

    Attributes:
        text: The message as it was given; `str()` of a failure names the page on a line behind it.
    """

    exit_code: ClassVar[int] = 2

    def __init__(self, message: str, *, runbook: str | None = None) -> None:
        super().__init__(message if runbook is None else f"{message}\nRunbook: docs/runbooks/{runbook}.md")
        self.text, self.runbook = message, runbook


class DefinitionError(CutoverError):
    """A pipeline definition, a setting or an argument cannot be used."""


class InterruptedRunError(CutoverError):
    """A run that a person interrupted; says what was done and how to continue."""

    exit_code = 130


class LogError(CutoverError):
    """The log is not there, not the one expected, or no longer holds what is needed."""


class LakeError(CutoverError):
    """A table of the lake is missing, damaged, or was written by another writer."""


class ContractError(CutoverError):
    """A critical expectation failed: nothing was published."""
