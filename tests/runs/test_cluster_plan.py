"""Plans for many machines: simulated iterations obey what can be computed by hand, and memory falls with ranks."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.attempts import attempt

from patchgrad.cli import main
from patchgrad.config import override
from patchgrad.errors import ConfigError
from patchgrad.recipes import SCALED, Recipe
from patchgrad.recipes.cluster_tiny import cluster_tiny
from patchgrad.runs.planning.cluster.memory import of_a_replica
from patchgrad.runs.planning.cluster.planned import Asked, planned
from patchgrad.runs.planning.cluster.recorded import Recorded, script_of
from patchgrad.runs.planning.cluster.roles import Split, roles
from patchgrad.runs.planning.cluster.simulation import Simulation, slots
from patchgrad.runs.planning.cluster.splits import best, rows, ways
from patchgrad.runs.planning.cluster.world import GPUS, Assumed, Machines, Model, Rates, Script, Taken, World
from patchgrad.runs.planning.ranks import of_a_rank
from patchgrad.runs.planning.shapes import shape_of

SMALL = Model(parameters=1e9, layers=4, hidden=512, cache=4096.0)
ONE = Script(1000, (Taken(100, 50, 2.0), Taken(200, 0, 3.0)), 10.0)
QWEN = {
    "model_type": "qwen2",
    "hidden_size": 8192,
    "num_hidden_layers": 80,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "intermediate_size": 29568,
    "vocab_size": 152064,
    "rope_theta": 1000000.0,
    "max_position_embeddings": 32768,
    "rms_norm_eps": 1e-6,
    "tie_word_embeddings": False,
}
"""Qwen2.5-72B-Instruct's `config.json`."""


def world(**changes: object) -> World:
    made = World(Machines(2, 1, GPUS["h100"], 1000), SMALL, Recorded((ONE,), 1.0), 1, 1, 0, 1, 1, 1, 100, 1, 1.0)
    return replace(made, **changes)  # type: ignore[arg-type]


def test_one_attempt_takes_what_its_parts_take() -> None:
    one, rates = world(iterations=2), Rates()
    done = Simulation(one).run()
    reading = (1000 + 50) / (GPUS["h100"].flops * rates.reading / (2 * SMALL.parameters))
    steps = [(2 * SMALL.parameters + SMALL.cache * held) / (GPUS["h100"].bandwidth * rates.bandwidth) + rates.step for held in (1000, 1150)]
    sampling = reading + 100 * steps[0] + 2.0 + 200 * steps[1] + 3.0 + 10.0
    training = ONE.context * SMALL.training(ONE.context) / (GPUS["h100"].flops * rates.training) + rates.optimiser
    assert done.sampling == pytest.approx([sampling] * 2)
    assert done.training == pytest.approx([training] * 2)
    assert done.seconds == pytest.approx([sampling + training + rates.publish] * 2)
    assert done.drawn == pytest.approx(600 / sum(done.seconds))


def test_machines_that_take_turns_pay_for_changing_places() -> None:
    apart, turns = Simulation(world()).run(), Simulation(world(samplers=2, trainers=2)).run()
    assert turns.seconds[0] == pytest.approx(apart.sampling[0] + apart.training[0] / 2 + Rates().optimiser / 2 + 20 + 45)


def test_two_streams_of_a_replica_are_drawn_at_once_and_each_slower() -> None:
    one = Simulation(world(iterations=1)).run().sampling[0]
    two = Simulation(world(iterations=1, attempts=2)).run().sampling[0]
    assert one < two < 2 * one - 13


WORLDS = st.builds(
    lambda lag, samplers, tasks, attempts, iterations, tools: world(
        machines=Machines(samplers + 1, 1, GPUS["h100"], 4),
        draw=Assumed(8, 16_000, submits=0.2, tool=tools),
        samplers=samplers,
        lag=lag,
        tasks=tasks,
        attempts=attempts,
        iterations=iterations,
        live=16,
    ),
    st.integers(0, 3),
    st.integers(1, 3),
    st.integers(1, 4),
    st.integers(1, 4),
    st.integers(1, 5),
    st.floats(0.5, 20),
)


@settings(max_examples=60, deadline=None)
@given(WORLDS, st.integers(0, 5))
def test_whatever_is_simulated_keeps_the_lag_and_ends_every_iteration(given: World, seed: int) -> None:
    done = Simulation(given, seed).run()
    assert done == Simulation(given, seed).run()
    assert len(done.seconds) == len(done.sampling) == len(done.training) == given.iterations
    assert 0 <= done.behind <= done.most <= given.lag
    assert 0 <= done.idle <= 1
    assert 0 <= done.busy <= 1
    parts = zip(done.seconds, done.sampling, done.training, strict=True)
    assert all(whole >= sampling + training + given.rates.publish - 1e-6 for whole, sampling, training in parts)


def test_with_a_lag_an_iteration_takes_no_longer_than_its_longer_part() -> None:
    long = world(draw=Recorded((replace(ONE, grading=300.0),), 1.0), iterations=6, tasks=4, attempts=4)
    apart, ahead = Simulation(long).run(), Simulation(replace(long, lag=1)).run()
    assert ahead.iteration < apart.iteration
    assert ahead.most == 1


def test_no_replica_takes_more_attempts_than_its_caches_or_the_recipe_let_live() -> None:
    one = world()
    mean = (ONE.prompt + ONE.context) / 2
    assert slots(one, 10 * mean) == 10
    assert slots(one, 1e9) == one.live
    assert slots(one, 0) == 1


@pytest.mark.slow
def test_the_paper_s_second_stage_takes_what_the_study_found() -> None:
    """Minutes of another simulator with the same assumptions, whose batches are of whichever groups end first."""
    model = Model(72.7e9, 80, 8192, 2.0 * 2 * 80 * 8 * 128)
    stage = World(Machines.named("16x8:h200"), model, Assumed(80, 131_072), 16, 16, 0, 100, 10, 256, 3000)
    found = {(row.samplers, row.lag): row.seconds / 60 for row in rows(ways(stage), (0, 1))}
    for way, minutes in {(16, 0): 23.6, (12, 1): 28.4, (8, 1): 17.2, (8, 2): 14.3}.items():
        assert found[way] == pytest.approx(minutes, rel=0.12), way


# --- memory --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def paper(tmp_path_factory: pytest.TempPathFactory) -> Recipe:
    """The paper's recipe, with a folder that has the model's `config.json`."""
    folder = tmp_path_factory.mktemp("model")
    (folder / "config.json").write_text(json.dumps(QWEN))
    return override(SCALED["nebius2508"]("cluster"), {"policy.model": str(folder)})


def ranks(recipe: Recipe, count: int) -> Recipe:
    return override(recipe, {"trainer.ranks": str(count)})


def test_what_is_shared_falls_with_ranks_and_what_is_gathered_does_not(paper: Recipe) -> None:
    shape = shape_of(paper)
    many, few = (of_a_rank(ranks(paper, count), shape) for count in (128, 32))
    for more, less in zip(few.parts[:3], many.parts[:3], strict=True):
        assert more.bytes == pytest.approx(4 * less.bytes, rel=1e-6)
    assert [part.bytes for part in few.parts[3:]] == [part.bytes for part in many.parts[3:]]
    assert few.tokens == 16_384, "a sequence of 131,072 tokens is shared by eight"


def test_the_paper_s_run_fits_on_its_cards(paper: Recipe) -> None:
    shape = shape_of(paper)
    rank, replica = of_a_rank(ranks(paper, 64), shape), of_a_replica(paper, shape, 8, GPUS["h200"].memory)
    assert 60e9 < rank.peak < 100e9, "73 GB by hand in the study, whose layers are gathered in bfloat16"
    assert 8 * replica.parts[-1].bytes / Model.of(shape).cache == pytest.approx(2.65e6, rel=0.03), "tokens of caches, as in the study"


def test_machines_that_cannot_hold_the_trainer_are_refused(paper: Recipe) -> None:
    with pytest.raises(
        ConfigError,
        match=r"^The trainer takes \d+ GB of each GPU over 8 ranks, as one node samples, and there are 80: raise trainer.together",
    ):
        planned(paper, ("mine.toml",), Asked(Machines.named("2x8:a100"), 8))


@pytest.mark.parametrize(
    ("machines", "changes", "said"),
    [
        ("1x8:h200", {}, "--cluster plans which machines sample and which train: name two or more"),
        ("4x4:h200", {}, "A replica takes 8 GPUs, and a machine has 4: lower tensor-parallel-size"),
        ("4x8:h100", {"policy.options": "tensor-parallel-size=2"}, r"Weights take 72.7 GB of each of a replica's 2 GPUs of 80.0 GB: raise"),
    ],
)
def test_machines_that_cannot_hold_a_replica_are_refused(paper: Recipe, machines: str, changes: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError, match=f"^{said}"):
        planned(override(paper, changes), ("mine.toml",), Asked(Machines.named(machines), 8))


# --- what it is told -----------------------------------------------------------------------------


def test_an_attempt_of_a_run_is_what_it_took() -> None:
    made = attempt("a", [[(30, 4), (7, 5)], [(3, 2)]], 1.0)
    script = script_of(made)
    assert (script.prompt, [(turn.drawn, turn.observed) for turn in script.turns]) == (30, [(4, 7), (5, 3), (2, 0)])
    assert script.context == 30 + 4 + 7 + 5 + 3 + 2


def test_an_assumed_attempt_keeps_the_limits_of_its_stage() -> None:
    draw, random = Assumed(10, 9000), Random(0)
    made = [draw(random) for _ in range(200)]
    assert max(len(one.turns) for one in made) in (9, 10)
    assert max(one.context for one in made) < 9000 + 4096 + 8000
    assert len({one.context for one in made}) > 100


@pytest.mark.parametrize("named", ["16", "16x8", "0x8:h200", "16x8:tpu", "ax8:h200"])
def test_machines_that_are_none_are_refused(named: str) -> None:
    with pytest.raises(ConfigError, match=f"^--cluster {named} is none: say nodes, GPUs of each and their kind"):
        Machines.named(named)


def test_the_fastest_way_is_one_that_this_version_does() -> None:
    found = list(rows(ways(world(machines=Machines(4, 1, GPUS["h100"]))), (0, 1)))
    chosen = best(found)
    assert [row.built for row in found] == [False, *[True] * 9]
    assert chosen is min(found[1:], key=lambda row: row.seconds)


def test_a_plan_names_every_process_and_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "cluster-tiny", "--cluster", "4x2:h100", "--cells", "3"]) == 0
    said = capsys.readouterr().out
    for text in (
        "A GPU of the trainer",
        "A GPU of a replica",
        "Stage 1:",
        "* as the paper did",
        "ranks of the trainer",
        "hosts of attempts",
    ):
        assert text in said
    assert "nothing of it was measured" in said
    told = shlex.split(said.splitlines()[-1])
    assert told[:3] == ["patchgrad", "cluster", "slurm"]
    assert "--machine.nodes 4 --machine.gpus 2" in said, "the job is for these machines"
    assert main(told[1:-2]) == 0, "the job can be printed"
    assert "torchrun" in capsys.readouterr().out
    assert main(["plan", "cluster-tiny", "--cluster", "4x2:h100", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["fits"] is True
    assert {role["name"] for role in found["roles"]} >= {"the run", "ranks of the trainer", "replicas of the policy", "torchrun"}


def test_in_a_plan_machines_that_train_keep_their_gpus_from_ray_and_replicas_are_on_the_others() -> None:
    split = Split(Machines.named("16x8:h200"), trainers=8, replicas=8, split=8, cells=24)
    found = roles(override(cluster_tiny(), {}), shape_of(cluster_tiny()), ("mine.toml",), split)
    ray = {(role.first, role.last): "--num-gpus 0" in role.command for role in found if role.name == "Ray"}
    assert ray == {(0, 0): True, (1, 7): True, (8, 15): False}
    assert [(role.first, role.last) for role in found if role.name == "replicas of the policy"] == [(8, 15)]
    assert [(role.first, role.last) for role in found if role.name == "ranks of the trainer"] == [(0, 7)]
