"""Static analysis of SQL and Spark jobs: constructs on which a stream and a batch differ.

`rules` lists the constructs, classifies Python functions and checks SQL. `job` checks a file: a Spark job in Python by
`jobs`, or a script. `plans` checks query plans.
"""
