"""`cutover parity FILE...`: constructs in SQL, Spark jobs and plans on which a stream and a batch differ."""

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

import typer

from cutover.counts import count_noun
from cutover.errors import DefinitionError
from cutover.output.console import Output
from cutover.parity.job import check_job, check_script
from cutover.parity.plans.live import check_text
from cutover.parity.rules import Construct, ParityFinding

NO_CONSTRUCT, HAS_CONSTRUCT, NOT_UNDERSTOOD = 0, 1, 2
WHOLE_FILE = "the whole file"


def parity(
    files: Annotated[list[Path] | None, typer.Argument(help="Files of SQL (.sql) or Python (.py).")] = None,
    *,
    plans: Annotated[
        list[Path] | None,
        typer.Option("--plan", help='What df.explain("extended") printed, or toJSON of a plan; may be given again.'),
    ] = None,
) -> Output:
    """Check SQL, jobs and plans before anything runs.

    Exit code 0: no construct, and everything was understood. 1: at least one construct. 2: no construct, but something
    was not understood, or a file cannot be read.
    """
    job_files, plan_files = files or [], plans or []
    if not job_files and not plan_files:
        msg = "expected files of SQL (.sql) or Python (.py), or --plan FILE."
        raise DefinitionError(msg)
    logging.getLogger("sqlglot").setLevel(logging.ERROR)  # its warnings are reported as not understood
    findings = [finding for file in job_files for finding in _check_readable(check_file, file)]
    findings += [finding for file in plan_files for finding in _check_readable(check_plan, file)]
    findings.sort(key=lambda finding: finding.subject.startswith(WHOLE_FILE))  # files that cannot be read come last
    return Output(
        document=[_encode_finding(finding) for finding in findings],
        lines=[
            *(finding.sentence for finding in findings),
            summarize_findings(findings, files=len(job_files) + len(plan_files)),
        ],
        exit_code=get_exit_code(findings),
    )


def _encode_finding(finding: ParityFinding) -> dict[str, object]:
    """Return a finding as the JSON object that `--json` prints."""
    return {
        "file": finding.file,
        "line": finding.line,
        "construct": finding.construct,
        "what": finding.subject,
        "sentence": finding.sentence,
        "page": finding.page,
    }


def _check_readable(check: Callable[[Path], tuple[ParityFinding, ...]], file: Path) -> tuple[ParityFinding, ...]:
    """Return the findings of a file; an unreadable file becomes a finding, so that other files are still checked."""
    try:
        return check(file)
    except DefinitionError as error:
        message = str(error).removeprefix(f"{file}: ").removeprefix(f"`{file}`: ")
        unreadable = ParityFinding(
            file=str(file), line=1, construct=Construct.NOT_UNDERSTOOD, subject=f"{WHOLE_FILE}: {message}"
        )
        return (unreadable,)


def get_exit_code(findings: Sequence[ParityFinding]) -> int:
    """Return 1 if the findings contain a construct, 2 if only places that were not understood, else 0."""
    if not findings:
        return NO_CONSTRUCT
    return (
        HAS_CONSTRUCT
        if any(finding.construct is not Construct.NOT_UNDERSTOOD for finding in findings)
        else NOT_UNDERSTOOD
    )


def summarize_findings(findings: Sequence[ParityFinding], *, files: int) -> str:
    """Return the last line: the numbers of constructs and of places that were not understood."""
    gaps = sum(finding.construct is Construct.NOT_UNDERSTOOD for finding in findings)
    constructs, checked = len(findings) - gaps, count_noun(files, "file")
    places = f"{count_noun(gaps, 'place')} not understood"
    if gaps and not constructs:
        return f"{places} in {checked}: whether a stream and a batch agree there is not known. Next: read these lines."
    text = f"{count_noun(constructs, 'construct')} in {checked} on which a stream and a batch differ"
    text += f", and {places}." if gaps else "."
    if constructs:
        text += " Next: apply the advice after `instead`, or compare the results of both paths."
    return text


def check_file(file: Path) -> tuple[ParityFinding, ...]:
    """Return the findings of a SQL or Python file.

    Raises:
        DefinitionError: The file cannot be read, or is neither SQL nor Python.
    """
    if file.suffix not in {".sql", ".py"}:
        msg = f"`{file}`: expected a file of SQL (.sql) or Python (.py)."
        raise DefinitionError(msg)
    text = _read(file)
    return check_script(text, str(file)) if file.suffix == ".sql" else check_job(text, str(file))


def check_plan(file: Path) -> tuple[ParityFinding, ...]:
    """Return the findings of a plan's text or JSON.

    Raises:
        DefinitionError: The file cannot be read, or is not a plan.
    """
    return check_text(_read(file), str(file))


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        msg = f"`{file}`: expected a text in UTF-8 that can be read, got: {error}"
        raise DefinitionError(msg) from None


COMMANDS = {"parity": parity}
