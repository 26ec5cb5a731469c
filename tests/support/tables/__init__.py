"""Tables of other formats that tests write, also as pyiceberg does not write them."""
