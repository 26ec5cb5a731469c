"""Definitions that `init` writes, on the whole way: the file is sent, both paths read it, and they agree."""

from dataclasses import replace
from pathlib import Path

import pytest

from cutover.batch import recompute
from cutover.cli.init import init
from cutover.definition.loading import catalogue
from cutover.lake.serving.views import open_views
from cutover.pipeline_lake import PipelineLake
from cutover.reconcile.result.finding import Verdict
from cutover.reconcile.run import run_reconciliation
from cutover.records.sending.produce import Request
from cutover.settings import Settings
from cutover.streaming import driver
from tests.support.log.real_files import KINDS
from tests.support.log.sent_files import send


@pytest.mark.parametrize(
    ("name", "total"),
    [
        ("semicolons, decimal commas and a byte order mark", 0.50 + 1.51 + 2.52 + 3.53 + 4.54 + 5.55),
        ("the newest record first", 0 + 1 + 2 + 3 + 4 + 5),
        ("GeoJSON", 0 + 1 + 2 + 3 + 4 + 5),
        ("numbers in quotes", 0 + 2 + 4 + 6 + 8 + 10),
        ("dates with AM and PM, ambiguous", 1 + 2),
        ("names of JSON with blanks, and ours", 0 + 1 + 2 + 3 + 4 + 5),
        ("change events", 0.50 + 1.50 + 2.50 + 3.50 + 4.50),
    ],
)
def test_draft_of_a_real_file_runs_on_both_paths(
    quick: Settings, topic_name: str, tmp_path: Path, name: str, total: float
) -> None:
    kind = KINDS[name]
    source = tmp_path / kind.name
    source.write_bytes(kind.text.encode() if isinstance(kind.text, str) else kind.text)
    settings = quick.model_copy(update={"pipelines": tmp_path / "pipelines"})
    (draft,) = catalogue.load_file(init(settings, "mine", str(source)).file)
    lake = PipelineLake(settings, replace(draft, source=replace(draft.source, name=topic_name)))

    assert send(lake, Request(file=source)) == kind.records
    driver.run_driver(lake, until="final")
    recompute.recompute_windows(lake)
    report = run_reconciliation(lake)

    assert report.finding.verdict is Verdict.CONSISTENT
    with open_views(lake) as connection:
        ((events, sum_of_totals),) = connection.execute("SELECT sum(events), sum(total) FROM serving").fetchall()
    deletions = name == "change events"
    assert (int(events), round(float(sum_of_totals), 9)) == (kind.records - kind.malformed - deletions, round(total, 9))
