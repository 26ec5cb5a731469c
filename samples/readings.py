"""Temperatures of devices: `python -m cutover.samples.readings > readings.jsonl`, for `pipelines/readings.py`.

A device measures every two minutes. Some gateways are offline for hours, and unacknowledged readings are sent again.
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
_RESENT, _NO_VOLTS = 0.02, 0.05  # share of readings that are sent twice, share without a voltage
_OFFLINE = 0.01  # share of hours in which a gateway is offline

Record = dict[str, Any]


def make_readings(*, devices: int, hours: int, seed: int) -> list[Record]:
    """Generate readings in log order.

    Args:
        devices: Number of devices.
        hours: Number of hours, from 2026-03-01 on.
        seed: The same seed gives the same readings.

    Returns:
        `id` (of a reading, so that a resent one occurs twice), `device`, `celsius`, `volts` (may be missing), `at` and
        `logged` (milliseconds since 1970).
    """
    rng = random.Random(seed)  # noqa: S311 -- a sample, no secret
    readings = [reading for device in range(devices) for reading in _generate_readings(rng, device, hours)]
    return sorted(readings, key=lambda reading: (reading["logged"], reading["id"]))


def _generate_readings(rng: random.Random, device: int, hours: int) -> Iterator[Record]:
    """Yield the readings of a device, each once or twice."""
    base, per_hour = rng.uniform(-5, 25), HOUR // _STEP
    for hour in range(hours):
        online_at = BEGINS + (hour + rng.randint(2, 9)) * HOUR if rng.random() < _OFFLINE else 0
        for number in range(hour * per_hour, (hour + 1) * per_hour):
            at = BEGINS + number * _STEP + rng.randrange(_STEP)
            sent_at = max(at, online_at) + rng.randint(100, 20 * SECOND)
            reading = {
                "id": device * hours * per_hour + number,
                "device": f"device-{device:03}",
                "celsius": base + 6 * math.sin(at / HOUR * math.pi / 12) + rng.gauss(0, 0.3),
                "volts": None if rng.random() < _NO_VOLTS else rng.uniform(2.7, 3.3),
                "at": at,
            }
            yield reading | {"logged": sent_at}
            if rng.random() < _RESENT:
                yield reading | {"logged": sent_at + rng.choice((5 * SECOND, MINUTE, 3 * HOUR))}


def main(
    devices: Annotated[int, typer.Option(min=1, help="Number of devices.")] = 40,
    hours: Annotated[int, typer.Option(min=1, help="Number of hours, from 2026-03-01 on.")] = 48,
    seed: Annotated[int, typer.Option(help="The same seed gives the same readings.")] = 1,
) -> None:
    """Write readings as JSON lines."""
    for record in make_readings(devices=devices, hours=hours, seed=seed):
        sys.stdout.write(json.dumps(record) + "\n")


if __name__ == "__main__":
    typer.run(main)
