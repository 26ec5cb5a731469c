-- expects: time-zone
SELECT date_trunc('DAY', at) AS day, count(*) AS n FROM visits GROUP BY 1
