"""Which jobs are interactive sessions: their names, a rule of the configuration, and what is no session."""

import pytest

from agent.identify import Identifier
from processors.contracts.errors import ConfigError
from processors.contracts.events import Evidence, Identity
from processors.contracts.names import Identification
from processors.contracts.settings import SESSION, IdentifySettings, Rule
from tests.kit.cases import each


def identified(evidence: Evidence, *also: Identity, **settings: object) -> Identification:
    return Identifier(IdentifySettings.model_validate(settings)).identify(evidence, "exa", also)


@each(
    "name",
    [
        "sys/dashboard/sys/jupyter", "sys/dashboard/dev/my_app", "sys/dashboard/usr/alice/matlab", "sys/dashboard/batch_connect/sys/bc_desktop",
        "dev/dashboard/sys/vscode", "ondemand/sys/dashboard/sys/bc_osc_matlab", "sys-dashboard-sys-bc_matlab", "sys_dashboard_sys_rstudio_server",
        "OOD Jupyter", "ood-desktop", "bc_desktop", "interactive", "_interactive", "Interactive2", "interactive_gpu", "interact", "salloc",
        "bash", "/bin/zsh", "sh", "jupyter", "JupyterLab", "jupyter-lab", "jupyter-notebook", "jupyter_123456", "jupyter.sh",
        "jupyterhub-singleuser", "spawner-jupyterhub", "my-jupyter-job", "notebook", "rstudio", "rstudio_server", "vscode", "vscode-tunnel",
        "VS Code", "interactive_shell", "JupyterNotebook", "code-server", "codeserver", "code_server_8080", "vnc", "vncserver", "desktop", "tmux",
    ],
)  # fmt: skip
def test_sessions_are_known_by_their_names_and_are_no_application(name: str) -> None:
    found = identified(Evidence(job_name=name))
    assert (found.application, found.source) == (None, SESSION)


@each(
    "name",
    [
        "bash_solver", "bash.slurm", "interactive_md", "jupyter_convergence_study", "desktop_cfd", "shock", "codes", "server", "hub", "job",
        "ood_detection_resnet", "dashboard", "sys_dashboard_benchmark", "vncx", "matlab", "screen", "bashful", "node", "gpu_job",
    ],
)  # fmt: skip
def test_programs_with_such_words_in_their_names_are_no_sessions(name: str) -> None:
    assert identified(Evidence(job_name=name)).source != SESSION


def test_what_runs_in_a_session_does_not_make_it_a_run_of_that_program() -> None:
    xalt = Identity(system="exa", job_id="1", source="xalt", evidence=Evidence(executable="/opt/lammps/lmp"))
    assert identified(Evidence(job_name="interactive"), xalt).source == SESSION


def test_a_shell_is_a_session_only_if_nothing_else_names_its_program() -> None:
    xalt = Identity(system="exa", job_id="1", source="xalt", evidence=Evidence(executable="/opt/lammps/lmp"))
    assert identified(Evidence(job_name="bash"), xalt).application == "lmp"
    shell, session = identified(Evidence(job_name="bash")), identified(Evidence(job_name="salloc"))
    assert (shell.source, shell.reason) == (SESSION, "the job name 'bash' names no program")
    assert (shell.confidence, session.confidence) == (0.2, 0.9)


def test_an_application_that_its_producer_names_is_one_unless_that_is_a_session() -> None:
    assert identified(Evidence(application="lammps", job_name="interactive")).application == "lammps"
    assert identified(Evidence(application="jupyterlab", job_name="run7")).source == SESSION


def test_names_of_sessions_are_those_of_the_configuration() -> None:
    assert identified(Evidence(job_name="Big-Brain_3"), sessions=("big_brain",)).source == SESSION
    assert identified(Evidence(job_name="bash"), sessions=()).source == "none"


def test_a_rule_calls_the_jobs_of_a_partition_sessions() -> None:
    rule = Rule(match={"partition": "^devel$"}, session=True)
    found = identified(Evidence(job_name="lammps", partition="devel", sizes={"nodes": 2.0}), rules=(rule,))
    assert (found.application, found.source, found.n) == (None, SESSION, 2.0)
    assert found.reason == "rule 1 calls it an interactive session"
    assert identified(Evidence(job_name="lammps", partition="develop"), rules=(rule,)).application == "lammps"


def test_a_rule_that_names_an_application_decides_before_the_names_of_sessions() -> None:
    rule = Rule(match={"job_name": "^jupyter$"}, application="papermill")
    assert identified(Evidence(job_name="jupyter"), rules=(rule,)).application == "papermill"


@pytest.mark.parametrize(
    ("rule", "fault"),
    [
        (Rule(match={"qos": "x"}, session=True, application="x"), "calls its jobs sessions, so application, input and unit have no use."),
        (Rule(match={"qos": "x"}, session=True, drop=True), "drops its jobs and calls them sessions; remove one of drop and session."),
    ],
)  # fmt: skip
def test_a_rule_for_sessions_gives_nothing_else(rule: Rule, fault: str) -> None:
    with pytest.raises(ConfigError, match=fault):
        Identifier(IdentifySettings(rules=(rule,)))
