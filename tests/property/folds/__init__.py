"""Folds that give the same result for any split and any order of equal rows."""
