"""The shared core: the definition, the log, the records, the lake. Imports nothing else of ours."""
