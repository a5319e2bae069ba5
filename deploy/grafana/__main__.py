"""Write the dashboards: `python -m deploy.grafana`, or `make dashboards`."""

import sys

from deploy.grafana import alerting
from deploy.grafana.files import FOLDER, texts

for path, text in [(FOLDER / name, text) for name, text in texts().items()] + [
    (alerting.FOLDER / "rules.yaml", alerting.text())
]:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    sys.stdout.write(f"{path}: {len(text)} bytes\n")
