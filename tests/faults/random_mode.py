"""Three to six harms at once on one installation, for a given time: `python -m tests.faults.random_mode`.

Prints its seed and every harm as it begins. At the end everything is healed, the stream reads the rest, the batch
computes that cut, both are compared, and N1 to N6 run with the oracle. Exit code 1: something did not hold.
"""

import argparse
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import psutil

from cutover import events
from cutover.settings import Settings
from tests.faults.fault import Fault, Part
from tests.faults.harms import HARMS, Harm
from tests.faults.result import Result, append
from tests.faults.running.prove import prove
from tests.faults.running.rig import Rig, new_rig
from tests.faults.stage import Stage
from tests.integration.streaming import rig as small
from tests.support.servers.broker import Broker
from tests.support.suite.quick_spark import QUICK

FEWEST, MOST = 3, 6
SPREAD_SECONDS = 15.0  # within which the harms of one round begin
ALERTS = frozenset({"StreamNotRunning", "StreamFenced", "KafkaUnreachable", "PartitionsChanged", "LateRateHigh"})
MORE_ALERTS = frozenset({"MalformedRateHigh", "OpenTransactionHoldsLog", "WatermarkHeld", "SchemaChanged"})
EARLY = frozenset({"NotComparable"})  # a comparison that ends before the first batch run that was not killed


def main() -> int:
    """Play for as long as asked and say how it ended."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=1800.0)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000)
    parser.add_argument("--results", type=Path, default=Path("docs/faults-random.jsonl"))
    args = parser.parse_args()
    _print_line(f"seed {args.seed}, {args.seconds:g} s")
    events.configure(pretty=False)
    fault = Fault(
        id="random",
        family="random",
        title=f"{FEWEST} to {MOST} harms at once",
        needs=frozenset({Part.BROKER, Part.SPARK, Part.LAKE}),
        inject=lambda rig: _play(rig, args.seconds),
        happened=lambda rig: bool(rig.evidence["harms"]),
        may=ALERTS | MORE_ALERTS | EARLY,
    )
    with tempfile.TemporaryDirectory() as place:
        result = replace(_proven(fault, Path(place), args.seed), fault=f"random-{args.seed}")
        if result.outcome != "proven":  # the subject of the run: the lake, and the producer's answers
            copy = Path("build") / f"faults-random-{args.seed}"
            shutil.copytree(Path(place) / "home", copy, dirs_exist_ok=True)
            _print_line(f"kept {copy}")
    append(args.results, result)
    _print_line(f"{result.outcome} {result.why}\nseed {args.seed}, {result.evidence}")
    return 0 if result.outcome == "proven" else 1


def _proven(fault: Fault, place: Path, seed: int) -> Result:
    broker = Broker(place / "broker")
    rig = None
    try:
        broker.start()
        settings = Settings(home=place / "home", spark=QUICK)
        rig = new_rig(settings, fault, seed=seed, bootstrap=broker.bootstrap, broker=broker)
        small.make_topic(rig.settings, rig.topic, partitions=2)
        return prove(fault, rig, seed)
    finally:
        if rig is not None:
            rig.close()
        broker.stop()


def _play(rig: Rig, seconds: float) -> None:
    rig.define(cap=200)
    rig.tune(fold_every=20, trigger_seconds=0.2)
    stage, harm_counts = Stage(rig), Counter[str]()
    deadline = time.monotonic() + seconds
    stage.start()
    try:
        rig.until(lambda: rig.newest() >= 0)
        while time.monotonic() < deadline and stage.failure is None:
            _round(stage, rig.rng, harm_counts)
    finally:
        stage.stop()
    if stage.failure is not None:
        raise stage.failure
    rig.note("harms", [f"{name}: {times}" for name, times in sorted(harm_counts.items())])
    rig.note("driver started", stage.starts)
    rig.note("driver ended with", [f"{code}: {times}" for code, times in sorted(Counter(stage.ends).items())])
    rig.note("epochs", len(rig.records()))


def _round(stage: Stage, rng: random.Random, harm_counts: Counter[str]) -> None:
    """Begin some harms at times of the seed, end each after its time, and return when all have ended."""
    harms = rng.sample(HARMS, rng.randint(FEWEST, MOST))
    begins = sorted(((rng.uniform(0, SPREAD_SECONDS), harm) for harm in harms), key=lambda plan: plan[0])
    plans = [(at, harm, rng.uniform(1, harm.longest)) for at, harm in begins]
    began, ends = time.monotonic(), list[tuple[float, Callable[[], None]]]()
    while (plans or ends) and stage.failure is None:
        now = time.monotonic() - began
        while plans and plans[0][0] <= now:
            _, harm, span = plans.pop(0)
            end = _begin(stage, harm, harm_counts)
            ends += [] if end is None else [(now + span, end)]
        for due in [end for end in ends if end[0] <= now]:
            ends.remove(due)
            due[1]()
        time.sleep(0.1)
    for _, end in ends:
        end()


def _begin(stage: Stage, harm: Harm, harm_counts: Counter[str]) -> Callable[[], None] | None:
    try:
        end = harm.begin(stage)
    except (ProcessLookupError, psutil.NoSuchProcess):
        return None  # the driver that was to be harmed ended by itself a moment ago
    _print_line(f"{time.strftime('%H:%M:%S')} {harm.name}")
    harm_counts[harm.name] += 1
    return end


def _print_line(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
