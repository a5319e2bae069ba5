"""What a release says of itself: the bill of materials, and the licences of all that it holds."""

import json
import re
from pathlib import Path

import pytest

from processors import __version__
from tests.kit.docs import DOCS
from tests.kit.image import ROOT

pytestmark = [pytest.mark.tools, pytest.mark.slow, pytest.mark.thorough]


@pytest.fixture(scope="module")
def bill(release: Path) -> dict[str, object]:
    found: dict[str, object] = json.loads((release / f"scalewatch-{__version__}.cdx.json").read_text())
    return found


def names(bill: dict[str, object]) -> set[str]:
    components = bill["components"]
    assert isinstance(components, list)
    return {each["name"].lower() for each in components}


def test_the_bill_names_every_locked_dependency_and_the_script_of_the_pages(bill: dict[str, object]) -> None:
    lines = [line for line in (ROOT / "requirements.lock").read_text().splitlines() if re.match(r"[a-z]", line)]
    always = {re.split(r"[=\[ ]", line)[0] for line in lines if ";" not in line}
    assert always <= {name.replace("_", "-") for name in names(bill)}
    assert "uplot" in names(bill)
    assert "scalewatch" not in names(bill)


def test_everything_in_it_has_a_licence_and_an_address_of_its_own(bill: dict[str, object]) -> None:
    components = bill["components"]
    assert isinstance(components, list)
    assert [each["name"] for each in components if not each.get("licenses")] == []
    addresses = [each["purl"] for each in components]
    assert len({*addresses}) == len(addresses)
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.5")


def test_the_licences_are_listed_for_people_too(release: Path, bill: dict[str, object]) -> None:
    text = (release / f"scalewatch-{__version__}-licences.txt").read_text()
    assert {line.split()[0].lower() for line in text.splitlines()} == names(bill)
    assert "not stated" not in text


def test_the_guide_names_the_packages_of_this_version(release: Path) -> None:
    guide = (DOCS / "slurm-to-grafana.md").read_text()
    named = {*re.findall(r"scalewatch[_-]\d[\w.-]*\.(?:deb|rpm)", guide)}
    assert {re.sub(r"(amd64|x86_64|arm64|aarch64)", "", each) for each in named} == {
        re.sub(r"(amd64|x86_64|arm64|aarch64)", "", path.name)
        for path in release.iterdir()
        if path.suffix in {".deb", ".rpm"}
    }
