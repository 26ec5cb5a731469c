"""Compilation of definitions to SQL texts, types and fingerprints."""
