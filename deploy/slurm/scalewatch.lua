-- What Scalewatch predicts of a job: from an agent, which identifies it by its own rules, or from the file that
-- `scalewatch subscribe --jsonl FILE` keeps fresh, by the names of its applications.
-- Used by cli_filter.lua beside this file, in sbatch, srun and salloc: never load it in slurmctld, which has no time for files.
-- It only ever advises: whatever goes wrong, there is no advice.

local M = {
    url = nil,          -- of an agent, such as "http://scalewatch:8080"; without one the file is read
    system = nil,       -- what the agent calls this cluster
    header = nil,       -- a file with the line `Authorization: Bearer TOKEN`, where the agent asks for a token
    path = "/var/lib/scalewatch/predictions.jsonl",
    bytes_max = 64 * 1024 * 1024,  -- of a longer file nothing is used
    block_bytes = 64 * 1024,       -- read at once; no line is longer
    read_s = 1,         -- reading is given up after so long: a pipe that nobody writes to never ends
    wide = 3.0,         -- a time limit that many times what nine of ten runs need is told
    alike = 1.02,       -- run times that differ by less are equal
}

local function text(line, name)
    return line:match('"' .. name .. '":"([^"\\]*)"')  -- a name with a quote or a backslash in it is no application here
end

local function number(line, name)
    return tonumber(line:match('"' .. name .. '":(%-?[%d%.eE+-]+)'))
end

local function row_of(line)
    local row = {
        application = text(line, "application"), system = text(line, "system"), input = text(line, "input"),
        unit = text(line, "unit"), n = number(line, "n"), run_time_s = number(line, "run_time_s"),
        low_s = number(line, "low_s"), high_s = number(line, "high_s"),
        reliable = line:find('"reliable":true', 1, true) ~= nil,
    }
    if row.application and row.unit and row.n and row.run_time_s and row.high_s then return row end
end

local function quoted(value)
    return "'" .. value:gsub("'", "'\\''") .. "'"
end

-- The command that reads the file: Lua cannot tell a pipe from a file before it waits for it, so another process does.
local function reading()
    return string.format("timeout -k 1 %d head -c %d -- %s 2>/dev/null", M.read_s, M.bytes_max + 1, quoted(M.path))
end

-- The command that asks the agent. What is empty says nothing; a value never becomes a part of the command.
local function asking(job)
    local parts = { string.format("curl --silent --fail --noproxy '*' --max-time %d --get", M.read_s) }
    local fields = {
        system = M.system, application = M.named(job), job_name = job.name, account = job.account, comment = job.comment,
        partition = job.partition, qos = job.qos, reservation = job.reservation, work_dir = job.work_dir,
    }
    for name, value in pairs(fields) do
        if value and value ~= "" then table.insert(parts, "--data-urlencode " .. quoted(name .. "=" .. value)) end
    end
    if M.header then table.insert(parts, "--header " .. quoted("@" .. M.header)) end
    table.insert(parts, quoted(M.url .. "/api/v1/curves"))
    return table.concat(parts, " ") .. " 2>/dev/null"
end

local function take(line, names, rows)
    local lower = line:lower()
    for _, name in ipairs(names) do
        if lower:find('"application":"' .. name .. '"', 1, true) then
            local row = row_of(line)
            if row then
                rows[name] = rows[name] or {}
                table.insert(rows[name], row)
            end
            return
        end
    end
end

-- Whether every line that a command prints was taken: a part of a table gives wrong advice.
local function each_line(command, on_line)
    local whole, bytes, rest = true, 0, ""
    local file = io.popen(command, "r")
    if not file then return false end
    for block in function() return file:read(M.block_bytes) end do
        bytes = bytes + #block
        rest = rest .. block
        local stop = rest:match("^.*()\n") or 0
        for line in rest:sub(1, stop):gmatch("([^\n]*)\n") do on_line(line) end
        rest = rest:sub(stop + 1)
        if bytes > M.bytes_max or #rest > M.block_bytes then
            whole = false
            break
        end
    end
    file:close()
    return whole
end

-- The rows of some applications, by their names in lower case. Other lines are not even taken apart.
function M.rows(names)
    local rows = {}
    return each_line(reading(), function(line) take(line, names, rows) end) and rows or {}
end

-- The rows of what the agent identifies a job as; none where it knows nothing of it.
function M.answered(job)
    local rows = {}
    local whole = each_line(asking(job), function(line)
        local row = row_of(line)
        if row then table.insert(rows, row) end
    end)
    return whole and rows or {}
end

-- The name that the user gives a job: `application=NAME` in its comment.
function M.named(job)
    return (job.comment or ""):match("application=([%w%.%+_-]+)")
end

-- Names that a job may have in the file, the surest first: the one that the user gives, its own name, and that without the
-- number at its end, for run-17 and run_18 are runs of one thing.
function M.names(job)
    local names = {}
    for _, name in ipairs({ M.named(job) or "", job.name or "", (job.name or ""):gsub("[%s_.-]*%d+$", "") }) do
        if type(name) == "string" and name ~= "" then table.insert(names, name:lower()) end
    end
    return names
end

local function between(below, above, n)
    local share = math.log(n / below.n) / math.log(above.n / below.n)
    local function mixed(name)
        return math.exp((1 - share) * math.log(below[name]) + share * math.log(above[name]))
    end
    return {
        application = below.application, unit = below.unit, n = n, run_time_s = mixed("run_time_s"),
        high_s = mixed("high_s"), reliable = below.reliable and above.reliable,
    }
end

-- The prediction of a job: {name, comment, nodes ...}, and all sizes of its application; nil where this is not known. Of a size
-- that the curve does not reach there is a name alone.
function M.predicted(job)
    local names, rows
    if M.url then
        names, rows = { "answered" }, { answered = M.answered(job) }
    else
        names = M.names(job)
        rows = M.rows(names)
    end
    for _, name in ipairs(names) do
        local input, below, above, sizes = nil, nil, nil, {}
        for _, row in ipairs(rows[name] or {}) do
            if row.unit == "nodes" then
                if input ~= nil and row.input ~= input then return nil end  -- several inputs: which one is not known
                input = row.input
                table.insert(sizes, row)
                if row.n <= job.nodes and (not below or row.n > below.n) then below = row end
                if row.n >= job.nodes and (not above or row.n < above.n) then above = row end
            end
        end
        if below and above then
            if below.n == above.n then return below, sizes end
            return between(below, above, job.nodes), sizes
        end
        if below then return { application = below.application, n = job.nodes }, sizes end
    end
end

-- The fewest nodes that are as fast as those asked for; nil where these are faster than any fewer, or where nobody knows.
-- Run times are compared, and of these only what can be relied on. Where that ends before the size that is asked for, more
-- nodes have to be slower there already.
function M.enough(found, sizes)
    local last, best_s = nil, nil
    for _, row in ipairs(sizes) do
        if row.reliable and (not last or row.n > last.n) then last = row end
        if row.reliable and (not best_s or row.run_time_s < best_s) then best_s = row.run_time_s end
    end
    if not last then return nil end
    local most_s = nil
    if found.reliable then
        most_s = found.run_time_s * M.alike
    elseif found.n > last.n and best_s * M.alike < last.run_time_s then
        most_s = best_s * M.alike
    else
        return nil
    end
    local fewest = nil
    for _, row in ipairs(sizes) do
        local enough = row.reliable and row.n < found.n and row.run_time_s <= most_s
        if enough and (not fewest or row.n < fewest) then fewest = row.n end
    end
    return fewest
end

local function nodes(count)
    return string.format(count == 1 and "%d node" or "%d nodes", math.floor(count))
end

function M.duration(seconds)
    local minutes = math.floor(seconds / 60 + 0.5)
    if minutes < 1 then return string.format("%d s", math.floor(seconds + 0.5)) end
    if minutes < 120 then return string.format("%d min", minutes) end
    return string.format("%.1f h", seconds / 3600)
end

-- Sentences for the person who submits a job: {name, comment, nodes, time_limit_s}; none where there is nothing to say.
function M.advice(job)
    local said = {}
    local found, sizes = M.predicted(job)
    if not found then return said end
    local enough = M.enough(found, sizes)
    if enough then
        table.insert(said, string.format("%s gains nothing beyond %s; %d are asked for.",
            found.application, nodes(enough), job.nodes))
    end
    if found.reliable and job.time_limit_s then
        if job.time_limit_s < found.run_time_s then
            table.insert(said, string.format("%s on %s will probably take %s; the time limit of %s would cut it off.",
                found.application, nodes(job.nodes), M.duration(found.run_time_s), M.duration(job.time_limit_s)))
        elseif job.time_limit_s > M.wide * found.high_s then
            table.insert(said, string.format(
                "%s on %s nearly always ends within %s; a time limit nearer to that than %s starts sooner.",
                found.application, nodes(job.nodes), M.duration(found.high_s), M.duration(job.time_limit_s)))
        end
    end
    return said
end

-- The same, and nothing at all where anything is wrong: no job may ever fail because of advice.
function M.safe_advice(job)
    local good, said = pcall(M.advice, job)
    return good and said or {}
end

return M
