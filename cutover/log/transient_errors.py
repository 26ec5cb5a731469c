"""Classification of Kafka errors: transient ones, which are retried, and rejections, which are not."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from confluent_kafka import KafkaError, KafkaException
from tenacity import Retrying, retry_if_exception, stop_after_delay, wait_fixed

from cutover.errors import LogError

Result = TypeVar("Result")

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
"""Errors while a partition has no leader. `retriable()` covers only transactions."""

_DISCONNECTED = frozenset({KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN})  # noqa: SLF001 -- their only names

_NO_RESPONSE = _DISCONNECTED | {KafkaError._TIMED_OUT, KafkaError.REQUEST_TIMED_OUT}  # noqa: SLF001 -- as above
"""No response. The code depends on what the client was doing at the timeout, so it differs between attempts."""


def is_transient(error: BaseException) -> bool:
    """Return whether a retry of the same request may succeed."""
    if not isinstance(error, KafkaException):
        return False
    kafka_error = error.args[0]
    return bool(kafka_error.retriable() or kafka_error.code() in _LEADERLESS or is_disconnect(kafka_error))


def retry_transient(question: Callable[[], Result], *, seconds: float) -> Result:
    """Retry a request on transient errors: a disconnect, or no leader because of a new topic or a restarted broker."""
    retrying = Retrying(
        stop=stop_after_delay(seconds),
        wait=wait_fixed(0.1),
        retry=retry_if_exception(is_transient),
        reraise=True,
    )
    return retrying(question)


def is_disconnect(error: KafkaError | None) -> bool:
    """Return whether a connection was closed; the client reconnects by itself."""
    return error is not None and error.code() in _DISCONNECTED


def is_no_response(error: KafkaError | None) -> bool:
    """Return whether no broker responded."""
    return error is not None and error.code() in _NO_RESPONSE


def make_no_response_error(
    bootstrap: str, cause: KafkaError | None, *, refused: KafkaError | None, seconds: float, otherwise: str
) -> LogError:
    """Build the error of a failed request: no response, which may be transient, or a rejection, which is permanent.

    Args:
        bootstrap: Address of the cluster, for the message.
        cause: Error of this request; None if it has none.
        refused: Earlier authentication or authorization error of the client, after which requests only time out.
        seconds: Timeout of the request.
        otherwise: Text of the message without a cause.
    """
    refusal = cause if cause is not None and cause.code() in REFUSALS else refused
    if refusal is not None:
        msg = f"Kafka at {bootstrap}: expected access, the broker rejected it: {refusal.str()}."
        hint = "\nHint: retrying is useless; check user, password, certificate and permissions (describe, read)."
        return LogError(msg + hint, runbook="KafkaRefused")
    message = "none" if is_no_response(cause) else f"`{otherwise if cause is None else cause.str()}`"
    msg = f"Kafka at {bootstrap}: expected an answer within {seconds:g} s, got {message}."
    return LogError(msg + "\nHint: `cutover status` shows the broker.", runbook="KafkaUnreachable")


def make_unknown_error(missing: Sequence[str], known_names: tuple[str, ...]) -> LogError:
    """Build the error of unknown topics, with the names of the existing ones."""
    subject = "Topic" if len(missing) == 1 else "Topics"
    existing = f"it has {', '.join(sorted(known_names))}" if known_names else "it has none of this name"
    msg = f"{subject} {' and '.join(f'`{topic}`' for topic in missing)}: expected a topic of this cluster, {existing}."
    return LogError(msg + "\nHint: `cutover produce FILE --pipeline P` creates the topic of a pipeline.")
