"""The life of differences that nothing explains: from their first sight until a comparison judges them away.

A row says `open`, `accepted` or `resolved`, and which run says so; where that run stands in the history decides which
row counts. So a difference ends only by a whole comparison of its window at the same or a newer cut. A person may take
one off the list (`closed`, by the last run that saw it): any later run that finds it brings it back, with its history.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from cutover.definition.windows.window_fn import FOREVER
from cutover.lake.control import signature
from cutover.lake.journal import Journal
from cutover.reconcile.attribution.causes import UNEXPLAINED
from cutover.reconcile.journal_rows import DifferenceEvent
from cutover.reconcile.result.codec import Scalar
from cutover.reconcile.result.finding import Difference, Finding
from cutover.reconcile.verdict import records
from cutover.reconcile.verdict.acceptance import Place, place_of
from cutover.reconcile.verdict.records import RecordedComparison
from cutover.settings import Settings
from cutover.timestamps import parse_micros

BEYOND = "beyond_the_list"
"""Kind of the row that stands for all differences of a run that its list had no room for; of no key."""


class DifferenceState(StrEnum):
    """Where a difference is in its life."""

    PENDING = "pending"  # its window is younger than the policy lets settle
    OPEN = "open"
    ACCEPTED = "accepted"  # by a rule that was in force when it was last seen


_CLOSED = "closed"
_SEEN = frozenset({DifferenceState.OPEN, DifferenceState.ACCEPTED})


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenDifference:
    """A (window, key) row that nothing explains, from its first to its last sight."""

    window_start: str
    key: str  # JSON object
    kind: str
    first_seen: datetime
    first_run: str  # id of the run that saw it first
    last_seen: datetime
    runs: int
    run_id: str  # of the run that saw it last
    state: DifferenceState = DifferenceState.OPEN
    rule: str | None = None  # that accepts it
    returned: int = 0  # how often it came back after it was judged away or closed


def read_key(open_difference: OpenDifference, columns: Sequence[str]) -> dict[str, Scalar]:
    """Return the key by column, in the definition's order."""
    found = json.loads(open_difference.key)
    return {name: found[name] for name in columns if name in found}


def open_differences(
    settings: Settings, pipeline: str, lines: Sequence[RecordedComparison], version: int | None
) -> dict[Place, OpenDifference]:
    """Follow each difference over the history: until a later comparison of its window took it back, or it was closed.

    Args:
        settings: Where the lake lies.
        pipeline: Its name.
        lines: The history under the definition in force.
        version: In force.
    """
    rows = Journal(settings, pipeline, DifferenceEvent).read()
    return fold_differences(rows, {line.run_id: records.position(line, version) for line in lines})


def mark_pending(
    found: Mapping[Place, OpenDifference], present: RecordedComparison | None, settles_after: int
) -> dict[Place, OpenDifference]:
    """Return the same, those pending whose window began too short a time before the watermark of the present cut.

    Args:
        found: What is open.
        present: The comparison that speaks now.
        settles_after: Microseconds of event time.
    """
    watermark = None if present is None else present.result.get("seal", {}).get("watermark")
    if watermark is None:
        return dict(found)
    since = parse_micros(watermark) - settles_after
    return {
        place: replace(one, state=DifferenceState.PENDING)
        if one.state is DifferenceState.OPEN and parse_micros(one.window_start) > since
        else one
        for place, one in found.items()
    }


def close(
    settings: Settings, pipeline: str, fingerprint: str, open_difference: OpenDifference, why: str, now: datetime
) -> None:
    """Take a difference off the list, in the name of who runs this.

    Raises:
        DefinitionError: `why` is empty or too long.
    """
    said = json.dumps({"who": signature.user(), "why": signature.reason(why, of="Resolve")})
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
        detail=said,
    )
    Journal(settings, pipeline, DifferenceEvent).append(event)


def fold_differences(
    rows: Iterable[DifferenceEvent], positions: Mapping[str, records.Position]
) -> dict[Place, OpenDifference]:
    """Return what is open by rows of `differences`; those of a run without a line in the history do not count.

    Args:
        rows: In the order in which they were appended, which alone orders the words of one run.
        positions: Run id -> where its line stands in the history.
    """
    known = [row for row in rows if row.run_id in positions]
    found: dict[Place, OpenDifference] = {}
    ended: dict[Place, OpenDifference] = {}
    for row in sorted(known, key=lambda row: (positions[row.run_id], row.state == _CLOSED)):
        place = (_iso(row.window_start), row.key)
        if row.state in _SEEN:
            back = ended.pop(place, None)
            before = found.get(place) or (back and replace(back, returned=back.returned + 1))
            found[place] = _update_difference(before, place, row)
        elif place in found:
            ended[place] = found.pop(place)
    return found


def rows(
    finding: Finding,
    recorded_comparison: RecordedComparison,
    opened: Mapping[Place, OpenDifference],
    newer: Sequence[RecordedComparison],
    lines: Sequence[RecordedComparison],
) -> list[DifferenceEvent]:
    """Return an `open` row for each unexplained row of a run, `resolved` for each that it judged and did not find.

    Args:
        finding: The comparison; its differences are listed.
        recorded_comparison: Its line, as it will stand in the history.
        opened: What is open without it.
        newer: Lines that stand behind it: what they judged, this run says nothing about any more.
        lines: Of the definition, without it.
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

    now = {place: d for place, d in _collect_unexplained(finding).items() if not _is_judged_by(newer, place)}
    open_from = {line.run_id: _find_open_start(line) for line in lines}
    gone = {
        place: d
        for place, d in opened.items()
        if place not in now and _is_judged(recorded_comparison, place, d, finding, open_from.get(d.run_id, FOREVER))
    }
    return [
        *(make_event(place, d.kind, d.cause, _state(d), _detail(d)) for place, d in now.items()),
        *(make_event(place, d.kind, UNEXPLAINED, "resolved", None) for place, d in gone.items()),
    ]


def _is_judged_by(newer: Sequence[RecordedComparison], place: Place) -> bool:
    return any(one.has_judged(parse_micros(place[0])) for one in newer)


def _is_judged(
    recorded_comparison: RecordedComparison,
    place: Place,
    open_difference: OpenDifference,
    finding: Finding,
    open_from: int,
) -> bool:
    """Return whether a run judged a difference away: its window is judged, and the run lists all that it found.

    Args:
        recorded_comparison: Line of the run.
        place: Of the difference.
        open_difference: The difference.
        finding: Of the run.
        open_from: First window start that was still open to the run that saw the difference last: of what that run had
            no room to list, all lies before it.
    """
    if len(_list_unexplained(finding)) < records.count_unexplained(
        recorded_comparison
    ) or not recorded_comparison.has_judged(parse_micros(place[0])):
        return False
    return open_difference.kind != BEYOND or all(start >= open_from for start, _ in recorded_comparison.unjudged)


def _find_open_start(line: RecordedComparison) -> int:
    """Return the start of the first window that was still open at a cut, microseconds; FOREVER: all were closed."""
    return min((start for start, end in line.unjudged if end == FOREVER), default=FOREVER)


def _collect_unexplained(finding: Finding) -> dict[Place, Difference]:
    """Return the unexplained rows of a run, and one for all that its list had no room for."""
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
    return {place_of(d): d for d in finding.differences if UNEXPLAINED in d.cause}


def _update_difference(open_difference: OpenDifference | None, place: Place, row: DifferenceEvent) -> OpenDifference:
    now = OpenDifference(
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
        return now
    return replace(
        now,
        first_seen=open_difference.first_seen,
        first_run=open_difference.first_run,
        runs=open_difference.runs + 1,
        returned=open_difference.returned,
    )


def _state(difference: Difference) -> str:
    return DifferenceState.OPEN if difference.accepted_by is None else DifferenceState.ACCEPTED


def _detail(difference: Difference) -> str:
    by = {} if difference.accepted_by is None else {"accepted_by": difference.accepted_by}
    shown = by | {"measure": difference.measure, "streaming": difference.streaming, "batch": difference.batch}
    return json.dumps(shown, sort_keys=True)


def _iso(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")
