"""Spark jobs in Python: interpreted without running them, and each query checked by its lineage.

`interpreter` follows statements (`flow`, `paths`) and evaluates `expressions` and `calls` to abstract `values`, with
operators in `containers`. Methods are in `methods`, `frames` and `readers_and_writers`, SQL in `sqltext`. `trace`
collects queries, and `queries`, `appends` and `eventtime` check them.
"""
