"""Changes that a person approves: the proposal that is shown, and the approval that is valid for this proposal alone.

Each kind of change (`reconcile/gate/stage.py`: a stage; `streaming/replacement/swap.py`: a swap) subclasses
`Proposal` with everything on which the decision rests. Before it applies an approved change, it reads the same facts
again and rejects the approval with `check_approval_unchanged` if one of them differs. The digest of the proposal is
recorded with the change, so that a task which is retried finds that the change was applied already. The histories keep
the person and the reason of every step.

The life of a change in Airflow (propose, approve, apply, verify, undo) is `make_change_dag` in `dags/change_dag.py`.
"""

import hashlib
import json
import os
import pwd
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Generic, Self, TypeVar

from pydantic import TypeAdapter

from cutover.errors import DefinitionError, LakeError


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """Change as it is presented to a person, with the facts on which it rests."""

    @property
    def digest(self) -> str:
        """Identity of the proposal, to which an approval is bound: sha256 of its canonical JSON."""
        text = json.dumps(asdict(self), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    def to_json(self) -> dict[str, Any]:
        """Return the proposal as a JSON object, for the next task."""
        return dict(json.loads(json.dumps(asdict(self))))

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        """Parse a proposal that `to_json` made; other keys are ignored."""
        return TypeAdapter(cls).validate_python({field.name: content[field.name] for field in fields(cls)})


P = TypeVar("P", bound=Proposal)


class ApprovalRejectedError(LakeError):
    """Approval whose facts have changed, or that names no person; nothing was written."""


@dataclass(frozen=True, kw_only=True)  # no slots: `typing` sets an attribute on instances of a generic class
class Approval(Generic[P]):
    """Approval of a proposal by a person."""

    proposal: P
    who: str

    def check_person(self, subject: str) -> None:
        """Check that the approval names a person: a default response, or one without a user name, does not.

        Args:
            subject: What was approved, at the beginning of the message.

        Raises:
            ApprovalRejectedError: Nothing was written.
        """
        if not self.who.strip():
            msg = f"{subject}: expected the person who approved it, got no name."
            raise ApprovalRejectedError(
                msg + "\nHint: respond to it in Airflow (Required Actions), logged in as yourself."
            )


def check_approval_unchanged(subject: str, changes: Iterable[str], *, dag: str) -> None:
    """Reject an approval if one of the facts on which it rests has changed.

    Args:
        subject: What was approved, at the beginning of the message.
        changes: A description of each fact that has changed; none: the approval is valid.
        dag: Id of the DAG that proposes the change again.

    Raises:
        ApprovalRejectedError: Names the changes; nothing was written.
    """
    distinct_changes = list(dict.fromkeys(changes))
    if distinct_changes:
        msg = f"{subject}: expected the facts that were approved, got changes: {'; '.join(distinct_changes)}."
        raise ApprovalRejectedError(msg + f"\nHint: run `{dag}` again and review the current facts.")


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
