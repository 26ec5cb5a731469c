"""What adds up whatever the split, and whichever of equal rows comes first."""
