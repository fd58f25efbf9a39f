-- Stores messages, each in one of the threads of MEMOIR_BENCH_THREADS, for scripts/bench conversation.
local threads, number = {}, 0
for id in string.gmatch(os.getenv("MEMOIR_BENCH_THREADS"), "%S+") do threads[#threads + 1] = id end

request = function()
  number = number + 1
  local body = string.format('{"content":"Message %d about the parcel that should have arrived on Monday.","enrich":false}', number)
  local path = "/v1/threads/" .. threads[number % #threads + 1] .. "/messages"
  return wrk.format("POST", path, { ["Content-Type"] = "application/json" }, body)
end
