"""Static analysis of SQL and Spark jobs: constructs on which a stream and a batch differ.

`rules` lists the constructs, and classifies Python functions. `job` checks a file: a Spark job in Python by `jobs`, a
script by `sql`. `plans` checks query plans.
"""
