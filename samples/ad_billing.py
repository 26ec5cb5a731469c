"""Ads in videos: `python -m cutover.samples.ad_billing FOLDER`, for `pipelines/ad_billing.py` and `ad_budgets.py`.

Viewers watch videos in visits. Each visit shows ads, some of which are clicked. Some viewers are offline during a
visit: their records reach the log hours later, all at once.
"""

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

BEGINS = 1_772_323_200_000  # 2026-03-01T00:00:00Z, milliseconds
SECOND, MINUTE, HOUR, DAY = 1_000, 60_000, 3_600_000, 86_400_000
ADVERTISERS = 12
ADS = 5  # per advertiser
DIMENSION = "advertiser string, budget bigint"  # schema of `advertisers.csv`
_CLICKED, _OFFLINE = 0.15, 0.05  # share of impressions that are clicked, share of visits offline
_VISITS_PER_DAY = 2.0  # average per viewer

Record = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """Records of both topics, in log order, and of the dimension."""

    impressions: tuple[Record, ...]  # id, viewer, ad, advertiser, bid (decimal), at, logged (milliseconds since 1970)
    clicks: tuple[Record, ...]  # id, viewer, ad, advertiser, price (decimal), at, logged
    advertisers: tuple[Record, ...]  # advertiser, budget (per day)


def sample(*, viewers: int, days: int, seed: int) -> Sample:
    """Generate the visits of `viewers` in `days`; the same seed gives the same sample."""
    rng = random.Random(seed)  # noqa: S311 -- a sample, no secret
    impressions: list[Record] = []
    clicks: list[Record] = []
    for viewer in range(viewers):
        for begin in _generate_visits(rng, days):
            for impression, click in _generate_impressions(rng, f"viewer-{viewer:05}", begin):
                impressions.append(impression)
                clicks += [click] if click else []
    budgets = [rng.randint(4, 12) for _ in range(ADVERTISERS)]
    return Sample(
        impressions=_number(impressions),
        clicks=_number(clicks),
        advertisers=tuple({"advertiser": _format_advertiser(i), "budget": budget} for i, budget in enumerate(budgets)),
    )


def _generate_visits(rng: random.Random, days: int) -> Iterator[int]:
    """Yield the start times of a viewer's visits."""
    at = float(BEGINS)
    while (at := at + rng.expovariate(_VISITS_PER_DAY / DAY)) < BEGINS + days * DAY:
        yield int(at)


def _generate_impressions(rng: random.Random, viewer: str, begin: int) -> Iterator[tuple[Record, Record | None]]:
    """Yield the impressions of a visit, each with its click or None."""
    length = rng.randint(2, 20)
    times = [begin + n * 4 * MINUTE + rng.randint(0, 2 * MINUTE) for n in range(length)]
    is_offline = rng.random() < _OFFLINE
    online_at = times[-1] + rng.randint(2 * HOUR, 9 * HOUR) if is_offline else None
    for at, ad in zip(times, rng.sample(range(ADVERTISERS * ADS), length), strict=True):  # each ad once per visit
        advertiser = _format_advertiser(ad // ADS)
        shared_fields = {"viewer": viewer, "ad": f"{advertiser}/ad-{ad % ADS}", "advertiser": advertiser}
        bid = rng.randint(10, 90) / 1_000
        click = shared_fields | {"price": bid} | _draw_times(rng, at + rng.randint(1, 60) * SECOND, online_at)
        impression = shared_fields | {"bid": bid} | _draw_times(rng, at, online_at)
        yield impression, click if rng.random() < _CLICKED else None


def _draw_times(rng: random.Random, at: int, online_at: int | None) -> Record:
    """Return event time and log time: the log time is soon after the event, or after the viewer is online again."""
    return {"at": at, "logged": max(at, online_at or 0) + rng.randint(100, 5 * SECOND)}


def _format_advertiser(number: int) -> str:
    return f"advertiser-{number:02}"


def _number(records: list[Record]) -> tuple[Record, ...]:
    ordered = sorted(records, key=lambda record: (record["logged"], record["viewer"], record["at"]))
    return tuple({"id": number} | record for number, record in enumerate(ordered))


def write(folder: Path, sample: Sample) -> None:
    """Write `impressions.jsonl`, `clicks.jsonl` and `advertisers.csv` into a folder, which is created if needed."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, records in (("impressions", sample.impressions), ("clicks", sample.clicks)):
        lines = "".join(json.dumps(record) + "\n" for record in records)
        (folder / f"{name}.jsonl").write_text(lines, encoding="utf-8")
    rows = "".join(f"{row['advertiser']},{row['budget']}\n" for row in sample.advertisers)
    (folder / "advertisers.csv").write_text("advertiser,budget\n" + rows, encoding="utf-8")


def main(
    folder: Annotated[Path, typer.Argument(help="Folder of the files.")],
    viewers: Annotated[int, typer.Option(min=1, help="Number of viewers.")] = 500,
    days: Annotated[int, typer.Option(min=1, help="Number of days, from 2026-03-01 on.")] = 7,
    seed: Annotated[int, typer.Option(help="The same seed gives the same sample.")] = 1,
) -> None:
    """Write the files of the sample."""
    generated = sample(viewers=viewers, days=days, seed=seed)
    write(folder, generated)
    typer.echo(f"{len(generated.impressions):,} impressions, {len(generated.clicks):,} clicks in {folder}")


if __name__ == "__main__":
    typer.run(main)
