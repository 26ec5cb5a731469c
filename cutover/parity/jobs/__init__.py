"""Spark jobs in Python: interpreted without running them, and each query checked by its lineage.

`interpreter` follows statements (`flow`, `paths`) and evaluates `expressions`, `operations` and `calls` to abstract
`values`. Methods are in `methods`, `frames`, `sources` and `writers`, functions in `functions`, SQL in `sqltext`.
`trace` collects queries, and `queries`, `appends` and `eventtime` check them.
"""
