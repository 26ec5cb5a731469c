# expects: not-understood
import csv
import sys

total = sum(int(row["cents"]) for row in csv.DictReader(sys.stdin))
print(total)
