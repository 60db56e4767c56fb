-- Vector queries for wrk; every answer is compared with what the library gave.
-- Arguments: a folder with queries.bin, expected.txt and sizes.txt.

local threads = {}

function setup(thread)
  table.insert(threads, thread)
  thread:set("number", #threads)
end

function init(args)
  local folder = args[1]
  local sizes = io.open(folder .. "/sizes.txt")
  count, width = sizes:read("*n", "*n")
  sizes:close()
  local file = io.open(folder .. "/queries.bin", "rb")
  local all = file:read("*a")
  file:close()
  expected, bodies, place = {}, {}, number * 37
  for line in io.lines(folder .. "/expected.txt") do expected[#expected + 1] = line end
  for at = 1, count do bodies[at] = all:sub((at - 1) * width + 1, at * width) end
  right, wrong, busy, failed = 0, 0, 0, 0
end

function request()
  place = place % count + 1
  local headers = { ["Content-Type"] = "application/octet-stream", ["X-Request-Id"] = tostring(place) }
  return wrk.format("POST", "/search?k=10", headers, bodies[place])
end

function response(status, headers, body)
  if status == 429 then busy = busy + 1 return end
  if status ~= 200 then failed = failed + 1 return end
  local ids = {}
  for id in body:gmatch('"id":(%d+)') do ids[#ids + 1] = id end
  local asked = tonumber(headers["x-request-id"] or headers["X-Request-Id"])
  if asked and table.concat(ids, " ") == expected[asked] then right = right + 1 else wrong = wrong + 1 end
end

function done(summary, latency, requests)
  local sums = { right = 0, wrong = 0, busy = 0, failed = 0 }
  for _, thread in ipairs(threads) do
    for name in pairs(sums) do sums[name] = sums[name] + thread:get(name) end
  end
  local errors = summary.errors.connect + summary.errors.read + summary.errors.write + summary.errors.timeout
  print(string.format('FOUND {"seconds": %f, "right": %d, "wrong": %d, "busy": %d, "failed": %d, "p50": %f, "p99": %f}',
    summary.duration / 1e6, sums.right, sums.wrong, sums.busy, sums.failed + errors,
    latency:percentile(50) / 1e3, latency:percentile(99) / 1e3))
end
