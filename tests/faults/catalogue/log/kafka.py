"""The log's own troubles: its broker is away, slow or cut off, and partitions come."""

import re
import signal
import socket
import time
from collections.abc import Iterator
from functools import partial

import psutil
from confluent_kafka.admin import AdminClient, NewPartitions

from cutover.log.options import bootstrap_servers
from tests.faults.fault import STREAM, Fault, Part
from tests.faults.refused import text_of
from tests.faults.running.proxy import Proxy
from tests.faults.running.rig import Rig
from tests.support.drivers.background import Background
from tests.support.servers.broker import Broker

BROKER = STREAM | {Part.BROKER}
ADVERTISED = re.compile(r"^(advertised\.listeners=PLAINTEXT://127\.0\.0\.1:)\d+", re.MULTILINE)
MBIT = 1_000_000 / 8
LATER = 75.0  # seconds that a broker is paused


def catches_up(rig: Rig, driver: Background) -> None:
    """Wait until the driver that lived through it has read everything, then let it end."""
    rig.until(lambda: rig.unread() == 0)
    rig.note("driver ended", driver.failure is not None or not driver.thread.is_alive())
    driver.stop()
    rig.note("failure", repr(driver.failure))


def one_driver_lived_through_it(rig: Rig) -> Iterator[str]:
    """It catches up by itself: every epoch is its own, and it ended on request."""
    runs = {record.run_id for record in rig.records()[: rig.evidence["epochs of the driver"]]}
    if len(runs) != 1 or rig.evidence["driver ended"] or rig.evidence["failure"] != "None":
        yield f"{len(runs)} drivers, ended early: {rig.evidence['driver ended']}, failure {rig.evidence['failure']}"


def refuses(port: int) -> bool:
    """Return whether no server listens at a port."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


# -- F06


def kill_the_broker(rig: Rig, *, times: int) -> None:
    """SIGKILL the broker and start it again, while a driver runs and records come in between."""
    rig.send(rig.draw(60))
    driver = rig.background()
    rig.until(lambda: rig.unread() == 0)
    statuses, refused = list[int](), list[bool]()
    for _ in range(times):
        rig.send(rig.draw(60))
        statuses.append(rig.broker.kill())
        refused.append(refuses(rig.broker.ports.broker))
        text_of(rig, "KafkaUnreachable")
        rig.broker.start()
        rig.until(lambda: "KafkaUnreachable" not in rig.alerts())
    rig.note("statuses", statuses)
    rig.note("refused", refused)
    catches_up(rig, driver)
    rig.note("epochs of the driver", len(rig.records()))


def broker_died(rig: Rig, *, times: int) -> bool:
    """Each time by SIGKILL, and its port was closed."""
    return bool(rig.evidence["statuses"] == [-signal.SIGKILL] * times and all(rig.evidence["refused"]))


def pause_the_broker(rig: Rig, *, seconds: float) -> None:
    """SIGSTOP: connections stay open and no one answers."""
    rig.send(rig.draw(60))
    driver = rig.background()
    rig.until(lambda: rig.unread() == 0)
    rig.send(rig.draw(60))
    pause(rig)
    began = time.monotonic()
    states = [broker_state(rig)]
    text_of(rig, "KafkaUnreachable")
    rig.until(lambda: time.monotonic() - began > seconds)
    states.append(broker_state(rig))
    rig.broker.resume()
    rig.until(lambda: "KafkaUnreachable" not in rig.alerts())
    rig.note("states", states)
    rig.note("seconds", round(time.monotonic() - began))
    catches_up(rig, driver)
    rig.note("epochs of the driver", len(rig.records()))


def pause(rig: Rig) -> None:
    """SIGSTOP the broker; the kernel stops it a moment later."""
    rig.broker.pause()
    rig.until(lambda: broker_state(rig) == psutil.STATUS_STOPPED)


def broker_state(rig: Rig) -> str:
    """Return the state of the broker's process as the kernel has it."""
    assert rig.broker.process is not None
    return str(psutil.Process(rig.broker.process.pid).status())


def broker_was_paused(rig: Rig, *, seconds: float) -> bool:
    """The kernel said stopped, at the beginning and at the end."""
    evidence = rig.evidence
    return bool(evidence["states"] == [psutil.STATUS_STOPPED] * 2 and evidence["seconds"] >= seconds)


def stop_during_an_outage(rig: Rig) -> None:
    """Stop the driver while the broker is paused and records wait."""
    rig.send(rig.draw(60))
    driver = rig.background()
    rig.until(lambda: rig.unread() == 0)
    rig.send(rig.draw(60))
    pause(rig)
    rig.note("states", [broker_state(rig)] * 2)
    began = time.monotonic()
    driver.stop()
    rig.note("seconds", round(time.monotonic() - began))
    beat = rig.beat()
    assert beat is not None
    rig.note("end", [beat.state, beat.exit_code, repr(driver.failure)])
    rig.broker.resume()


def it_stopped_as_it_was_asked_to(rig: Rig) -> Iterator[str]:
    """Not failed: what it had in hand is left to the next one."""
    if rig.evidence["end"] != ["STOPPED", 0, "None"]:
        yield f"expected STOPPED, 0, no failure; got {rig.evidence['end']}"


def degrade_the_connection(rig: Rig, *, events: int) -> None:
    """Every client goes through a proxy: +200 ms each way, 3 Mbit/s, all connections cut every 5 s."""
    direct, port = rig.settings, rig.broker.ports.broker
    proxy = Proxy(port, delay=0.2, rate=3 * MBIT, cut_every=5.0)
    advertise(rig.broker, proxy.port)
    kafka = direct.kafka.model_copy(update={"bootstrap_servers": f"127.0.0.1:{proxy.port}"})
    rig.settings = direct.model_copy(update={"kafka": kafka})
    driver = rig.background()
    for _ in range(3):
        rig.send(rig.draw(events // 3))
        rig.until(lambda: rig.unread() == 0)
    rig.note("cuts", proxy.cuts)
    rig.note("passed", proxy.passed)
    catches_up(rig, driver)
    rig.note("epochs of the driver", len(rig.records()))
    rig.settings = direct
    advertise(rig.broker, port)
    proxy.close()


def advertise(broker: Broker, port: int) -> None:
    """Restart a broker so that it sends its clients to a port: they use the address that it advertises."""
    broker.stop()
    file = broker.home / "kafka" / "server.properties"
    text, change_count = ADVERTISED.subn(rf"\g<1>{port}", file.read_text(encoding="utf-8"))
    assert change_count == 1
    file.write_text(text, encoding="utf-8")
    broker.start()


def the_line_was_bad(rig: Rig) -> bool:
    """Connections were cut several times, and everything passed through the proxy."""
    return bool(rig.evidence["cuts"] >= 3 and rig.evidence["passed"] > 10_000)


# -- F07


def add_partitions_while_running(rig: Rig) -> None:
    """From two to four; the fourth stays empty for a while."""
    rig.send(rig.draw(60))
    driver = rig.background()
    rig.until(lambda: rig.unread() == 0)
    add_partitions(rig, 4)
    rig.send(e for e in rig.draw(80) if e.partition < 3)
    rig.until(lambda: rig.unread() == 0 and 3 in rig.records()[-1].end)
    rig.note("watermark with an empty one", [r.watermark_after or 0 for r in rig.records() if r.end.get(3) == 0])
    rig.send(rig.draw(60))
    catches_up(rig, driver)


def add_partitions_while_stopped(rig: Rig) -> None:
    """From two to four, with records in the new ones before the driver starts."""
    rig.send(rig.draw(60))
    rig.drain()
    add_partitions(rig, 4)
    rig.send(rig.draw(80))
    rig.alerts()
    rig.drain()


def add_partitions(rig: Rig, number: int) -> None:
    """Raise the topic's number of partitions."""
    admin = AdminClient({"bootstrap.servers": bootstrap_servers(rig.settings)})
    admin.create_partitions([NewPartitions(rig.topic, number)])[rig.topic].result(30)
    rig.until(lambda: len(rig.client.partitions(rig.topic)) == number)


def topic_has_four_partitions(rig: Rig) -> bool:
    """Its description has four, and a record is at partition 3, offset 0."""
    first_records = list(rig.client.read(rig.topic, {3: [0]}))
    return len(rig.client.partitions(rig.topic)) == 4 and len(first_records) == 1


def new_partitions_begin_at_0(rig: Rig) -> Iterator[str]:
    """In the first epoch that names them."""
    for p in (2, 3):
        first_record = next(record for record in rig.records() if p in record.end)
        if first_record.start.get(p, 0):
            yield f"partition {p} begins at {first_record.start[p]} in epoch {first_record.epoch}"


def an_empty_one_does_not_hold_the_watermark(rig: Rig) -> Iterator[str]:
    """It moves on while partition 3 holds no record."""
    marks = rig.evidence["watermark with an empty one"]
    mark_before = max(r.watermark_after or 0 for r in rig.records() if 3 not in r.end)
    if not marks or max(marks) <= mark_before:
        yield f"the watermark stood at {mark_before} while partition 3 was empty: {marks}"


def the_batch_cut_names_all_four(rig: Rig) -> Iterator[str]:
    """Each partition of the topic."""
    if sorted(rig.runs[-1].cut) != [0, 1, 2, 3]:
        yield f"the cut names {sorted(rig.runs[-1].cut)}"


def _killed_broker_fault(variant: str, times: int, *, quick: bool) -> Fault:
    return Fault(
        id="F06",
        variant=variant,
        family="kafka",
        title=f"the broker is killed and started again, {times} times" if times > 1 else "the broker is killed once",
        needs=BROKER,
        inject=partial(kill_the_broker, times=times),
        happened=partial(broker_died, times=times),
        holds=(one_driver_lived_through_it,),
        alert="KafkaUnreachable",
        limits={"silent_seconds": 2.0},
        quick=quick,
    )


def _paused_broker_fault(variant: str, seconds: float, *, quick: bool) -> Fault:
    return Fault(
        id="F06",
        variant=variant,
        family="kafka",
        title=f"the broker is paused for {seconds:g} s",
        needs=BROKER,
        inject=partial(pause_the_broker, seconds=seconds),
        happened=partial(broker_was_paused, seconds=seconds),
        holds=(one_driver_lived_through_it,),
        alert="KafkaUnreachable",
        limits={"silent_seconds": 2.0},
        quick=quick,
    )


FAULTS = (
    _killed_broker_fault("a", 3, quick=False),
    _killed_broker_fault("quick", 1, quick=False),
    _paused_broker_fault("b", LATER, quick=False),
    Fault(
        id="F06",
        variant="stop",
        family="kafka",
        title="the driver is asked to stop while the broker is paused",
        needs=BROKER,
        inject=stop_during_an_outage,
        happened=partial(broker_was_paused, seconds=0.0),
        holds=(it_stopped_as_it_was_asked_to,),
    ),
    Fault(
        id="F06",
        variant="c",
        family="kafka",
        title="a bad network to the broker: 200 ms each way, 3 Mbit/s, interrupted every 5 s",
        needs=BROKER,
        inject=partial(degrade_the_connection, events=300),
        happened=the_line_was_bad,
        holds=(one_driver_lived_through_it,),
        may=frozenset({"KafkaUnreachable"}),
    ),
    Fault(
        id="F07",
        variant="a",
        family="kafka",
        title="partitions are added while the driver runs",
        inject=add_partitions_while_running,
        happened=topic_has_four_partitions,
        holds=(new_partitions_begin_at_0, an_empty_one_does_not_hold_the_watermark, the_batch_cut_names_all_four),
        alert="PartitionsChanged",
    ),
    Fault(
        id="F07",
        variant="b",
        family="kafka",
        title="partitions are added while the driver is stopped, with records in them",
        inject=add_partitions_while_stopped,
        happened=topic_has_four_partitions,
        holds=(new_partitions_begin_at_0, the_batch_cut_names_all_four),
        alert="PartitionsChanged",
    ),
)
