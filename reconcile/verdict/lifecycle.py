"""Lifecycle of unexplained differences: from the run that first found them until a comparison resolves them.

A row has a state (`open`, `accepted` or `resolved`) and the id of its run; the run's position in the history decides
which row counts. So only a complete comparison of its window at the same or a newer cut resolves a difference. A person
can close one (`closed`, under the last run that found it): a later run that finds it reopens it, with its history.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from cutover import changes
from cutover.definition.windows.window_fn import FOREVER
from cutover.lake.journal import Journal
from cutover.reconcile.attribution.causes import UNEXPLAINED
from cutover.reconcile.journal_rows import DifferenceEvent
from cutover.reconcile.result.codec import Scalar
from cutover.reconcile.result.finding import Difference, Finding, Place, place_of
from cutover.reconcile.verdict import records
from cutover.reconcile.verdict.records import RecordedComparison
from cutover.settings import Settings
from cutover.timestamps import parse_micros

BEYOND = "beyond_the_list"
"""Kind of the row, without a key, that represents all differences of a run beyond its list."""


class DifferenceState(StrEnum):
    """State of a difference."""

    PENDING = "pending"  # its window is younger than `policy.settles_after`
    OPEN = "open"
    ACCEPTED = "accepted"  # by a rule in force when it was last found


_CLOSED = "closed"
_SEEN = frozenset({DifferenceState.OPEN, DifferenceState.ACCEPTED})


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenDifference:
    """Unexplained (window, key) row, with the runs that found it."""

    window_start: str
    key: str  # JSON object
    kind: str
    first_seen: datetime
    first_run: str  # id of the first run that found it
    last_seen: datetime
    runs: int
    run_id: str  # id of the latest run that found it
    state: DifferenceState = DifferenceState.OPEN
    rule: str | None = None  # name of the rule that accepts it
    returned: int = 0  # number of times it reappeared after it was resolved or closed


def read_key(open_difference: OpenDifference, columns: Sequence[str]) -> dict[str, Scalar]:
    """Return the key by column, in the definition's order."""
    key = json.loads(open_difference.key)
    return {name: key[name] for name in columns if name in key}


def fold_open_differences(
    settings: Settings, pipeline: str, lines: Sequence[RecordedComparison], version: int | None
) -> dict[Place, OpenDifference]:
    """Fold the history into the differences that no later comparison of their window resolved and no person closed.

    Args:
        settings: Where the lake is.
        pipeline: Its name.
        lines: The history under the current definition.
        version: The serving version.
    """
    rows = Journal(settings, pipeline, DifferenceEvent).read()
    return fold_differences(rows, {line.run_id: records.compute_line_position(line, version) for line in lines})


def mark_pending(
    differences: Mapping[Place, OpenDifference], current: RecordedComparison | None, settles_after: int
) -> dict[Place, OpenDifference]:
    """Mark open differences as pending if their window started too shortly before the watermark of the current cut.

    Args:
        differences: Open differences.
        current: The current comparison.
        settles_after: Microseconds of event time.
    """
    watermark = None if current is None else current.result.get("seal", {}).get("watermark")
    if watermark is None:
        return dict(differences)
    settled_until = parse_micros(watermark) - settles_after
    return {
        place: replace(difference, state=DifferenceState.PENDING)
        if difference.state is DifferenceState.OPEN and parse_micros(difference.window_start) > settled_until
        else difference
        for place, difference in differences.items()
    }


def close(
    settings: Settings, pipeline: str, fingerprint: str, open_difference: OpenDifference, reason: str, now: datetime
) -> None:
    """Close a difference, signed by the current user.

    Raises:
        DefinitionError: `reason` is empty or too long.
    """
    detail = json.dumps({"who": changes.user(), "why": changes.check_reason(reason, of="Resolve")})
    event = DifferenceEvent(
        pipeline=pipeline,
        result_fingerprint=fingerprint,
        run_id=open_difference.run_id,
        at=now,
        window_start=datetime.fromisoformat(open_difference.window_start),
        key=open_difference.key,
        kind=open_difference.kind,
        cause=UNEXPLAINED,
        state=_CLOSED,
        detail=detail,
    )
    Journal(settings, pipeline, DifferenceEvent).append(event)


def fold_differences(
    rows: Iterable[DifferenceEvent], positions: Mapping[str, records.Position]
) -> dict[Place, OpenDifference]:
    """Fold rows of `differences` into the open ones; rows of a run without a line in the history do not count.

    Args:
        rows: Rows in the order in which they were appended, which also orders those of one run.
        positions: Run id -> position of its line in the history.
    """
    counted_rows = [row for row in rows if row.run_id in positions]
    open_by_place: dict[Place, OpenDifference] = {}
    ended_by_place: dict[Place, OpenDifference] = {}
    for row in sorted(counted_rows, key=lambda row: (positions[row.run_id], row.state == _CLOSED)):
        place = (_iso(row.window_start), row.key)
        if row.state in _SEEN:
            closed = ended_by_place.pop(place, None)
            previous = open_by_place.get(place) or (closed and replace(closed, returned=closed.returned + 1))
            open_by_place[place] = _update_difference(previous, place, row)
        elif place in open_by_place:
            ended_by_place[place] = open_by_place.pop(place)
    return open_by_place


def make_rows(
    finding: Finding,
    recorded_comparison: RecordedComparison,
    open_before: Mapping[Place, OpenDifference],
    newer: Sequence[RecordedComparison],
    lines: Sequence[RecordedComparison],
) -> list[DifferenceEvent]:
    """Make an `open` row for each unexplained row of a run, and a `resolved` one for each that it no longer finds.

    Args:
        finding: The comparison; its differences are listed.
        recorded_comparison: Its future line in the history.
        open_before: Open differences without it.
        newer: Lines with a later position: windows that they compared get no rows from this run.
        lines: Other lines of the definition.
    """

    def make_event(place: Place, kind: str, cause: str, state: str, detail: str | None) -> DifferenceEvent:
        return DifferenceEvent(
            pipeline=finding.pipeline,
            result_fingerprint=recorded_comparison.fingerprint,
            run_id=recorded_comparison.run_id,
            at=recorded_comparison.last_recorded,
            window_start=datetime.fromisoformat(place[0]),
            key=place[1],
            kind=kind,
            cause=cause,
            state=state,
            detail=detail,
        )

    unexplained = {
        place: difference
        for place, difference in _collect_unexplained(finding).items()
        if not _is_judged_by(newer, place)
    }
    open_from = {other_line.run_id: _find_open_start(other_line) for other_line in lines}
    resolved = {
        place: difference
        for place, difference in open_before.items()
        if place not in unexplained
        and _is_judged(recorded_comparison, place, difference, finding, open_from.get(difference.run_id, FOREVER))
    }
    return [
        *(
            make_event(place, difference.kind, difference.cause, _state(difference), _detail(difference))
            for place, difference in unexplained.items()
        ),
        *(make_event(place, difference.kind, UNEXPLAINED, "resolved", None) for place, difference in resolved.items()),
    ]


def _is_judged_by(newer: Sequence[RecordedComparison], place: Place) -> bool:
    return any(line.has_judged(parse_micros(place[0])) for line in newer)


def _is_judged(
    recorded_comparison: RecordedComparison,
    place: Place,
    open_difference: OpenDifference,
    finding: Finding,
    open_from: int,
) -> bool:
    """Return whether a run resolves a difference: it compared the window, and lists all unexplained rows.

    Args:
        recorded_comparison: Line of the run.
        place: Of the difference.
        open_difference: The difference.
        finding: Of the run.
        open_from: Start of the first window that was still open in the latest run that found the difference: all rows
            beyond that run's list are in earlier windows.
    """
    if len(_list_unexplained(finding)) < records.count_unexplained(
        recorded_comparison
    ) or not recorded_comparison.has_judged(parse_micros(place[0])):
        return False
    return open_difference.kind != BEYOND or all(start >= open_from for start, _ in recorded_comparison.skipped_ranges)


def _find_open_start(line: RecordedComparison) -> int:
    """Return the start of the first window that was still open at a cut, microseconds; FOREVER if all were closed."""
    return min((start for start, end in line.skipped_ranges if end == FOREVER), default=FOREVER)


def _collect_unexplained(finding: Finding) -> dict[Place, Difference]:
    """Return the unexplained rows of a run, with one row for all those beyond its list."""
    unexplained = _list_unexplained(finding)
    if finding.windows.first is not None and len(unexplained) < finding.causes[UNEXPLAINED].rows:
        difference = Difference(
            window_start=finding.windows.first,
            key={},
            measure="",
            kind=BEYOND,
            streaming=None,
            batch=None,
            difference=None,
            cause=UNEXPLAINED,
        )
        unexplained[finding.windows.first, "{}"] = difference
    return unexplained


def _list_unexplained(finding: Finding) -> dict[Place, Difference]:
    return {place_of(difference): difference for difference in finding.differences if UNEXPLAINED in difference.cause}


def _update_difference(open_difference: OpenDifference | None, place: Place, row: DifferenceEvent) -> OpenDifference:
    updated = OpenDifference(
        window_start=place[0],
        key=place[1],
        kind=row.kind,
        first_seen=row.at,
        first_run=row.run_id,
        last_seen=row.at,
        runs=1,
        run_id=row.run_id,
        state=DifferenceState(row.state),
        rule=json.loads(row.detail or "{}").get("accepted_by"),
    )
    if open_difference is None:
        return updated
    return replace(
        updated,
        first_seen=open_difference.first_seen,
        first_run=open_difference.first_run,
        runs=open_difference.runs + 1,
        returned=open_difference.returned,
    )


def _state(difference: Difference) -> str:
    return DifferenceState.OPEN if difference.accepted_by is None else DifferenceState.ACCEPTED


def _detail(difference: Difference) -> str:
    rule = {} if difference.accepted_by is None else {"accepted_by": difference.accepted_by}
    detail = rule | {"measure": difference.measure, "streaming": difference.streaming, "batch": difference.batch}
    return json.dumps(detail, sort_keys=True)


def _iso(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")
