"""What must hold before two sides may be compared; if it does not, the data is not judged."""
