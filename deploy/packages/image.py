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
    path = out / f"scalewatch-image-{version}.oci.tar"
    # works inside a container, too, without namespaces of its own
    environment = {**os.environ, "BUILDAH_ISOLATION": "chroot"}
    dockerfile = str(ROOT / "deploy" / "Dockerfile")
    labelled = ["--label", f"org.opencontainers.image.version={version}"]
    build_ = [
        "bud",
        "--quiet",
        "--format=oci",
        *labelled,
        *options,
        "--file",
        dockerfile,
        "--tag",
        f"{TAG}:{version}",
        str(ROOT),
    ]
    for arguments in (build_, ["push", "--quiet", f"{TAG}:{version}", f"oci-archive:{path}:{version}"]):
        subprocess.run(["buildah", *store, *arguments], env=environment, check=True, stdout=subprocess.DEVNULL)
    return path
