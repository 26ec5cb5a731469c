"""Which of the log's failures pass by themselves, and which are refusals."""

from confluent_kafka import KafkaError, KafkaException

REFUSALS = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.SASL_AUTHENTICATION_FAILED,
        KafkaError.UNSUPPORTED_SASL_MECHANISM,
        KafkaError.ILLEGAL_SASL_STATE,
        KafkaError.SECURITY_DISABLED,
        KafkaError._AUTHENTICATION,  # noqa: SLF001 -- its only name
        KafkaError._SSL,  # noqa: SLF001 -- its only name
    }
)
_LEADERLESS = frozenset(
    {
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.REPLICA_NOT_AVAILABLE,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError._NOENT,  # noqa: SLF001 -- its only name; "No leaders found"
    }
)
"""While a partition changes its leader, or gets its first one. `retriable()` speaks of transactions alone."""

_CUT = frozenset({KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN})  # noqa: SLF001 -- their only names


def passes_by_itself(error: BaseException) -> bool:
    """Return whether the same question may be answered a moment later."""
    if not isinstance(error, KafkaException):
        return False
    found = error.args[0]
    return bool(found.retriable() or found.code() in _LEADERLESS or is_cut(found))


def is_cut(error: KafkaError | None) -> bool:
    """Return whether a connection ended: the client makes another one by itself."""
    return error is not None and error.code() in _CUT
