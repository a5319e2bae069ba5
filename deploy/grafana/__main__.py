"""Write the dashboards: `python -m deploy.grafana`, or `make dashboards`."""

import sys

from deploy.grafana.files import FOLDER, texts

FOLDER.mkdir(parents=True, exist_ok=True)
for name, text in texts().items():
    (FOLDER / name).write_text(text)
    sys.stdout.write(f"{FOLDER / name}: {len(text)} bytes\n")
