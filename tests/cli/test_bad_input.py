"""What a person gets wrong, and what a machine lacks: one sentence, exit code 2, no traceback, nothing lost."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.viewer.synthetic import episode, make

from patchgrad import recipes
from patchgrad.cli import main
from patchgrad.config import dumps
from patchgrad.networks import folder as folders
from patchgrad.networks.decoder import Decoder, DecoderConfig
from patchgrad.policies.embedded import ChatTokenizer
from patchgrad.store import Run, plain
from patchgrad.tasks.archive import pack
from patchgrad.tasks.sets import Member, append, row_of
from patchgrad.testing.tasks import a_repository, a_task

Spoken = pytest.CaptureFixture[str]
Refused = Callable[..., str]
START = "import sys; from patchgrad.cli import main; sys.exit(main(sys.argv[1:]))"


@pytest.fixture
def refused(capsys: Spoken) -> Refused:
    """Run a command line that must be refused; its one sentence."""

    def call(*words: str) -> str:
        assert main(list(words)) == 2
        return sentence(capsys.readouterr().err)

    return call


def sentence(text: str) -> str:
    assert "Traceback" not in text
    last = text.strip().splitlines()[-1]
    assert last.startswith("patchgrad: "), text
    return last.removeprefix("patchgrad: ")


def apart(*words: str, before: str) -> str:
    """The same in a process of its own, which something happens to first; its one sentence."""
    done = subprocess.run([sys.executable, "-c", f"{before}\n{START}", *words], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 2, done.stdout + done.stderr
    return sentence(done.stderr)


def model(folder: Path) -> Path:
    """A whole model, though an untaught one."""
    tokenizer = ChatTokenizer.train(["the tests fail"], 300)
    network = Decoder(
        DecoderConfig(tokenizer.vocabulary, hidden=40, heads=5, head_size=8, layers=1, intermediate=64, eos=(tokenizer.stop,))
    )
    folders.save(folder, network.config, network.state_dict())
    tokenizer.save(folder)
    return folder


def task_set(folder: Path) -> Path:
    """One task to train on and one held out, whose archive was changed after the set was made."""
    for split in ("train", "held_out"):
        repository = a_repository(folder / "archives", {"a.py": split})
        task = a_task(split, "", repository, fail_to_pass=("t.py::a",), pass_to_pass=("t.py::b",), tags={"split": split})
        append(folder / "tasks.jsonl", row_of(Member(task, {"report": "It fails."}, ""), folder))
        Path(repository.location).write_bytes(pack({"a.py": b"another"}))
    return folder


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = tmp_path / "run"
    Run.create(folder, dumps(recipes.RECIPES["smoke"]())).close()
    return folder


# --- words ---------------------------------------------------------------------------------------


def test_a_name_that_is_no_recipe(refused: Refused, tmp_path: Path) -> None:
    assert refused("train", "somke", "--run", str(tmp_path / "run")) == "There is no recipe somke; did you mean smoke?"
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("--rft.round", "2", "There is no key rft.round; did you mean rft.rounds?"),
        ("--stages.0.turn", "2", "There is no key stages.0.turn; did you mean stages.0.limits.turns?"),
        ("--rft.rounds", "two", "rft.rounds must be a whole number, but 'two' was given."),
        ("--optimiser.name", "sgd", "optimiser.name must be one of muon, adamw, but 'sgd' was given."),
        ("--policy.context", "9", "policy.context is 9"),
    ],
)
def test_a_key_or_value_that_cannot_be(refused: Refused, tmp_path: Path, key: str, value: str, says: str) -> None:
    assert says in refused("train", "smoke", "--run", str(tmp_path / "run"), key, value)
    assert not (tmp_path / "run").exists()


def test_a_file_with_a_wrong_key(refused: Refused, tmp_path: Path) -> None:
    recipe = tmp_path / "mine.toml"
    recipe.write_text('name = "mine"\nsede = 3\n')
    assert refused("train", str(recipe), "--print") == "There is no key sede; did you mean seed?"
    recipe.write_text("name = \n")
    assert "not valid TOML" in refused("train", str(recipe), "--print")


# --- what is missing -----------------------------------------------------------------------------


def test_a_machine_without_bubblewrap_is_told_and_keeps_the_name_free(
    refused: Refused, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    said = refused("train", "smoke", "--run", str(tmp_path / "run"))
    assert "bubblewrap is not installed; run `apt-get install bubblewrap`" in said
    assert not (tmp_path / "run").exists(), "after the mistake is mended the same line works"


@pytest.mark.parametrize("name", ["torch", "tokenizers"])
def test_a_package_that_is_not_installed_is_named(tmp_path: Path, name: str) -> None:
    missing = f"import sys; sys.modules[{name!r}] = None"
    said = apart("train", "smoke", "--run", str(tmp_path / "run"), before=missing)
    assert said == f"{name} is not installed, and this needs it: pip install 'patchgrad[train]'."
    assert not (tmp_path / "run").exists()


NEEDS = {
    "plan smoke": "train",
    "view {run} --no-open": "view",
    "query {run} select": "query",
    "track {run} --to tensorboard": "tensorboard",
    "track {run} --to wandb": "wandb",
    "track {run} --to trackio": "trackio",
    "export {run} --to atif --out {run}.out": "train",
    "export {run} --to hf-messages --out {run}.out": "train",
    "audit {run}": "train",
    "models show {run}": "train",
}
"""By a command line the extra that it needs."""


@pytest.mark.parametrize("line", NEEDS)
def test_a_verb_whose_packages_are_not_installed_says_what_installs_them(tmp_path: Path, line: str) -> None:
    make(tmp_path / "run")
    optional = (
        "torch",
        "numba",
        "safetensors",
        "tokenizers",
        "jinja2",
        "pyarrow",
        "duckdb",
        "starlette",
        "uvicorn",
        "tensorboardX",
        "wandb",
    )
    missing = f"import sys; sys.modules.update(dict.fromkeys({(*optional, 'trackio', 'ray')!r}))"
    said = apart(*line.format(run=tmp_path / "run").split(), before=missing)
    assert said.endswith(f"pip install 'patchgrad[{NEEDS[line]}]'.")


def test_a_model_without_safetensors_is_not_opened(refused: Refused, tmp_path: Path) -> None:
    (model(tmp_path / "model") / "model.safetensors").rename(tmp_path / "model" / "pytorch_model.bin")
    words = ("train", "smoke", "--run", str(tmp_path / "run"))
    assert "has no safetensors weights; convert them first" in refused(*words, "--policy.model", str(tmp_path / "model"))
    assert "there is no model folder at" in refused(*words, "--policy.model", str(tmp_path / "nowhere"))
    assert not (tmp_path / "run").exists()


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
def test_an_archive_that_is_not_the_promised_one_is_not_unpacked(refused: Refused, tmp_path: Path) -> None:
    tasks = task_set(tmp_path / "set")
    words = ("--tasks.source", "set", "--tasks.folder", str(tasks), "--policy.model", str(model(tmp_path / "model")))
    said = refused("train", "smoke", "--run", str(tmp_path / "run"), *words)
    assert "task 'held_out': the archive" in said
    assert "has SHA-256" in said


def test_a_set_that_is_not_there_or_broken(refused: Refused, tmp_path: Path) -> None:
    words = ("train", "smoke", "--run", str(tmp_path / "run"), "--tasks.source", "set")
    assert "tasks.folder must name a task set" in refused(*words)
    said = refused(*words[:-2], "--tasks.folder", str(tmp_path), "--tasks.source", "set")
    assert "tasks.jsonl does not exist" in said
    (tmp_path / "tasks.jsonl").write_text("{\n")
    assert "is broken in line 1" in refused(*words[:-2], "--tasks.folder", str(tmp_path), "--tasks.source", "set")


# --- folders -------------------------------------------------------------------------------------


def everything(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_an_existing_run_is_neither_overwritten_nor_lost(refused: Refused, run: Path) -> None:
    before = everything(run)
    assert "holds a run already; add --resume to go on with it" in refused("train", "smoke", "--run", str(run))
    assert everything(run) == before


@pytest.mark.parametrize(
    ("about", "says"),
    [
        (
            {"program": "patchgrad", "format": 99, "version": "9.9"},
            "has format 99, written by patchgrad 9.9, and this one reads formats 3 and",
        ),
        ({"program": "another"}, "was written by another program"),
    ],
)
def test_a_run_of_another_version_or_program_is_left_alone(refused: Refused, run: Path, about: dict[str, object], says: str) -> None:
    (run / "run.json").write_text(json.dumps(about))
    before = everything(run)
    for words in (["train", "--run", str(run), "--resume"], ["view", str(run)], ["tasks", "list", str(run)], ["evaluate", str(run)]):
        assert says in refused(*words)
    assert everything(run) == before


def test_a_half_written_run_is_named(refused: Refused, run: Path) -> None:
    (run / "recipe.toml").unlink()
    for words in (["train", "--run", str(run), "--resume"], ["view", str(run)], ["tasks", "list", str(run)], ["evaluate", str(run)]):
        assert "is only half there: recipe.toml is missing" in refused(*words)


def test_a_foreign_folder_is_left_alone(refused: Refused, tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("all of it")
    assert "holds something that is no run" in refused("train", "smoke", "--run", str(tmp_path))
    assert "is no run of patchgrad's" in refused("train", "--run", str(tmp_path), "--resume")
    assert everything(tmp_path) == {"thesis.tex": b"all of it"}


@pytest.mark.parametrize("place", ["/proc/run", "{file}/run"])
def test_a_folder_that_cannot_be_written(refused: Refused, tmp_path: Path, place: str) -> None:
    (tmp_path / "file").write_text("")
    assert "cannot be written" in refused("train", "smoke", "--run", place.format(file=tmp_path / "file"))


# --- a full disk ---------------------------------------------------------------------------------

SMALL = """set -e
mount -t tmpfs -o size=$2 none "$1"
shift 2
exec "$@"
"""
FILL = """
import asyncio, json, sys
from dataclasses import replace
from pathlib import Path
from patchgrad.runs import api
from patchgrad.store import Run, value
from patchgrad.values import Turn
turn = value(Turn, json.loads(sys.argv.pop()))
def train(recipe, run, tracker, **more):
    run.save_state({"position": 1})
    for number in range(10_000):
        asyncio.run(run.journal.turn("t/0", replace(turn, parent=f"{number:064}")))
api.train = train
try:
    from patchgrad.cli import main
    code = main(sys.argv[1:])
finally:
    folder = Path(sys.argv[sys.argv.index("--run") + 1])
    with Run.resume(folder) as run:
        print(len(list(run.journal.records.entries())), run.state())
sys.exit(code)
"""


def tiny(place: Path, size: str, *words: str) -> subprocess.CompletedProcess[str]:
    """A command with a small disk at `place`, in a mount namespace of its own; skipped where the host forbids that."""
    place.mkdir()
    if subprocess.run(["unshare", "-rm", "true"], capture_output=True, check=False).returncode:
        pytest.skip("this host forbids namespaces")
    command = ["unshare", "-rm", "bash", "-c", SMALL, "bash", str(place), size, *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


def test_a_disk_that_is_full_from_the_start(tmp_path: Path) -> None:
    done = tiny(tmp_path / "disk", "64k", sys.executable, "-c", START, "train", "smoke", "--run", str(tmp_path / "disk" / "run"))
    assert done.returncode == 2, done.stderr
    assert "No space" in sentence(done.stderr)


def test_a_disk_that_runs_full_costs_the_turn_that_did_not_fit_and_nothing_before(tmp_path: Path) -> None:
    turn = json.dumps(plain(episode("t/0", True).trajectory.turns[0]))
    done = tiny(tmp_path / "disk", "256k", sys.executable, "-c", FILL, "train", "smoke", "--run", str(tmp_path / "disk" / "run"), turn)
    assert done.returncode == 2, done.stderr
    assert "No space is left on the disk that holds" in sentence(done.stderr)
    assert "go on with --resume" in done.stderr
    kept, state = done.stdout.strip().splitlines()[-1].split(" ", 1)
    assert int(kept) > 50
    assert state == "{'position': 1}"


def test_a_checkpoint_that_does_not_fit_is_one_sentence_and_the_one_before_stays(tmp_path: Path) -> None:
    code = """
import sys, torch
from pathlib import Path
from safetensors.torch import save_file
from patchgrad.errors import StoreError
from patchgrad.store import Run
run = Run.create(sys.argv[1], "")
save = lambda size: lambda folder: save_file({"a": torch.zeros(size)}, folder / "model.safetensors")
run.checkpoints.save("base", save(1000))
try:
    run.checkpoints.save("base", save(1_000_000))
except StoreError as error:
    print(error)
print([(path.name, path.stat().st_size) for path in run.checkpoints.all()[0].iterdir()], list((run.folder / "checkpoints").iterdir()))
"""
    done = tiny(tmp_path / "disk", "900k", sys.executable, "-c", code, str(tmp_path / "disk" / "run"))
    assert done.returncode == 0, done.stderr
    assert "No space is left on the disk" in done.stdout
    assert "model.safetensors', 4" in done.stdout
    assert "partial" not in done.stdout
