"""The package for Rocky Linux, Red Hat and their relatives."""

import platform
import subprocess
from pathlib import Path
from typing import Final

from deploy.packages.contents import CONFIGURATION, DESCRIPTION, INSTALLED, LICENCE, NAME, REMOVED, SUMMARY
from deploy.packages.tree import HOME, python_version

SPEC: Final = """\
# the modules come compiled from the wheels of their makers: nothing is stripped, compiled or searched here
%global debug_package %{{nil}}
%global __os_install_post %{{nil}}
%define _build_id_links none
AutoReqProv: no
Name: {name}
Version: {version}
Release: 1
Summary: {summary}
License: {licence}
Requires: python{python}
Requires(post): /bin/sh
%description
{description}
%install
cp -a {tree}/. %{{buildroot}}/
%files
%defattr(-,root,root,-)
/{home}
/usr/bin/scalewatch
/usr/lib/systemd/system/scalewatch.service
/usr/lib/sysusers.d/scalewatch.conf
/usr/share/scalewatch
/usr/share/doc/scalewatch
%dir /etc/scalewatch
%config(noreplace) /{configuration}
%post
{installed}
%preun
[ "$1" = 0 ] || exit 0
{removed}
"""


def build(tree: Path, version: str, out: Path, work: Path) -> Path:
    """Make the package of a tree; `work` is a folder for what is in between."""
    spec = work / "scalewatch.spec"
    spec.write_text(
        SPEC.format(
            name=NAME, version=version, summary=SUMMARY, licence=LICENCE, python=python_version(), description=DESCRIPTION,
            tree=tree, home=HOME, configuration=CONFIGURATION, installed=INSTALLED, removed=REMOVED,
        )
    )  # fmt: skip
    defines = {"_topdir": f"{work}/rpmbuild", "_rpmdir": str(work / "rpms"), "_binary_payload": "w9.zstdio"}
    arguments = [word for name, value in defines.items() for word in ("--define", f"{name} {value}")]
    subprocess.run(["rpmbuild", "-bb", "--quiet", *arguments, str(spec)], check=True)
    (built,) = (work / "rpms").rglob("*.rpm")
    return Path(built.rename(out / f"{NAME}-{version}-1.{platform.machine()}.rpm"))
