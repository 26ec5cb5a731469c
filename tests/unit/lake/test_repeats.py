"""Replays of each path, found by the entry points of the installation."""

from collections.abc import Callable
from importlib.metadata import EntryPoint, EntryPoints

import pytest

from cutover.batch.recompute import recompute_apart
from cutover.errors import LakeError
from cutover.lake import registered_functions
from cutover.streaming.simulation.repeated import repeat


def test_each_path_registers_its_replay() -> None:
    assert (registered_functions.find_repeat(), registered_functions.find_recompute()) == (repeat, recompute_apart)


@pytest.mark.parametrize(
    ("find", "name", "other"),
    [
        (registered_functions.find_repeat, "streaming", "batch"),
        (registered_functions.find_recompute, "batch", "streaming"),
    ],
)
def test_installation_without_a_path_is_rejected_with_a_hint(
    monkeypatch: pytest.MonkeyPatch, find: Callable[[], object], name: str, other: str
) -> None:
    registered = EntryPoints([EntryPoint(name=other, value="builtins:len", group=registered_functions.REPEATS)])
    monkeypatch.setattr(registered_functions, "entry_points", registered.select)

    with pytest.raises(LakeError, match=rf"(?s)`cutover.repeats`: expected `{name}`, found none.*make setup"):
        find()
