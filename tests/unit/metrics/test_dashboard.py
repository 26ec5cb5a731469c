"""The dashboard asks for metrics that are told, and holds nothing of a particular installation."""

import json
import re
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from cutover.metrics.families import FAMILIES
from cutover.reconcile.report.forms.exposition import render

BOARD = json.loads((Path(__file__).resolve().parents[3] / "infra" / "dashboards" / "cutover.json").read_text())
QUERIES = [target["expr"] for panel in BOARD["panels"] for target in panel["targets"]]
SUFFIX = re.compile(r"_(bucket|sum|count)\Z")


def test_every_query_asks_for_metrics_that_are_told() -> None:
    asked = {SUFFIX.sub("", name) for query in QUERIES for name in re.findall(r"cutover_\w+", query)}
    compared = {family.name for family in text_string_to_metric_families(render([]))}

    assert asked - set(FAMILIES) - compared == set()


def test_every_metric_of_a_driver_is_on_the_dashboard() -> None:
    text = " ".join(QUERIES)
    left = {name for name in FAMILIES if name.startswith("cutover_stream_") and name not in text}

    assert left == {  # told by another panel
        "cutover_stream_ticks_total",
        "cutover_stream_read_records_total",
        "cutover_stream_watermark_timestamp_seconds",
    }


def test_source_and_pipelines_are_chosen_by_its_reader() -> None:
    assert {one["datasource"]["uid"] for one in BOARD["panels"]} == {"${source}"}
    assert all('{pipeline=~"$pipeline"}' in query for query in QUERIES)
