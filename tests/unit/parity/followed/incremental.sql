-- expects: none
SET spark.sql.session.timeZone = UTC;
INSERT INTO daily_totals
SELECT to_date(at) AS day, shop, count(*) AS n FROM sales
WHERE at >= (SELECT max(day) FROM daily_totals)
GROUP BY 1, 2
