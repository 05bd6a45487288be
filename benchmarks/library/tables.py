"""What was measured, file by file: how each benchmark's result becomes a table."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

from benchmarks.library import pairing

OURS = tuple(
    f"packs of {size}, heap kept{how}" for size in (2048, 4096) for how in (", rounded", "")
)  # glibc set as it is for TRL; a run does not set it


def fastest(rounds: Any) -> str:
    """Our setting that a ratio is told to."""
    return min((name for name in OURS if name in rounds), key=lambda name: float(rounds[name]["median"]))


def times(ratio: Any, least: float) -> tuple[str, bool]:
    """A ratio with its spread, if it was seen more than once, and whether its median is enough."""
    return pairing.times(ratio), next(iter(ratio.values() if isinstance(ratio, dict) else ratio)) >= least


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Of Markdown."""
    lines = [list(head), *(list(one) for one in rows)]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in [lines[0], ["---"] * len(lines[0]), *lines[1:]])


def _policy(result: Any) -> list[str]:
    rows = []
    for count, sides in result["rows"].items():
        for name, told in sides.items():
            ratio = "" if name == "patchgrad" else times(told["ratio"], 0)[0]
            rows.append((count, name, f"{told['three_turns']:,.0f}", ratio))
    size = f"{result['parameters'] / 1e6:.1f} million parameters"
    about = f"{size}, groups of {result['attempts']}, {result['new']} tokens a turn, three turns.\n"
    return [about, table(("episodes", "", "tokens drawn a CPU second", "ours over it"), rows)]


def _vllm(result: Any) -> list[str]:
    rows = [(name, f"{told['cpu']:,.0f}", f"{told['wall']:,.0f}") for name, told in result["sides"].items()]
    whose = f"{result['model']}, {result['precision']}, " if result.get("model") else ""
    size = f"{whose}{result['parameters'] / 1e6:.1f} million parameters, {result['rows']} episodes, groups of {result['attempts']}"
    ratios = (
        f"ours over the better of its two {times(result['ratio'], 0)[0]}, and on the clock with two threads {times(result['clock'], 0)[0]}"
    )
    about = f"{size}, {result['new']} tokens a turn, three turns; vLLM {result['version']} by its server, HTTP included; {ratios}.\n"
    return [about, table(("", "tokens drawn a CPU second", "a second"), rows)]


def _llama(result: Any) -> list[str]:
    rows = [
        (count, name, f"{told['read']:,.0f}", f"{told['draw']:,.0f}", "" if name.startswith("patchgrad") else times(told["ratio"], 0)[0])
        for count, sides in result["rows"].items()
        for name, told in sides.items()
    ]
    about = f"Streams of {result['prompt']} tokens that have nothing in common, and {result['new']} drawn in each.\n"
    return [about, table(("streams", "", "tokens read a CPU second", "tokens drawn a CPU second", "ours over it"), rows)]


def layers(result: Any) -> str:
    """Whose layers were measured; nothing where it was the laptop's network."""
    shape = result.get("shape", "laptop")
    return "" if shape == "laptop" else f"a few layers of {shape.replace('qwen', 'Qwen').replace('b', 'B')}"


GAP = "gradients apart, of the largest, float64"


def _trainer(result: Any) -> list[str]:
    seconds = result["seconds"]
    rows = [
        (
            f"{100 * result['shared']:.0f} %",
            f"{seconds['separate']:.2f}",
            f"{seconds['shared']:.2f}",
            times(result["ratio"], 0)[0],
            f"{result['arithmetic']:.2f}",
            f"{result['step']:.2f}",
            f"{result['gradient_gap']:.0e}",
        )
    ]
    whose = f", {layers(result)}" if layers(result) else ""
    about = f"{result['attempts']} attempts of {result['tokens']:,} tokens, {result['parameters'] / 1e6:.1f} million parameters{whose}.\n"
    head = ("shared", "separate rows, s", "shared once, s", "ratio", "multiplications alone", "optimiser's step, s", GAP)
    return [about + "Forward and backward pass; the optimiser's step is the same for both.\n", table(head, rows)]


def _plan(result: Any) -> list[str]:
    rows = []
    for point in result["points"]:
        told = point["point"]
        shape = told["shape"]
        options = ", ".join(f"{name} {value}" for name, value in told.items() if name not in ("shape", "tokens") and value)
        sizes = f"{shape['layers']} x {shape['hidden']}, {shape['vocabulary']:,}"
        error = f"{100 * point['error']:+.1f} %"
        rows.append((sizes, f"{told['tokens']:,}", options, f"{point['planned'] / 1e6:,.0f}", f"{point['resident'] / 1e6:,.0f}", error))
    note = "Of processes that give back at once what they free (`trainers/allocator.py`); those that need not hold up to twice as much.\n"
    return [note, table(("layers x hidden, vocabulary", "tokens", "options", "planned, MB", "resident, MB", "error"), rows)]


def _length(result: Any) -> list[str]:
    early, late = result["turn_seconds"]
    rows = [
        (
            f"a turn of {result['rows']} episodes, turn 8 and turn 128",
            f"{early:.3f} s, {late:.3f} s",
            times(result["late_over_early"], 0)[0],
        ),
        ("the same, without attention", "", times(result["late_over_early_beside"], 0)[0]),
        ("training, tokens/s at 8,192 over 2,048", "", times(result["long_over_short"], 0)[0]),
    ]
    note = (
        "Attention reads all that was said, which in a small network outweighs the rest, so that 1.1 is out of its reach. The rest\n"
        "makes the same calls at both turns, and waits longer for weights where many keys and values were read before.\n"
    )
    return [f"Of {layers(result)}.\n{note}" if layers(result) else note, table(("", "CPU seconds", "ratio"), rows)]


def _steps(result: Any) -> list[str]:
    shape = result["shape"]
    size = f"{shape['layers']} x {shape['hidden']}, a vocabulary of {shape['vocabulary']:,}"
    if result.get("model"):
        size = f"{result['model']}: {size}" + (f", adapters of rank {result['rank']}" if result["rank"] else "")
    versions = ", ".join(f"{name} {version}" for name, version in result["versions"].items())
    parts = [f"{size}; {versions}. What is lent to TRL, which `benchmarks/training/steps_trl.py` names, it does not do of itself.\n"]
    for kind in ("rl", "rft"):
        if not (told := result.get(kind)):
            continue
        rows = []
        for name, row in told["rounds"].items():
            lent = told["settings"].get(name, {}).get("lent")
            who = "patchgrad" if name not in told["settings"] else "TRL, lent" if lent else "TRL"
            ratio = "" if who == "patchgrad" else times(row["over"][fastest(told["rounds"])], 0)[0]
            memory = f"{row['peak'] / 1e6:,.0f}, {row['above_idle'] / 1e6:,.0f}"
            rows.append((who, name, f"{row['median']:.2f}", f"{row['tokens_a_second']:,.0f}", memory, ratio))
        gaps = {name: one["gradient_gap"]["most"] for name, one in told["alone"].items()}
        most, rounded = (
            max((logprob_diff for name, logprob_diff in gaps.items() if ("rounded" in name) == which), default=0) for which in (False, True)
        )
        head = ("", "setting", "CPU s", "tokens/s", "MB: most, over idle", f"over {fastest(told['rounds'])}")
        about = f"\n**{kind}**: {told['tokens']:,} tokens, {told['trained']:,} trained; gradients are at most {most:.0e} apart"
        about += f", where products are rounded to bfloat16 {rounded:.0e}.\n" if rounded else ".\n"
        parts += [about, table(head, rows)]
    return parts


def _since(result: Any) -> list[str]:
    rows = []
    whole = {"mean": {side: {"curve": result["mean"][side]} for side in ("then", "now")}}
    for seed, told in {**result["seeds"], **whole}.items():
        for side in ("then", "now"):
            for one in told[side]["curve"]:
                share, then = f"{100 * one['pass_at_1']:.1f} ± {100 * one['error']:.1f}", f"then, commit {result['commit']}"
                rows.append((seed, then if side == "then" else side, one["name"], f"{one['minutes']:.1f}", share))
    return [table(("seed", "", "policy", "minutes", "Pass@1, %"), rows)]


def _until(result: Any) -> list[str]:
    rows = []
    for seed, told in result["seeds"].items():
        for side, curve in told["curves"].items():
            seconds, last = told["seconds"][side], curve[-1]
            way = ", ".join(f"{100 * one['pass_at_1']:.1f}" for one in curve)
            until = f"{seconds:,.0f}" if seconds is not None else f"more than {last['seconds']:,.0f}"
            rows.append((seed, SIDES[side], until, f"{last['seconds']:,.0f}", f"{last['attempts']:,.0f}", way))
    error = 100 * max(one["error"] for told in result["seeds"].values() for curve in told["curves"].values() for one in curve)
    note = (
        f"All go on from one base policy a seed, one side at a time; each policy is measured on 100 held-out tasks (errors to {error:.1f} "
        "points), the clock stopped; probes, rows and tables count. The recipe begins with fine-tuning, which TRL's GRPO has none of: its "
        "like is the RL alone. Attempts, sandboxes and the optimiser's step are lent to TRL (`benchmarks/minutes/until_trl.py`), in one "
        "run also the answers to calls that were made before in the same state, which ours remembers; its tools run one after the other.\n"
    )
    head = ("seed", "", f"s until {100 * result['share']:.0f} %", "s in all", "attempts", "Pass@1 on the way, %")
    return [note, table(head, rows)]


SIDES = {
    "recipe": "patchgrad, the recipe",
    "rl": "patchgrad, its RL alone",
    "trl": "TRL 1.16, GRPO with tools",
    "lent": "the same, lent remembered answers",
}


def _gpu(result: Any) -> list[str]:
    rows, points = [], []
    for name, found in result["parts"].items():
        points += found.get("points", [])
        told = {key: value for key, value in found.items() if key != "points"}
        rows.append((name, "`" + json.dumps(told) + "`"))
    parts = [f"{result['device']}, as the parts told it.\n", table(("part", "found"), rows)]
    if points:
        head = ("layers x hidden, vocabulary", "tokens", "options", "planned, MB", "tensors at most, MB", "error")
        parts += ["", table(head, map(_point, points))]
    return parts


def _gateway(result: Any) -> list[str]:
    names = [name for name in ("gateway", "echo", "rllm", "vllm") if name in result]
    rows = [(GATEWAYS[name], f"{result[name]['first']:.2f}", f"{result[name]['last']:.2f}") for name in names]
    rows += [(f"ours, {name}, of a core", f"{of['first']:.2f}", f"{of['last']:.2f}") for name, of in result["parts"].items()]
    size = f"{result['turns']} turns that end at {result['tokens']:,} tokens, {result['bytes'] / 1e3:,.0f} kB"
    about = f"{size}; on the clock where no core is named.\n"
    return [about, table(("", "ms a call, first turns", "last turns"), rows)]


def _point(point: Any) -> tuple[str, ...]:
    shape = point["shape"]
    options = ", ".join(f"{name} {point[name]}" for name in ("rank", "offload", "gradient_checkpointing") if point[name])
    sizes = f"{shape['layers']} x {shape['hidden']}, {shape['vocabulary']:,}"
    bytes_ = (f"{point['planned'] / 1e6:,.0f}", f"{point['seen'] / 1e6:,.0f}")
    return sizes, f"{point['tokens']:,}", options, *bytes_, f"{100 * point['error']:+.1f} %"


GATEWAYS = {"gateway": "patchgrad", "echo": "a server that only answers", "rllm": "rllm-model-gateway", "vllm": "its server alone"}
TABLES: dict[str, Callable[[Any], list[str]]] = {
    "sampling/gateway": _gateway,
    "sampling/policy": _policy,
    "sampling/policy_vllm": _vllm,
    "sampling/policy_llama": _llama,
    "training/trainer": _trainer,
    "training/steps": _steps,
    "training/length": _length,
    "memory/plan": _plan,
    "minutes/since": _since,
    "minutes/until": _until,
    "accelerators/gpu": _gpu,
}
