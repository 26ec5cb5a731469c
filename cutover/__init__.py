"""Shared core: definitions, the log, records and the lake. Imports no other package of Cutover."""
