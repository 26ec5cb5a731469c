"""The checks that must hold whatever happened: the books, the epochs, the prefix, the paths, time, and one story."""
