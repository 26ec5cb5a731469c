"""Pages of the pipelines inside Airflow; they change nothing.

`view` is their content, `routes` their addresses and HTML; the plugin in `dags/plugins` decides who may read.
"""
