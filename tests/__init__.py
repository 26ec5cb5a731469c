"""Tests, by kind: unit, spec, property, dags, integration, e2e."""
