"""Events and ads of the Yahoo Streaming Benchmark, by seed: `python -m cutover.samples.ad_views`.

There are 100 campaigns with 10 ads each. Each event has one of 100 users, 100 pages, 1,000 ads, five ad types and three
event types; a third of the events are views. Events are ordered by time, except for one in twenty, which is up to ten
seconds older than its neighbours.

Source:
    Chintapalli et al., Benchmarking Streaming Computation Engines, IPDPS Workshops 2016.
"""

import argparse
import gzip
import random
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

CAMPAIGNS, ADS_PER_CAMPAIGN, USERS, PAGES = 100, 10, 100, 100
AD_TYPES = ("banner", "modal", "sponsored-search", "mail", "mobile")
EVENT_TYPES = ("view", "click", "purchase")
START_MILLIS = 1_767_225_600_000  # 2026-01-01T00:00:00Z
EVENTS_PER_SECOND = 10_000  # of event time
MAX_DELAY_MILLIS, DELAYED_EVERY = 10_000, 20  # one event in twenty is up to ten seconds older

_EVENT = (
    b'{"user_id":"%s","page_id":"%s","ad_id":"%s","ad_type":"%s","event_type":"%s",'
    b'"event_time":%d,"ip_address":"1.2.3.4"}'
)


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """Ids of ads, campaigns, users and pages: UUIDs that depend on the seed."""

    ads: tuple[str, ...]
    campaigns: tuple[str, ...]
    users: tuple[str, ...]
    pages: tuple[str, ...]

    def campaign_of(self, ad: int) -> str:
        """Return the campaign of an ad by its number: each campaign has `ADS_PER_CAMPAIGN` consecutive ads."""
        return self.campaigns[ad // ADS_PER_CAMPAIGN]


def world(seed: int) -> World:
    """Generate the ids."""
    generator = random.Random(seed)  # noqa: S311 -- test data, the same every time

    def ids(count: int) -> tuple[str, ...]:
        return tuple(str(UUID(int=generator.getrandbits(128), version=4)) for _ in range(count))

    return World(ads=ids(CAMPAIGNS * ADS_PER_CAMPAIGN), campaigns=ids(CAMPAIGNS), users=ids(USERS), pages=ids(PAGES))


class AdEvents:
    """Generator of single events; the n-th event of a seed is the same for every time."""

    def __init__(self, seed: int) -> None:
        drawn_world = world(seed)
        self._users, self._pages, self._ads = (
            [i.encode() for i in ids] for ids in (drawn_world.users, drawn_world.pages, drawn_world.ads)
        )
        self._rng = random.Random(seed + 1)  # noqa: S311 -- test data, the same every time
        self._types = [(ad.encode(), kind.encode()) for ad in AD_TYPES for kind in EVENT_TYPES]

    def one(self, at_millis: int) -> bytes:
        """Generate the next event as JSON."""
        number = self._rng.getrandbits(60)
        number, user = divmod(number, USERS)
        number, page = divmod(number, PAGES)
        number, ad = divmod(number, CAMPAIGNS * ADS_PER_CAMPAIGN)
        number, kind = divmod(number, len(self._types))
        delay, remainder = divmod(number, DELAYED_EVERY)
        at = at_millis - (delay % MAX_DELAY_MILLIS if remainder == 0 else 0)
        ad_type, event_type = self._types[kind]
        return _EVENT % (self._users[user], self._pages[page], self._ads[ad], ad_type, event_type, at)


def stream_of(count: int, *, seed: int) -> Iterator[tuple[int, bytes]]:
    """Yield log time (milliseconds) and value of `count` events."""
    events = AdEvents(seed)
    for number in range(count):
        millis = START_MILLIS + number * 1_000 // EVENTS_PER_SECOND
        yield millis, events.one(millis)


def ads_csv(seed: int) -> str:
    """Format the dimension as CSV: `ad_id`, `campaign_id`."""
    drawn_world = world(seed)
    lines = (f"{ad},{drawn_world.campaign_of(number)}" for number, ad in enumerate(drawn_world.ads))
    return "\n".join(["ad_id,campaign_id", *lines]) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Write `ads.csv` and `ad_events.jsonl.gz` into a folder."""
    parser = argparse.ArgumentParser(prog="python -m cutover.samples.ad_views", description=__doc__)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--into", type=Path, default=Path())
    args = parser.parse_args(arguments)
    args.into.mkdir(parents=True, exist_ok=True)
    (args.into / "ads.csv").write_text(ads_csv(args.seed), encoding="utf-8")
    # Without a file name and a time in the gzip header, so that the same seed gives the same file.
    with (args.into / "ad_events.jsonl.gz").open("wb") as raw, gzip.GzipFile("", "wb", 6, raw, mtime=0) as archive:
        for _, value in stream_of(args.events, seed=args.seed):
            archive.write(value + b"\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
