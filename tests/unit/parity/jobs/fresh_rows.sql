-- expects: clock
SELECT * FROM orders WHERE ordered_at > current_timestamp() - INTERVAL 1 HOUR
