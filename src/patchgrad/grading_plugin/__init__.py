"""The folder whose files a sandbox's `site-packages` holds read-only, so that `python -m pytest -p patchgrad_report` works inside it.

Sandboxes copy `FILES`; nothing in them imports patchgrad, because patchgrad is not in there.
"""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).parent
FILES = tuple(sorted(path.name for path in FOLDER.glob("patchgrad_*.py")))
