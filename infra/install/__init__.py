"""Parts of the environment that the bootstrap installs and checks.

`jars` fetches JARs for the Java runtime, and `class_archive` makes Spark start faster.
"""
