"""Temperatures of devices: `python -m cutover.samples.readings > readings.jsonl`, for `pipelines/readings.py`.

A device measures every two minutes. A few gateways are offline for hours, and what was not confirmed is sent again.
"""

import json
import math
import random
import sys
from collections.abc import Iterator
from typing import Annotated, Any

import typer

BEGINS = 1_772_323_200_000  # 2026-03-01T00:00:00Z, milliseconds
SECOND, MINUTE, HOUR = 1_000, 60_000, 3_600_000
_STEP = 2 * MINUTE  # between two readings of a device
_AGAIN, _NO_VOLTS = 0.02, 0.05  # share of readings that are sent twice, that lack a voltage
_OFFLINE = 0.01  # share of a device's hours in which its gateway is offline

Record = dict[str, Any]


def records(*, devices: int, hours: int, seed: int) -> list[Record]:
    """Return readings in the order in which they reach the log.

    Args:
        devices: How many measure.
        hours: For how long, from 2026-03-01 on.
        seed: The same seed gives the same readings.

    Returns:
        `id` (of a reading; what is sent twice has it twice), `device`, `celsius`, `volts` (may be missing), `at` and
        `logged` (milliseconds since 1970).
    """
    chance = random.Random(seed)  # noqa: S311 -- a sample, no secret
    records = [record for device in range(devices) for record in _of_device(chance, device, hours)]
    return sorted(records, key=lambda record: (record["logged"], record["id"]))


def _of_device(chance: random.Random, device: int, hours: int) -> Iterator[Record]:
    """Yield what a device measured, each reading once or twice."""
    base, per_hour = chance.uniform(-5, 25), HOUR // _STEP
    for hour in range(hours):
        back = BEGINS + (hour + chance.randint(2, 9)) * HOUR if chance.random() < _OFFLINE else 0
        for number in range(hour * per_hour, (hour + 1) * per_hour):
            at = BEGINS + number * _STEP + chance.randrange(_STEP)
            sent_at = max(at, back) + chance.randint(100, 20 * SECOND)
            reading = {
                "id": device * hours * per_hour + number,
                "device": f"device-{device:03}",
                "celsius": base + 6 * math.sin(at / HOUR * math.pi / 12) + chance.gauss(0, 0.3),
                "volts": None if chance.random() < _NO_VOLTS else chance.uniform(2.7, 3.3),
                "at": at,
            }
            yield reading | {"logged": sent_at}
            if chance.random() < _AGAIN:
                yield reading | {"logged": sent_at + chance.choice((5 * SECOND, MINUTE, 3 * HOUR))}


def main(
    devices: Annotated[int, typer.Option(min=1, help="Devices that measure.")] = 40,
    hours: Annotated[int, typer.Option(min=1, help="Hours from 2026-03-01 on.")] = 48,
    seed: Annotated[int, typer.Option(help="The same seed gives the same readings.")] = 1,
) -> None:
    """Write readings as JSON lines."""
    for record in records(devices=devices, hours=hours, seed=seed):
        sys.stdout.write(json.dumps(record) + "\n")


if __name__ == "__main__":
    typer.run(main)
