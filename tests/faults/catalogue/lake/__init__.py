"""Faults of tables, files and disks."""
