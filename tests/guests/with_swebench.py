"""What SWE-bench says of recorded logs: `python with_swebench.py FILE` in an environment that has it; its last line is JSON.

The file holds a row, a prediction and logs by name.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from swebench.harness.grading import get_eval_report
from swebench.harness.utils import make_test_spec

told = json.loads(Path(sys.argv[1]).read_text())
spec, found = make_test_spec(told["row"]), {}
for name, text in told["logs"].items():
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "test_output.txt"
        path.write_text(text)
        found[name] = get_eval_report(spec, told["prediction"], str(path), include_tests_status=True)
sys.stdout.write(f"\n{json.dumps(found)}\n")
