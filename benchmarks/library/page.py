"""`docs/benchmarks.md` as text, from the JSON files that `benchmarks/keep.py` wrote.

First the figures that are wanted, each with what was seen or that it is open; then what was measured, file by file. Nothing on the page is
typed in by hand but what is wanted, and words.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from benchmarks.library.tables import TABLES, fastest, table, times

HEAD = """# What was measured

Written by `python benchmarks/keep.py --page` from the files in [benchmarks/](benchmarks): each has the command, the machine, the versions
and what the benchmark told. Times on a CPU are CPU seconds of one thread unless a clock is named, since the machines are shared: all sides
by turns in each round, medians, and the least and the most over rounds in brackets. `until` and `since` are seconds and minutes on the
clock of an idle machine, one side after the other, `until` with the least and the most over seeds.
**Is a setting of a peer not its best?** Change it in the script, run `python benchmarks/keep.py SUBJECT/NAME`, send both: it is
corrected here.

Measured by hand before, each with its command: [sandboxes](studies/sandboxes.md), [making tasks](studies/tasks.md),
[keeping every turn](studies/journal.md).
"""
Kept = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Figure:
    """What is wanted, and from which file it is told; `seen` gives the words, and whether that is reached."""

    what: str
    against: str
    reach: str
    file: str
    seen: Callable[[Any], tuple[str, bool | None]]


def _trained(part: str, speed: float = 0.0, room: float = math.inf, mfu: float = 0.0) -> Callable[[Any], tuple[str, bool | None]]:
    def seen(result: Any) -> tuple[str, bool | None]:
        found = result["parts"].get(part, {"left_out": "it was not asked for"})
        if "tokens_per_second" not in found or "left_out" in found or "failed" in found:
            return f"open: {found.get('left_out') or found.get('failed') or found}", None
        rates, peak = found["tokens_per_second"], found["reserved_bytes"] / 2**30
        share = f", {100 * found['mfu']:.1f} % MFU" if found["mfu"] else ""
        speed_seen = f"{rates['median']:,.0f} tok/s ({rates['least']:,.0f} to {rates['most']:,.0f})"
        told = f"{found['tokens']:,} tokens: {speed_seen}, {peak:.1f} GiB{share}, {result['device']}"
        return told, rates["median"] >= speed and peak <= room and (found["mfu"] or 0.0) >= mfu

    return seen


def _step(kind: str, least: float, room: float = 1.0) -> Callable[[Any], tuple[str, bool | None]]:
    """Over the fastest that the peer does of itself, and in RL in less than this share of its memory."""

    def seen(result: Any) -> tuple[str, bool | None]:
        rounds, settings = result[kind]["rounds"], result[kind]["settings"]
        theirs = min((name for name in rounds if name in settings and not settings[name]["lent"]), key=lambda name: rounds[name]["median"])
        ours = fastest(rounds)
        told, fast = times(rounds[theirs]["over"][ours], least)
        own, other = (rounds[name]["peak"] for name in (ours, theirs))
        return f"{told}, {own / 1e9:.1f} GB to {other / 1e9:.1f}", fast and (kind != "rl" or own < room * other)

    return seen


def _shared(result: Any) -> tuple[str, bool | None]:
    told, reached = times(result["ratio"], 2.5)
    return f"{told}, multiplications alone {result['arithmetic']:.2f}", reached


def _gap(result: Any) -> tuple[str, bool | None]:
    found = result["parts"].get("logprob_diff", {"left_out": "it was not asked for"})
    means = [found[length]["mean"] for length in ("65536", "131072") if length in found]
    if len(means) < 2:
        return f"open: {found.get('left_out') or found.get('failed')}", None
    return " and ".join(f"{mean:.4f}" for mean in means), max(means) < 0.01


def _planned(most: float) -> Callable[[Any], tuple[str, bool | None]]:
    def seen(result: Any) -> tuple[str, bool | None]:
        found = result["parts"].get("plan", {}) if "parts" in result else result
        if not found.get("error") or "left_out" in found:
            return f"open: {found.get('left_out', 'nothing was seen')}", None
        middle, worst = (100 * found["error"][name] for name in ("median", "most"))
        return f"{middle:.1f} % in the middle, {worst:.1f} % at most, of {len(found['points'])} points", worst < most

    return seen


def _sooner(side: str, least: float) -> Callable[[Any], tuple[str, bool | None]]:
    """The recipe's ratio, and that of its RL alone; a bound from below where the peer was stopped."""

    def seen(result: Any) -> tuple[str, bool | None]:
        seeds, arrived, ratios = len(result["seeds"]), result["arrived"][side], result["ratios"][side]
        told = []
        for name, key in (("recipe", "recipe"), ("RL alone", "rl")):
            got = sum(one["seconds"][key] is not None for one in result["seeds"].values())
            words = f"{name} {times(ratios[key], 0)[0]}" if ratios[key] else name
            told.append(words + (f" where it got there, in {got} of {seeds}" if got < seeds else ""))
        told.append(f"{seeds} seed{'s' if seeds > 1 else ''}")
        if arrived < seeds:
            told.append(f"at least, as TRL was stopped in {seeds - arrived} of {seeds}")
        everywhere = all(one["seconds"]["recipe"] is not None for one in result["seeds"].values())
        return "; ".join(told), everywhere and times(ratios["recipe"], least)[1]

    return seen


def _since(result: Any) -> tuple[str, bool | None]:
    found = [one["times"] for one in result["seeds"].values()]
    if None in (*found, result["mean"]["times"]):
        return "it does not get there", False
    each = ", ".join(f"{one:.2f}" for one in found)
    return f"{result['mean']['times']:.2f} x in the mean of {len(found)} seeds, {each} in each", result["mean"]["times"] >= 2


def _drawn(result: Any) -> tuple[str, bool | None]:
    found = result["parts"].get("sample-4b", {"left_out": "it was not asked for"})
    if found.get("ratio") is None:
        ours = found.get("drawn_per_second", {}).get("ours")
        said = f"ours {ours:,.0f} tokens a second; theirs: " if ours else ""
        return f"open: {said}{found.get('left_out') or found.get('failed') or found}", None
    drawn = found["drawn_per_second"]
    told = f"{drawn['ours']:,.0f} tokens a second to {drawn['theirs']:,.0f}, {result['device']}"
    return f"{found['ratio']:.2f} x: {told}", found["ratio"] >= 2


def _late(result: Any) -> tuple[str, bool | None]:
    late = result["late_over_early"]
    return f"{times(late, 0)[0]}, multiplications alone {result['turn_arithmetic']:.2f}", late["median"] <= 1.1


def _long(result: Any) -> tuple[str, bool | None]:
    seen, reached = times(result["long_over_short"], 0.8)
    return f"{seen}, multiplications alone {result['arithmetic']:.2f}", reached


def _sampling(side: str) -> Callable[[Any], tuple[str, bool | None]]:
    """Of 32 episodes, where so many were asked for, and this side."""

    def seen(result: Any) -> tuple[str, bool | None]:
        found = result["rows"].get("32", {}).get(side)
        return times(found["ratio"], 3) if found else ("open: it was not asked for", None)

    return seen


def _drawing(result: Any) -> tuple[str, bool | None]:
    """Of 32 streams, against llama.cpp's own tool, in the best precision that both have."""
    found = result["rows"]["32"]
    return times(next(found[name] for name in ("llama.cpp, bfloat16", "llama.cpp, float32") if name in found)["ratio"], 2)


FIGURES = (
    Figure("sampling, 32 live episodes of several turns, CPU", "transformers, `generate`", "3 x", "policy", _sampling("generate")),
    Figure("the same", "transformers, continuous batching", "3 x", "policy", _sampling("generate_batch")),
    Figure("the same", "vLLM on a CPU", "1 x", "policy_vllm", lambda result: times(result["ratio"], 1)),
    Figure(
        "drawing, SmolLM2-135M, 32 streams that have nothing in common, CPU", "llama.cpp, the same precision", "2 x", "llama-smol", _drawing
    ),
    Figure(
        "drawing, SmolLM2-135M, 32 episodes in groups of 8",
        "vLLM on a CPU",
        "1.5 x",
        "vllm-smol",
        lambda result: times(result["ratio"], 1.5),
    ),
    Figure("RL step, 151,936 tokens of vocabulary, CPU", "TRL 1.16 GRPOTrainer", "3 x, less memory", "steps-rl", _step("rl", 3)),
    Figure("the same, 1,024 tokens of vocabulary", "TRL 1.16 GRPOTrainer", "3 x", "steps-1024", _step("rl", 3)),
    Figure("RL step on adapters of SmolLM2-135M", "TRL 1.16 GRPOTrainer, peft", "3 x, half the memory", "steps-smol", _step("rl", 3, 0.5)),
    Figure("RFT step on multi-turn rows, 151,936 tokens of vocabulary", "TRL 1.16 SFTTrainer", "1.5 x", "steps-rft", _step("rft", 1.5)),
    Figure("the same, 1,024 tokens of vocabulary", "TRL 1.16 SFTTrainer", "1.5 x", "steps-1024", _step("rft", 1.5)),
    Figure("a group of 8 that shares 75 %, laptop", "separate rows", "2.5 x", "trainer-75", _shared),
    Figure("the same, four layers of Qwen3-0.6B", "separate rows", "2.5 x", "trainer-qwen-75", _shared),
    Figure("minutes until 39 % on held-out laptop tasks", "TRL's GRPO with tools", "5 x", "until", _sooner("trl", 5)),
    Figure("the same", "TRL's GRPO with tools, lent our remembered answers", "5 x", "until", _sooner("lent", 5)),
    Figure("minutes of the recipe `laptop` to what it reached when its loop was done", "itself then", "2 x", "since", _since),
    Figure("a turn at turn 128 over one at turn 8, laptop", "flat", "at most 1.1", "length", _late),
    Figure(
        "the same, without attention's reading of what was said",
        "flat",
        "at most 1.1",
        "length",
        lambda result: (times(result["late_over_early_beside"], 0)[0], result["late_over_early_beside"]["median"] <= 1.1),
    ),
    Figure("a turn at turn 128 over one at turn 8, two layers of Qwen3-8B", "flat", "at most 1.1", "length-qwen3-8b", _late),
    Figure("training, tokens/s at 8,192 over 2,048, laptop", "flat", "0.8", "length", _long),
    Figure("the same, two layers of Qwen3-8B", "flat", "0.8", "length-qwen3-8b", _long),
    Figure("`plan`, resident memory on a CPU", "measured", "below 10 %", "plan", _planned(10)),
    Figure("the same, SmolLM2-135M and its adapters", "measured", "below 10 %", "plan-smol", _planned(10)),
    Figure("`plan`, peak memory on a GPU", "measured", "below 5 %", "gpu", _planned(5)),
    Figure(
        "Qwen3-4B LoRA r16 at 65k, one GPU",
        "prime-rl: 4,160 tok/s, 42.0 GiB on an H100",
        "ahead, 45 % MFU",
        "gpu",
        _trained("train-4b-lora-65k", 4160, 42.0, 0.45),
    ),
    Figure(
        "Qwen3-0.6B whole at 65k, one GPU",
        "prime-rl: 10,150 tok/s, 19.6 GiB on an H100",
        "ahead, 45 % MFU",
        "gpu",
        _trained("train-0.6b-full-65k", 10150, 19.6, 0.45),
    ),
    Figure("4B LoRA at 131k, one GPU", "nobody", "it runs", "gpu-h200", _trained("train-4b-lora-131k")),
    Figure("8B LoRA at 131k, one GPU", "nobody", "it runs", "gpu-h200", _trained("train-8b-lora-131k")),
    Figure("8B whole, the longest context, one GPU", "nobody", "told", "gpu-h200-whole", _trained("longest-8b-full")),
    Figure(
        "sampling, 64 episodes, 4B, one GPU",
        "transformers, continuous batching",
        "2 x",
        "gpu-h200-whole",
        _drawn,
    ),
    Figure("sampler and trainer, mean gap at 65k and 131k with YaRN", "0", "below 0.01", "gpu", _gap),
)


def written(kept: Mapping[str, Kept]) -> str:
    """The page, of all that was kept."""
    parts = [HEAD, "## Wanted and seen\n", table(("figure", "against", "wanted", "seen", ""), (row(one, kept) for one in FIGURES))]
    for name, one in kept.items():
        parts += [f"\n## {name}\n", about(one), *TABLES[one["benchmark"]](one["result"])]
    return "\n".join(parts) + "\n"


def row(figure: Figure, kept: Mapping[str, Kept]) -> tuple[str, ...]:
    """A figure's line; one without a file is open."""
    if figure.file not in kept:
        return (figure.what, figure.against, figure.reach, "", "**open**: it was not measured")
    words, reached = figure.seen(kept[figure.file]["result"])
    return (figure.what, figure.against, figure.reach, words, {True: "reached", False: "**short**", None: "**open**"}[reached])


def about(one: Kept) -> str:
    """Command, date, machine and versions in a paragraph."""
    place, versions = one["machine"], ", ".join(f"{name} {version}" for name, version in one["versions"].items())
    card = f", {place['gpu']}" if place["gpu"] else ""
    commit = f", patchgrad {one['commit']}" if one.get("commit") else ""
    machine = f"{place['processor']}, {place['cores']} cores, {place['memory'] / 2**30:.0f} GiB{card}, Linux {place['linux']}"
    said = one["note"].rstrip(".")
    note = f" {said[0].upper()}{said[1:]}." if said else ""
    return f"`{one['command']}`, {one['date']}{commit}. {machine}; {versions}.{note}\n"
