"""A tool that breaks lines of the kernel, one at a time, and says which tests notice (docs/tests.md)."""
