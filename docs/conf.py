"""The documentation site: `make docs` builds it into `build/docs`, and a warning is an error."""

from __future__ import annotations

import sys
from pathlib import Path

PROJECT = Path(__file__).parents[1]
sys.path[:0] = [str(PROJECT / "docs" / "extensions"), str(PROJECT / "src")]

project = "patchgrad"
author = "the patchgrad authors"
extensions = ["myst_parser", "reference"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["benchmarks", "studies/*/*", "extensions"]
html_theme = "furo"
html_title = "patchgrad"
html_show_copyright = False
html_static_path = ["images"]

myst_enable_extensions = ["attrs_inline"]
myst_heading_anchors = 4
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 100
toc_object_entries = False  # a module has hundreds of entries; the page's own list shows its modules
