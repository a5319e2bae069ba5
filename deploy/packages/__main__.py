"""Make everything a release consists of: `python -m deploy.packages --help`."""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from deploy.packages import bill, chart, deb, image, rpm, tree
from deploy.packages.contents import NAME
from processors import __version__

PARTS: Final = ("deb", "rpm", "chart", "image", "bill")


def main() -> None:
    """Build what is asked for into a folder that has the wheel."""
    parser = argparse.ArgumentParser(description="Make the packages of a release beside its wheel.")
    parser.add_argument("out", type=Path, help="folder with the wheel, where everything goes")
    parser.add_argument("--only", action="append", choices=PARTS, help="a part; without it, all")
    parser.add_argument("--helm", default="helm", help="the program Helm")
    parser.add_argument("--base", help="the base of the image, instead of that of the Dockerfile")
    parser.add_argument(
        "--pip-conf", help="settings of pip for the build of the image, where packages come from a mirror"
    )
    chosen = parser.parse_args()
    parts = chosen.only or PARTS
    with tempfile.TemporaryDirectory(prefix="scalewatch-packages-") as work:
        if {"deb", "rpm", "bill"} & {*parts}:
            of_tree(parts, chosen.out, Path(work))
    if "chart" in parts:
        chart.build(chosen.helm, __version__, chosen.out)
    if "image" in parts:
        base = ["--build-arg", f"BASE={chosen.base}"] if chosen.base else []
        settings = ["--secret", f"id=pip.conf,src={chosen.pip_conf}"] if chosen.pip_conf else []
        image.build(__version__, chosen.out, [*base, *settings])
    sys.stdout.writelines(f"{path}\n" for path in sorted(chosen.out.iterdir()))


def of_tree(parts: tuple[str, ...] | list[str], out: Path, work: Path) -> None:
    """Make what needs the installed tree: the packages, and the lists of what is in them."""
    (wheel,) = out.glob("*.whl")
    whole = work / "tree"
    whole.mkdir(mode=0o755)
    tree.build(whole, wheel)
    found = bill.components(tree.site_packages(whole), NAME)
    listed = {
        f"{NAME}-{__version__}.cdx.json": bill.bill(NAME, __version__, found),
        f"{NAME}-{__version__}-licences.txt": bill.licences(found),
    }
    for name, text in listed.items():
        (whole / "usr/share/doc/scalewatch" / name).write_text(text)
        if "bill" in parts:
            (out / name).write_text(text)
    if "rpm" in parts:
        rpm.build(whole, __version__, out, work)
    if "deb" in parts:
        deb.build(whole, __version__, out)


if __name__ == "__main__":
    try:
        main()
    except subprocess.CalledProcessError as error:
        printed = (
            (error.stderr or b"").decode(errors="replace") if isinstance(error.stderr, bytes) else error.stderr or ""
        )
        sys.exit(f"{error.cmd[0]} failed with exit code {error.returncode}. {printed[-2000:]}")
