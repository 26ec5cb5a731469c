"""The commands of the reconciler: comparisons, checks, the watch and the gate."""
