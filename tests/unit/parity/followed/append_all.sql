-- expects: appended-again
INSERT INTO daily_totals
SELECT shop, count(*) AS n FROM sales GROUP BY shop
