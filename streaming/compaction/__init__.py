"""Files of old epochs become few: which ones, how they merge, and which remembered ids go with them."""
