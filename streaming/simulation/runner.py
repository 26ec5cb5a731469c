"""A scenario on the streaming path: a real topic, the real query, the real epoch log; clock and watermark are a script.

Topic and table are created for it and deleted afterwards.
"""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import KafkaError, Message, Producer

from cutover.engine import spark
from cutover.errors import DefinitionError, LogError
from cutover.lake.epochs.epoch_log import EpochLog
from cutover.log import options
from cutover.log.kafka import LogClient
from cutover.panes.event_schedule import arriving
from cutover.panes.model import Outcome, Setting
from cutover.probe import silent
from cutover.settings import Settings, load_settings
from cutover.streaming import driver, reader
from cutover.streaming.process.context import DriverContext
from cutover.streaming.process.heartbeat import HeartbeatWriter, first_beat, run_folder
from cutover.streaming.simulation import scenario
from cutover.streaming.simulation.scratch import open_scratch_home
from cutover.streaming.simulation.scripted import Script, ScriptedStream
from cutover.streaming.sink.run_id import new_run_id

FLUSH_SECONDS = 30.0
BUFFERED = 10_000  # less than the client's buffer takes
MOST_POINTS = 1_000
"""Limit of points: one point is one epoch, and thousands take minutes."""
TOPIC_CONFIG = {"retention.ms": "-1", "message.timestamp.after.max.ms": str(2**63 - 1)}


def run(setting: Setting) -> Outcome:
    """Return what comes out of a setting on the streaming path of this installation.

    Raises:
        CutoverError: No broker answers, or the stream cannot run.
    """
    return run_with(load_settings(), setting)


def run_with(settings: Settings, setting: Setting) -> Outcome:
    """Run as `run` does, under given settings, on a separate topic."""
    if len(setting.rows) > MOST_POINTS:
        msg = f"points: expected at most {MOST_POINTS} on the streaming path, where each is an epoch, got "
        msg += f"{len(setting.rows)}.\nHint: `--runner reference` takes a million."
        raise DefinitionError(msg)
    client = LogClient(settings)
    topic = f"cutover-simulate-{uuid.uuid4().hex}"
    pipeline = scenario.pipeline_of(setting, topic)
    with _topic(client, topic), open_scratch_home(settings, client, "simulate") as scratch_settings:
        spark.start_early(settings, app="cutover-simulate")
        _send(scratch_settings, setting, topic)
        spark.session(settings, app="cutover-simulate")  # of the installation: its files outlive the scenario
        script, place = Script(setting), run_folder(scratch_settings, pipeline.name)
        place.mkdir(parents=True)
        context = DriverContext(
            settings=scratch_settings,
            pipeline=pipeline,
            client=client,
            clock=script,
            probe=silent,
            beat=HeartbeatWriter(place / "heartbeat.json", first_beat(new_run_id(), script), seconds=1, clock=script),
            place=place,
            time_policy=script,
        )
        committer, beginning = driver.prepare_stream(context)
        stream = ScriptedStream(context, committer, beginning, setting=setting, script=script)
        if not stream.drained:
            reader.run_queries(context, stream)
        stream.play_out()
        return scenario.outcome_of(setting, pipeline, EpochLog(committer.version.uri))


@contextmanager
def _topic(client: LogClient, topic: str) -> Iterator[None]:
    client.create_topic(topic, partitions=1, config=TOPIC_CONFIG)
    try:
        yield
    finally:
        client.delete_topic(topic)


def _send(settings: Settings, setting: Setting, topic: str) -> None:
    """Write the rows in the order in which they arrive; log timestamps are such that no row is from the future."""
    refused: list[KafkaError] = []

    def note_delivery(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            refused.append(error)

    bootstrap = str(settings.kafka.bootstrap_servers)
    producer = Producer(
        {**options.make_librdkafka_options(settings.kafka, bootstrap), "enable.idempotence": True, "log_level": 0}
    )
    for number, row in enumerate(arriving(setting)):
        at, value = max(0, -(-row.event_time // 1000)), scenario.record_of(setting, row)
        producer.produce(topic, value, partition=0, timestamp=at, on_delivery=note_delivery)
        if number % BUFFERED == BUFFERED - 1:
            producer.flush(FLUSH_SECONDS)
    unsent = producer.flush(FLUSH_SECONDS)
    if refused or unsent:
        reason = refused[0].str() if refused else f"{unsent} without an answer after {FLUSH_SECONDS:g} s"
        msg = f"Topic `{topic}`: expected every point to be taken, got: {reason}.\nHint: simulate it again."
        raise LogError(msg)
