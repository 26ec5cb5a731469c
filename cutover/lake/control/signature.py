"""Who takes a step that is kept, and why: what the histories of gate and losses hold of a person."""

import os
import pwd

from cutover.errors import DefinitionError

LONGEST_WHY = 500


class ReasonRefusedError(DefinitionError):
    """A reason that says nothing, or too much."""


def user() -> str:
    """Return who runs this process, by the system's own list of users and not by a variable that anyone can set."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return f"uid {os.getuid()}"


def reason(why: str, *, of: str) -> str:
    """Strip a reason that a person gave and check that it says something.

    Args:
        why: As it was given.
        of: What asks for it, as the message names it: `Gate`.

    Raises:
        ReasonRefusedError: It is empty or too long.
    """
    text = why.strip()
    if not text or len(text) > LONGEST_WHY:
        msg = f"{of}: expected a reason (`--why`) of 1 to {LONGEST_WHY} characters, got {len(text)}."
        raise ReasonRefusedError(msg)
    return text
