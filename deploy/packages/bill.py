"""The bill of materials (CycloneDX) and the licences of all that the packages hold: Python's packages, and scripts of the pages."""

import json
from collections.abc import Iterator
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any, Final, NamedTuple

VENDORED: Final = "sinks/web/static/vendor/manifest.json"
UNKNOWN: Final = "not stated"


class Component(NamedTuple):
    """One thing that others made: its name, its version, its licence as its makers state it, and its package URL."""

    name: str
    version: str
    licence: str
    purl: str


def components(site_packages: Path, product: str) -> list[Component]:
    """Return what is installed besides the product, in order of names."""
    found = [_python(each) for each in distributions(path=[str(site_packages)]) if each.name != product]
    return sorted({*found, *_vendored(site_packages / VENDORED)})


def bill(product: str, version: str, found: list[Component]) -> str:
    """Return the bill of materials as CycloneDX 1.5."""
    root = {"type": "application", "name": product, "version": version, "bom-ref": product}
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": {**root, "licenses": [{"license": {"id": "Apache-2.0"}}]}},
        "components": [_component(each) for each in found],
        "dependencies": [{"ref": product, "dependsOn": [each.purl for each in found]}],
    }
    return json.dumps(document, indent=1) + "\n"


def licences(found: list[Component]) -> str:
    """Return a table of names, versions and licences; the texts of the licences lie beside each package."""
    wide = max(len(each.name) for each in found)
    return "".join(f"{each.name:{wide}}  {each.version:14}  {each.licence}\n" for each in found)


def _component(each: Component) -> dict[str, Any]:
    made = {"type": "library", "name": each.name, "version": each.version, "purl": each.purl, "bom-ref": each.purl}
    return made if each.licence == UNKNOWN else {**made, "licenses": [{"license": {"name": each.licence}}]}


def _python(found: Distribution) -> Component:
    name = found.name.lower().replace("_", "-")
    return Component(name, found.version, _licence(found), f"pkg:pypi/{name}@{found.version}")


def _licence(found: Distribution) -> str:
    """Return the licence of a package: as an expression, as a classifier, or the first line of its field."""
    of = found.metadata.json
    classified = [each.rpartition(" :: ")[2] for each in of.get("classifier", ()) if each.startswith("License")]
    stated = of.get("license_expression") or ", ".join(each for each in classified if each != "OSI Approved")
    return str(stated) if stated else str(of.get("license") or UNKNOWN).splitlines()[0]


def _vendored(manifest: Path) -> Iterator[Component]:
    for each in json.loads(manifest.read_text()):
        yield Component(
            each["name"], each["version"], each["licence"], f"pkg:npm/{each['name'].lower()}@{each['version']}"
        )
