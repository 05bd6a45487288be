"""The small scripts of a cell: the loop that the agent's bash runs, and the `python` and `pytest` programs on its PATH.

The scripts talk to the warden through FIFOs in a folder that is read-only inside, opened for a moment each: a command inherits
no descriptor that is not its own.
"""

from __future__ import annotations

import resource
from collections.abc import Mapping

from patchgrad.sandboxes.linux.shell_state import ASK

BOX = "/run/cell"  # ours, alike in all cells
LINE = f"{BOX}/line"  # one cell's own: how its programs and its warden talk
_NEUTRAL = ("HOME", "TERM", "GIT_PAGER", "PAGER", "PYTHONHASHSEED", "PYTHONDONTWRITEBYTECODE", "PYTEST_ADDOPTS")
SLOTS = 64

_SIGNALS = 1024  # that are queued, timers among them; a user has 31,000 of them on a host of 8 GiB
_LIMITS = f"ulimit -c 0 -u {{processes}} -f {{disk}} -n 1024 -i {_SIGNALS}; ulimit {{space}} {{memory}}"

# A shell that was started before anybody knew for whom: it is told on its input, and says that it has heard by answering turn 0. It tells
# its state where a script is about to change it.
_AHEAD = """
for __turn in __command __size __script; do IFS= builtin read -r -d '' $__turn || exit; done
builtin eval "$__command"; set -- "$__size" "$__script"; __turn=0${2:+?}; command exec </dev/null
"""

# What follows a turn's number is the question after the shell's state (`shell_state`): `?` when the command is over, `??` before it as
# well. A script puts a fresh shell into one.
# `break` and `continue` in a command reach these loops, so the answer is sent at the top, and the outer loop starts the inner again.
_LOOP = """
cd -- "$1" 2>/dev/null || cd /testbed; __script=$2; shift 2
while :; do while __code=$?; :; do
[ -z "$__turn" ] || { [ "$__turn" = "${__turn%\\?}" ] || { QUESTION } 2>/dev/null
builtin printf '%s\\0%s\\0%s\\0' "${__turn%%\\?*}" "$__code" "$PWD"; } > LINE/status
__turn=
[ -z "$__script" ] || { builtin eval "$__script"; } >/dev/null 2>&1
__script=
IFS= builtin read -r __turn < LINE/go || continue
[ "$__turn" = "${__turn%\\?\\?}" ] || { QUESTION } > LINE/status 2>/dev/null
IFS= builtin read -r -d '' __command < LINE/command
builtin eval "$__command"
done; done
"""

# While this script waits, its own 0 and 1 are the pipes it waits on; 7, 8 and 9 are what the caller gave as 0, 1 and 2.
_ASK = """
if [ -p LINE/request ]; then
command exec 7<&0; command exec 8>&1; command exec 9>&2
trap '{cold}' USR1
echo $$ > LINE/request
read -r code < LINE/reply/$(( $$ % SLOTS ))
case $code in [0-9]*) exit "$code" ;; esac
trap - USR1
fi
{cold}
"""


def _fill(text: str) -> str:
    return text.replace("LINE", LINE).replace("SLOTS", str(SLOTS)).replace("QUESTION", ASK)


def limits(processes: int, memory: int, disk: int, capped: bool = False) -> str:
    """The `ulimit` line. It runs inside, because outside the process limit would count all cells of the user together.

    Where a cgroup has `capped` what the processes hold, a program may raise its own limit on address space: some reserve gigabytes of it
    that they never touch.
    """
    return _LIMITS.format(processes=processes, memory=memory // 1024, disk=disk // 1024, space="-Sv" if capped else "-v")


def bounds(processes: int, memory: int, disk: int, capped: bool = False) -> dict[int, tuple[int, int]]:
    """The same for a process that sets them itself."""
    values = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_NPROC: processes,
        resource.RLIMIT_AS: memory // 1024 * 1024,
        resource.RLIMIT_FSIZE: disk // 1024 * 1024,
        resource.RLIMIT_NOFILE: 1024,
        resource.RLIMIT_SIGPENDING: _SIGNALS,
    }
    found = {which: (value, value) for which, value in values.items()}
    if capped:
        found[resource.RLIMIT_AS] = (values[resource.RLIMIT_AS], resource.getrlimit(resource.RLIMIT_AS)[1])
    return found


def loop(bounds: str = "") -> str:
    """What the persistent bash runs; `$1` is its first folder, `$2` the script of its state.

    Without `bounds`, said by `limits`, it waits for all three, and tells the state that it began with as it hears them.
    """
    return (bounds or _AHEAD) + _fill(_LOOP)


def programs(python: str) -> dict[str, str]:
    """The programs by name. Each asks the warden for a fork of its warm interpreter and otherwise starts a cold one.

    They are programs and not shell functions so that `timeout 60 pytest` and `xargs pytest` are served too; the script's own process
    stands for the caller: arguments, folder, environment and descriptors are read from it, and when it is killed so is the fork.
    """
    real = f"/opt/python/bin/{python}"
    pytest = "#!/bin/sh" + _fill(_ASK.format(cold=f'exec {real} {BOX}/lib/pytest_cold.py "$@" 7<&- 8>&- 9>&-'))
    ask = _fill(_ASK.format(cold=f'exec {real} "$@" 7<&- 8>&- 9>&-'))
    interpreter = f'#!/bin/sh\nif [ "$1" = -m ] && [ "$2" = pytest ]; then{ask}fi\nexec {real} "$@"\n'
    return {"pytest": pytest, "py.test": pytest, "python": interpreter, "python3": interpreter}


def image_environment(variables: Mapping[str, str]) -> dict[str, str]:
    """What the programs of an image start with: its own variables, and those of ours that make no choice of an interpreter."""
    ours = {name: ENVIRONMENT[name] for name in _NEUTRAL}
    paths = [PLUGIN, *(path for path in (variables.get("PYTHONPATH"),) if path)]
    return {"LANG": ENVIRONMENT["LANG"], **variables, **ours, "PYTHONPATH": ":".join(paths)}


COLD = """import sys

sys.argv[0] = "/opt/python/bin/pytest"
sys.path[0] = "/opt/python/bin"
from _pytest.config import _console_main

sys.exit(_console_main())
"""

ENVIRONMENT = {
    "PATH": "/opt/python/bin:/usr/bin:/bin",
    "HOME": "/tmp/home",
    "LANG": "C.UTF-8",
    "TERM": "dumb",
    "GIT_PAGER": "cat",
    "PAGER": "cat",
    "PYTHONHASHSEED": "0",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    "PYTEST_ADDOPTS": "-o cache_dir=/tmp/.pytest_cache",
}

PLUGIN = f"{BOX}/plugin"  # where an image finds what the grader asks pytest to load

ETC = {
    "passwd": "agent:x:1000:1000:agent:/tmp/home:/bin/bash\nnobody:x:65534:65534:nobody:/:/bin/false\n",
    "group": "agent:x:1000:\nnogroup:x:65534:\n",
    "hosts": "127.0.0.1 localhost\n::1 localhost\n",
    "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
    "gitconfig": (
        "[user]\n\tname = agent\n\temail = agent@localhost\n[safe]\n\tdirectory = *\n[init]\n\tdefaultBranch = main\n"
        "[gc]\n\tauto = 0\n[maintenance]\n\tauto = false\n[advice]\n\tdetachedHead = false\n"
    ),
}

_FIRST_COMMIT = """set -e
export GIT_AUTHOR_DATE=2000-01-01T00:00:00Z GIT_COMMITTER_DATE=2000-01-01T00:00:00Z
export GIT_AUTHOR_NAME=agent GIT_AUTHOR_EMAIL=agent@localhost GIT_COMMITTER_NAME=agent GIT_COMMITTER_EMAIL=agent@localhost
git init -q --template= .
echo 'ref: refs/heads/main' > .git/HEAD
git add -A FORCE
git commit -q --allow-empty --no-verify -m "Start"
"""


def first_commit(archive: bool) -> str:
    """The commands that make the repository's only commit.

    All of an archive is the repository, also what its own `.gitignore` names; an image holds what was built in it as well.
    """
    return _FIRST_COMMIT.replace("FORCE", "-f" if archive else "")
