"""Work of the DAGs' tasks: DAG files declare them, modules here implement them; Airflow adds `dags/` to its path."""
