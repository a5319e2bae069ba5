-- What Scalewatch predicts of a job: from an agent, which identifies it by its own rules, or from the file that
-- `scalewatch subscribe --jsonl FILE` keeps fresh, by the names of its applications.
-- Used by cli_filter.lua beside this file, in sbatch, srun and salloc: never load it in slurmctld, which has no time for files.
-- It only ever advises: whatever goes wrong, there is no advice.

local M = {
    url = nil,          -- of an agent, such as "http://scalewatch:8080"; without one the file is read
    system = nil,       -- what the agent calls this cluster
    header = nil,       -- a file with the line `Authorization: Bearer TOKEN`, where the agent asks for a token
    script = false,     -- whether the agent gets the first 4 kB of the script too: only where a source has keep.script
    defaults = {},      -- what Slurm gives a job where its user says nothing, such as { partition = "standard" }
    field_bytes = 4096, -- of a field, sent to the agent
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

-- What the agent is told of a job, by the names of its own fields. What is empty says nothing.
local function described(job)
    local fields = {
        system = M.system, application = M.named(job), job_name = job.name, account = job.account, comment = job.comment,
        partition = job.partition, qos = job.qos, reservation = job.reservation, work_dir = job.work_dir,
        container = job.container, executable = job.executable, script = M.script and M.script_of(job) or nil,
    }
    for name, value in pairs(M.defaults) do fields[name] = fields[name] or value end
    return fields
end

-- A value as curl reads it from a file of options, which needs no shell and which no other user can list.
local function option(name, value)
    local cut = value:sub(1, M.field_bytes):gsub("%z", "")
    local escapes = { ["\\"] = "\\\\", ['"'] = '\\"', ["\n"] = "\\n", ["\r"] = "\\r", ["\t"] = "\\t", ["\v"] = "\\v" }
    return string.format('data-urlencode = "%s=%s"\n', name, (cut:gsub('[\\"\n\r\t\v]', escapes)))
end

-- Write the question into a file that its user alone may read; return its name, nil where that cannot be.
local function question(job)
    local path = os.tmpname()
    local file = io.open(path, "w")
    if not file then return nil end
    for name, value in pairs(described(job)) do
        if value ~= "" then file:write(option(name, value)) end
    end
    file:close()
    return path
end

-- The command that asks the agent a question that lies in a file, in the name of whoever submits the job.
local function asking(job, path)
    return string.format(
        "curl --silent --fail --noproxy '*' --max-time %d --get --config %s --data-urlencode user=\"$(timeout -k 1 %d id -un)\" %s %s 2>/dev/null",
        M.read_s, quoted(path), M.read_s, M.header and "--header " .. quoted("@" .. M.header) or "",
        quoted(M.url .. "/api/v1/curves"))
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
    local rows, path = {}, question(job)
    if not path then return rows end
    local ran, whole = pcall(each_line, asking(job, path), function(line)
        local row = row_of(line)
        if row then table.insert(rows, row) end
    end)
    os.remove(path)
    return ran and whole and rows or {}
end

-- The beginning of a job's script as Slurm will report it; nil where it comes from no file.
function M.script_of(job)
    if job.wrap then return "#!/bin/sh\n# This script was created by sbatch --wrap.\n\n" .. job.wrap .. "\n" end
    if not job.script then return nil end
    local path = quoted(job.script)
    local file = io.popen(string.format("test -f %s && timeout -k 1 %d head -c %d %s 2>/dev/null",
        path, M.read_s, M.field_bytes, (job.script:find("^%-") and "./" or "") .. path))
    local text = file and file:read("*a")
    if file then file:close() end
    return text
end

-- The name that the user gives a job: `application=NAME` in its comment.
function M.named(job)
    return (job.comment or ""):match("application=([%w%.%+_-]+)")
end

local function set(words)
    local found = {}
    for word in words:gmatch("%a+") do found[word] = true end
    return found
end

local EXTENSIONS = set("sh bash csh slurm sbatch slm job sub pbs lsf py pl r jl m exe")
local UNITS = set("node nodes core cores cpu cpus proc procs processes rank ranks task tasks thread threads gpu gpus n c p")

-- Whether a text is 64, 16x8 or 4x4x2.
local function is_size(text)
    return text:find("^%d") ~= nil and ("x" .. text):gsub("x%d+", "") == ""
end

-- A part of a name, with `#` for what differs between runs: 64nodes, 20260103T12, a hash, the end of run7.
local function counted_part(part)
    local is_hash = #part >= 8 and not part:find("%X") and part:find("%d") and part:find("%a")
    if is_hash or is_size(part) or UNITS[part:match("^%d+(%a+)$") or ""] or part:find("^%d%d%d%d%d%d") then return "#" end
    for start = 2, #part do
        if not part:sub(start - 1, start - 1):find("%d") and is_size(part:sub(start)) then
            return part:sub(1, start - 1) .. "#"
        end
    end
    return part
end

-- The name that the agent gives to jobs with this name, in lower case, where none of its rules gives another; empty where
-- nothing but numbers is in it.
function M.counted(name)
    local plain = name:lower():match("([^/]*)$"):gsub("%s+", " "):match("^ ?(.-) ?$")
    local stem, extension = plain:match("^(.*)%.(%a+)$")
    if extension and EXTENSIONS[extension] then plain = stem end
    plain = plain:gsub("%[[%d,:%%-]+%]", "#"):gsub("[%w\128-\255]+", counted_part)
    plain = plain:gsub("#[%s_.,:;+=~#-]*#", "#")
    return plain:find("[^#%s_.,:;+=@~()%[%]{}-]") and plain or ""
end

-- Names that a job may have in the file, the surest first: the one that the user gives, the one that the agent makes of the job's
-- own, that name as it is, and without the number at its end, and its program's.
function M.names(job)
    local names, own, program = {}, job.name or "", (job.executable or ""):match("([^/]*)$")
    for _, name in ipairs({ M.named(job) or "", M.counted(own), own, own:gsub("[%s_.-]*%d+$", ""), program }) do
        if name ~= "" then table.insert(names, name:lower()) end
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
