"""Pages of the pipelines inside Airflow; they change nothing.

`view` is their content, `routes` their addresses and HTML, `airflow_access` decides who may read.
"""
