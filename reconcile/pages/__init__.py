"""Pages of the pipelines inside Airflow: what a reader sees, and who may; they change nothing."""
