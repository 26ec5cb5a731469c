"""Parts of a scenario file that is good, for tests that change one of them."""

from collections.abc import Mapping
from typing import Any

from cutover.scenarios.reading.parse import parse_scenario

SECOND = 1_000_000
NOON = 12 * 3600 * SECOND
POINT: Mapping[str, Any] = {"event_time": "12:00:26", "processing_time": "12:05:19", "value": 5}
STEP: Mapping[str, Any] = {"processing_time": "12:06:00", "watermark": "12:02:00"}
AT_WATERMARK: Mapping[str, Any] = {"type": "at_watermark"}
EPOCHS: Mapping[str, Any] = {"type": "repeat", "of": {"type": "each_epoch"}}
GOOD: Mapping[str, Any] = {
    "window": {"type": "fixed", "size": "2 minutes"},
    "trigger": {"type": "repeat", "of": AT_WATERMARK},
    "accumulation": "accumulating",
    "points": [POINT],
    "watermark": {"type": "steps", "steps": [STEP]},
}
EVERY: Mapping[str, Any] = {"type": "every", "period": "1 minute"}
COUNT: Mapping[str, Any] = {"type": "after_count", "rows": 2}
PANE: Mapping[str, Any] = {"window_start": "12:00", "window_end": "12:02", "value": 5}


def parse_with_changes(**changes: Any) -> Any:
    """Parse the valid scenario with some fields changed; `...` removes one."""
    return parse_scenario(
        {name: value for name, value in {**GOOD, **changes}.items() if value is not ...}, default_title="x"
    )


def without_gaps(value: Any) -> Any:
    """Return a list of objects without the fields that are `...`."""
    if not isinstance(value, list):
        return value
    return [{k: v for k, v in item.items() if v is not ...} if isinstance(item, dict) else item for item in value]
