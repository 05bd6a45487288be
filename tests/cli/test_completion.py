"""The key TAB: a real bash reads the script and completes the words of the command; zsh and fish do where they are installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from patchgrad.cli import VERBS, main
from patchgrad.cli.completion import SHELLS
from patchgrad.config import leaves
from patchgrad.recipes import RECIPES, laptop

argcomplete = pytest.importorskip("argcomplete", reason="argcomplete is not installed: pip install 'patchgrad[completion]'")
ROOT = Path(__file__).parents[2]
BEHIND = Path(argcomplete.__file__).parents[1]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the command, a recipe and a run in it."""
    folder = tmp_path_factory.mktemp("completion")
    command = folder / "bin" / "patchgrad"
    command.parent.mkdir()
    paths = os.pathsep.join(map(str, (ROOT / "src", BEHIND)))
    command.write_text(
        f'#!/bin/sh\nPYTHONPATH={paths} exec {sys.executable} -c "import sys; from patchgrad.cli import main; sys.exit(main())" "$@"\n'
    )
    command.chmod(0o755)
    (folder / "mine.toml").write_text('preset = "tiny"\n')
    (folder / "notes.txt").write_text("")
    return folder


def spoken(place: Path, shell: str, program: str) -> str:
    told = {**os.environ, "PATH": f"{place / 'bin'}{os.pathsep}{os.environ['PATH']}", "HOME": str(place)}
    done = subprocess.run([shell, "-c", program], cwd=place, env=told, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def completed(place: Path, line: str) -> set[str]:
    """What bash offers after these words: its function for the command is asked as the key TAB asks it."""
    words = line.split(" ")
    array = " ".join(f"'{word}'" for word in words)
    program = (
        'eval "$(patchgrad completion bash)"; spec=$(complete -p patchgrad); '
        'name=$(printf "%s" "$spec" | sed -E "s/.*-F ([^ ]+).*/\\1/"); '
        f"COMP_WORDS=({array}); COMP_CWORD={len(words) - 1}; COMP_LINE='{line}'; COMP_POINT={len(line)}; COMP_TYPE=9; "
        f"\"$name\" patchgrad '{words[-1]}' '{words[-2]}'; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    )
    return {word.strip() for word in spoken(place, "bash", program).splitlines()}


def test_bash_completes_verbs_and_those_below_a_verb(place: Path) -> None:
    assert set(VERBS) <= completed(place, "patchgrad ")
    assert {"export", "get", "show"} <= completed(place, "patchgrad models ")


def test_bash_completes_options_and_their_choices(place: Path) -> None:
    assert completed(place, "patchgrad export --to in") == {"inspect"}
    assert {"--solved", "--hide", "--instead"} <= completed(place, "patchgrad export --")
    assert completed(place, "patchgrad completion ") >= set(SHELLS)


def test_bash_completes_recipes_by_name_and_by_file_and_the_keys_of_a_recipe(place: Path) -> None:
    offered = completed(place, "patchgrad train ")
    assert set(RECIPES) | {"mine.toml"} <= offered
    assert "notes.txt" not in offered
    keys = {f"--{key}" for key in leaves(laptop()) if key.startswith("rft.l")}
    assert completed(place, "patchgrad train laptop --rft.l") == keys


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_read_their_script(place: Path, shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    script = place / f"script.{shell}"
    script.write_text(spoken(place, "bash", f"patchgrad completion {shell}"))
    spoken(place, shell, f"{'' if shell == 'fish' else 'autoload -Uz compinit; compinit -u; '}source {script}")
    if shell == "fish":
        offered = spoken(place, shell, f"source {script}; complete -C 'patchgrad '")
        assert set(VERBS) <= {line.split("\t")[0] for line in offered.splitlines()}


def test_each_shell_has_its_script(capsys: pytest.CaptureFixture[str]) -> None:
    scripts = set()
    for shell in SHELLS:
        assert main(["completion", shell]) == 0
        scripts.add(capsys.readouterr().out)
    assert len(scripts) > 1
    assert all("patchgrad" in script for script in scripts)
