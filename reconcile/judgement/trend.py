"""How the comparisons of one definition went, from cut to cut: what a report shows beside its own verdict."""

from collections.abc import Mapping
from typing import Any

from cutover.reconcile.judgement import records
from cutover.reconcile.judgement.history import HistoryEntry
from cutover.reconcile.judgement.records import RecordedComparison
from cutover.reconcile.result.overview import RunOfTrend
from cutover.timestamps import format_micros, to_micros

RUNS_AT_MOST = 60


def trend(placed: HistoryEntry) -> tuple[RunOfTrend, ...]:
    """Return the newest whole comparisons in the order in which they speak, and the placed one among them.

    Args:
        placed: Where a comparison will stand in the history.
    """
    every = [one for one in placed.lines if one.whole]
    ordered = records.in_order([*every, placed.made], placed.version)[-RUNS_AT_MOST:]
    return tuple(map(_run, ordered))


def _run(one: RecordedComparison) -> RunOfTrend:
    def part(name: str) -> Mapping[str, Any]:
        return one.result.get(name) or {}

    return RunOfTrend(
        run_id=one.run_id,
        at=format_micros(to_micros(one.first)) or "",
        epoch=one.epoch if one.has_cut else None,
        verdict=one.verdict.value,
        within=bool(part("policy").get("within", True)),
        windows=int(part("windows").get("compared", 0)),
        different=int(part("windows").get("different", 0)),
        rows=sum(int(part("rows").get(kind, 0)) for kind in ("missing", "extra", "changed")),
        unexplained=records.count_unexplained(one),
        late_share=float(part("policy").get("late_share", 0)),
    )
