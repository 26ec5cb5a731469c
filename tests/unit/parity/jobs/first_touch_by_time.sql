-- expects: none
SELECT user_id, window_start, min_by(channel, struct(at, _partition, _offset)) AS first_touch
FROM clicks GROUP BY user_id, window_start
