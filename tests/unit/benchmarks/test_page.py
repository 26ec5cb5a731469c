from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

from benchmarks.figures import NAMES, measures
from benchmarks.results import page
from benchmarks.results.figure import Curve, Figure, Marked, ratio, value
from benchmarks.results.goals import BY_NAME, GOALS
from benchmarks.rounds import measure_interleaved

BARS = Figure(
    name="epoch",
    title="Trigger time",
    values=(ratio("epoch_noop", (0.20, 0.23, 0.22), (0.2, 0.2, 0.2)),),
    sizes={"events": 5_000},
    unit="s",
    samples={"ours": (0.24, 0.30, 0.26), "noop <limit>": (0.2, 0.2, 0.2)},
    equal=("2,400 rows",),
    machine={"cores": "2"},
    command="make bench ONLY=epoch",
)
CURVES = Figure(
    name="sustained",
    title="Sustained rate",
    values=(value("sustained_rate", (50_000.0,)),),
    sizes={},
    unit="events/s",
    samples={"ours": (50_000.0,)},
    curve=Curve(
        title="backlog",
        x="seconds",
        y="events",
        lines={"backlog": ((0.0, 0.0), (10.0, 250_000.0))},
        marks=(Marked(at=5.0, text="20,000/s"),),
    ),
    command="make bench ONLY=sustained",
)


def written(folder: Path) -> str:
    page.store(folder, BARS)
    page.store(folder, CURVES)
    page.write(folder)
    return (folder / "benchmarks.md").read_text(encoding="utf-8")


def test_figure_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    page.store(tmp_path, CURVES)

    assert Figure.read(tmp_path / "benchmarks" / "sustained.json") == CURVES


def test_row_shows_goal_median_spread_and_command(tmp_path: Path) -> None:
    goal = BY_NAME["epoch_noop"]

    assert f"| {goal.text} | <= 1.15 | 1.1 (1 to 1.15) | yes | `make bench ONLY=epoch` |" in written(tmp_path)


def test_missed_goal_is_reported(tmp_path: Path) -> None:
    page.store(tmp_path, replace(BARS, values=(value("epoch_noop", (1.16,)),)))
    page.write(tmp_path)

    assert "| <= 1.15 | 1.16 | **no** |" in (tmp_path / "benchmarks.md").read_text(encoding="utf-8")


def test_goal_without_a_figure_is_named_as_not_measured(tmp_path: Path) -> None:
    assert f"Not measured: {BY_NAME['restart'].text}." in written(tmp_path)


def test_smaller_sizes_are_reported(tmp_path: Path) -> None:
    page.store(tmp_path, replace(BARS, full=False))
    page.write(tmp_path)

    assert "(smaller sizes)" in (tmp_path / "benchmarks.md").read_text(encoding="utf-8")


def test_pictures_are_well_formed_and_show_every_variant(tmp_path: Path) -> None:
    written(tmp_path)
    texts = [
        "".join(element.itertext())
        for name in ("epoch", "sustained")
        for element in ET.parse(tmp_path / "benchmarks" / f"{name}.svg").iter()  # noqa: S314 -- written a line above
    ]

    assert {"ours", "noop <limit>", "backlog", "20,000/s"} <= set(texts)


def test_every_goal_belongs_to_an_existing_module() -> None:
    assert (len(GOALS), sorted(measures())) == (len(BY_NAME), sorted(NAMES))


def test_first_round_is_dropped_and_variants_take_turns() -> None:
    order: list[str] = []

    def variant(name: str) -> float:
        order.append(name)
        return float(len(order))

    samples = measure_interleaved({"a": lambda _: variant("a"), "b": lambda _: variant("b")}, rounds=2)

    assert (order, samples) == (["a", "b", "b", "a", "a", "b"], {"a": (4.0, 5.0), "b": (3.0, 6.0)})
