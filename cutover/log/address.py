"""Address of the cluster, for modules that need no client."""

import json

from cutover.errors import LogError
from cutover.settings import Settings


def bootstrap_servers(settings: Settings) -> str:
    """Return the cluster's address: from the settings, otherwise that of the broker which `cutover up` started.

    Raises:
        LogError: There is neither.
    """
    if settings.kafka.bootstrap_servers:
        return settings.kafka.bootstrap_servers
    try:
        return str(json.loads((settings.run_dir / "broker.json").read_text(encoding="utf-8"))["bootstrap_servers"])
    except (OSError, ValueError, KeyError):
        msg = "Kafka: expected `kafka.bootstrap_servers` or a broker of this installation, got neither."
        raise LogError(msg + "\nHint: `cutover up` starts a broker.", runbook="KafkaUnreachable") from None
