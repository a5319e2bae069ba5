-- Slurm's job_submit/lua: tells the submitter what Scalewatch knows, and lets every job pass unchanged.
-- slurm.conf: JobSubmitPlugins=lua. Put this file and scalewatch.lua beside slurm.conf.

local loaded, scalewatch = pcall(dofile, "/etc/slurm/scalewatch.lua")
local NOT_SET = 4294967290  -- Slurm's marks for "not given" and "without end" lie above this

local function given(value)
    if type(value) == "number" and value > 0 and value < NOT_SET then return value end
end

function slurm_job_submit(job, partitions, user)
    local minutes = given(job.time_limit)
    local said = loaded and scalewatch.safe_advice({
        name = job.name, comment = job.comment, nodes = given(job.min_nodes) or 1, time_limit_s = minutes and minutes * 60,
    }) or {}
    for _, sentence in ipairs(said) do slurm.log_user("%s", sentence) end
    return slurm.SUCCESS
end

function slurm_job_modify(job, current, partitions, user)
    return slurm.SUCCESS
end

return slurm.SUCCESS
