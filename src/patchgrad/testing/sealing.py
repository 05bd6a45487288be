"""What a backend must hold that claims to seal files: each way to change one of them is tried, from inside."""

from __future__ import annotations

from patchgrad.contracts import Sandbox, Sandboxes
from patchgrad.values import Task

_FOLDER = "sealed-check"
_FILE = f"{_FOLDER}/deep/kept.txt"
_LAID = f"mkdir -p {_FOLDER}/deep && echo kept > {_FILE} && echo free > {_FOLDER}/free.txt"
_WAITING = f"(while [ ! -e /tmp/go ]; do sleep 0.02; done; cd {_FOLDER}/deep; echo no > kept.txt; rm -f kept.txt; echo done > /tmp/gone) &"

ATTEMPTS = (
    "echo no > kept.txt",
    "echo no >> kept.txt",
    "truncate -s 0 kept.txt",
    "rm -f kept.txt",
    "mv kept.txt other.txt",
    "echo no > new.txt; mv -f new.txt kept.txt",
    "ln -sf /etc/passwd kept.txt",
    "ln kept.txt alias.txt && echo no > alias.txt; ln -L /proc/self/fd/0 alias2.txt < kept.txt && echo no > alias2.txt",
    "chmod 666 kept.txt; echo no > kept.txt",
    "exec 8< kept.txt; echo no > /proc/self/fd/8; exec 8<&-",
    "echo no > /proc/1/root/testbed/sealed-check/deep/kept.txt; echo no > /proc/1/cwd/testbed/sealed-check/deep/kept.txt",
    "echo no > /proc/self/root/testbed/sealed-check/deep/kept.txt",
    "umount kept.txt; mount -o remount,rw kept.txt; mount --bind new.txt kept.txt; unshare -rm umount kept.txt; echo no > kept.txt",
    "cd ..; mv deep elsewhere; mkdir deep; echo no > deep/kept.txt",
    "cd ..; mkdir -p t; echo no > t/kept.txt; mv -T t deep; rm -rf deep; ln -s t deep; mv -T --exchange t deep",
    "cd /testbed; mv sealed-check elsewhere; mkdir -p sealed-check/deep; echo no > sealed-check/deep/kept.txt",
    "cd /testbed; rm -rf sealed-check; mkdir -p t/deep; echo no > t/deep/kept.txt; ln -s t sealed-check",
    "python3 -c \"import os; os.rename('/testbed/sealed-check', '/testbed/away')\"",
    "python3 -c \"import os; os.utime('kept.txt', (1, 1)); os.truncate('kept.txt', 0)\"",
)
"""Shell programs that begin in the folder of a sealed `kept.txt`, `/testbed/sealed-check/deep`, and would have it say `no`, or gone."""


async def check_sealed(backend: Sandboxes, task: Task, claimed: bool) -> None:
    """Raises `AssertionError` where a sealed file can be changed, moved or replaced from inside, or honest work beside it fails."""
    async with await backend.open(task) as sandbox:
        await sandbox.run(_LAID)
        for path in (f"{_FOLDER}/missing.txt", f"{_FOLDER}/deep", "/etc/passwd"):
            assert await _refused(sandbox, path), f"what is no file of the repository cannot be sealed: {path}"
        await sandbox.run(_WAITING)
        before = await sandbox.snapshot()
        await sandbox.seal([_FILE])
        await sandbox.seal([f"/testbed/{_FILE}"])
        assert (await sandbox.snapshot()).address == before.address, "a state does not tell which files are sealed"
        if claimed:
            await _check_attempts(sandbox)
        await _check_beside(sandbox)
        await sandbox.reset()
        await sandbox.run(_LAID)
        assert (await sandbox.run(f"echo new > {_FILE}; cat {_FILE}")).output == "new\n", "after a reset nothing is sealed"


async def _refused(sandbox: Sandbox, path: str) -> bool:
    try:
        await sandbox.seal([path])
    except OSError:
        return True
    return False


async def _check_attempts(sandbox: Sandbox) -> None:
    await sandbox.run("echo > /tmp/go; for i in {1..100}; do [ -e /tmp/gone ] && break; sleep 0.05; done")
    assert (await sandbox.run("cat /tmp/gone")).output == "done\n", "what runs since before goes on"
    for attempt in ("", *ATTEMPTS):
        await sandbox.exec(("bash", "-c", f"cd {_FOLDER}/deep; {attempt}"))
        seen = await sandbox.run(f"cat /testbed/{_FILE}")
        assert seen.output == "kept\n", f"a sealed file stays as it is: {attempt or 'a job that ran before'}: {seen.output!r}"
        assert await sandbox.read(_FILE) == b"kept\n", f"the host reads a sealed file as it is: {attempt}"


async def _check_beside(sandbox: Sandbox) -> None:
    work = (
        "echo x > beside.txt && mkdir -p __pycache__ && mv beside.txt ../moved.txt && echo y >> ../free.txt && rm ../free.txt && echo well"
    )
    done = await sandbox.exec(("bash", "-c", f"cd {_FOLDER}/deep && {work}"))
    assert done.output == "well\n", f"files beside a sealed one are made, moved, changed and removed: {done.output!r}"
    await sandbox.write(_FILE, b"host\n")
    assert (await sandbox.run(f"cat /testbed/{_FILE}")).output == "host\n", "the host writes a sealed file"
    assert (await sandbox.snapshot()).entries[_FILE][1] == b"host\n", "and it is part of the state"
