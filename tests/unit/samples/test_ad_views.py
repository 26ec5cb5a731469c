"""Yahoo Streaming Benchmark: deterministic events for a seed, with counts verified in plain Python."""

import json
from collections import Counter
from pathlib import Path

from cutover.definition.loading import catalogue
from cutover.log.kafka import RawRecord
from cutover.records import reference
from cutover.records.classes import Class
from cutover.samples import ad_views

DEFINITION = Path(__file__).parents[3] / "pipelines" / "ad_views.py"
COUNT, SEED = 2_000, 11


def test_the_seed_determines_the_files(tmp_path: Path) -> None:
    for folder, seed in (("a", "3"), ("b", "3"), ("c", "4")):
        ad_views.main(["--events", "50", "--seed", seed, "--into", str(tmp_path / folder)])
    a, b, c = (
        (tmp_path / f / "ad_events.jsonl.gz").read_bytes() + (tmp_path / f / "ads.csv").read_bytes() for f in "abc"
    )

    assert a == b != c


def test_views_are_counted_by_the_campaign_of_their_ad_in_ten_seconds() -> None:
    (pipeline,) = catalogue.load_file(DEFINITION)
    ads = dict(line.split(",") for line in ad_views.ads_csv(SEED).splitlines()[1:])
    log = [
        RawRecord(partition=0, offset=offset, log_time_micros=millis * 1_000, value=value)
        for offset, (millis, value) in enumerate(ad_views.stream_of(COUNT, seed=SEED))
    ]
    expected: Counter[tuple[int, str]] = Counter()
    for event in (json.loads(record.value or b"") for record in log):
        if event["event_type"] == "view":
            expected[event["event_time"] // 10_000 * 10_000_000, ads[event["ad_id"]]] += 1
    dimension = {(ad,): {"campaign_id": campaign} for ad, campaign in ads.items()}

    result = reference.compute_reference(pipeline, log, dimensions=lambda _: {"ads": dimension})

    assert {(start, key): row.n for (start, _, (key,)), row in result.rows.items()} == dict(expected)
    assert result.counts[Class.FILTERED] == COUNT - expected.total()
    assert (len(ads), len(set(ads.values())), Counter(ads.values()).most_common(1)[0][1]) == (1_000, 100, 10)
