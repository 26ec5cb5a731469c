"""Word, sign, colour and runbook of each verdict; the colour never carries the meaning alone."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from cutover.reconcile.result.finding import ACCEPTED_BEYOND_POLICY, EXPLAINED_BEYOND_POLICY, Verdict

if TYPE_CHECKING:
    from cutover.reconcile.result.report import Report

_BEYOND = {Verdict.EXPLAINED: EXPLAINED_BEYOND_POLICY, Verdict.ACCEPTED: ACCEPTED_BEYOND_POLICY}

RUNBOOKS: dict[str, str | None] = {
    Verdict.CONSISTENT: None,
    Verdict.EXPLAINED: None,
    EXPLAINED_BEYOND_POLICY: "LateRateHigh",
    Verdict.ACCEPTED: None,
    ACCEPTED_BEYOND_POLICY: "LateRateHigh",
    Verdict.DIVERGED: "DivergenceUnexplained",
    Verdict.NOT_COMPARABLE: "NotComparable",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictStyle:
    """Presentation of a verdict."""

    word: str
    sign: str
    tone: str  # a class of the style sheet


_STYLES = {
    Verdict.CONSISTENT: VerdictStyle(word="Consistent", sign="\N{CHECK MARK}", tone="good"),
    Verdict.EXPLAINED: VerdictStyle(word="Explained, within policy", sign="\N{CHECK MARK}", tone="good"),
    EXPLAINED_BEYOND_POLICY: VerdictStyle(word="Explained, beyond policy", sign="!", tone="warn"),
    Verdict.ACCEPTED: VerdictStyle(word="Accepted, within policy", sign="\N{CHECK MARK}", tone="warn"),
    ACCEPTED_BEYOND_POLICY: VerdictStyle(word="Accepted, beyond policy", sign="!", tone="warn"),
    Verdict.DIVERGED: VerdictStyle(word="Diverged", sign="\N{NOT EQUAL TO}", tone="bad"),
    Verdict.NOT_COMPARABLE: VerdictStyle(word="Not comparable", sign="?", tone="none"),
}


_TABLES = {"Consistent": "Equal", "Diverged": "Different"}


def name_report_outcome(result: "Report") -> str:
    """Return the verdict's name, distinguishing one beyond the policy from one within it."""
    return name_outcome(result.finding.verdict, within=result.finding.policy.within)


def name_outcome(verdict: Verdict, *, within: bool) -> str:
    """Return a verdict's name, distinguishing one beyond the policy from one within it."""
    return verdict.value if within else _BEYOND.get(verdict, verdict.value)


def find_report_style(result: "Report") -> VerdictStyle:
    """Word, sign and tone of the verdict, worded otherwise for two tables."""
    verdict_style = _STYLES[name_report_outcome(result)]
    return (
        replace(verdict_style, word=_TABLES.get(verdict_style.word, verdict_style.word))
        if result.finding.kind == "tables"
        else verdict_style
    )


def find_style(verdict: Verdict, *, within: bool) -> VerdictStyle:
    """Word, sign and tone of the verdict of a pipeline."""
    return _STYLES[name_outcome(verdict, within=within)]


def find_runbook(result: "Report") -> str | None:
    """Return the runbook that the result names, else that of its verdict; tables of another origin have none."""
    return result.finding.runbook or (
        RUNBOOKS[name_report_outcome(result)] if result.finding.kind == "pipeline" else None
    )
