"""The shared core: the definition, the log, the records, the lake. Imports no other package of Cutover."""
