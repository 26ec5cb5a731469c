"""Installation on one machine.

`installation` starts, stops and describes it: `processes` supervises `broker` and `airflow`, whose environment
`install` prepares. `doctor` diagnoses it. `demo` and `drills` run on it or on a
separate stack; `cli` has the commands of all of them.
"""
