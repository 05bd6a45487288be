"""From the tests that a bug breaks to the checks of a task, and to the tests that an agent may see."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence

from patchgrad.tasks.forge.profile import Profile
from patchgrad.tasks.projects.furnish import CONFIG, alone
from patchgrad.tasks.projects.project import Project
from patchgrad.values import Checks

MOST = 60
SECONDS = 2.0


def make_checks(
    project: Project, files: Mapping[str, bytes], profile: Profile, broken: Sequence[str], covering: Iterable[str], seed: int
) -> Checks:
    """Checks that run in about two seconds more than the test files which the bug breaks.

    Pass-to-pass are at most 60 tests: those that run the changed lines first, since a wrong repair breaks them, then a sample.
    """
    own = {test.split("::")[0] for test in broken}
    near = sorted(set(covering) - set(broken))
    budget = SECONDS - sum(profile.files[f] for f in own)
    chosen = set(own)
    others = list(dict.fromkeys(t.split("::")[0] for t in [*near, *sorted(profile.tests)]))
    for file in others:
        if file not in chosen and profile.files[file] <= budget:
            chosen.add(file)
            budget -= profile.files[file]
    green = [t for t in profile.tests if t not in broken and t.split("::")[0] in chosen]
    first = [t for t in near if t in set(green)][: MOST // 2]
    rest = sorted(set(green) - set(first))
    sample = random.Random(seed).sample(rest, min(len(rest), MOST - len(first)))
    kept = sorted([*first, *sample])
    used = sorted({t.split("::")[0] for t in [*broken, *kept]})
    protected = tuple(sorted({p for p in files if project.is_test(p)} | {CONFIG}))
    return Checks(tuple(sorted(broken)), tuple(kept), protected=protected, command=("pytest", *alone(files, used), *used), strict=True)
