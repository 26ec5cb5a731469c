"""Commands that check Cutover itself: `cutover verify`, `audit`, `noise` and `selftest`.

`verify` evaluates every check that must always hold. `audit determinism` and `noise` replay the log, `audit windows`
samples what is served. `selftest` measures how often the reconciler itself errs, on copies of a pipeline's tables.
"""

import secrets
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from cutover.cli.definitions import load_command_definition
from cutover.clock import SystemClock
from cutover.counts import count_clause, count_noun
from cutover.definition.loading import catalogue
from cutover.lake.integrity import scrub
from cutover.lake.integrity.scrub import Scrubbed
from cutover.output.console import Line, Output, make_table, show_bar, show_spinner, styled
from cutover.pipeline_lake import PipelineLake
from cutover.reconcile.audit import run
from cutover.reconcile.audit.noise import Noise, describe_noise, make_rule, measure_noise, record_noise
from cutover.reconcile.audit.run import DeterminismAudit, DifferenceSize
from cutover.reconcile.journal_rows import record_self_test
from cutover.reconcile.result import text
from cutover.reconcile.result.measurements import CLEAN_WINDOWS, SelfTest
from cutover.reconcile.result.parts import KindRates, Rate, list_uncounted
from cutover.reconcile.selftest.trials import self_test
from cutover.reconcile.verify.facts.facts import CheckResult, CheckState, Verification
from cutover.reconcile.verify.record import verify_and_record
from cutover.settings import Settings, load_settings

if TYPE_CHECKING:
    from cutover.reconcile.verdict.history import WindowAudit


app = typer.Typer(help="Compute from the log again and compare the answers.", no_args_is_help=True)


@app.callback()
def audit() -> None:
    """Compute from the log again and compare: the log with itself, or some final windows with what is served."""


@app.command()
def determinism(
    pipeline: Annotated[str, typer.Argument(help="Name of a pipeline.")],
    *,
    replays: Annotated[int, typer.Option("--replays", min=1, max=100, help="How many.")] = 3,
    seed: Annotated[int | None, typer.Option("--seed", help="Draws them; another one each time if not given.")] = None,
) -> Output:
    """Replay with other epochs, another order, other tasks: 0 the same answer, 1 another one. Reads only."""
    settings = load_settings()
    definition = catalogue.get(settings, pipeline)
    audit_seed = secrets.randbelow(2**31) if seed is None else seed
    determinism_audit = run.audit_determinism(PipelineLake(settings, definition), replays=replays, seed=audit_seed)
    return Output(
        document=asdict(determinism_audit) | {"exit_code": determinism_audit.exit_code},
        lines=_list_determinism_lines(determinism_audit),
        exit_code=determinism_audit.exit_code,
    )


def _list_determinism_lines(audit: DeterminismAudit) -> Iterator[Line]:
    same = f"all {len(audit.replays)} replays gave the same answer"
    yield styled((audit.pipeline, "bold"), ": ", "a replay gives another answer" if audit.exit_code else same)
    yield f"{count_noun(audit.records, 'offset')}, {count_noun(audit.rows, '(window, key) row')}, seed {audit.seed}"
    yield make_table(
        ("replay", "epochs", "tasks", "late"),
        ((replay.replay, replay.epochs, replay.tasks, f"{replay.late:,}") for replay in audit.replays),
    )
    for replay in audit.replays:
        for blamed in replay.blamed:
            extent = "in the last digits of a double" if blamed.within_tolerance else "beyond any tolerance"
            place = f"replay {replay.replay}: {blamed.column} (`{blamed.expression}`)"
            yield f"{place}: {count_clause(blamed.rows, 'row', 'differs', 'differ')} {extent}, such as {blamed.example}"


@app.command()
def windows(
    pipeline: Annotated[str, typer.Argument(help="Name of a pipeline.")],
    *,
    seed: Annotated[int | None, typer.Option("--seed", help="Draws them; another one each time if not given.")] = None,
    put_back: Annotated[
        bool, typer.Option("--put-back", help="From KAPPA to LAMBDA where something is wrong.")
    ] = False,
) -> Output:
    """Recompute a sample of windows that became final: 0 it agrees or nothing is new, 1 a regression, 2 no word."""
    from cutover.reconcile.audit import window_sample
    from cutover.reconcile.gate import stage

    settings, clock = load_settings(), SystemClock()
    definition = load_command_definition(settings, pipeline)
    audit_seed = secrets.randbelow(2**31) if seed is None else seed
    with show_spinner(f"{pipeline}: computing the sample from the log"):
        lake = PipelineLake(settings, definition)
        window_audit = window_sample.audit_windows(lake, seed=audit_seed, clock=clock)
        rolled_back = put_back and stage.roll_back_regression(lake, clock)
    return Output(
        document=asdict(window_audit) | {"exit_code": window_audit.exit_code, "put_back": rolled_back},
        lines=_list_window_lines(window_audit, rolled_back=rolled_back),
        exit_code=window_audit.exit_code,
    )


def _list_window_lines(window_audit: "WindowAudit", *, rolled_back: bool) -> Iterator[Line]:
    from cutover.reconcile.audit import window_sample

    yield from window_audit.examples
    yield from window_sample.describe_audit(window_audit)
    yield window_sample.describe_next_step(window_audit, rolled_back=rolled_back)


def noise(
    pipeline: Annotated[str, typer.Argument(help="Name of a pipeline.")],
    *,
    batches: Annotated[int, typer.Option("--batches", min=1, max=20, help="With other tasks.")] = 2,
    streams: Annotated[int, typer.Option("--streams", min=1, max=20, help="With other epoch ends.")] = 2,
    seed: Annotated[int | None, typer.Option("--seed", help="Draws them; another one each time if not given.")] = None,
) -> Output:
    """Compute the same records several times: 0 one answer, 1 noise and its size, 2 not to be judged. Served as is."""
    settings, clock = load_settings(), SystemClock()
    definition = catalogue.get(settings, pipeline)
    noise_seed = secrets.randbelow(2**31) if seed is None else seed
    measured = measure_noise(
        PipelineLake(settings, definition), batches=batches, streams=streams, seed=noise_seed, clock=clock
    )
    record_noise(settings, measured, clock)
    rule = make_rule(measured, definition)
    return Output(
        document=asdict(measured) | {"exit_code": measured.exit_code, "proposed_rule": rule},
        lines=_list_noise_lines(measured, rule),
        exit_code=measured.exit_code,
    )


def _list_noise_lines(noise: Noise, rule: str | None) -> Iterator[Line]:
    if noise.measures:
        yield make_table(
            ("measure", "differs in", "rows", "half", "95 %", "99 %", "largest", "relative"),
            (
                (
                    measure.column,
                    " and ".join(measure.paths),
                    f"{measure.rows:,}",
                    *(("",) * 5 if measure.size is None else map(text.format_number, _list_sizes(measure.size))),
                )
                for measure in noise.measures
            ),
        )
    for measure in noise.measures:
        yield f"{measure.column} (`{measure.expression}`), such as {measure.example}"
    if rule is not None:
        yield f"A rule that it fits into, in pipelines/accepted/{noise.pipeline}/noise.toml once filled in:"
        yield from rule.rstrip().split("\n")
    yield f"{describe_noise(noise)} {_describe_next_step(noise)}"


def _list_sizes(size: DifferenceSize) -> tuple[float, ...]:
    return size.half, size.p95, size.p99, size.largest, size.relative


def _describe_next_step(noise: Noise) -> str:
    if not noise.measures:
        return f"Next: `cutover reconcile {noise.pipeline}`; over these records no tolerance was needed."
    return "Next: give each expression one answer; doubles, sums and counts have one here. Nothing is accepted by this."


_SHOWN = 10


def selftest(
    pipeline: Annotated[str, typer.Argument(help="Name of a pipeline.")],
    *,
    seed: Annotated[int | None, typer.Option("--seed", help="Draws defects; another each time if not given.")] = None,
    trials: Annotated[int, typer.Option("--trials", min=1, max=10_000, help="Comparisons.")] = 40,
) -> Output:
    """Plant defects in copies of both sides and compare: 0 all were found and nothing else, 1 not, 2 no comparison."""
    settings = load_settings()
    self_test = _run(settings, pipeline, secrets.randbelow(2**31) if seed is None else seed, trials)
    record_self_test(settings, self_test, SystemClock())
    return Output(
        document=asdict(self_test) | {"passed": self_test.passed},
        lines=_list_lines(self_test),
        exit_code=0 if self_test.passed else 1,
    )


def _run(settings: Settings, pipeline: str, seed: int, trials: int) -> SelfTest:
    definition = catalogue.get(settings, pipeline)
    with show_bar("Comparing copies with planted defects") as update:
        return self_test(
            PipelineLake(settings, definition), seed=seed, trials=trials, clock=SystemClock(), progress=update
        )


def _list_lines(self_test: SelfTest) -> Iterator[Line]:
    yield _tabulate(self_test)
    yield f"found        {_format_rate(self_test.detection_rate, 'planted rows')}"
    yield f"false alarms {_format_rate(self_test.false_alarm_rate, 'clean windows')}"
    yield f"named right  {_format_rate(self_test.right_cause_rate, 'rows')}"
    for count, reason in list_uncounted(self_test.rates):
        yield f"not counted  {count:,} {reason}"
    for failure in self_test.failures[:_SHOWN]:
        yield f"wrong  {failure}"
    yield _word_result(self_test)


def _tabulate(self_test: SelfTest) -> Table:
    heads = ("found", "95 %", "false alarms", "95 %", "named right", "95 %", "refused", "not judged")
    return make_table(
        ("planted", *heads),
        (
            (
                kind,
                *(cell for rate in _rates_of(kind_rates) for cell in (f"{rate.hits:,} of {rate.of:,}", _bounds(rate))),
                f"{kind_rates.refused:,}",
                f"{kind_rates.not_compared:,}",
            )
            for kind, kind_rates in self_test.by_kind.items()
        ),
        right=heads,
        no_wrap=heads,
    )


def _rates_of(kind_rates: KindRates) -> tuple[Rate, Rate, Rate]:
    return kind_rates.detection_rate, kind_rates.false_alarm_rate, kind_rates.right_cause_rate


def _bounds(rate: Rate) -> str:
    return f"{text.share(rate.lower)} to {text.share(rate.upper)}" if rate.of else "-"


def _format_rate(rate: Rate, noun: str) -> str:
    bounds = f"between {text.share(rate.lower)} and {text.share(rate.upper)} with 95 %"
    return f"{rate.hits:,} of {rate.of:,} {noun}: {bounds}"


def _word_result(self_test: SelfTest) -> str:
    took = f"{text.count_noun(self_test.trials, 'comparison')} at epoch {self_test.epoch}, seed {self_test.seed}"
    if self_test.passed:
        return f"{self_test.pipeline} passed its self-test: {took}. Next: `cutover gate {self_test.pipeline} show`."
    few = self_test.false_alarm_rate.of < CLEAN_WINDOWS and not self_test.failures
    if few:
        return f"Too few clean windows to pass, {CLEAN_WINDOWS:,} are needed: {took}. Next: more `--trials`."
    repeat_command = f"`cutover selftest {self_test.pipeline} --seed {self_test.seed} --trials {self_test.trials}`"
    failed = f"{self_test.pipeline} failed its self-test: {took}."
    return f"{failed} Next: trust no verdict until this is fixed, then {repeat_command}."


_WORDS = {
    CheckState.HELD: ("holds", "green"),
    CheckState.VIOLATED: ("violated", "bold red"),
    CheckState.NOT_PROVABLE: ("not provable", "yellow"),
    CheckState.WAIVED: ("waived", "yellow"),
}
_SENTENCES = {0: "every check holds", 1: "a check is violated", 2: "not every check could be evaluated"}


def list_verification_lines(verification: Verification) -> Iterator[Line]:
    """Yield a verification: its result, the checks, and the details of those that do not hold."""
    at = (
        ""
        if verification.epoch is None
        else f" at epoch {verification.epoch:,}, table version {verification.table_version:,}"
    )
    yield styled((verification.pipeline, "bold"), f"{at}: {_SENTENCES[verification.exit_code]}")
    if verification.error is not None:
        yield verification.error
        yield from _list_details(check for check in verification.checks.values() if check.violations)
    else:
        yield _tabulate_checks(verification)
        yield from _list_details(verification.checks.values())
    if verification.runbook:
        yield f"runbook  docs/runbooks/{verification.runbook}.md"
    yield f"{verification.seconds:.1f} s"


def list_scrub_lines(scrubbed: Scrubbed) -> Iterator[Line]:
    """Yield the result of a scrub: how much was checked, and the damaged files."""
    yield f"{scrubbed.files:,} of {count_noun(scrubbed.listed, 'file')} checked, {scrubbed.size:,} bytes"
    if scrubbed.unnamed:
        files = count_clause(scrubbed.unnamed, "file", "was", "were")
        yield f"{files} written by other writers: their bytes cannot be checked"
    for damage in scrubbed.damaged:
        yield styled((damage, "red"))
    if scrubbed.damaged:
        yield "runbook  docs/runbooks/TableUnreadable.md"
    elif not scrubbed.is_whole:
        yield "the next run continues from here"


def _tabulate_checks(verification: Verification) -> Table:
    return make_table(
        ("check", "", "", "coverage", "s"),
        (
            (check.name, check.title, styled(_WORDS[check.state]), check.coverage, f"{check.seconds:.1f}")
            for check in verification.checks.values()
        ),
        right=("s",),
    )


def _list_details(checks: Iterable[CheckResult]) -> Iterator[Line]:
    for check in checks:
        for violation in check.violations:
            yield styled(f"{check.name}  ", (violation.text, "red"))
        if check.reason:
            yield styled(f"{check.name}  ", (check.reason, "yellow"))
        for note in check.notes:
            yield styled(f"{check.name}  ", (note, "dim"))


def verify(
    pipeline: Annotated[str, typer.Argument(help="Name of a pipeline.")],
    *,
    only: Annotated[str, typer.Option("--only", help="Some of the checks, such as N1,N3.")] = "",
    exhaustive: Annotated[bool, typer.Option("--all", help="Recompute and count all that the log holds.")] = False,
    seed: Annotated[int | None, typer.Option("--seed", help="Of the sample that is recomputed.")] = None,
    files: Annotated[bool, typer.Option("--files", help="Check the bytes of listed files, in pieces.")] = False,
) -> Output:
    """Check what must hold whatever happened: 0 all holds, 1 something does not, 2 cannot be judged; recorded."""
    settings = load_settings()
    if files:
        return _scrub(PipelineLake(settings, load_command_definition(settings, pipeline)), check_all=exhaustive)
    names = [name.strip().upper() for name in only.split(",") if name.strip()]
    verification = verify_and_record(
        PipelineLake(settings, load_command_definition(settings, pipeline)),
        only=names,
        exhaustive=exhaustive,
        seed=seed,
    )
    return Output(
        document=verification.to_json(),
        lines=list_verification_lines(verification),
        exit_code=verification.exit_code,
    )


def _scrub(lake: PipelineLake, *, check_all: bool) -> Output:
    scrubbed = scrub.scrub_files(lake, max_bytes=None if check_all else scrub.PIECE)
    lines = list_scrub_lines(scrubbed)
    return Output(document=scrubbed.to_json(), lines=lines, exit_code=2 if scrubbed.damaged else 0)


COMMANDS = {
    "audit": app,
    "noise": noise,
    "selftest": selftest,
    "verify": verify,
}
