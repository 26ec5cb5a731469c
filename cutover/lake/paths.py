"""Locations in the lake.

`<lake>/<pipeline>/<result fingerprint>/{batch, batch_index, batch_ledger, stream-<n>/stream}`,
`<lake>/<pipeline>/{serving, sequences}`, `<lake>/<pipeline>/definition.json`, `<lake>/_control/...`.
"""

from cutover.definition.model.joins import CONTROL_FOLDER
from cutover.settings import Settings


def serving_uri(settings: Settings, name: str) -> str:
    """Return `<lake>/<pipeline>/serving`: the table for readers of other engines, under a stable name."""
    return f"{settings.lake_uri}/{name}/serving"


def control_uri(settings: Settings, table: str) -> str:
    """Return `<lake>/_control/<table>`: rows of the installation's history."""
    return f"{settings.lake_uri}/{CONTROL_FOLDER}/{table}"


def sequence_marks_uri(settings: Settings, name: str, table: str) -> str:
    """Return `<lake>/<pipeline>/sequences/<table>`: the mark of its latest row in a control table."""
    return f"{settings.lake_uri}/{name}/sequences/{table}"


def definition_uri(settings: Settings, name: str) -> str:
    """Return `<lake>/<pipeline>/definition.json`: the definition that its driver last ran with."""
    return f"{settings.lake_uri}/{name}/definition.json"
