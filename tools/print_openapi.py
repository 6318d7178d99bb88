"""Prints the description of the HTTP API, which the types of the page are made of.

python tools/print_openapi.py > openapi.json
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from seqferry.api import create_app
from seqferry.service.service import Service
from seqferry.settings.config import Settings


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings.load({}, state_dir=Path(folder))
        with Service.open(settings) as service:
            json.dump(create_app(settings, service, None).openapi(), sys.stdout, indent=1)


if __name__ == "__main__":
    main()
