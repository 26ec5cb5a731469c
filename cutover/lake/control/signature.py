"""Person and reason of a recorded step, as the histories keep them."""

import os
import pwd

from cutover.errors import DefinitionError

LONGEST_WHY = 500


class InvalidReasonError(DefinitionError):
    """Reason that is empty or too long."""


def user() -> str:
    """Return the user of this process, from the system's user database: any process can set an environment variable."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return f"uid {os.getuid()}"


def check_reason(reason_text: str, *, of: str) -> str:
    """Strip a person's reason and check its length.

    Args:
        reason_text: As given.
        of: Step that requires it, as the message names it: `Gate`.

    Raises:
        InvalidReasonError: It is empty or too long.
    """
    text = reason_text.strip()
    if not text or len(text) > LONGEST_WHY:
        msg = f"{of}: expected a reason (`--why`) of 1 to {LONGEST_WHY} characters, got {len(text)}."
        raise InvalidReasonError(msg)
    return text
