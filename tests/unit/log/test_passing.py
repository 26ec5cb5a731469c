"""Messages for failed requests to the log."""

import pytest
from confluent_kafka import KafkaError

from cutover.log.transient_errors import make_no_response_error

SILENCES = [
    KafkaError(KafkaError._TIMED_OUT, "Timed out waiting for controller"),
    KafkaError(KafkaError._TIMED_OUT, "Failed while waiting for controller: Local: Timed out"),
    KafkaError(KafkaError._TRANSPORT, "Connection refused"),
    KafkaError(KafkaError._ALL_BROKERS_DOWN),
]


def said(cause: KafkaError | None, *, refused: KafkaError | None = None) -> str:
    return str(make_no_response_error("k:1", cause, refused=refused, seconds=2.0, otherwise="no leader")).splitlines()[
        0
    ]


@pytest.mark.parametrize("cause", SILENCES, ids=str)
def test_a_timeout_has_the_same_message_for_every_request(cause: KafkaError) -> None:
    assert said(cause) == "Kafka at k:1: expected an answer within 2 s, got none."


def test_other_errors_keep_the_clients_message() -> None:
    assert said(None) == "Kafka at k:1: expected an answer within 2 s, got `no leader`."
    refused = KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED, "not yours")
    assert said(refused) == "Kafka at k:1: expected access, the broker rejected it: not yours."
    assert said(SILENCES[0], refused=refused) == said(refused)
