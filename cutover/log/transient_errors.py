"""Which of the log's failures pass by themselves, and which are refusals."""

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
"""While a partition changes its leader, or gets its first one. `retriable()` speaks of transactions alone."""

_DISCONNECTED = frozenset({KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN})  # noqa: SLF001 -- their only names

_NO_RESPONSE = _DISCONNECTED | {KafkaError._TIMED_OUT, KafkaError.REQUEST_TIMED_OUT}  # noqa: SLF001 -- as above
"""Nobody answered. What the client was at when its time was up, and so its words, differ from try to try."""


def is_transient(error: BaseException) -> bool:
    """Return whether the same question may be answered a moment later."""
    if not isinstance(error, KafkaException):
        return False
    kafka_error = error.args[0]
    return bool(kafka_error.retriable() or kafka_error.code() in _LEADERLESS or is_disconnect(kafka_error))


def retry_transient(question: Callable[[], Result], *, seconds: float) -> Result:
    """Ask again what passes by itself: a cut line; no leader, as of a new topic or a broker that just came back."""
    retrying = Retrying(
        stop=stop_after_delay(seconds),
        wait=wait_fixed(0.1),
        retry=retry_if_exception(is_transient),
        reraise=True,
    )
    return retrying(question)


def is_disconnect(error: KafkaError | None) -> bool:
    """Return whether a connection ended: the client makes another one by itself."""
    return error is not None and error.code() in _DISCONNECTED


def is_no_response(error: KafkaError | None) -> bool:
    """Return whether nobody answered."""
    return error is not None and error.code() in _NO_RESPONSE


def make_no_response_error(
    bootstrap: str, cause: KafkaError | None, *, refused: KafkaError | None, seconds: float, otherwise: str
) -> LogError:
    """Return what a failure means: no answer, which may pass, or a refusal, which stays until a person acts.

    Args:
        bootstrap: The cluster's address, for the message.
        cause: What the client was told of this question; None: nothing.
        refused: A refusal that the client heard of before: questions over such a connection only time out.
        seconds: How long an answer was waited for.
        otherwise: What to say without a cause.
    """
    refusal = cause if cause is not None and cause.code() in REFUSALS else refused
    if refusal is not None:
        msg = f"Kafka at {bootstrap}: expected leave to ask, it refused: {refusal.str()}."
        hint = "\nHint: waiting changes nothing; look at user, password, certificate and rights (describe, read)."
        return LogError(msg + hint, runbook="KafkaRefused")
    message = "none" if is_no_response(cause) else f"`{otherwise if cause is None else cause.str()}`"
    msg = f"Kafka at {bootstrap}: expected an answer within {seconds:g} s, got {message}."
    return LogError(msg + "\nHint: `cutover status` shows the broker.", runbook="KafkaUnreachable")


def make_unknown_error(missing: Sequence[str], known_names: tuple[str, ...]) -> LogError:
    """Return that a cluster lacks topics, each by its own name, and which ones it has."""
    of = "Topic" if len(missing) == 1 else "Topics"
    known = f"it has {', '.join(sorted(known_names))}" if known_names else "it knows none of this name"
    msg = f"{of} {' and '.join(f'`{topic}`' for topic in missing)}: expected a topic of this cluster, {known}."
    return LogError(msg + "\nHint: `cutover produce FILE --pipeline P` makes the topic of a pipeline.")
