"""The files of the dashboards: the same text from the same code."""

import json
from pathlib import Path
from typing import Final

from grafana_foundation_sdk.cog.encoder import JSONEncoder

from deploy.grafana import agent, application, centre, host, jobs
from deploy.grafana.frame import dashboard

FOLDER: Final = Path(__file__).resolve().parents[2] / "helm" / "scalewatch" / "files" / "dashboards"


def texts() -> dict[str, str]:
    """Return the text of each dashboard by the name of its file.

    >>> sorted(texts())
    ['agent.json', 'application.json', 'centre.json', 'host.json', 'jobs.json']
    """
    sheets = (centre.sheet(), application.sheet(), jobs.sheet(), host.sheet(), agent.sheet())
    return {
        f"{sheet.name}.json": json.dumps(dashboard(sheet), cls=JSONEncoder, indent=1, sort_keys=True) + "\n"
        for sheet in sheets
    }
