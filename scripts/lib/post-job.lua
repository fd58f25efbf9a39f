-- For wrk: queues a job of about 2 kB with each request.
wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
wrk.body = '{"steps": 0, "warning": "' .. string.rep("x", 2000) .. '"}'
