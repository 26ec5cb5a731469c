"""Installation on one machine: packages, JARs, broker, Airflow, and the supervisor that runs them."""
