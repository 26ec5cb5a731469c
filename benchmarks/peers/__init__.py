"""What Cutover is measured against: each file is the obvious way to write it."""
