"""Workloads of the figures: events, lakes, tables, streams, and the drivers that read them."""
