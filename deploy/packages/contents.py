"""What both kinds of package share: names, the configuration, and what happens at install and removal."""

from typing import Final

NAME: Final = "scalewatch"
SUMMARY: Final = "learns how the applications of an HPC centre scale"
DESCRIPTION: Final = (
    "Reads job completions and telemetry from Kafka, predicts run times with bands that were measured,\n"
    "and raises alerts. The service is neither enabled nor started: edit /etc/scalewatch/agent.yaml,\n"
    "then systemctl enable --now scalewatch."
)
LICENCE: Final = "Apache-2.0"
CONFIGURATION: Final = "etc/scalewatch/agent.yaml"

INSTALLED: Final = """\
if command -v systemd-sysusers >/dev/null; then
    systemd-sysusers scalewatch.conf
elif ! getent passwd scalewatch >/dev/null; then
    useradd --system --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin scalewatch
fi
if [ -d /run/systemd/system ]; then
    systemctl daemon-reload
    systemctl try-restart scalewatch.service
fi
"""
"""After an install and after an upgrade: the user, and the new version where the old one runs."""

REMOVED: Final = """\
if [ -d /run/systemd/system ]; then
    systemctl disable --now scalewatch.service
fi
"""
"""Before the last version goes."""
