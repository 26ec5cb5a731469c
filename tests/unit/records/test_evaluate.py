"""Evaluation by the engine that a process shares: it survives a fork."""

import subprocess
import sys

FORKS = """
import os, sys
from cutover.records.reference.evaluation import evaluate_expressions
from tests.integration.streaming import rig

def evaluate():
    return evaluate_expressions(rig.pipeline("clicks"), [{"id": 7, "k": "a", "at": 1}])[0].values["ids"]

expected = evaluate()
child = os.fork()
if not child:
    sys.exit(0 if evaluate() == expected == 7 else 9)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) or (evaluate() != expected))
"""


def test_a_forked_child_can_evaluate_and_exit() -> None:
    process = subprocess.run([sys.executable, "-c", FORKS], timeout=60, check=False, capture_output=True)

    assert process.returncode == 0, process.stderr
