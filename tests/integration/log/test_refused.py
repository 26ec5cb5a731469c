"""A broker that answers and refuses: said as it is, and never waited for as if it were away."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from cutover.errors import LogError
from cutover.infra.broker import server as brokers
from cutover.lake.control import versions
from cutover.log.kafka import LogClient
from cutover.log.options import bootstrap_servers
from cutover.pipeline_lake import PipelineLake
from cutover.settings import KafkaSettings, Settings
from cutover.streaming import driver
from tests.integration.streaming import rig
from tests.support.servers.broker import Broker
from tests.support.suite.until import until

RIGHTS = """
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
allow.everyone.if.no.acl.found=true
"""


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return the address of a broker with access control that is not restricted yet."""
    home: Path = tmp_path_factory.mktemp("strict")
    broker = Broker(home)
    config = brokers.locate_broker_files(home) / "server.properties"
    config.write_text(config.read_text(encoding="utf-8") + RIGHTS, encoding="utf-8")
    try:
        broker.start()
        yield broker.bootstrap
    finally:
        broker.stop()


@pytest.fixture
def at(settings: Settings, strict: str) -> Settings:
    return rig.fast(settings.model_copy(update={"kafka": KafkaSettings(bootstrap_servers=strict, timeout_seconds=10)}))


def hide(settings: Settings, topic: str) -> None:
    """Take the right to describe a topic from everybody."""
    rule = AclBinding(
        ResourceType.TOPIC,
        topic,
        ResourcePatternType.LITERAL,
        "User:*",
        "*",
        AclOperation.DESCRIBE,
        AclPermissionType.DENY,
    )
    admin = AdminClient({"bootstrap.servers": bootstrap_servers(settings)})
    for future in admin.create_acls([rule]).values():
        future.result()
    until(lambda: _is_refused(settings, topic), 30)


def _is_refused(settings: Settings, topic: str) -> bool:
    """Return whether the broker has heard of the rule: it follows its controller at some distance."""
    try:
        LogClient(settings).topic_id(topic)
    except LogError:
        return True
    return False


@pytest.mark.quick
def test_topic_that_may_not_be_seen_is_refused_and_not_unknown(at: Settings, topic_name: str) -> None:
    rig.make_topic(at, topic_name)
    hide(at, topic_name)
    client = LogClient(at)

    for ask in (client.topic_id, client.partitions, client.earliest):
        with pytest.raises(LogError, match=r"expected access, the broker rejected it: .*uthoriz") as refused:
            ask(topic_name)
        assert refused.value.runbook == "KafkaRefused"


def test_driver_that_is_refused_ends_at_once_and_makes_nothing(at: Settings, topic_name: str) -> None:
    rig.make_topic(at, topic_name)
    hide(at, topic_name)

    with pytest.raises(LogError) as refused:
        driver.run_driver(PipelineLake(at, rig.pipeline(topic_name)))

    assert refused.value.runbook == "KafkaRefused"
    assert versions.find_current_version(PipelineLake(at, rig.pipeline(topic_name))) is None


@pytest.mark.parametrize(
    ("code", "runbook"),
    [
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, "KafkaRefused"),
        (KafkaError.SASL_AUTHENTICATION_FAILED, "KafkaRefused"),
        (KafkaError._AUTHENTICATION, "KafkaRefused"),
        (KafkaError._SSL, "KafkaRefused"),
        (KafkaError._TRANSPORT, "KafkaUnreachable"),
        (KafkaError._TIMED_OUT, "KafkaUnreachable"),
        (KafkaError.REQUEST_TIMED_OUT, "KafkaUnreachable"),
    ],
)
def test_refusals_are_told_from_silence(settings: Settings, code: int, runbook: str) -> None:
    kafka = KafkaSettings(bootstrap_servers="127.0.0.1:1", timeout_seconds=1)
    client = LogClient(settings.model_copy(update={"kafka": kafka}))

    assert client.make_unreachable_error(KafkaException(KafkaError(code))).runbook == runbook


def test_request_that_times_out_on_a_refused_connection_says_why(settings: Settings) -> None:
    kafka = KafkaSettings(bootstrap_servers="127.0.0.1:1", timeout_seconds=1)
    client = LogClient(settings.model_copy(update={"kafka": kafka}))
    client._note_error(KafkaError(KafkaError._AUTHENTICATION, "wrong password"))

    unreachable_error = client.make_unreachable_error(KafkaException(KafkaError(KafkaError._TIMED_OUT)))

    assert (unreachable_error.runbook, "wrong password" in str(unreachable_error)) == ("KafkaRefused", True)
