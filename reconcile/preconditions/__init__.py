"""What must hold before two sides may be compared; if it does not, nothing is said of the data."""
