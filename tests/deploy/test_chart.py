"""The Helm chart: taken by Helm 3 and 4, right for the oldest and the newest Kubernetes, safe and without secrets."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from click.testing import CliRunner

import processors
from agent.cli import main
from agent.config.reference import secret_paths
from tests.kit.chart import CHART, NEWEST, OLDEST, ChartError, Objects, named, objects, pod_templates, rendered, values
from tests.kit.tools import tool

pytestmark = pytest.mark.tools

EXAMPLES = sorted(path.name.removesuffix("-values.yaml") for path in (CHART / "ci").glob("*-values.yaml"))
# each option alone, on top of the least that has to be given
OPTIONS = (
    "collector.autoscaling.enabled=true",
    "learner.standbys=2",
    "topics.create=false",
    "serviceAccount.create=false",
    "networkPolicy.enabled=false",
    "serviceMonitor.enabled=true",
    "prometheusRule.enabled=true",
    "dashboards.enabled=true",
    "ingress.enabled=true,ingress.hosts[0].host=scalewatch.example.org",
    "collector.podDisruptionBudget.enabled=false,learner.podDisruptionBudget.enabled=false",
    "image.digest=sha256:" + "0" * 64,
    "config.topics.journal_partitions=3",
)


@pytest.fixture(params=["helm3", "helm4"])
def helm(request: pytest.FixtureRequest) -> str:
    return tool(request.param)


@pytest.fixture
def full() -> Objects:
    return objects(rendered(tool("helm4", "helm3"), values("full")))


@pytest.fixture
def minimal() -> Objects:
    return objects(rendered(tool("helm4", "helm3"), values("minimal")))


def test_the_chart_runs_the_agent_of_this_version() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["appVersion"] == processors.__version__
    assert chart["kubeVersion"] == f">={OLDEST}-0"


@pytest.mark.parametrize("example", [None, *EXAMPLES])
def test_helm_finds_nothing_to_complain_about(helm: str, example: str | None) -> None:
    command = [helm, "lint", "--strict", str(CHART), "--kube-version", NEWEST]
    command += ["--values", str(values(example))] if example else []
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("kubernetes", [OLDEST, NEWEST])
@pytest.mark.parametrize("example", EXAMPLES)
def test_kubernetes_takes_every_object(helm: str, example: str, kubernetes: str) -> None:
    assert faults(rendered(helm, values(example), kubernetes=kubernetes), kubernetes) == []


@pytest.mark.parametrize("option", OPTIONS)
def test_each_option_makes_objects_that_kubernetes_takes(option: str) -> None:
    helm = tool("helm4", "helm3")
    text = rendered(helm, values("minimal"), sets=[option])
    assert text != rendered(helm, values("minimal"))
    assert faults(text, NEWEST) == []


def test_a_misspelt_field_would_be_found() -> None:
    text = rendered(tool("helm4", "helm3"), values("minimal")).replace("startupProbe", "startUpProbe")
    assert len([fault for fault in faults(text, NEWEST) if "startUpProbe" in fault]) == 2


def faults(text: str, kubernetes: str) -> list[str]:
    """Return what is wrong with manifests by the schemas of a version of Kubernetes; it has none of operators' kinds."""
    found = []
    for each in objects(text):
        try:
            kubernetes_validate.validate(each, kubernetes, strict=True)
        except kubernetes_validate.ValidationError as error:
            found.append(f"{each['kind']} {each['metadata']['name']}: {error.message}")
        except kubernetes_validate.SchemaNotFoundError:
            if each["apiVersion"] != "monitoring.coreos.com/v1":
                found.append(f"{each['kind']} of {each['apiVersion']} is not known")
    return found


def test_both_versions_of_helm_make_the_same() -> None:
    third, fourth = (objects(rendered(tool(name), values("full"))) for name in ("helm3", "helm4"))
    assert sorted(map(yaml.safe_dump, third)) == sorted(map(yaml.safe_dump, fourth))


def test_template_tests_pass() -> None:
    done = subprocess.run([tool("helm-unittest"), "--strict", CHART], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("example", EXAMPLES)
def test_the_agent_takes_its_configuration_from_the_chart(
    example: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = objects(rendered(tool("helm4", "helm3"), values(example)))
    for each in found:
        for name, text in each.get("data", {}).items():
            (tmp_path / name).write_text(text)
    monkeypatch.setenv("SCALEWATCH_KAFKA_PASSWORD", "of the test")
    result = CliRunner().invoke(main, ["validate", "--no-secrets", "-c", str(tmp_path / "agent.yaml")])
    assert result.exit_code == 0, result.output


def test_large_numbers_stay_whole(full: Objects) -> None:
    text = named(full, "ConfigMap", "centre-scalewatch")["data"]["agent.yaml"]
    assert "max_message_bytes: 8388608\n" in text


def test_a_changed_configuration_rolls_the_pods_and_nothing_else_does() -> None:
    def checksums(*sets: str) -> list[str]:
        found = objects(rendered(tool("helm4", "helm3"), values("minimal"), sets=sets))
        return [each["metadata"]["annotations"]["checksum/config"] for each in pod_templates(found).values()]

    before = checksums()
    assert len(set(before)) == 1
    assert checksums("collector.replicas=3", "ingress.className=nginx") == before
    assert set(checksums("config.log.level=debug")).isdisjoint(before)
    assert set(checksums("files.nodes\\.csv=host")).isdisjoint(before)


def test_the_hook_has_the_same_configuration_as_the_roles(full: Objects) -> None:
    roles = named(full, "ConfigMap", "centre-scalewatch")
    hook = named(full, "ConfigMap", "centre-scalewatch-topics")
    assert hook["data"] == roles["data"]


def test_containers_run_without_rights(full: Objects) -> None:
    templates = pod_templates(full)
    assert set(templates) == {"collector", "learner", "topics"}
    for template in templates.values():
        spec = template["spec"]
        (container,) = spec["containers"]
        assert spec["automountServiceAccountToken"] is False
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert set(container["resources"]) == {"requests", "limits"}
        assert not any("hostPath" in volume for volume in spec["volumes"])


def test_every_object_has_the_recommended_labels(full: Objects) -> None:
    recommended = {f"app.kubernetes.io/{name}" for name in ("name", "instance", "version", "part-of", "managed-by")}
    for each in full:
        assert recommended | {"helm.sh/chart", "team"} <= set(each["metadata"]["labels"]), each["metadata"]["name"]
        assert each["metadata"]["namespace"] == "hpc"


def test_selectors_select_the_pods_and_only_them(full: Objects) -> None:
    labels = {role: template["metadata"]["labels"] for role, template in pod_templates(full).items()}
    budgets = [each for each in full if each["kind"] == "PodDisruptionBudget"]
    services = [each for each in full if each["kind"] == "Service"]
    wanted = {each["metadata"]["name"]: each["spec"]["selector"]["matchLabels"] for each in budgets}
    wanted |= {f"service {each['metadata']['name']}": each["spec"]["selector"] for each in services}
    assert {name: [role for role in labels if selector.items() <= labels[role].items()] for name, selector in wanted.items()} == {
        "centre-scalewatch-collector": ["collector"],
        "centre-scalewatch-learner": ["learner"],
        "service centre-scalewatch": ["learner"],
        "service centre-scalewatch-collector": ["collector"],
        "service centre-scalewatch-learner": ["learner"],
    }  # fmt: skip


@pytest.mark.parametrize("path", sorted(secret_paths()), ids=".".join)
def test_a_secret_in_the_values_is_refused_and_not_repeated(path: tuple[str, ...]) -> None:
    key = ".".join(path).replace(".[]", "[0]")
    reference = [f"config.{key.rpartition('.')[0]}.name=ops"] if "[0]" in key else []
    for helm in (tool("helm3"), tool("helm4")):
        with pytest.raises(ChartError, match=rf"A secret stands in the values \(config\.{re.escape(key)}\)") as refused:
            rendered(helm, values("minimal"), sets=[f"config.{key}=hunter2", *reference])
        assert "hunter2" not in str(refused.value)


def test_secrets_are_named_and_never_shown(full: Objects) -> None:
    assert [each for each in full if each["kind"] == "Secret"] == []
    for template in pod_templates(full).values():
        (container,) = template["spec"]["containers"]
        assert container["env"][0] == {
            "name": "SCALEWATCH_KAFKA_PASSWORD",
            "valueFrom": {"secretKeyRef": {"name": "scalewatch-kafka", "key": "password"}},
        }
        secrets = [volume["secret"]["secretName"] for volume in template["spec"]["volumes"] if "secret" in volume]
        assert secrets == ["scalewatch-kafka-tls", "scalewatch-privacy"]


@pytest.mark.parametrize(
    ("setting", "output"),
    [
        ("colector.replicas=2", "additional properties 'colector' not allowed"),
        ("collector.replica=2", "'/collector': additional properties 'replica' not allowed"),
        ("collector.pod.extraEnvs=x", "additional properties 'extraEnvs' not allowed"),
        ("config.alerts.slow_siz.enabled=true", "'/config/alerts': additional properties 'slow_siz' not allowed"),
        ("config.topics.journal_partitions=two", "'/config/topics/journal_partitions': got string, want integer"),
        ("config.kafka.bootstrap=kafka", "'kafka' does not match pattern"),
        ("config.sources=null", "config.sources is empty"),
        ("config.http.host=127.0.0.1", "readers come from outside of the pod"),
        ("config.http.port=0", "config.http.port has to be one of 1 to 65534"),
        ("config.privacy.salt=${env:SALT}", "config names ${env:SALT}: add secrets.env.SALT"),
        ("secrets.env.SALT.value=hunter2", "additional properties 'value' not allowed"),
        ("image.pullPolicy=Sometimes", "value must be one of 'Always', 'IfNotPresent', 'Never'"),
        ("learner.resources.limits.memory=lots", "'lots' does not match pattern"),
        ("ingress.enabled=true", "ingress.enabled needs ingress.hosts"),
        ("collector.autoscaling.minReplicas=9", "minReplicas is more than maxReplicas"),
    ],
)  # fmt: skip
def test_wrong_values_are_refused_with_a_reason(helm: str, setting: str, output: str) -> None:
    with pytest.raises(ChartError) as refused:
        rendered(helm, values("minimal"), sets=[setting])
    assert output in str(refused.value)
    assert "hunter2" not in str(refused.value)


def test_what_has_to_be_given_is_named(helm: str) -> None:
    with pytest.raises(ChartError, match=r"config\.kafka\.bootstrap is empty: name the brokers as host:port"):
        rendered(helm)


def test_the_example_of_the_readme_is_taken(helm: str, tmp_path: Path) -> None:
    file = tmp_path / "centre.yaml"
    file.write_text((CHART / "README.md").read_text().split("```yaml\n")[1].split("```")[0])
    assert "SCALEWATCH_KAFKA_PASSWORD" in rendered(helm, file)


def test_what_the_plan_advises_is_taken(helm: str, tmp_path: Path) -> None:
    reported = CliRunner().invoke(main, ["plan", "--hosts", "5000", "--interval", "1"]).output
    file = tmp_path / "planned.yaml"
    file.write_text(reported.split("values.yaml of the Helm chart:\n")[1])
    planned = yaml.safe_load(file.read_text())["learner"]["resources"]
    found = pod_templates(objects(rendered(helm, values("minimal"), file)))["learner"]
    assert found["spec"]["containers"][0]["resources"] == planned


def test_an_older_kubernetes_is_refused(helm: str) -> None:
    with pytest.raises(ChartError, match=r"incompatible with Kubernetes v1\.24\.0"):
        rendered(helm, values("minimal"), kubernetes="1.24.0")


def containers(found: Objects) -> Iterator[dict[str, Any]]:
    for template in pod_templates(found).values():
        yield from template["spec"]["containers"]


def test_the_command_lines_are_understood(minimal: Objects) -> None:
    for container in containers(minimal):
        command, *arguments = container["args"]
        found = main.get_command(None, command)  # type: ignore[arg-type]  # the group needs no context to find a command
        assert found is not None
        found.make_parser(found.make_context(command, ["--help"], resilient_parsing=True)).parse_args(list(arguments))
