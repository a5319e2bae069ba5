"""The command that plays the chart's life on a control plane says what it needs."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.deploy.kube import main
from tests.kit.control_plane import PROGRAMS, ControlPlane, NoControlPlaneError
from tests.kit.tools import tool


def test_the_help_names_every_program() -> None:
    reported = CliRunner().invoke(main, ["--help"]).output
    assert [name for name in (*PROGRAMS, "etcd", "helm", "openssl", "KUBECONFIG") if name not in reported] == []


@pytest.mark.tools
def test_without_a_cluster_nothing_is_touched(monkeypatch: pytest.MonkeyPatch) -> None:
    tool("helm4", "helm3")
    monkeypatch.delenv("KUBECONFIG", raising=False)
    result = CliRunner().invoke(main, [])
    assert result.exit_code == 2
    assert "Give --programs, or set KUBECONFIG" in result.output


def test_programs_that_are_missing_are_named(tmp_path: Path) -> None:
    (tmp_path / "kwok").touch()
    with pytest.raises(
        NoControlPlaneError, match="There is no kube-apiserver, kube-controller-manager, kube-scheduler, kubectl"
    ):
        ControlPlane(tmp_path, tmp_path)
