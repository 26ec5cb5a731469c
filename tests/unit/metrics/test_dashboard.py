"""Dashboard: its queries use published metrics, and nothing is specific to an installation."""

import json
import re
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from cutover.metrics import FAMILIES
from cutover.reconcile.report.files import render_prometheus

BOARD = json.loads((Path(__file__).resolve().parents[3] / "infra" / "dashboards" / "cutover.json").read_text())
QUERIES = [target["expr"] for panel in BOARD["panels"] for target in panel["targets"]]
SUFFIX = re.compile(r"_(bucket|sum|count)\Z")


def test_every_query_uses_published_metrics() -> None:
    queried = {SUFFIX.sub("", name) for query in QUERIES for name in re.findall(r"cutover_\w+", query)}
    compared = {family.name for family in text_string_to_metric_families(render_prometheus([]))}

    assert queried - set(FAMILIES) - compared == set()


def test_every_metric_of_a_driver_is_on_the_dashboard() -> None:
    text = " ".join(QUERIES)
    missing = {name for name in FAMILIES if name.startswith("cutover_stream_") and name not in text}

    assert missing == {  # covered by another panel
        "cutover_stream_ticks_total",
        "cutover_stream_read_records_total",
        "cutover_stream_watermark_timestamp_seconds",
    }


def test_data_source_and_pipelines_are_variables() -> None:
    assert {panel["datasource"]["uid"] for panel in BOARD["panels"]} == {"${source}"}
    assert all('{pipeline=~"$pipeline"}' in query for query in QUERIES)
