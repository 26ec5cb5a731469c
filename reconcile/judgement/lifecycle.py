"""The life of differences that nothing explains: open from their first sight until a comparison judges them away.

A row says `open` or `resolved`, and which run says so; where that run stands in the history decides which row counts.
So a difference ends only by a whole comparison of its window at the same or a newer cut.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from cutover.lake.control import control_tables
from cutover.reconcile.attribution.causes import UNEXPLAINED
from cutover.reconcile.judgement import records
from cutover.reconcile.judgement.records import RecordedComparison
from cutover.reconcile.result.outcome import Difference, Reconciliation
from cutover.settings import Settings
from cutover.timestamps import parse_micros

Place = tuple[str, str]  # window start (ISO), key (JSON)

BEYOND = "beyond_the_list"
"""Kind of the row that stands for all differences of a run that its list had no room for; of no key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenDifference:
    """A (window, key) row that nothing explains, from its first to its last sight."""

    window_start: str
    key: str  # JSON object
    kind: str
    first_seen: datetime
    last_seen: datetime
    runs: int


def open_differences(
    settings: Settings, pipeline: str, lines: Sequence[RecordedComparison], version: int | None
) -> dict[Place, OpenDifference]:
    """Follow each difference over the history: open until a later comparison of its window took it back.

    Args:
        settings: Where the lake lies.
        pipeline: Its name.
        lines: The history under the definition in force.
        version: In force.
    """
    rows = control_tables.read(settings, "differences", pipeline)
    return fold_differences(rows, {one.run_id: records.position(one, version) for one in lines})


def fold_differences(
    rows: Iterable[Mapping[str, Any]], positions: Mapping[str, records.Position]
) -> dict[Place, OpenDifference]:
    """Return what is open by rows of `differences`; those of a run without a line in the history do not count."""
    known = [row for row in rows if row["run_id"] in positions]
    found: dict[Place, OpenDifference] = {}
    for row in sorted(known, key=lambda row: positions[row["run_id"]]):
        place = (_iso(row["window_start"]), str(row["key"]))
        if row["state"] == "open":
            found[place] = _update_difference(found.get(place), place, row)
        else:
            found.pop(place, None)
    return found


def rows(
    result: Reconciliation,
    made: RecordedComparison,
    opened: Mapping[Place, OpenDifference],
    newer: Sequence[RecordedComparison],
) -> list[dict[str, Any]]:
    """Return an `open` row for each unexplained row of a run, `resolved` for each that it judged and did not find.

    Args:
        result: The comparison; its differences are listed.
        made: Its line, as it will stand in the history.
        opened: What is open without it.
        newer: Lines that stand behind it: what they judged, this run says nothing about any more.
    """
    same = {"pipeline": result.pipeline, "result_fingerprint": made.fingerprint, "run_id": made.run_id, "at": made.last}
    now = {place: d for place, d in _collect_unexplained(result).items() if not _is_judged_by(newer, place)}
    gone = {place: d for place, d in opened.items() if place not in now and _is_judged(made, place, d, result)}
    return [
        *(same | _row(place, d.kind, d.cause) | {"state": "open", "detail": _detail(d)} for place, d in now.items()),
        *(same | _row(place, d.kind, UNEXPLAINED) | {"state": "resolved", "detail": None} for place, d in gone.items()),
    ]


def _is_judged_by(newer: Sequence[RecordedComparison], place: Place) -> bool:
    return any(one.has_judged(parse_micros(place[0])) for one in newer)


def _is_judged(made: RecordedComparison, place: Place, one: OpenDifference, result: Reconciliation) -> bool:
    """Return whether a run judged a difference away: its window is judged, and the run lists all that it found."""
    if len(_list_unexplained(result)) < records.count_unexplained(made) or not made.has_judged(parse_micros(place[0])):
        return False
    return one.kind != BEYOND or not made.unjudged


def _collect_unexplained(result: Reconciliation) -> dict[Place, Difference]:
    """Return the unexplained rows of a run, and one for all that its list had no room for."""
    found = _list_unexplained(result)
    if result.windows.first is not None and len(found) < result.causes[UNEXPLAINED].rows:
        rest = Difference(
            window_start=result.windows.first,
            key={},
            measure="",
            kind=BEYOND,
            streaming=None,
            batch=None,
            difference=None,
            cause=UNEXPLAINED,
        )
        found[result.windows.first, "{}"] = rest
    return found


def _list_unexplained(result: Reconciliation) -> dict[Place, Difference]:
    return {
        (d.window_start or "", json.dumps(dict(d.key), sort_keys=True)): d
        for d in result.differences
        if UNEXPLAINED in d.cause
    }


def _update_difference(before: OpenDifference | None, place: Place, row: Mapping[str, Any]) -> OpenDifference:
    if before is not None:
        return replace(before, last_seen=row["at"], runs=before.runs + 1, kind=row["kind"])
    return OpenDifference(
        window_start=place[0], key=place[1], kind=row["kind"], first_seen=row["at"], last_seen=row["at"], runs=1
    )


def _row(place: Place, kind: str, cause: str) -> dict[str, Any]:
    return {"window_start": datetime.fromisoformat(place[0]), "key": place[1], "kind": kind, "cause": cause}


def _detail(difference: Difference) -> str:
    shown = {"measure": difference.measure, "streaming": difference.streaming, "batch": difference.batch}
    return json.dumps(shown, sort_keys=True)


def _iso(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")
