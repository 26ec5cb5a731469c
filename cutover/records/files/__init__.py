"""Files of records: packed or not, CSV or JSON lines, each cell judged as both paths judge it."""
