"""What a machine needs: packages, JARs, the broker, Airflow, and one supervisor that holds them."""
