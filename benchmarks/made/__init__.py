"""What figures measure over: events, lakes, tables, streams, and the drivers that read them."""
