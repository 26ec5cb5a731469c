-- expects: none
SELECT o.* FROM orders o JOIN cut c ON o.ordered_at > c.watermark - INTERVAL 1 HOUR
