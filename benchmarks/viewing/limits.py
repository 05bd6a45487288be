"""How soon the page shows what is very large: a hundred thousand attempts, and one of 131,072 tokens with an answer of ten megabytes.

    python benchmarks/viewing/limits.py [--attempts 100000] [--times 5]

Writes both folders, and opens each view so many times in a fresh tab of Chromium, beside a page that holds nothing: a busy machine makes
that one late too. Seconds are those from the address to the first paint, to the first row or token, and to all rows, as medians. Prints a
table, and JSON last.
"""

from __future__ import annotations

import atexit
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.library.command import parser, tell
from tests.viewer.large import long, many
from tests.viewer.synthetic import RECIPE

from patchgrad.store import Run

PORT = 8623
TOKENS = 131_072
PAINT = "() => performance.getEntriesByType('paint').find((one) => one.name === 'first-contentful-paint')?.startTime / 1000"
EMPTY = "data:text/html,<p>nothing"


def main() -> None:
    """Measures all views in turn."""
    options = parser(__doc__)
    options.add_argument("--attempts", type=int, default=100_000)
    options.add_argument("--times", type=int, default=5)
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        runs = [Path(folder) / "many", Path(folder) / "long"]
        many(runs[0], given.attempts)
        with Run.create(runs[1], RECIPE) as run:
            run.rollouts.write("stage1", 0, [long("stage1/0/0/0", TOKENS)])
        found = measured(runs, given.attempts, given.times)
    for name, seconds in found.items():
        print(f"{name:28} {'  '.join(f'{what} {value:.2f} s' for what, value in seconds.items())}")
    tell({"attempts": given.attempts, "tokens": TOKENS, "times": given.times, "seconds": found})


def measured(runs: list[Path], attempts: int, times: int) -> dict[str, dict[str, float]]:
    """Seconds by view and by what is waited for."""
    from playwright.sync_api import sync_playwright

    command = [sys.executable, "-m", "patchgrad", "view", *map(str, runs), "--no-open", "--port", str(PORT)]
    server = subprocess.Popen(command, stdout=subprocess.PIPE)
    atexit.register(server.kill)
    here, chromium = f"http://127.0.0.1:{PORT}/", shutil.which("chromium") or shutil.which("chromium-browser")
    views: Mapping[str, tuple[str, Mapping[str, str]]] = {
        "a page that holds nothing": (EMPTY, {"there": "p"}),
        "the list": (f"{here}#/list/0", {"rows": ".body .row", "all": f".filters:has-text('{attempts:,} of {attempts:,}')"}),
        "an attempt of the list": (f"{here}#/attempt/0/stage1%2F50%2F7%2F0", {"tokens": ".token"}),
        "a long attempt": (f"{here}#/attempt/1/stage1%2F0%2F0%2F0", {"tokens": ".token"}),
    }
    found: dict[str, dict[str, list[float]]] = {name: {} for name in views}
    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        _answers(browser.new_page(), here)
        for _ in range(times):
            for name, (address, waits) in views.items():
                for what, seconds in _opened(browser.new_page(), address, waits).items():
                    found[name].setdefault(what, []).append(seconds)
        browser.close()
    server.kill()
    return {name: {what: median(seconds) for what, seconds in one.items()} for name, one in found.items()}


def _answers(page: Any, here: str) -> None:
    """Waits until the server listens."""
    for _ in range(600):
        try:
            page.goto(here)
            break
        except Exception:  # of playwright: nobody listens yet
            time.sleep(0.1)
    page.close()


def _opened(page: Any, address: str, waits: Mapping[str, str]) -> dict[str, float]:
    page.set_default_timeout(300_000)
    began, told = time.monotonic(), dict[str, float]()
    page.goto(address)
    for what, selector in waits.items():
        page.wait_for_selector(selector)
        told[what] = time.monotonic() - began
    told = {"paint": page.evaluate(PAINT) or told[next(iter(waits))], **told}
    page.close()
    return told


if __name__ == "__main__":
    main()
