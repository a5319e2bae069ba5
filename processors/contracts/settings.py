"""Settings of the processors: one frozen model each, every default in this one place. Unknown keys are refused.

The whole configuration tree is in `agent.config`; it nests these.
"""

import re
from fnmatch import fnmatchcase
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

LONGEST_S: Final = 10 * 365 * 86_400  # what is longer is a slip, and ends where calendars do


class Settings(BaseModel):
    """Base: frozen, no unknown keys.

    >>> Settings().model_dump()
    {}
    """

    # the schema of a tree holds those of all its parts: it is built once, when the tree is first made
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


ATTRIBUTES_MAX = 32
Pattern = Annotated[str, Field(min_length=1, max_length=256)]
RunBytes = Annotated[
    int,
    Field(
        ge=2**16,
        le=2**36,
        description="bytes of memory that these runs of all applications of a shard take; each application has an equal share, and "
        "retains fewer runs where that is too little",
    ),
]


class FeatureSettings(Settings):
    """Which attributes of jobs their run times are learned from.

    >>> FeatureSettings(attributes=("atoms", "mesh_*")).names("mesh_x"), FeatureSettings().names("atoms")
    (True, False)
    """

    attributes: tuple[Pattern, ...] = Field(
        default=(),
        max_length=ATTRIBUTES_MAX,
        description="attributes of jobs that their run times are learned from, besides the size: names, or patterns with *; "
        "numbers and words; module, container, executable, partition, account, qos, user and time_limit_s can be named, too",
    )

    runs_max: int = Field(
        default=2048,
        ge=16,
        le=8192,
        description="runs of an application that models of its attributes and its communication are fitted to; of more the newest "
        "stay, and of the others few of those alike before more of them",
    )
    bytes_max: RunBytes = 2**28

    def names(self, attribute: str) -> bool:
        """Return whether an attribute is one of them."""
        return any(fnmatchcase(attribute, pattern) for pattern in self.attributes)


def compiled_pattern(pattern: str, groups: int = 0) -> str:
    """Return a regular expression as it is; ValueError where it is none, or has too few groups.

    >>> compiled_pattern("nid[0-9]+")
    'nid[0-9]+'
    """
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise ValueError(f"{pattern!r} is no regular expression: {error}") from error
    if compiled.groups < groups:
        raise ValueError(f"{pattern!r} has no group in parentheses that names the rack")
    return pattern


class ProfileSettings(Settings):
    """How profiles of runs are made, and what is learned from them.

    >>> ProfileSettings().coverage_min
    0.8
    """

    coverage_min: float = Field(
        default=0.8,
        gt=0,
        le=1,
        description="share of a run's host-minutes that must be its own for it to be learned from",
    )
    attribution_horizon_s: float = Field(
        default=3600.0,
        ge=0,
        le=LONGEST_S,
        description="how long minutes of hosts are kept that no job is known to have run on: where only ends of jobs are told, "
        "runs up to this length get a profile",
    )
    resources_max: int = Field(
        default=200_000,
        ge=0,
        le=5_000_000,
        description="counters and powers of hosts that are followed for profiles; more are counted and left out",
    )
    names_max: int = Field(
        default=64, ge=1, le=256, description="counters of one run that are kept, and of its network as many"
    )
    runs_max: int = Field(
        default=1024,
        ge=16,
        le=8192,
        description="runs of an application that its models are fitted to, an even sample of all. More make each new run and each fit "
        "cost more; above 256 trees take part",
    )
    bytes_max: RunBytes = 2**28
    host_power_max_w: float = Field(
        default=20_000.0, gt=0, le=1e7, description="what a host can draw at most; a reading above is not believed"
    )
    energy_range_j: float = Field(
        default=262_143.328850,
        gt=0,
        le=1e18,
        description="where energy counters of processors start at 0 again; the default is that of RAPL",
    )
    memory_energy_range_j: float = Field(
        default=65_532.610987, gt=0, le=1e18, description="the same of energy counters of memory"
    )


SESSION: Final = "session"
"""What `identified_by` says of an interactive session: a person decides how long it takes, so no model learns it."""
SESSION_NAMES: Final = (
    "bash", "sh", "dash", "zsh", "csh", "tcsh", "ksh", "fish", "interactive", "interact", "sinteractive", "salloc", "idev", "qlogin",
    "qrsh", "tmux", "sshd", "jupyter", "jupyterhub", "jupyterlab", "jupyternotebook", "notebook", "rstudio", "rserver", "rsession", "vscode", "vs-code", "code-server",
    "codeserver", "code-tunnel", "openvscode", "vnc", "vncserver", "turbovnc", "novnc", "x2go", "desktop", "xfce",
)  # fmt: skip
Unit = Literal["nodes", "cores", "processes", "threads", "gpus"]
EVIDENCE_FIELDS = (
    "application", "executable", "module", "container", "job_name", "account", "partition", "qos", "reservation", "user",
    "work_dir", "script", "comment",
)  # fmt: skip


class Rule(Settings):
    """One rule of identification: every pattern of `match` has to be found in its field of the job.

    Named groups of the patterns may be used in `application` and `input` as ``{group}``. Without `application` the
    group of that name is used. `confidence` is what the answer says of itself, between 0 and 1.

    >>> Rule(match={"job_name": "^gmx_(?P<kind>[a-z]+)"}, application="gromacs", input="{kind}").confidence
    0.8
    """

    match: dict[str, str] = Field(min_length=1, description="field of the job -> regular expression")
    application: str | None = Field(
        default=None, max_length=256, description="the name it gives; {group} stands for a named group of its patterns"
    )
    input: str = Field(
        default="",
        max_length=256,
        description="the problem class it gives; {group} stands for a named group of its patterns",
    )
    unit: Unit | None = Field(default=None, description="the unit that sizes its jobs, where the job is known in it")
    confidence: float = Field(default=0.8, gt=0, le=1, description="what the answer says of itself")
    drop: bool = Field(default=False, description="jobs that match are never given a model")
    session: bool = Field(
        default=False,
        description="jobs that match are interactive sessions: no model learns them, and no report blames them",
    )

    @field_validator("match")
    @classmethod
    def _fields_and_patterns(cls, match: dict[str, str]) -> dict[str, str]:
        for field, pattern in match.items():
            if field not in EVIDENCE_FIELDS and not field.startswith("attributes."):
                raise ValueError(f"{field!r} is no field of a job; use one of {', '.join(EVIDENCE_FIELDS)}")
            compiled_pattern(pattern)
        return match


class IdentifySettings(Settings):
    """How a job becomes an application: rules in order, then the evidence itself, best first.

    >>> IdentifySettings().unit
    'nodes'
    """

    rules: tuple[Rule, ...] = Field(default=(), description="tried in this order; the first that matches decides")
    fallback: tuple[Literal["application", "executable", "module", "container", "job_name", "user"], ...] = Field(
        default=("application", "executable", "module", "container", "job_name"),
        description="fields that may name the application where no rule matches, best first; "
        "with user, all jobs of a user that nothing else names are one application",
    )
    sessions: tuple[Annotated[str, Field(pattern=r"[^\W_]", max_length=64)], ...] = Field(
        default=SESSION_NAMES,
        max_length=256,
        description="job names of interactive sessions, which end when their user leaves or at their limit. Case, numbers, separators and "
        "words such as server, lab, hub or gpu around a name do not count, other words do. A shell is a session if nothing else names its "
        "program; sessions of Open OnDemand (sys/dashboard/...) always are",
    )
    unit: Unit = Field(default="nodes", description="the unit that sizes a job which is known in several")
    input_attributes: tuple[str, ...] = Field(
        default=(), description="attributes of a job that tell problem classes apart"
    )
    input_sizes: tuple[Annotated[str, Field(min_length=1, max_length=64)], ...] = Field(
        default=(),
        max_length=8,
        description="attributes of a job, named groups of rules, or name=number in an input, that say how large the input "
        "is (atoms, steps): an input that was never run is predicted from those that were, and they tell inputs apart "
        "like input_attributes",
    )
    systems_by_alias: dict[str, str] = Field(default_factory=dict, description="alias -> system")


class MachineSettings(Settings):
    """What the nodes of a system, or of one of its partitions, are.

    >>> MachineSettings(cores_per_node=128, sockets_per_node=2).memory_domains_per_node is None
    True
    """

    cores_per_node: int | None = Field(
        default=None, ge=1, le=65_536, description="cores of a node; where it is not given, what jobs show"
    )
    sockets_per_node: int | None = Field(default=None, ge=1, le=1_024, description="sockets of a node")
    memory_domains_per_node: int | None = Field(
        default=None, ge=1, le=1_024, description="NUMA domains of a node, as lscpu counts them"
    )
    idle_power_w: float | None = Field(
        default=None,
        gt=0,
        le=1e7,
        description="what a node draws without jobs, by which the energy of shared nodes is split; without it all power is split as idle power is",
    )


class RunTimeSettings(Settings):
    """Per-application run-time models.

    >>> RunTimeSettings().unmerged_runs_max
    64
    """

    applications_max: int = Field(default=20_000, ge=1, description="more are evicted, the longest unused first")
    similar_runs_max: int = Field(
        default=20_000,
        ge=1,
        description="histories of users, names and classes of jobs; over it the longest unused is forgotten",
    )
    unmerged_runs_max: int = Field(default=64, ge=1, le=256, description="runs a corrected report can still replace")
    scores_max: int = Field(default=64, ge=1, le=1000, description="scores of published predictions that are kept")
    fits_per_tick_max: int = Field(
        default=1_700,
        ge=1,
        description="in ten seconds, by each shard; above 64 it fits so many only where models would else wait for longer than "
        "a minute. The rest waits, the oldest first",
    )
    curve_factor_max: float = Field(
        default=4.0, ge=1, le=1024, description="the curve ends at this multiple of the largest size"
    )
    publish_members: bool = Field(
        default=True,
        description="whether predictions carry the ensemble members of their model with their errors, and ADEPT's study; without "
        "them a message has under two thirds of the size, and pages and metrics show none",
    )
    publish_after_runs: int = Field(default=2, ge=1, description="probation: a name gets a model after this many runs")
    allowed_sizes: tuple[float, ...] = Field(default=(), description="sizes that advice may name; empty: powers of two")
    cores_per_node: int | None = Field(
        default=None, ge=1, description="cores of a node, so that advice on sizes in cores can name whole nodes"
    )
    machines: dict[Annotated[str, Field(min_length=1, max_length=256)], MachineSettings] = Field(
        default_factory=dict,
        max_length=1_024,
        description="what the nodes are of a system by its name, or of a partition by system/partition: threads and processes "
        "may scale worse once they fill a memory domain, a socket or a node",
    )
    prediction_valid_s: float = Field(
        default=7 * 86_400.0, gt=0, le=LONGEST_S, description="how long a prediction says it is valid"
    )


class JobSettings(Settings):
    """The life of jobs.

    >>> JobSettings().settle_max_s
    180.0
    """

    open_jobs_max: int = Field(
        default=100_000,
        ge=1,
        description="started jobs that are remembered; over it the oldest is forgotten and counted",
    )
    settle_max_s: float = Field(default=180.0, ge=0, le=LONGEST_S, description="a run settles this long after its end")
    deduplication_buckets_max: int = Field(
        default=24_000,
        ge=8,
        description="quarters of an hour, four parts each, whose runs are recognised when repeated",
    )
    deduplication_runs_max: int = Field(
        default=20_000_000,
        ge=1,
        description="runs that are recognised when repeated, in one shard; over it the oldest quarter of an hour is forgotten and "
        "counted, and a run that started before is refused",
    )
    revise_s: float = Field(
        default=60.0, gt=0, le=LONGEST_S, description="how often the prediction of a running job is revised"
    )
    open_job_max_s: float = Field(
        default=30 * 86_400.0, gt=0, le=LONGEST_S, description="a started job is forgotten after this"
    )
    evidence_keep_s: float = Field(
        default=86_400.0, ge=0, le=LONGEST_S, description="evidence of an ended job is kept for corrections"
    )
