"""Dimensions: opened at one version, joined by Spark, joined again as they were."""
