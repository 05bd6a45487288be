"""The peer's side of `benchmarks/tasks/making.py`; runs in an environment of its own, which that script makes.

    python making_peer.py FOLDER COUNT

Rewrites the Python files of the folder as `swesmith.bug_gen.procedural.generate` does: its modifiers with their likelihoods and seeds, one
after the other over all entities that each can change, a patch from each rewrite. Its own `main` cannot run here, since it clones
from its organisation through profiles that import Docker's client and SWE-bench's harness. Prints one JSON object: how many distinct
patches, CPU seconds without the imports, and COUNT of the rewritten files, drawn evenly.
"""

from __future__ import annotations

import random
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.library.command import parser, tell


def generated(folder: Path, count: int) -> dict[str, Any]:
    """What comes of the files in the folder."""
    from swesmith.bug_gen.adapters.python import get_entities_from_file_py
    from swesmith.bug_gen.procedural.python import MODIFIERS_PYTHON
    from swesmith.bug_gen.utils import apply_code_change, generate_patch_fast

    random.seed(24)
    start = time.process_time()
    entities: list[Any] = []
    for path in sorted(folder.rglob("*.py")):
        get_entities_from_file_py(entities, str(path))
    bugs = [(entity, modifier.modify(entity)) for modifier in MODIFIERS_PYTHON for entity in entities if modifier.can_change(entity)]
    rewritten = time.process_time()
    made: dict[str, tuple[Any, Any]] = {}
    for entity, bug in bugs:
        patch = bug and generate_patch_fast(entity, bug, str(folder))
        if patch:
            made.setdefault(patch, (entity, bug))
    done = time.process_time()
    drawn = []
    for patch in random.Random(24).sample(sorted(made), min(count, len(made))):
        entity, bug = made[patch]
        path = Path(entity.file_path)
        before = path.read_text()
        apply_code_change(entity, bug)
        drawn.append((str(path.relative_to(folder)), path.read_text()))
        path.write_text(before)
    return {"count": len(made), "rewriting": rewritten - start, "patches": done - rewritten, "drawn": drawn}


def main() -> None:
    """Generates, and prints what came of it."""
    asked = parser(__doc__)
    asked.add_argument("folder", type=Path)
    asked.add_argument("count", type=int)
    given = asked.parse_args()
    tell(generated(given.folder, given.count))


if __name__ == "__main__":
    main()
