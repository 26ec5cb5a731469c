"""How large the noise is, and since when a difference is known: on the page and in the pull request."""

import json
from dataclasses import replace

from cutover.reconcile.report import page
from cutover.reconcile.report.forms import markdown
from cutover.reconcile.result.overview import DifferenceLife, NoiseLevel, NoiseMeasure
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
    shown = page.render(replace(flights(), noise=NOISE))

    for text in ("Noise in rate: two answers.", "batch, stream", "0.25", "1.5", "4,711"):
        assert text in shown
    assert "Noise in rate" in markdown.render(replace(flights(), noise=NOISE)).replace("&#58;", ":")


def test_a_pipeline_whose_noise_nobody_measured_names_the_command() -> None:
    assert "<code>cutover noise flights</code>" in page.render(flights())
    assert "| noise |" not in markdown.render(flights())


def test_a_measure_of_a_hostile_name_without_numbers_stays_text() -> None:
    bare = replace(MEASURE, column=HOSTILE, half=None, p99=None, largest=None, relative=None)

    shown = page.render(replace(flights(), noise=replace(NOISE, measures=(bare,))))

    assert "<script>alert" not in shown
    assert "\x1b" not in shown


def test_a_life_says_since_when_and_how_often() -> None:
    since = "accepted by storm since 2026-11-20 08:30 UTC (run 20261120T083000Z-1a)"

    assert describe_life(LIFE) == f"{since}, found by 3 comparisons, came back 1 time"


def test_it_reads_back_from_the_published_object() -> None:
    result = replace(flights(), noise=NOISE, lives=(LIFE,))

    assert Report.from_json(json.loads(json.dumps(result.to_json()))) == result
