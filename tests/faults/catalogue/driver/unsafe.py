"""Settings under which records could be lost or read otherwise: refused before anything starts or is written."""

from collections.abc import Callable, Iterator
from functools import partial

from cutover.errors import CutoverError
from cutover.lake.tables import delta
from cutover.settings import Settings
from tests.faults.fault import Fault
from tests.faults.running.rig import Rig

Change = Callable[[Settings], Settings]

CLIENT = {
    "own-group": ("group.id", "mine"),
    "other-isolation": ("isolation.level", "read_uncommitted"),
    "start-latest": ("auto.offset.reset", "latest"),
    "data-loss": ("failOnDataLoss", "false"),
}
SPARK = {
    "other-zone": ("spark.sql.session.timeZone", "America/New_York"),
    "not-ansi": ("spark.sql.ansi.enabled", "false"),
}


def of_client(settings: Settings, *, key: str, value: str) -> Settings:
    """Return settings that hand one more key to the Kafka clients."""
    return settings.model_copy(update={"kafka": settings.kafka.model_copy(update={"client": {key: value}})})


def of_spark(settings: Settings, *, key: str, value: str) -> Settings:
    """Return settings that set one conf of Spark otherwise."""
    return settings.model_copy(update={"spark": settings.spark.model_copy(update={"conf": {key: value}})})


def start_under(rig: Rig, *, key: str, change: Change) -> None:
    """Read half of the log, then try driver and batch under the setting; it is removed afterwards."""
    rig.send(rig.draw(40))
    rig.drain()
    rig.send(rig.draw(40))
    good, rig.settings = rig.settings, change(rig.settings)
    rig.note("key", key)
    rig.note("version", delta.open_table(rig.version.uri).version())
    try:
        errors = [str(rig.refused(act)) for act in (rig.drain, rig.batch)]
    finally:
        rig.settings = good
    rig.note("said", errors)


def both_paths_refused_it(rig: Rig) -> bool:
    """Two refusals, and no version of the table came of them."""
    return len(rig.evidence["said"]) == 2 and delta.open_table(rig.version.uri).version() == rig.evidence["version"]


def the_key_is_named(rig: Rig) -> Iterator[str]:
    """With the expected and the actual value."""
    for text in rig.evidence["said"]:
        yield from (f"expected {word!r} in: {text}" for word in ("expected", rig.evidence["key"]) if word not in text)


def _fault(variant: str, key: str, change: Change) -> Fault:
    return Fault(
        id="F11",
        variant=variant,
        family="settings",
        title=f"unsafe setting {key}",
        inject=partial(start_under, key=key, change=change),
        happened=both_paths_refused_it,
        holds=(the_key_is_named,),
        alert="StreamNotRunning",
        exit_code=CutoverError.exit_code,
    )


FAULTS = (
    *(_fault(name, key, partial(of_client, key=key, value=value)) for name, (key, value) in CLIENT.items()),
    *(_fault(name, key, partial(of_spark, key=key, value=value)) for name, (key, value) in SPARK.items()),
)
