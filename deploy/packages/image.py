"""The image as one file, an archive of OCI's layout, which tools copy into a registry: built by buildah from the Dockerfile."""

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
TAG: Final = "localhost/scalewatch"


def build(version: str, out: Path, options: Sequence[str] = (), store: Sequence[str] = ()) -> Path:
    """Build the image and write its archive.

    `options` are further ones of `buildah bud` (a base, settings of pip), `store` says where buildah keeps images.
    """
    dockerfile = str(ROOT / "deploy" / "Dockerfile")
    name = f"{TAG}:{version}"
    labelled = ["--label", f"org.opencontainers.image.version={version}"]
    _buildah(
        store, "bud", "--quiet", "--format=oci", *labelled, *options, "--file", dockerfile, "--tag", name, str(ROOT)
    )
    return archive(name, version, out, store)


def archive(name: str, version: str, out: Path, store: Sequence[str] = ()) -> Path:
    """Write an image that was built as an archive of OCI's layout."""
    path = out / f"scalewatch-image-{version}.oci.tar"
    _buildah(store, "push", "--quiet", "--format=oci", name, f"oci-archive:{path}:{version}")
    return path


def _buildah(store: Sequence[str], *arguments: str) -> None:
    """Run buildah as it also works inside a container, without namespaces of its own."""
    environment = {**os.environ, "BUILDAH_ISOLATION": "chroot"}
    subprocess.run(["buildah", *store, *arguments], env=environment, check=True, stdout=subprocess.DEVNULL)
