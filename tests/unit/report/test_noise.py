"""Size of the noise and first sighting of a difference, on the page and in the pull request."""

import json
from dataclasses import replace

from cutover.reconcile.report import files, page
from cutover.reconcile.result.parts import DifferenceLife, NoiseLevel, NoiseMeasure
from cutover.reconcile.result.report import Report
from cutover.reconcile.result.text import describe_life
from tests.support.history.reconciliations import flights
from tests.unit.report.test_log_lateness import HOSTILE

MEASURE = NoiseMeasure(
    column="rate", paths=("batch", "stream"), rows=12, half=0.25, p99=0.75, largest=1.5, relative=0.125
)
NOISE = NoiseLevel(at="2026-11-24T12:00:00Z", sentence="Noise in rate: two answers.", rows=4_711, measures=(MEASURE,))
LIFE = DifferenceLife(
    window_start="2013-01-01T00:00:00Z",
    key={"origin": "EWR"},
    state="accepted",
    rule="storm",
    first_seen="2026-11-20T08:30:00Z",
    first_run="20261120T083000Z-1a",
    runs=3,
    returned=1,
)


def test_the_page_shows_each_measure_that_differs_from_itself() -> None:
    rendered = page.render_page(replace(flights(), noise=NOISE))

    for text in ("Noise in rate: two answers.", "batch, stream", "0.25", "1.5", "4,711"):
        assert text in rendered
    assert "Noise in rate" in files.render_markdown(replace(flights(), noise=NOISE)).replace("&#58;", ":")


def test_a_pipeline_with_unmeasured_noise_names_the_command() -> None:
    assert "<code>cutover noise flights</code>" in page.render_page(flights())
    assert "| noise |" not in files.render_markdown(flights())


def test_a_hostile_measure_name_remains_text() -> None:
    bare = replace(MEASURE, column=HOSTILE, half=None, p99=None, largest=None, relative=None)

    rendered = page.render_page(replace(flights(), noise=replace(NOISE, measures=(bare,))))

    assert "<script>alert" not in rendered
    assert "\x1b" not in rendered


def test_history_of_a_difference_names_its_start_and_count() -> None:
    opening = "accepted by storm since 2026-11-20 08:30 UTC (run 20261120T083000Z-1a)"

    assert describe_life(LIFE) == f"{opening}, found by 3 comparisons, came back 1 time"


def test_it_round_trips_through_the_published_object() -> None:
    result = replace(flights(), noise=NOISE, lives=(LIFE,))

    assert Report.from_json(json.loads(json.dumps(result.to_json()))) == result
