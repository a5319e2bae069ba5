"""The chart as an artefact of OCI: one file that tools copy into a registry, from where Helm installs it."""

import hashlib
import io
import json
import subprocess
import tarfile
from pathlib import Path
from typing import Any, Final

import yaml

ROOT: Final = Path(__file__).resolve().parents[2]
CHART: Final = ROOT / "helm" / "scalewatch"
MANIFEST: Final = "application/vnd.oci.image.manifest.v1+json"
CONFIG: Final = "application/vnd.cncf.helm.config.v1+json"
CONTENT: Final = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"


def build(helm: str, version: str, out: Path) -> Path:
    """Package the chart with the version of the release, and write it as an archive of OCI's layout of images."""
    subprocess.run(
        [helm, "package", str(CHART), "--version", version, "--app-version", version, "--destination", str(out)],
        check=True, capture_output=True,
    )  # fmt: skip
    packaged = out / f"scalewatch-{version}.tgz"
    described = {**yaml.safe_load((CHART / "Chart.yaml").read_text()), "version": version, "appVersion": version}
    path = out / f"scalewatch-chart-{version}.oci.tar"
    path.write_bytes(layout(packaged.read_bytes(), described, version))
    return path


def layout(packaged: bytes, described: dict[str, Any], tag: str) -> bytes:
    """Return the archive: a manifest with the description of the chart, and the packaged chart as its only layer."""
    config = json.dumps(described, default=str).encode()
    manifest = json.dumps(
        {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": _descriptor(CONFIG, config),
            "layers": [_descriptor(CONTENT, packaged)],
        }
    ).encode()
    named = {**_descriptor(MANIFEST, manifest), "annotations": {"org.opencontainers.image.ref.name": tag}}
    files = {"oci-layout": b'{"imageLayoutVersion":"1.0.0"}'}
    files["index.json"] = json.dumps({"schemaVersion": 2, "manifests": [named]}).encode()
    files |= {f"blobs/sha256/{_digest(each)}": each for each in (config, packaged, manifest)}
    return _archive(files)


def _archive(files: dict[str, bytes]) -> bytes:
    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode="w") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return whole.getvalue()


def _descriptor(kind: str, content: bytes) -> dict[str, Any]:
    return {"mediaType": kind, "digest": f"sha256:{_digest(content)}", "size": len(content)}


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
