"""`patchgrad view`: at a terminal the page is served and opened, in a script one file is written, and --out writes what it names."""

from __future__ import annotations

import json
import os
import pty
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.viewer.synthetic import make, policy

from patchgrad.cli import main
from patchgrad.store import plain

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

Refused = Callable[..., str]
Spoken = pytest.CaptureFixture[str]
PROGRAM = (sys.executable, "-c", "import sys; from patchgrad.cli import main; sys.exit(main())", "view")
SOURCE = str(Path(__file__).parents[2] / "src")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(make(tmp_path_factory.mktemp("view") / "a-run").folder)


def a_port() -> int:
    """One at which nobody listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


def without_display() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name not in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")}


@pytest.fixture
def refused(capsys: Spoken) -> Refused:
    """The sentence with which the verb refuses these words; nothing else is printed."""

    def call(*words: str) -> str:
        capsys.readouterr()
        assert main(["view", *words]) == 2
        told = capsys.readouterr()
        assert told.out == ""
        return told.err.strip().removeprefix("patchgrad: ")

    return call


@contextmanager
def at_a_terminal(folder: Path, *words: str, env: Mapping[str, str]) -> Iterator[str]:
    """What the verb prints first at a terminal; it is interrupted at the end, which ends it well."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen([*PROGRAM, *words], cwd=folder, env={**env, "PYTHONPATH": SOURCE}, stdout=theirs, stderr=theirs)
    os.close(theirs)
    try:
        told = b""
        while not told.endswith(b"\n"):
            told += os.read(ours, 4096)
        yield told.decode().strip()
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def browser(folder: Path) -> tuple[Path, dict[str, str]]:
    """A browser that writes the addresses that it is given to a file, and an environment that names it."""
    opened, program = folder / "opened", folder / "browser"
    program.write_text(f'#!/bin/sh\necho "$1" >> {opened}\n')
    program.chmod(0o755)
    return opened, {**without_display(), "BROWSER": str(program)}


def answer(address: str) -> str:
    with urllib.request.urlopen(address, timeout=60) as told:
        text: str = told.read().decode()
        return text


def test_at_a_terminal_the_page_is_served_and_opened(run: str, tmp_path: Path) -> None:
    port, (opened, env) = a_port(), browser(tmp_path)
    with at_a_terminal(tmp_path, run, "--port", str(port), env={**env, "DISPLAY": ":7"}) as told:
        assert told == f"The page is at http://127.0.0.1:{port}/, until Ctrl-C."
        for _ in range(600):
            if opened.exists():
                break
            time.sleep(0.05)
        assert opened.read_text().split() == [f"http://127.0.0.1:{port}/"]
        assert "<html" in answer(f"http://127.0.0.1:{port}/")


@pytest.mark.parametrize(("words", "display"), [(("--no-open",), ":7"), ((), "")])
def test_where_no_browser_is_wanted_or_seen_the_address_is_printed_alone(
    words: tuple[str, ...], display: str, run: str, tmp_path: Path
) -> None:
    port, (opened, env) = a_port(), browser(tmp_path)
    with at_a_terminal(tmp_path, run, "--port", str(port), *words, env={**env, "DISPLAY": display}):
        assert "<html" in answer(f"http://127.0.0.1:{port}/")
    assert not opened.exists()


def test_at_a_terminal_a_run_is_all_that_has_to_be_named(run: str, tmp_path: Path) -> None:
    """The port that all have may be another's here, which is told then: either way it was to be served, and nothing is written."""
    ours, theirs = pty.openpty()
    (Path(run) / "report.html").unlink(missing_ok=True)
    with subprocess.Popen(
        [*PROGRAM, run], cwd=tmp_path, env={**without_display(), "PYTHONPATH": SOURCE}, stdout=theirs, stderr=theirs
    ) as one:
        os.close(theirs)
        told = os.read(ours, 4096).decode()
        one.terminate()
    os.close(ours)
    assert told.startswith(("The page is at http://127.0.0.1:8517/, until Ctrl-C.", "patchgrad: Nobody can listen at 127.0.0.1:8517"))
    assert not (Path(run) / "report.html").exists()


def test_in_a_script_the_report_is_written_and_the_command_ends(run: str, capsys: Spoken) -> None:
    (Path(run) / "report.html").unlink(missing_ok=True)
    assert main(["view", run]) == 0
    assert capsys.readouterr().out.strip() == str((Path(run) / "report.html").resolve())
    assert "61.3 % of 200 held-out tasks solved" in (Path(run) / "report.html").read_text()


def test_in_a_script_several_runs_are_compared_in_one_file(
    run: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Spoken
) -> None:
    monkeypatch.chdir(tmp_path)
    other = make(tmp_path / "other", recipe='name = "other"\n').folder
    assert main(["view", run, str(other), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"page": str(tmp_path / "comparison.html")}
    assert "2 recipes, 2 runs" in (tmp_path / "comparison.html").read_text()


def test_a_script_that_wants_the_page_served_says_so(run: str, tmp_path: Path) -> None:
    port = a_port()
    words = [*PROGRAM, run, "--no-open", "--port", str(port), "--json"]
    with subprocess.Popen(words, cwd=tmp_path, env={**os.environ, "PYTHONPATH": SOURCE}, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline()) == {"page": f"http://127.0.0.1:{port}/"}
        assert "<html" in answer(f"http://127.0.0.1:{port}/")
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0


def test_a_port_that_somebody_has_is_told_before_an_address_is(run: str, refused: Refused) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert refused(run, "--port", str(port)) == f"Nobody can listen at 127.0.0.1:{port}: name another --port."


def test_out_writes_a_folder_or_the_report_as_one_file(run: str, tmp_path: Path, capsys: Spoken) -> None:
    (Path(run) / "report.html").unlink(missing_ok=True)
    assert main(["view", run, "--out", str(tmp_path / "page")]) == 0
    assert capsys.readouterr().out == f"9 attempts are in {tmp_path / 'page' / 'index.html'}\n"
    assert (tmp_path / "page" / "index.html").is_file()
    assert main(["view", run, "--out", str(tmp_path / "one.html")]) == 0
    assert capsys.readouterr().out == f"{tmp_path / 'one.html'}\n"
    assert "61.3 % of 200 held-out tasks solved" in (tmp_path / "one.html").read_text()
    assert not (Path(run) / "report.html").exists()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (
            ("--serve",),
            "There is no --serve any more: `patchgrad view RUN` serves the page, and in a script `patchgrad view RUN --no-open` does.",
        ),
        (("--open",), "There is no --open any more: `patchgrad view RUN` opens the page, unless --no-open is given."),
        (("--site", "page"), "There is no --site any more: --out DIR writes the page as a folder."),
        (("--out", "page", "--no-open"), "--no-open has no meaning with --out, which writes the page and serves nothing."),
        (("--out", "page.html", "--port", "9"), "--port has no meaning with --out, which writes the page and serves nothing."),
    ],
)
def test_words_that_are_gone_or_do_not_go_together_are_told(words: tuple[str, ...], says: str, run: str, refused: Refused) -> None:
    assert refused(run, *words) == says


def test_a_file_of_reports_is_no_folder_of_attempts(tmp_path: Path, refused: Refused) -> None:
    told = tmp_path / "study.json"
    told.write_text(json.dumps({"arm": "a", "reports": [plain(policy("p", 0.5, 0.7, 0.9, 6.0, 2.0))]}))
    for words in (("--no-open",), ("--out", str(tmp_path / "page"))):
        assert refused(str(told), *words) == (
            f"{told} is a file, and the page shows folders of runs: files are compared with --out FILE.html."
        )
