"""Kafka broker of an installation, and the timestamp settings of topics."""
