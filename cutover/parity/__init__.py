"""Static analysis of SQL and Spark jobs: constructs on which a stream and a batch differ.

`rules` lists the constructs. `script` and `sql` check SQL, `job` and `jobs` Spark jobs in Python, `plans` query
plans; `purity` classifies Python functions.
"""
