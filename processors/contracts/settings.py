"""Settings of the processors with all defaults, as frozen models that refuse unknown keys.

`agent.config` combines them into the whole configuration.
"""

import re
from fnmatch import fnmatchcase
from typing import Annotated, ClassVar, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

LONGEST_S: Final = 10 * 365 * 86_400  # a longer time is probably a typing error, and would exceed the range of dates


Seconds = Annotated[float, Field(ge=0, le=LONGEST_S)]
Count = Annotated[int, Field(ge=1)]


class Settings(BaseModel):
    """Base class of all settings: frozen, without unknown keys.

    >>> Settings().model_dump()
    {}
    """

    # building the schema of the whole tree includes its sections, so defer_build builds one schema at the first use of the tree
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


ATTRIBUTES_MAX = 32
Pattern = Annotated[str, Field(min_length=1, max_length=256)]
RunBytes = Annotated[
    int,
    Field(
        ge=2**16,
        le=2**36,
        description="memory in bytes for these runs, per shard, shared equally by all applications; an application keeps fewer runs "
        "if its share is too small",
    ),
]


class FeatureSettings(Settings):
    """Attributes of jobs that explain their run times.

    >>> FeatureSettings(attributes=("atoms", "mesh_*")).names("mesh_x"), FeatureSettings().names("atoms")
    (True, False)
    """

    attributes: tuple[Pattern, ...] = Field(
        default=(),
        max_length=ATTRIBUTES_MAX,
        description="job attributes to learn run times from, besides the size: names or patterns with *, for numbers and words; also "
        "module, container, executable, partition, account, qos, user and time_limit_s",
    )

    runs_max: int = Field(
        default=2048,
        ge=16,
        le=8192,
        description="maximum number of runs per application to fit the models of attributes and communication to; the newest runs and "
        "a varied sample of older runs are kept",
    )
    bytes_max: RunBytes = 2**28

    def names(self, attribute: str) -> bool:
        return any(fnmatchcase(attribute, pattern) for pattern in self.attributes)


def compiled_pattern(pattern: str, groups: int = 0) -> str:
    """Return a regular expression unchanged; raise ValueError if the expression is invalid or has fewer than `groups` groups.

    >>> compiled_pattern("nid[0-9]+")
    'nid[0-9]+'
    """
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise ValueError(f"{pattern!r} is not a regular expression: {error}") from error
    if compiled.groups < groups:
        raise ValueError(f"{pattern!r} has no group in parentheses for the name of the rack")
    return pattern


class ProfileSettings(Settings):
    """Counter and power profiles of runs, and the models that learn from them.

    >>> ProfileSettings().coverage_min
    0.8
    """

    coverage_min: float = Field(
        default=0.8,
        gt=0,
        le=1,
        description="minimum share of a run's host-minutes with telemetry of this run alone; runs below are not learned",
    )
    attribution_horizon_s: ClassVar[float] = 3600.0
    """Seconds for which telemetry of hosts without a known job is kept.

    If the source reports only the ends of jobs, runs up to this length get a profile.
    """
    resources_max: int = Field(
        default=200_000,
        ge=0,
        le=5_000_000,
        description="maximum number of host counters and power sensors for profiles; further ones are counted and ignored",
    )
    names_max: ClassVar[int] = 64
    """Maximum number of counters in the profile of a run, and again of network counters."""
    runs_max: int = Field(
        default=1024,
        ge=16,
        le=8192,
        description="maximum number of runs per application to fit its profile models to, evenly sampled; larger values make each run "
        "and fit more expensive, and above 256 the models include trees",
    )
    bytes_max: RunBytes = 2**28
    host_power_max_w: ClassVar[float] = 20_000.0
    """Maximum power of a host in watts; readings above are discarded."""
    energy_range_j: float = Field(
        default=262_143.328850,
        gt=0,
        le=1e18,
        description="value in joules at which the energy counters of processors wrap to 0; the default is the range of RAPL",
    )
    memory_energy_range_j: float = Field(
        default=65_532.610987,
        gt=0,
        le=1e18,
        description="value in joules at which the energy counters of memory wrap to 0",
    )


SESSION: Final = "session"
"""Value of `identified_by` for interactive sessions. No model learns them, because a person decides how long they last."""
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
    """A rule that identifies the application of a job; each pattern of `match` must be found in its field of the job.

    `application` and `input` may refer to named groups of the patterns as ``{group}``. Without `application`, the
    group with that name is the application.

    >>> Rule(match={"job_name": "^gmx_(?P<kind>[a-z]+)"}, application="gromacs", input="{kind}").confidence
    0.8
    """

    match: dict[str, str] = Field(min_length=1, description="regular expression by job field, such as job_name: ^gmx_")
    application: str | None = Field(
        default=None,
        max_length=256,
        description="name of the application; {group} inserts a named group of the patterns",
    )
    input: str = Field(
        default="",
        max_length=256,
        description="name of the input (problem class); {group} inserts a named group of the patterns",
    )
    unit: Unit | None = Field(default=None, description="unit of the size of these jobs, if the job reports it")
    confidence: float = Field(default=0.8, gt=0, le=1, description="confidence of the identification, between 0 and 1")
    drop: bool = Field(default=False, description="whether matching jobs get no model")
    session: bool = Field(
        default=False,
        description="whether matching jobs are interactive sessions, which no model learns and no report blames",
    )


class IdentifySettings(Settings):
    """Identification of the application of a job: first the rules, then the fields of the job.

    >>> IdentifySettings().unit
    'nodes'
    """

    rules: tuple[Rule, ...] = Field(default=(), description="rules, tried in this order; the first match decides")
    fallback: tuple[Literal["application", "executable", "module", "container", "job_name", "user"], ...] = Field(
        default=("application", "executable", "module", "container", "job_name"),
        description="job fields that name the application if no rule matches, best first; with user, all otherwise unnamed jobs of "
        "a user are one application",
    )
    sessions: tuple[Annotated[str, Field(pattern=r"[^\W_]", max_length=64)], ...] = Field(
        default=SESSION_NAMES,
        max_length=256,
        description="job names of interactive sessions. Case, numbers, separators and words such as server, lab, hub or gpu around a name "
        "are ignored. A shell counts as a session only if nothing else names its program; jobs of Open OnDemand "
        "(sys/dashboard/...) always do",
    )
    unit: Unit = Field(default="nodes", description="unit of the size of jobs that report several units")
    input_attributes: tuple[str, ...] = Field(
        default=(), description="job attributes whose values distinguish inputs (problem classes)"
    )
    input_sizes: tuple[Annotated[str, Field(min_length=1, max_length=64)], ...] = Field(
        default=(),
        max_length=8,
        description="names of numbers that give the size of an input, such as atoms or steps: job attributes, named groups of rules, or "
        "name=number in an input. Inputs that never ran are predicted from inputs that did. They distinguish inputs, too",
    )


class MachineSettings(Settings):
    """Hardware of the nodes of a system or partition.

    >>> MachineSettings(cores_per_node=128, sockets_per_node=2).memory_domains_per_node is None
    True
    """

    cores_per_node: int | None = Field(
        default=None, ge=1, le=65_536, description="cores per node; default: derived from the jobs"
    )
    sockets_per_node: int | None = Field(default=None, ge=1, le=1_024, description="sockets per node")
    memory_domains_per_node: int | None = Field(
        default=None, ge=1, le=1_024, description="NUMA domains per node, as printed by lscpu"
    )
    idle_power_w: float | None = Field(
        default=None,
        gt=0,
        le=1e7,
        description="power of an idle node in watts, to split the energy of shared nodes between jobs; default: all power is split by allocated cores",
    )


class RunTimeSettings(Settings):
    """Run-time models of the applications.

    >>> RunTimeSettings().unmerged_runs_max
    64
    """

    applications_max: Count = Field(
        default=20_000, description="maximum number of applications with a model; the longest unused is evicted"
    )
    similar_runs_max: Count = Field(
        default=20_000,
        description="maximum number of run-time histories by user, job name and class; the longest unused is evicted",
    )
    unmerged_runs_max: int = Field(
        default=64,
        ge=1,
        le=256,
        description="number of newest runs per application that a corrected report can still replace",
    )
    scores_max: ClassVar[int] = 64
    """Number of scores kept per application for its published accuracy."""
    fits_per_tick_max: Count = Field(
        default=1_700,
        description="maximum number of model fits per shard in ten seconds; more than 64 run only if models would otherwise wait for over "
        "a minute. The oldest waits least",
    )
    curve_factor_max: ClassVar[float] = 4.0
    """Largest published size as a multiple of the largest size run."""
    publish_after_runs: Count = Field(
        default=2, description="minimum number of runs before an application gets a model"
    )
    allowed_sizes: tuple[Annotated[float, Field(gt=0)], ...] = Field(
        default=(), description="sizes that advice may recommend; empty: powers of two"
    )
    cores_per_node: int | None = Field(
        default=None, ge=1, description="cores per node of all systems, to recommend whole nodes for sizes in cores"
    )
    machines: dict[Annotated[str, Field(min_length=1, max_length=256)], MachineSettings] = Field(
        default_factory=dict,
        max_length=1_024,
        description="hardware of the nodes by system, or by system/partition; models use it because codes often scale worse once they fill "
        "a memory domain, a socket or a node",
    )
    prediction_valid_s: ClassVar[float] = 7 * 86_400.0
    """Seconds for which a published prediction is valid."""


class JobSettings(Settings):
    """Limits and times for jobs and their runs.

    >>> JobSettings().settle_max_s
    180.0
    """

    open_jobs_max: Count = Field(
        default=100_000, description="maximum number of running jobs; the oldest is dropped and counted"
    )
    settle_max_s: Seconds = Field(
        default=180.0, description="seconds after the end of a run before it is final (settled)"
    )
    deduplication_buckets_max: ClassVar[int] = 24_000
    """Number of time slots in which repeated runs are recognised; each quarter of an hour has four."""
    deduplication_runs_max: Count = Field(
        default=20_000_000,
        description="maximum number of runs per shard that are recognised when repeated; beyond it the oldest quarter of an hour is "
        "dropped and counted, and runs that started earlier are rejected",
    )
    revise_s: float = Field(
        default=60.0, gt=0, le=LONGEST_S, description="seconds between two predictions of a running job"
    )
