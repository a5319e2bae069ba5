"""Check a built site: `python -m deploy.site FOLDER`."""

import sys
from pathlib import Path

from deploy.site.check import problems

if __name__ == "__main__":
    found = problems(Path(sys.argv[1]))
    sys.stderr.writelines(f"{problem}\n" for problem in found)
    sys.exit(bool(found))
