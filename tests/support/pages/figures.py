"""Figures 6 to 14 of The Dataflow Model (Akidau et al., VLDB 2015, section 2.4), from docs/scenarios."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cutover.scenarios.reading.parse import parse_scenario
from cutover.scenarios.reading.setting import Scenario

DOCS = Path(__file__).parents[3] / "docs" / "scenarios"
FILE = DOCS / "dataflow-figures.json"
EXAMPLES = sorted(file for file in DOCS.glob("*.json") if not file.name.endswith(".schema.json"))
"""Every scenario file of the documentation."""


def _cases() -> Mapping[int, dict[str, Any]]:
    file = json.loads(FILE.read_text(encoding="utf-8"))
    return {case["case"]: {"points": file["points"], **case} for case in file["cases"]}


FIGURES = _cases()
"""Each figure as its scenario file has it."""


def read_figure(number: int) -> dict[str, Any]:
    """Return a figure as a scenario file has it."""
    return dict(FIGURES[number])


def scenario(number: int) -> Scenario:
    """Return a figure, parsed."""
    return parse_scenario(read_figure(number), default_title=f"figure {number}")
