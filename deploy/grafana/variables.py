"""Variables: each list is of what the ones before it left over."""

from typing import Final

from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.models import dashboard as model

DATASOURCE: Final = model.DataSourceRef(type_val="prometheus", uid="${datasource}")
PAGE_URL: Final = "http://127.0.0.1:8080"
CURVE: Final = "scalewatch_predicted_run_time_seconds"
Variables = tuple[model.VariableModel, ...]


def made(variable: build.QueryVariable | build.DatasourceVariable | build.TextBoxVariable) -> model.VariableModel:
    """Return a variable as it is written: without the settings of intervals, which the library gives all kinds.

    >>> "auto" in made(of_labels("job", "Agent", "up", "Agents.")).to_json()
    False
    """
    built = variable.build()
    built.auto = built.auto_min = built.auto_count = None
    return built


def of_labels(name: str, label: str, selector: str, means: str) -> build.QueryVariable:
    """Return a variable that lists the values of the label `name` of some series.

    >>> of_labels("system", "System", 'up{job=~"$job"}', "A cluster.").build().query
    'label_values(up{job=~"$job"}, system)'
    """
    return _query(name, label, f"label_values({selector}, {name})", means)


def several(variable: build.QueryVariable) -> build.QueryVariable:
    """Let a variable have several values, all of them at first.

    >>> several(of_labels("job", "Agent", "up", "Agents.")).build().all_value
    '.*'
    """
    everything = model.VariableOption(selected=True, text=["All"], value=["$__all"])
    return variable.multi(multi=True).include_all(include_all=True).all_value(".*").current(everything)


def _query(name: str, label: str, query: str, means: str) -> build.QueryVariable:
    return (
        build.QueryVariable(name)
        .label(label)
        .description(means)
        .datasource(DATASOURCE)
        .query(query)
        .refresh(model.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(model.VariableSort.ALPHABETICAL_ASC)
    )


def _input() -> build.QueryVariable:
    """Return the variable of inputs, whose value is a matcher: an application may have runs whose input nobody told.

    A label without text is no label to Prometheus, so a list of labels would leave these runs out.
    """
    chosen = f'{CURVE}{{job=~"$job", system="$system", application="$application"}}'
    named = f'label_replace(label_replace({chosen}, "name", "none told", "", ""), "name", "$1", "input", "(.+)")'
    matched = f'label_replace({named}, "is", "input=\'$1\'", "input", "(.*)")'
    shown = _query(
        "input", "Input", f"query_result(count by (is, name) ({matched}))", "What the application worked on."
    )
    return shown.regex('/is="(?<value>[^"]*)", *name="(?<text>[^"]*)"/')


SOURCE: Final = made(build.DatasourceVariable("datasource").label("Prometheus").type("prometheus"))
PAGE: Final = made(
    build.TextBoxVariable("page")
    .label("Agent's page")
    .description("Where the agent's own page is seen from your browser: the link above leads there.")
    .default_value(PAGE_URL)
)
JOB: Final = made(several(of_labels("job", "Agent", "scalewatch_ready", "Jobs of Prometheus that scrape an agent.")))
INSTANCE: Final = made(several(of_labels("instance", "Instance", 'scalewatch_ready{job=~"$job"}', "Processes of it.")))
SYSTEMS: Final = made(several(of_labels("system", "System", f'{CURVE}{{job=~"$job"}}', "Clusters of the centre.")))
RUNNING: Final = "scalewatch_running_jobs"
OF_JOBS: Final[Variables] = tuple(
    made(several(each))
    for each in (
        of_labels("system", "System", f'{RUNNING}{{job=~"$job"}}', "Clusters of the centre."),
        of_labels(
            "partition", "Partition", f'{RUNNING}{{job=~"$job", system=~"$system"}}', "Partitions of the scheduler."
        ),
    )
)
_APPLICATION: Final = f'{CURVE}{{job=~"$job", system="$system", application="$application"'
_INPUT: Final = f"{_APPLICATION}, ${{input:raw}}"
OF_APPLICATION: Final[Variables] = tuple(
    made(each)
    for each in (
        of_labels("system", "System", f'{CURVE}{{job=~"$job"}}', "A cluster of the centre."),
        of_labels("application", "Application", f'{CURVE}{{job=~"$job", system="$system"}}', "What runs."),
        _input(),
        of_labels("unit", "Unit", f"{_INPUT}}}", "What sizes count."),
        of_labels("n", "Size (n)", f'{_INPUT}, unit="$unit"}}', "Size of a run, in the unit.").sort(
            model.VariableSort.NUMERICAL_ASC
        ),
        _query("input_name", "Input", f"label_values({_INPUT}}}, input)", "The input as it is in addresses.").hide(
            model.VariableHide.HIDE_VARIABLE
        ),
    )
)
_WINDOW: Final = 'scalewatch_host_window{job=~"$job"'
OF_HOST: Final[Variables] = tuple(
    made(each)
    for each in (
        of_labels("system", "System", f"{_WINDOW}}}", "A cluster of the centre."),
        of_labels("host", "Host", f'{_WINDOW}, system="$system"}}', "A host."),
        of_labels("resource", "Resource", f'{_WINDOW}, system="$system", host="$host"}}', "What is measured."),
    )
)
