-- expects: random
SELECT uuid() AS id, device, at, value FROM readings
