"""Ads in videos: `python -m cutover.samples.ad_billing FOLDER`, for `pipelines/ad_billing.py` and `ad_budgets.py`.

Viewers watch videos in visits. Each visit shows ads, some are clicked. A part of the viewers is offline meanwhile: what
their devices noted reaches the log hours later, all at once.
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
ADS = 5  # of each advertiser
DIMENSION = "advertiser string, budget bigint"  # schema of `advertisers.csv`
_CLICKED, _OFFLINE = 0.15, 0.05  # share of impressions, of visits
_VISITS_A_DAY = 2.0  # of a viewer, on average

Record = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """What a run makes: both topics, each in the order in which it reaches the log, and the dimension."""

    impressions: tuple[Record, ...]  # id, viewer, ad, advertiser, bid (decimal), at, logged (milliseconds since 1970)
    clicks: tuple[Record, ...]  # id, viewer, ad, advertiser, price (decimal), at, logged
    advertisers: tuple[Record, ...]  # advertiser, budget (of a day)


def sample(*, viewers: int, days: int, seed: int) -> Sample:
    """Return what `viewers` do in `days`; the same seed gives the same sample."""
    chance = random.Random(seed)  # noqa: S311 -- a sample, no secret
    impressions: list[Record] = []
    clicks: list[Record] = []
    for viewer in range(viewers):
        for begin in _visits(chance, days):
            for shown, clicked in _visit(chance, f"viewer-{viewer:05}", begin):
                impressions.append(shown)
                clicks += [clicked] if clicked else []
    budgets = [chance.randint(4, 12) for _ in range(ADVERTISERS)]
    return Sample(
        impressions=_number(impressions),
        clicks=_number(clicks),
        advertisers=tuple({"advertiser": _advertiser(i), "budget": budget} for i, budget in enumerate(budgets)),
    )


def _visits(chance: random.Random, days: int) -> Iterator[int]:
    at = float(BEGINS)
    while (at := at + chance.expovariate(_VISITS_A_DAY / DAY)) < BEGINS + days * DAY:
        yield int(at)


def _visit(chance: random.Random, viewer: str, begin: int) -> Iterator[tuple[Record, Record | None]]:
    """Yield the impressions of a visit, each with its click."""
    length = chance.randint(2, 20)
    moments = [begin + n * 4 * MINUTE + chance.randint(0, 2 * MINUTE) for n in range(length)]
    offline = chance.random() < _OFFLINE
    back = moments[-1] + chance.randint(2 * HOUR, 9 * HOUR) if offline else None
    for at, ad in zip(moments, chance.sample(range(ADVERTISERS * ADS), length), strict=True):  # each once a visit
        owner = _advertiser(ad // ADS)
        shared_fields = {"viewer": viewer, "ad": f"{owner}/ad-{ad % ADS}", "advertiser": owner}
        bid = chance.randint(10, 90) / 1_000
        clicked = shared_fields | {"price": bid} | _times(chance, at + chance.randint(1, 60) * SECOND, back)
        yield shared_fields | {"bid": bid} | _times(chance, at, back), clicked if chance.random() < _CLICKED else None


def _times(chance: random.Random, at: int, back: int | None) -> Record:
    """Return when something was, and when it was in the log: soon, or once the viewer is back."""
    return {"at": at, "logged": max(at, back or 0) + chance.randint(100, 5 * SECOND)}


def _advertiser(number: int) -> str:
    return f"advertiser-{number:02}"


def _number(records: list[Record]) -> tuple[Record, ...]:
    ordered = sorted(records, key=lambda record: (record["logged"], record["viewer"], record["at"]))
    return tuple({"id": number} | record for number, record in enumerate(ordered))


def write(folder: Path, sample: Sample) -> None:
    """Write `impressions.jsonl`, `clicks.jsonl` and `advertisers.csv` into a folder that may be new."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, records in (("impressions", sample.impressions), ("clicks", sample.clicks)):
        lines = "".join(json.dumps(record) + "\n" for record in records)
        (folder / f"{name}.jsonl").write_text(lines, encoding="utf-8")
    rows = "".join(f"{row['advertiser']},{row['budget']}\n" for row in sample.advertisers)
    (folder / "advertisers.csv").write_text("advertiser,budget\n" + rows, encoding="utf-8")


def main(
    folder: Annotated[Path, typer.Argument(help="Where the files go.")],
    viewers: Annotated[int, typer.Option(min=1, help="Viewers.")] = 500,
    days: Annotated[int, typer.Option(min=1, help="Days from 2026-03-01 on.")] = 7,
    seed: Annotated[int, typer.Option(help="The same seed gives the same sample.")] = 1,
) -> None:
    """Write the sample's files."""
    generated = sample(viewers=viewers, days=days, seed=seed)
    write(folder, generated)
    typer.echo(f"{len(generated.impressions):,} impressions, {len(generated.clicks):,} clicks in {folder}")


if __name__ == "__main__":
    typer.run(main)
