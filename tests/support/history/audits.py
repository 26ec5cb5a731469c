"""An audit of windows as one that agreed left it, for tests of what comes after it."""

from typing import Any

from cutover.definition import Audit
from cutover.reconcile.verdict.history import AuditState, WindowAudit


def make_audit(pipeline: str, **changes: Any) -> WindowAudit:
    fields: dict[str, Any] = {
        "pipeline": pipeline,
        "at": "2026-01-01T00:00:00.000Z",
        "state": AuditState.AGREES,
        "reason": "Agree.",
        "audit": Audit(),
        "seed": 7,
        "since": 0,
        "until": 1,
        "population": 9,
        "wanted": 1,
        "windows": (3,),
        "judged": 1,
        "rows": 4,
        "missed": 0.9,
        "power": 0.1,
        "stream_version": 0,
    }
    return WindowAudit(**fields | changes)
