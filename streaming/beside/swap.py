"""A changed definition takes the place of the one that its note names: readers get its rows, in one commit.

Both go on as pipelines of their own, with their drivers, batch paths, stages and alerts, so the old one is a way back
until its tables are deleted.
"""

from cutover.clock import Clock
from cutover.definition.model.pipeline import Pipeline
from cutover.errors import DefinitionError
from cutover.lake.control import swaps
from cutover.lake.control.signature import reason
from cutover.lake.serving import serving_table
from cutover.settings import Settings
from cutover.streaming.beside.compare import StreamComparison, compare_definitions, find_stream
from cutover.streaming.beside.serve import Agreed, describe, refuse_others


def swap(
    settings: Settings, new: Pipeline, old: Pipeline, *, why: str, agreed: Agreed, clock: Clock
) -> StreamComparison | None:
    """Let a changed definition be served under the name of the old one; they are compared first.

    Returns:
        The comparison; None: a person asked for none.

    Raises:
        DefinitionError: The note does not fit, it is served already, or it differs otherwise than declared and agreed.
        LakeError: The two have no cut in common, a table cannot be read, or another process was quicker.
    """
    reason(why, of="Swap")  # refused before a comparison of minutes
    turn, found = swaps.next_turn(settings, old.name), None
    for one in (old, new):
        if (serves := swaps.served_by(settings, one.name)) != one.name:
            msg = f"Swap of `{old.name}` to `{new.name}`: expected two that serve their own names, got `{one.name}`, "
            raise DefinitionError(msg + f"which `{serves}` serves.")
    find_stream(settings, new)
    if not agreed.uncompared:
        found = compare_definitions(settings, new, old)
        refuse_others(found, agreed, f"cutover swap {new.name}", f"cutover replay {new.name}")
    elif agreed.differences:
        msg = f"Swap of `{old.name}` to `{new.name}`: expected no `--differences` beside `--uncompared`."
        raise DefinitionError(msg)
    swaps.swap(settings, old.name, new.name, why=why, found=describe(found), clock=clock, turn=turn)
    serving_table.keep_up(settings, new)
    return found


def swap_back(settings: Settings, old: Pipeline, *, why: str, clock: Clock) -> str:
    """Let a definition that was replaced be served under its name again, at once.

    Returns:
        The pipeline that served the name.

    Raises:
        DefinitionError: Nothing took its place, or the reason is empty.
        LakeError: It has no epoch log any more, or another process was quicker.
    """
    turn = swaps.next_turn(settings, old.name)
    rows = swaps.history(settings, old.name)
    follower = str(rows[-1]["served_by"]) if rows else old.name
    if follower == old.name:
        msg = f"Swap of `{old.name}`: expected one that another definition took the place of, it serves itself."
        raise DefinitionError(msg)
    find_stream(settings, old)
    swaps.swap(settings, old.name, old.name, why=why, found="", clock=clock, turn=turn)
    serving_table.keep_up(settings, old)
    return follower
