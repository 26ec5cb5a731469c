"""Benchmarks: each figure a module with one `measure`, each peer a small file, docs/benchmarks.md written from JSON."""
