"""Validation of definitions: errors and warnings with file, field and hint."""
