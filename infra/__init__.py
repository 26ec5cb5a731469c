"""Installation on one machine.

`installation` starts and stops it: `processes` supervises `broker` and `airflow`, whose environment `install` prepares;
`cluster` adds a Spark cluster. `status` and `doctor` describe it. `demo` and `drills` run on it or on a separate stack;
`cli` has the commands of all of them.
"""
