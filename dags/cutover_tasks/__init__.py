"""What the tasks of DAGs do. Airflow puts the folder above on its path; a DAG file names a task, a module its work."""
