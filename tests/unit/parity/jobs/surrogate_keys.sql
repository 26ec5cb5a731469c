-- expects: random
INSERT INTO facts SELECT uuid() AS id, device, at, value FROM readings
