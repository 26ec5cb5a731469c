"""Reconciler on tables of a real lake, made without Spark or Kafka."""
