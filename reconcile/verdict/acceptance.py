"""Application of acceptance rules to the listed differences of a comparison. Pure.

A rule changes no finding. It exempts unexplained rows from the verdict while it is in force and matches no more rows
than it allows; otherwise it accepts nothing, so that a rule cannot grow with a defect.
"""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import lru_cache

from cutover.definition.loading.key_text import format_values, parse_key
from cutover.definition.model.policy import AcceptanceRule, AcceptanceRules
from cutover.reconcile.attribution.causes import UNEXPLAINED
from cutover.reconcile.result import text
from cutover.reconcile.result.finding import AcceptedRows, Difference, RuleState

Place = tuple[str, str]  # window start (ISO), key (JSON)


@dataclass(frozen=True, slots=True, kw_only=True)
class Acceptance:
    """Rules of a pipeline, and the time that decides whether they have expired."""

    rules: AcceptanceRules = field(default_factory=AcceptanceRules)
    now: datetime | None = None  # None: there are no rules


NOTHING = Acceptance()


def place_of(cell: Difference) -> Place:
    """Return the (window, key) row of a cell."""
    return cell.window_start or "", json.dumps(dict(cell.key), sort_keys=True)


def apply_rules(
    acceptance: Acceptance, differences: Sequence[Difference]
) -> tuple[tuple[Difference, ...], tuple[AcceptedRows, ...]]:
    """Apply the rules: return the cells, each with the rule that accepts its row, and the outcome of each rule.

    A row is matched by the first rule, in the order of their names, whose range, keys, kinds and measures fit it. The
    state of the rule does not matter, so that no other rule conceals an expired one.

    Args:
        acceptance: Rules and time.
        differences: All cells of the listed rows of a comparison.
    """
    matches = _match(acceptance, differences)
    outcomes = {name: _judge_rule(acceptance, name, matches.get(name, {})) for name in acceptance.rules.rules}
    in_force = {
        place: name
        for name, places in matches.items()
        if outcomes[name].state is RuleState.IN_FORCE
        for place in places
    }
    cells = tuple(
        replace(cell, accepted_by=in_force.get(place_of(cell))) if UNEXPLAINED in cell.cause else cell
        for cell in differences
    )
    unreadable = [
        AcceptedRows(rule=name, state=RuleState.UNREADABLE, rows=0, why=problem)
        for name, problem in acceptance.rules.problems.items()
    ]
    return cells, tuple(sorted((*outcomes.values(), *unreadable), key=lambda outcome: outcome.rule))


def count_accepted_rows(outcomes: Sequence[AcceptedRows]) -> int:
    """Count the (window, key) rows that rules accept."""
    return sum(outcome.rows for outcome in outcomes if outcome.state is RuleState.IN_FORCE)


def describe_unfit(outcomes: Sequence[AcceptedRows]) -> tuple[str, ...]:
    """Describe each rule that accepts nothing because it has expired, matches too much, or cannot be read."""
    return tuple(f"Rule `{outcome.rule}` accepts nothing: {outcome.why}." for outcome in outcomes if outcome.why)


def _match(acceptance: Acceptance, differences: Sequence[Difference]) -> dict[str, dict[Place, list[Difference]]]:
    """Map each rule to the rows that it matches first, with their cells."""
    rows: dict[Place, list[Difference]] = defaultdict(list)
    for cell in differences:
        if UNEXPLAINED in cell.cause:
            rows[place_of(cell)].append(cell)
    matches: dict[str, dict[Place, list[Difference]]] = defaultdict(dict)
    for place, cells in rows.items():
        name = next((name for name, rule in acceptance.rules.rules.items() if fits(rule, cells)), None)
        if name is not None:
            matches[name][place] = cells
    return matches


def fits(rule: AcceptanceRule, cells: Sequence[Difference]) -> bool:
    """Return whether a rule matches a row, whatever the state of the rule.

    Args:
        rule: The rule.
        cells: All cells of one row.
    """
    first_cell = cells[0]
    start = text.parse_iso_time(first_cell.window_start)
    return (
        start is not None
        and rule.has_window(start)
        and (
            not rule.keys
            or format_values(first_cell.key.values()) in _read_keys(tuple(rule.keys), tuple(first_cell.key))
        )
        and (not rule.kinds or all(cell.kind in rule.kinds for cell in cells))
        and (not rule.measures or all(cell.measure in rule.measures for cell in cells))
    )


@lru_cache(maxsize=256)
def _read_keys(keys: tuple[str, ...], columns: tuple[str, ...]) -> frozenset[str]:
    """Normalize the keys of a rule to the form of listed keys."""
    return frozenset(format_values(parse_key(key, columns)) for key in keys)


def _judge_rule(acceptance: Acceptance, name: str, rows: Mapping[Place, Sequence[Difference]]) -> AcceptedRows:
    rule = acceptance.rules.rules[name]
    state, reason = RuleState.IN_FORCE, _describe_excess(rule, rows)
    if reason is not None:
        state = RuleState.EXCEEDED
    if acceptance.now is None or rule.is_expired(acceptance.now):
        state, reason = RuleState.EXPIRED, f"it has expired, {rule.expires:%Y-%m-%d %H:%M} UTC"
    return AcceptedRows(
        rule=name,
        state=state,
        rows=len(rows),
        why=reason,
        reason=rule.reason,
        owner=rule.owner,
        expires=rule.expires.isoformat().replace("+00:00", "Z"),
        digest=rule.digest,
    )


def _describe_excess(rule: AcceptanceRule, rows: Mapping[Place, Sequence[Difference]]) -> str | None:
    """Describe by how much the rows exceed what a rule allows; None if they do not."""
    if len(rows) > rule.max_rows:
        return f"{text.count_noun(len(rows), 'row')} fit it, and it allows {rule.max_rows:,}"
    for measure, limit in sorted(rule.max_volume.items()):
        amounts = [cell.difference for cells in rows.values() for cell in cells if cell.measure == measure]
        numbers = [abs(float(amount)) for amount in amounts if isinstance(amount, int | float)]
        if len(numbers) < len(amounts):
            return f"`{measure}` has differences that are not numbers, and it allows {limit:g}"
        if not sum(sorted(numbers)) <= limit:
            return f"`{measure}` differs by {sum(sorted(numbers)):g} in all, and it allows {limit:g}"
    return None
