"""Harms that the random mode causes: each has a beginning and an end, several run at the same time."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from confluent_kafka.admin import AdminClient, NewPartitions

from cutover.log.options import bootstrap_servers
from tests.faults.running import producer
from tests.faults.running.child import Child, Whom
from tests.faults.stage import Stage

MOST_PARTITIONS = 6
BURST = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Harm:
    """One kind of harm; `begin` may return how it ends."""

    name: str
    begin: Callable[[Stage], Callable[[], None] | None]
    longest: float = 20.0  # seconds from its begin to its end


def _kill(whom: Whom) -> Callable[[Stage], None]:
    def begin(stage: Stage) -> None:
        child = stage.driver
        if child is not None and child.process.poll() is None and child.find_point("epoch.planned"):
            child.kill(whom)

    return begin


def _pause(stage: Stage) -> Callable[[], None] | None:
    child = stage.driver
    if child is None or child.process.poll() is not None:
        return None
    child.pause()
    return lambda: child.resume() if child.process.poll() is None else None


def _second(stage: Stage) -> Callable[[], None]:
    child = stage.rig.start(settings=stage.rig.second_home())
    return lambda: _end(child)


def _end(child: Child) -> None:
    if child.process.poll() is None:
        child.kill()


def _broker_killed(stage: Stage) -> Callable[[], None] | None:
    if not stage.broker_up.is_set():
        return None
    stage.broker_up.clear()
    stage.rig.broker.kill()

    def end() -> None:
        stage.rig.broker.start()
        stage.broker_up.set()

    return end


def _broker_paused(stage: Stage) -> Callable[[], None] | None:
    if not stage.broker_up.is_set():
        return None
    stage.broker_up.clear()
    stage.rig.broker.pause()

    def end() -> None:
        stage.rig.broker.resume()
        stage.broker_up.set()

    return end


def _partition(stage: Stage) -> None:
    if not stage.broker_up.is_set():
        return
    partition_count = len(stage.rig.client.partitions(stage.rig.topic)) + 1
    if partition_count <= MOST_PARTITIONS:
        admin = AdminClient({"bootstrap.servers": bootstrap_servers(stage.rig.settings)})
        admin.create_partitions([NewPartitions(stage.rig.topic, partition_count)])[stage.rig.topic].result(30)


def _late(stage: Stage) -> None:
    stage.send(lambda: stage.draw(BURST, late=1.0))


def _poison(stage: Stage) -> None:
    bad = (b"{", b"", b"\xff\xfe", b'{"id": "seven"}', b'{"at": 1}', b"null")
    stage.send(lambda: [replace(event, raw=bad[event.id % len(bad)]) for event in stage.draw(BURST // 4)])


def _aborted(stage: Stage) -> None:
    if not stage.broker_up.is_set():
        return
    name = f"{stage.rig.topic}-{stage.rig.rng.random()}"
    sender = producer.new(str(stage.rig.settings.kafka.bootstrap_servers), **{"transactional.id": name})
    sender.init_transactions(30)
    sender.begin_transaction()
    stage.rig.send(stage.draw(BURST // 4), by=sender, outcome="aborted")
    sender.abort_transaction(30)


def _batch(stage: Stage) -> Callable[[], None]:
    child = stage.rig.start(role="batch")
    return lambda: _end(child)


def _reconcile(stage: Stage) -> Callable[[], None]:
    child = stage.rig.start(role="reconcile")
    return lambda: _end(child)


HARMS = (
    Harm(name="driver killed", begin=_kill("group")),
    Harm(name="JVM killed", begin=_kill("jvm")),
    Harm(name="Python killed", begin=_kill("python")),
    Harm(name="driver stopped and woken", begin=_pause),
    Harm(name="second driver", begin=_second, longest=40.0),
    Harm(name="broker killed", begin=_broker_killed),
    Harm(name="broker stopped and woken", begin=_broker_paused),
    Harm(name="partition added", begin=_partition),
    Harm(name="late burst", begin=_late),
    Harm(name="poison", begin=_poison),
    Harm(name="aborted transaction", begin=_aborted),
    Harm(name="batch begun and killed", begin=_batch, longest=30.0),
    Harm(name="reconciler begun and killed", begin=_reconcile),
)
