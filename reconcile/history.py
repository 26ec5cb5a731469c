"""What is remembered of comparisons: a row for every run, and the life of every difference that nothing explains."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from cutover.lake import control, tables, upkeep
from cutover.lake.batch_runs import Range
from cutover.lake.paths import ControlTable, control_uri
from cutover.settings import Settings
from reconcile.causes import UNEXPLAINED
from reconcile.result import Difference, Reconciliation

_GROWING: tuple[ControlTable, ...] = ("reconciliations", "differences", "proofs", "pins")
Place = tuple[str, str]  # window start (ISO), key (JSON)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenDifference:
    """A (window, key) row that nothing explains, from its first to its last sight."""

    window_start: str
    key: str  # JSON object
    kind: str
    first_seen: datetime
    last_seen: datetime
    runs: int


def record(
    settings: Settings, result: Reconciliation, *, fingerprint: str, at: datetime, unjudged: Sequence[Range] = ()
) -> None:
    """Append the run, then what became of its differences. Every run has a row, also one that could not compare.

    Args:
        settings: Where the lake lies.
        result: The comparison; its series stay in the report, the row holds the rest.
        fingerprint: Result fingerprint of the definition.
        at: Time of the run.
        unjudged: Closed windows that the run left out, microseconds; their differences stay as they are.
    """
    row = {
        "run_id": result.run_id,
        "pipeline": result.pipeline,
        "at": at,
        "epoch": result.seal.epoch,
        "result_fingerprint": fingerprint,
        "stream_version": result.seal.versions.stream,
        "verdict": result.verdict.value,
        "exit_code": result.exit_code,
        "result": json.dumps(_slim(result).to_json(), sort_keys=True),
        "report": result.report_path,
    }
    # Of a version beside the one that serves the differences have no life: they are looked at once.
    if result.seal.holds and settings.stream_version is None:
        control.append(settings, "differences", _life(settings, result, fingerprint, at, unjudged))
    control.append(settings, "reconciliations", [row])
    for table in _GROWING:
        uri = control_uri(settings, table)
        if tables.exists(uri) and upkeep.compact(uri):
            upkeep.clean(uri)


def runs(settings: Settings, pipeline: str) -> list[dict[str, Any]]:
    """Return all recorded runs of a pipeline, oldest first, as rows of `reconciliations`."""
    return control.read(settings, "reconciliations", pipeline)


def open_differences(settings: Settings, pipeline: str, fingerprint: str) -> dict[Place, OpenDifference]:
    """Return the differences whose newest row says `open`, folded from all their rows."""
    found: dict[Place, OpenDifference] = {}
    for row in control.read(settings, "differences", pipeline):
        if row["result_fingerprint"] != fingerprint:
            continue
        place = (_iso(row["window_start"]), str(row["key"]))
        if row["state"] == "open":
            found[place] = _seen(found.get(place), place, row)
        else:
            found.pop(place, None)
    return found


def _seen(before: OpenDifference | None, place: Place, row: dict[str, Any]) -> OpenDifference:
    if before is not None:
        return replace(before, last_seen=row["at"], runs=before.runs + 1, kind=row["kind"])
    return OpenDifference(
        window_start=place[0], key=place[1], kind=row["kind"], first_seen=row["at"], last_seen=row["at"], runs=1
    )


def _slim(result: Reconciliation) -> Reconciliation:
    return replace(
        result,
        window_series=(),
        epochs_series=(),
        samples=(),
        differences=(),
        worst_keys=(),
        lateness_histogram=(),
    )


def _life(
    settings: Settings, result: Reconciliation, fingerprint: str, at: datetime, unjudged: Sequence[Range]
) -> list[dict[str, Any]]:
    """Return an `open` row for each unexplained row of this run, `resolved` for each that was compared and is gone."""
    same = {"pipeline": result.pipeline, "result_fingerprint": fingerprint, "run_id": result.run_id, "at": at}
    now = _unexplained(result.differences)
    opened = [
        same | _place(place) | {"kind": d.kind, "cause": d.cause, "state": "open", "detail": _detail(d)}
        for place, d in now.items()
    ]
    gone = [
        same | _place(place) | {"kind": d.kind, "cause": UNEXPLAINED, "state": "resolved", "detail": None}
        for place, d in open_differences(settings, result.pipeline, fingerprint).items()
        if place not in now and _was_compared(result, place, unjudged)
    ]
    return opened + gone


def _was_compared(result: Reconciliation, place: Place, unjudged: Sequence[Range]) -> bool:
    """Return whether a run judged a window: in its range, not left out, and all that it found fits into the list."""
    first, last = result.windows.first, result.windows.last
    complete = result.causes[UNEXPLAINED].rows == len(_unexplained(result.differences))
    at = round(datetime.fromisoformat(place[0]).timestamp() * 1_000_000)
    left_out = any(start <= at < end for start, end in unjudged)
    return complete and first is not None and last is not None and first <= place[0] <= last and not left_out


def _unexplained(differences: Sequence[Difference]) -> dict[Place, Difference]:
    return {
        (d.window_start or "", json.dumps(dict(d.key), sort_keys=True)): d
        for d in differences
        if UNEXPLAINED in d.cause
    }


def _place(place: Place) -> dict[str, Any]:
    return {"window_start": datetime.fromisoformat(place[0]), "key": place[1]}


def _detail(difference: Difference) -> str:
    shown = {"measure": difference.measure, "streaming": difference.streaming, "batch": difference.batch}
    return json.dumps(shown, sort_keys=True)


def _iso(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")
