-- Slurm's cli_filter/lua: the same advice, given by sbatch, srun and salloc themselves, so the controller does no work for it.
-- slurm.conf: CliFilterPlugins=cli_filter/lua. Put this file and scalewatch.lua beside slurm.conf on the login nodes.

local loaded, scalewatch = pcall(dofile, "/etc/slurm/scalewatch.lua")

-- Minutes, minutes:seconds, hours:minutes:seconds, days-hours, days-hours:minutes, days-hours:minutes:seconds
local function seconds(text)
    local days, rest = (text or ""):match("^(%d+)%-(.+)$")
    local parts = {}
    for part in (rest or text or ""):gmatch("%d+") do table.insert(parts, tonumber(part)) end
    if days then
        return ((tonumber(days) * 24 + (parts[1] or 0)) * 60 + (parts[2] or 0)) * 60 + (parts[3] or 0)
    end
    if #parts == 1 then return parts[1] * 60 end
    if #parts == 2 then return parts[1] * 60 + parts[2] end
    if #parts == 3 then return (parts[1] * 60 + parts[2]) * 60 + parts[3] end
end

function slurm_cli_setup_defaults(options, early)
    return slurm.SUCCESS
end

-- The name that Slurm gives a job whose user gives none.
local function own_name(kind, program)
    if kind == "salloc" then return "interactive" end
    return program and program:match("([^/]*)$") or kind
end

-- A job as scalewatch.lua looks at it.
local function submitted(options)
    local kind, program = options["type"], (options["argv"] or {})[1]
    local wrap = kind == "sbatch" and options["wrap"] or nil
    return {
        name = options["job-name"] or (wrap and "wrap") or own_name(kind, program), comment = options["comment"],
        nodes = tonumber(((options["nodes"] or ""):match("^(%d+)"))) or 1, time_limit_s = seconds(options["time"]),
        account = options["account"], partition = options["partition"], qos = options["qos"],
        reservation = options["reservation"], work_dir = options["chdir"], container = options["container"],
        executable = kind == "srun" and program or nil, wrap = wrap, script = kind == "sbatch" and program or nil,
    }
end

function slurm_cli_pre_submit(options, component)
    local described, job = pcall(submitted, options)
    local said = loaded and described and scalewatch.safe_advice(job) or {}
    for _, sentence in ipairs(said) do io.stderr:write("scalewatch: ", sentence, "\n") end
    return slurm.SUCCESS
end

function slurm_cli_post_submit(component, job, step)
    return slurm.SUCCESS
end
