-- expects: order
SELECT user_id, window_start, first(channel) AS first_touch, count(*) AS clicks
FROM clicks GROUP BY user_id, window_start
