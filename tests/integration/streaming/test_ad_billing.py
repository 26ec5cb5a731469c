"""The sample of ads in videos, small: both pipelines against the bill and the budgets in plain Python."""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from itertools import groupby
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from confluent_kafka import Producer

from cutover.batch import recompute
from cutover.definition import Join, Pipeline
from cutover.definition.loading.catalogue import get
from cutover.lake.dimensions import load
from cutover.lake.serving import views
from cutover.pipeline_lake import PipelineLake
from cutover.reconcile.result.finding import Verdict
from cutover.reconcile.result.report import Report
from cutover.reconcile.run import run_reconciliation
from cutover.reconcile.verify.facts.facts import CheckState
from cutover.reconcile.verify.record import verify_pipeline
from cutover.samples import ad_billing
from cutover.samples.ad_billing import Record, Sample
from cutover.settings import KafkaSettings, Settings
from cutover.streaming import driver
from tests.integration.streaming import rig

GAP = 30 * ad_billing.MINUTE
MADE = ad_billing.sample(viewers=60, days=1, seed=5)
Bill = dict[tuple[str, str, int], tuple[int, Decimal | None]]


def sessions(rows: Iterable[Record]) -> Iterator[list[Record]]:
    """Yield the rows of one viewer and ad by session."""
    records: list[Record] = []
    for row in sorted(rows, key=lambda row: row["at"]):
        if records and row["at"] > records[-1]["at"] + GAP:
            yield records
            records = []
        records.append(row)
    yield records


def bill(sample: Sample) -> Bill:
    """Return clicks in a session in which the ad was shown, and their price, by viewer, ad and start."""
    rows = sorted([*sample.impressions, *sample.clicks], key=lambda row: (row["viewer"], row["ad"]))
    billed: Bill = {}
    for (viewer, ad), viewer_rows in groupby(rows, key=lambda row: (row["viewer"], row["ad"])):
        for session in sessions(viewer_rows):
            bid_count = sum("bid" in row for row in session)
            prices = [Decimal(str(row["price"])) for row in session if "price" in row]
            pairs = bid_count * len(prices)
            billed[viewer, ad, session[0]["at"]] = (pairs, bid_count * sum(prices, Decimal()) if pairs else None)
    return billed


def spend_by_day(sample: Sample) -> dict[tuple[str, datetime], tuple[int, Decimal, int]]:
    """Return clicks, their price and the budget by advertiser and day in New York."""
    budgets = {row["advertiser"]: row["budget"] for row in sample.advertisers}
    prices: dict[tuple[str, datetime], list[Decimal]] = defaultdict(list)
    for click in sample.clicks:
        day = datetime.fromtimestamp(click["at"] / 1_000, tz=ZoneInfo("America/New_York"))
        begin = day.replace(hour=0, minute=0, second=0, microsecond=0).astimezone(UTC)
        prices[click["advertiser"], begin].append(Decimal(str(click["price"])))
    return {cell: (len(price), sum(price, Decimal()), budgets[cell[0]]) for cell, price in prices.items()}


@pytest.fixture(scope="module")
def paths_run(
    kafka_bootstrap: str,
    spark: object,  # noqa: ARG001 -- drivers share it
    tmp_path_factory: pytest.TempPathFactory,
) -> Mapping[str, tuple[Settings, Pipeline, Report]]:
    """Return each pipeline after its stream, batch and comparison, over topics of this test's own."""
    home = tmp_path_factory.mktemp("ads")
    settings = rig.fast(Settings(home=home, kafka=KafkaSettings(bootstrap_servers=kafka_bootstrap)))
    ad_billing.write(home / "files", MADE)
    budgets = home / "files" / "advertisers.csv"
    load.load_dimension(settings, "advertisers", budgets, key=["advertiser"], schema=ad_billing.DIMENSION)
    for topic, rows in (("ad_impressions", MADE.impressions), ("ad_clicks", MADE.clicks)):
        fill(settings, f"{home.name}-{topic}", rows)
    return {
        name: run_both_paths(PipelineLake(settings, over_prefixed_topics(get(settings, name), home.name)))
        for name in ("ad_billing", "ad_budgets")
    }


def fill(settings: Settings, topic: str, rows: Iterable[Record]) -> None:
    rig.make_topic(settings, topic, partitions=2)
    producer = Producer({"bootstrap.servers": str(settings.kafka.bootstrap_servers), "enable.idempotence": True})
    for row in rows:
        producer.produce(topic, json.dumps(row).encode(), partition=row["id"] % 2, timestamp=row["logged"])
    assert producer.flush(30) == 0


def over_prefixed_topics(pipeline: Pipeline, prefix: str) -> Pipeline:
    """Return a definition over topics of other names, in epochs so small that rows are late."""
    source = replace(pipeline.source, name=f"{prefix}-{pipeline.source.name}")
    join = pipeline.join
    if isinstance(join, Join):
        join = replace(join, right=replace(join.right, name=f"{prefix}-{join.right.name}"))
    return replace(pipeline, source=source, join=join, max_rows_per_epoch=200)


def run_both_paths(lake: PipelineLake) -> tuple[Settings, Pipeline, Report]:
    driver.run_driver(lake, until="final")
    recompute.recompute_windows(lake)
    return lake.settings, lake.pipeline, run_reconciliation(lake)


def fetch(lake: PipelineLake, query: str) -> list[tuple[Any, ...]]:
    with views.open_views(lake) as connection:
        return list(connection.execute(query).fetchall())


def test_batch_has_the_bill_and_late_visits_explain_what_the_stream_lacks(
    paths_run: Mapping[str, tuple[Settings, Pipeline, Report]],
) -> None:
    settings, pipeline, report = paths_run["ad_billing"]
    query = "SELECT viewer, ad, epoch_ms(window_start), clicks, billed FROM batch"

    lake = PipelineLake(settings, pipeline)
    billed = {tuple(row[:3]): (row[3], row[4]) for row in fetch(lake, query)}

    assert billed == bill(MADE)
    assert report.finding.verdict is Verdict.EXPLAINED
    assert report.finding.causes["late"].rows > 0
    checks = verify_pipeline(lake).checks
    assert [name for name, check in checks.items() if check.state is CheckState.VIOLATED] == []


def test_budgets_are_looked_up_and_spent_by_days_of_new_york(
    paths_run: Mapping[str, tuple[Settings, Pipeline, Report]],
) -> None:
    settings, pipeline, report = paths_run["ad_budgets"]
    query = "SELECT advertiser, window_start, clicks, spent, budget FROM batch"

    days = {(row[0], row[1].astimezone(UTC)): tuple(row[2:]) for row in fetch(PipelineLake(settings, pipeline), query)}

    assert days == spend_by_day(MADE)
    assert report.finding.verdict in {Verdict.CONSISTENT, Verdict.EXPLAINED}


def test_files_hold_the_sample(tmp_path: Path) -> None:
    ad_billing.write(tmp_path / "new", MADE)

    lines = (tmp_path / "new" / "clicks.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line) for line in lines] == list(MADE.clicks)
    assert ad_billing.sample(viewers=60, days=1, seed=5) == MADE
