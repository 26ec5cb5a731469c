"""Pace of a followed job: how long it may make no batch before it counts as stopped, by the batches that it has made.

A checkpoint does not say whether its query runs all the time or is started every night, so the pace is learned: twice
the longest time between two batches of the last four weeks. A job that has been seen for less than a week may be one
that rests over a weekend.
"""

from dataclasses import dataclass, field

from cutover.durations import MICROSECONDS

DAY, WEEK = MICROSECONDS["day"], 7 * MICROSECONDS["day"]
DAYS_KEPT = 28
FIRST_GAP = 2 * DAY
"""Shortest time between two batches that is assumed of a job in its first week."""

FACTOR = 2


@dataclass(slots=True)
class JobPace:
    """Times between the batches of a job, of which only the longest one of each day is kept."""

    _first: int | None = None  # when its first batch was planned, microseconds
    _latest: int = 0
    _longest_by_day: dict[int, int] = field(default_factory=dict)

    def note(self, planned_at: int) -> None:
        """Note when the next batch was planned, in microseconds; a clock that was set back adds nothing."""
        if self._first is None:
            self._first = self._latest = planned_at
        gap, self._latest = planned_at - self._latest, max(planned_at, self._latest)
        day = self._latest // DAY
        if day not in self._longest_by_day:
            for old in [other for other in self._longest_by_day if other <= day - DAYS_KEPT]:
                del self._longest_by_day[old]
        self._longest_by_day[day] = max(gap, self._longest_by_day.get(day, 0))

    def estimate_silence(self) -> float | None:
        """Return for how many seconds the job may make no batch; None before its first one."""
        if self._first is None:
            return None
        longest = max(self._longest_by_day.values())
        longest = longest if self._latest - self._first >= WEEK else max(longest, FIRST_GAP)
        return FACTOR * longest / 1e6
