"""A drill never runs where real pipelines run: it is refused before anything is started."""

from pathlib import Path

import pytest

from cutover.errors import DefinitionError
from cutover.infra.drills.place import own_place
from cutover.settings import KafkaSettings, Settings


def settings(**changes: object) -> Settings:
    """Return settings in which nobody named a home."""
    made = Settings(lake=None, kafka=KafkaSettings()).model_copy(update=changes)
    made.model_fields_set.discard("home")
    return made


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"lake": "s3://lake/of-others"}, "lake"),
        ({"kafka": KafkaSettings(bootstrap_servers="kafka.example:9092")}, "kafka.bootstrap_servers"),
    ],
)
def test_drill_is_refused_beside_settings_of_real_pipelines(changes: dict[str, object], name: str) -> None:
    with pytest.raises(DefinitionError, match=f"got the setting `{name}`"), own_place(settings(**changes), None):
        pass


@pytest.mark.parametrize("inside", ["lake/flights", "run/broker.json", "notes.txt"])
def test_drill_is_refused_in_a_home_that_holds_anything(inside: str, tmp_path: Path) -> None:
    home = tmp_path / ".cutover"
    (home / inside).mkdir(parents=True)

    with pytest.raises(DefinitionError, match="expected an empty folder or none"), own_place(Settings(home=home), None):
        pass


def test_drill_is_refused_in_a_named_folder_that_holds_anything(tmp_path: Path) -> None:
    (tmp_path / "lake").mkdir()

    with pytest.raises(DefinitionError, match="a drill breaks what it finds"), own_place(settings(), tmp_path):
        pass


def test_folder_that_was_named_is_kept_and_another_one_is_removed(tmp_path: Path) -> None:
    with own_place(settings(), tmp_path / "kept") as kept:
        kept.mkdir()
    with own_place(settings(), None) as made:
        assert made.is_dir()

    assert (kept.exists(), made.exists()) == (True, False)
