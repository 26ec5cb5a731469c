"""A drawn log written to a real topic, gaps and all."""

import uuid
from collections.abc import Sequence
from dataclasses import replace

from confluent_kafka import Producer

from cutover.definition import Pipeline
from cutover.definition.model.joins import RIGHT_PARTITION_BASE
from cutover.log import topic_partitions
from cutover.log.kafka import LogClient, RawRecord
from cutover.settings import Settings
from tests.support.log.logs import GAP, PARTITIONS
from tests.support.suite.until import until


class Writer:
    """One producer that can abort, for as many topics as there are examples."""

    def __init__(self, settings: Settings) -> None:
        self.settings, servers = settings, {"bootstrap.servers": str(settings.kafka.bootstrap_servers), "linger.ms": 0}
        # Without it a retry, as while a new topic has no leader yet, writes records in another order.
        self._plain = Producer({**servers, "enable.idempotence": True})
        self._aborting = Producer({**servers, "transactional.id": f"aborting-{uuid.uuid4().hex}"})
        self._begun = False
        self._log = LogClient(settings)

    def make(self, topic: str) -> None:
        """Create a topic that keeps records of any age."""
        self._log.create_topic(topic, partitions=PARTITIONS, config={"retention.ms": "-1"})
        self._log.high_watermarks(topic)  # answered once each partition has a leader

    def write(self, topic: str, records: Sequence[RawRecord], *, preceding: Sequence[RawRecord] = ()) -> None:
        """Write records at their offsets, behind those of `preceding`."""
        for producer in (self._plain, self._aborting):
            producer.list_topics(topic, timeout=10)  # else records of a partition that is new wait for minutes
        following = {r.partition: r.offset + 1 for r in preceding}
        for r in records:
            if r.offset > following.get(r.partition, 0):
                assert r.offset == following.get(r.partition, 0) + GAP
                self._flush()
                self._abort(topic, r)
            self._plain.produce(topic, value=r.value, partition=r.partition, timestamp=r.log_time_micros // 1000)
            following[r.partition] = r.offset + 1
        self._flush()

    def fill(self, pipeline: Pipeline, records: Sequence[RawRecord]) -> None:
        """Make the topics of a pipeline and write a whole log to them."""
        for turn, topic in enumerate(topic_partitions.split_topics(topic_partitions.name_log(pipeline))):
            self.make(topic)
            topic_records = [
                replace(r, partition=r.partition % RIGHT_PARTITION_BASE)
                for r in records
                if r.partition // RIGHT_PARTITION_BASE == turn
            ]
            self.write(topic, topic_records)

    def _flush(self) -> None:
        assert self._plain.flush(30) == 0

    def _abort(self, topic: str, raw_record: RawRecord) -> None:
        if not self._begun:
            self._aborting.init_transactions(30)
            self._begun = True
        self._aborting.begin_transaction()
        self._aborting.produce(
            topic, value=b"{}", partition=raw_record.partition, timestamp=raw_record.log_time_micros // 1000
        )
        self._aborting.flush(30)
        self._aborting.abort_transaction(30)
        # The coordinator answers before the marker is written; the next record must not come in between.
        until(
            lambda: self._log.high_watermarks(topic)[raw_record.partition] == raw_record.offset, within=10, every=0.005
        )
