"""What every sandbox backend must hold, as one function that its author runs."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from patchgrad.contracts import Sandbox, Sandboxes
from patchgrad.errors import SandboxLost
from patchgrad.rollouts.repository import commit
from patchgrad.testing.sealing import check_sealed
from patchgrad.values import Snapshot, Task

_MARK = "patchgrad-check"
_DISK = 16 << 20
_SHELL = "export GIVEN='a b'"
_LOOK = "pwd; bash -c 'echo $GIVEN'; umask; (exit 3) | cat; echo $?; f; cd - > /dev/null; pwd"
_TOO_LARGE = (
    f"for i in 1 2 3 4 5; do truncate -s {_DISK // 4} {_MARK}-hole$i; done",
    f"truncate -s {_DISK // 4} {_MARK}-one; for i in 1 2 3 4 5; do ln {_MARK}-one {_MARK}-two$i; done",
)


async def check_sandbox(backend: Sandboxes, task: Task) -> None:
    """Raises `AssertionError` with a sentence for the first rule that a backend breaks. `task` may hold any repository.

    The shell keeps its state; a command's end, death and time-out are told apart; `exec` is a fresh process with a report; files
    are read and written as they are; a state has one address and can be opened again exactly; all sandboxes of a task begin at one commit,
    whatever the time; two sandboxes share nothing, and
    nothing of an episode is left for the next. Files that no host would keep are a `SandboxLost`, and nobody else's loss.
    Sealed files can be read, and written by the host alone.
    What `probe` does not claim is not asked for.
    """
    capabilities = backend.probe()
    assert capabilities.name, "a backend has a name"
    sandbox = await backend.open(task)
    try:
        await _check_shell(sandbox)
        await _check_exec(sandbox)
        await _check_files(sandbox)
    finally:
        await sandbox.close()
        await sandbox.close()
    await _check_states(backend, task)
    await _check_commit(backend, task)
    await _check_fork_and_reset(backend, task)
    await _check_what_a_shell_keeps(backend, task)
    await _check_separation(backend, task, capabilities.pid_namespace)
    await check_sealed(backend, task, capabilities.seal)
    await _check_bounds(backend, replace(task, limits=replace(task.limits, disk=_DISK)))


async def _check_shell(sandbox: Sandbox) -> None:
    first = await sandbox.run("pwd")
    assert (first.output.strip(), first.exit_code, first.state) == ("/testbed", 0, "ok"), f"a shell starts in /testbed: {first}"
    await sandbox.run("cd /tmp; word=kept")
    second = await sandbox.run('echo "$word"; (exit 7)')
    assert second.output == "kept\n", "variables live from command to command"
    assert second.exit_code == 7, "the exit code is that of the last command"
    assert second.directory == "/tmp", "the result says where the shell is"
    both = await sandbox.run("echo out; echo err >&2")
    assert sorted(both.output.split()) == ["err", "out"], "output and errors arrive together"
    assert (await sandbox.run("cat", 5)).state == "ok", "a command's input is empty and never waits"
    broken = await sandbox.run("echo 'never closed", 5)
    assert broken.state == "ok", "an open quote is an error of the command, not of the sandbox"
    assert broken.exit_code, "an open quote is an error"
    late = await sandbox.run("echo before; sleep 60", 0.5)
    assert late.state == "timeout", "a command that takes too long is ended"
    assert late.exit_code is None, "a command that was ended has no exit code"
    assert "before" in late.output, "what a command said before it was ended is kept"
    assert late.seconds < 20, "a time-out is kept"
    after = await sandbox.run("pwd")
    assert (after.state, after.output.strip()) == ("ok", "/tmp"), "after a time-out there is a shell in the same folder"
    assert (await sandbox.run("exit 3")).state == "died", "the end of the shell is told apart from the end of a command"
    assert (await sandbox.run("echo again")).output == "again\n", "after its death there is a new shell"
    long = await sandbox.run("head -c 3000000 /dev/zero | tr '\\0' x; echo; echo END")
    assert long.truncated, "an output over the limit is marked as cut"
    assert "END" in long.output[-50:], "the end of a long output is kept"
    assert len(long.output) < 1_000_000, "an output is bounded"
    await sandbox.run("cd /testbed")


async def _check_exec(sandbox: Sandbox) -> None:
    done = await sandbox.exec(("sh", "-c", 'printf "$GIVEN:"; cat; printf hidden >&3; exit 4'), env={"GIVEN": "env"}, stdin=b"input")
    assert (done.output, done.exit_code, done.state) == ("env:input", 4, "ok"), f"exec gives input and environment: {done}"
    assert done.report == b"hidden", "what is written to descriptor 3 is the report, and not output"
    assert (await sandbox.exec(("pwd",))).output.strip() == "/testbed", "exec runs in /testbed"
    assert (await sandbox.exec(("sleep", "60"), timeout=0.5)).state == "timeout", "exec has a deadline"
    missing = await sandbox.exec(("no-such-program-here",))
    assert missing.exit_code not in (0, None), "a program that does not exist is a result, not an exception"


async def _check_files(sandbox: Sandbox) -> None:
    content = bytes(range(256)) * 3
    await sandbox.write("made/by/write.bin", content)
    assert await sandbox.read("/testbed/made/by/write.bin") == content, "what is written is read back, byte for byte"
    assert (await sandbox.run("wc -c < /testbed/made/by/write.bin")).output.strip() == str(len(content)), "a shell sees the file"
    await sandbox.write("made/by/write.bin", b"short")
    assert await sandbox.read("made/by/write.bin") == b"short", "a shorter content leaves nothing of the longer"
    await sandbox.run("head -c 9000000 /dev/zero > made/large")
    assert len(await sandbox.read("made/large")) == 9_000_000, "a large file is read whole"
    assert len((await sandbox.snapshot()).entries["made/large"][1] or b"") == 9_000_000, "a large file is kept whole"
    for path, reason in (("missing.txt", FileNotFoundError), ("made", IsADirectoryError)):
        try:
            await sandbox.read(path)
        except reason:
            continue
        raise AssertionError(f"reading {path!r} raises {reason.__name__}")


async def _check_states(backend: Sandboxes, task: Task) -> None:
    one = await backend.open(task)
    try:
        start = await one.snapshot()
        assert not start.entries, "a fresh sandbox differs in nothing from its repository"
        await one.run("git status >/dev/null; mkdir -p new/empty; printf 'a\\n' > new/a; ln -s a new/link; chmod 755 new/a; cd new")
        state = await one.snapshot()
        assert state.address != start.address, "a change has an address of its own"
        assert state.entries["new/a"] == (0o100755, b"a\n"), "a state holds modes and contents"
        assert state.directory == "/testbed/new", "a state holds the shell's folder"
        await one.run("rm -rf /testbed/new")
        assert (await one.snapshot()).address == start.address, "an undone change leaves no trace in the address"
    finally:
        await one.close()
    two = await backend.open(task, state)
    try:
        assert (await two.snapshot()).address == state.address, "an opened state is the state"
        seen = await two.run("pwd; cat link; ls -d empty; test -x a && echo runs")
        assert seen.output.split() == ["/testbed/new", "a", "empty", "runs"], f"an opened state is whole: {seen.output!r}"
        tracked = (await two.run("git ls-files /testbed | head -1")).output.strip()
        if tracked:
            await two.run("cd /testbed; rm -r $(git ls-files)")
            emptied = await two.snapshot()
            await _check_same(backend, task, emptied.address, emptied)
    finally:
        await two.close()


async def _check_commit(backend: Sandboxes, task: Task) -> None:
    names = []
    for wait in (1.1, 0.0):  # a commit's time is in seconds, and part of its name
        async with await backend.open(task) as one:
            names.append((await one.exec(["git", "rev-parse", "HEAD"])).output)
            assert await commit(one) == names[-1].strip(), "git's files say what git says"
        await asyncio.sleep(wait)
    assert names[0] == names[1], "all sandboxes of a task begin at one commit: an attempt that goes on in another one is compared with it"


async def _check_fork_and_reset(backend: Sandboxes, task: Task) -> None:
    async with await backend.open(task) as one:
        await one.run("echo 1 > both; mkdir here; cd here")
        async with await one.fork() as two:
            assert (await two.run("pwd; cat ../both")).output == "/testbed/here\n1\n", "a fork has the files and the folder"
            await two.run("echo 2 > ../both; echo 2 > ../only")
            assert (await one.run("cat ../both; ls ../only 2>/dev/null")).output == "1\n", "what a fork does stays in it"
        await one.run("echo x > /tmp/left; word=left; sleep 1234 &")
        await one.reset()
        left = await one.run("pwd; ls both here /tmp/left 2>/dev/null; echo $word; pgrep -f 'sleep 123[4]'")
        assert left.output.split() == ["/testbed"], f"a reset leaves nothing: {left.output!r}"
        assert not (await one.snapshot()).entries, "a reset sandbox differs in nothing from its repository"
        assert (await one.run("echo again > here && cat here")).output == "again\n", "a reset sandbox can be used as a fresh one"
    async with await backend.open(task) as three:
        assert not (await three.snapshot()).entries, "a sandbox that was left by its context is closed, and the next is fresh"


async def _check_what_a_shell_keeps(backend: Sandboxes, task: Task) -> None:
    async with await backend.open(task) as one:
        await one.run("git status > /dev/null; pwd | cat")
        plain = await one.snapshot()
        assert (plain.shell, plain.loose) == ("", ()), f"of a shell that nobody has changed there is nothing to keep: {plain.shell!r}"
        await one.run(
            f"mkdir here; cd here; {_SHELL}; umask 077; set -o pipefail; f() {{ echo f; }}; sleep 1234 & echo > /tmp/{_MARK}; sleep 0.2"
        )
        state = await one.snapshot()
        names = " ".join(state.loose)
        assert "sleep 1234" in names, f"a state says what goes on outside of it: {names}"
        assert f"/tmp/{_MARK}" in names, f"a state says which files are outside of it: {names}"
        seen = await one.run(_LOOK)
        async with await backend.open(task, state) as two:
            assert (await two.snapshot()).shell == state.shell, "a shell that was made like another one is in the same state"
            again = await two.run(_LOOK)
            assert again.output == seen.output, f"a state holds what was made of the shell: {again.output!r}, not {seen.output!r}"
            left = await two.snapshot()
            assert (left.shell, left.loose) == ((await one.snapshot()).shell, ()), (
                "in another sandbox, the same script is told of the same shell"
            )


async def _check_same(backend: Sandboxes, task: Task, address: str, state: Snapshot) -> None:
    three = await backend.open(task, state)
    try:
        assert (await three.snapshot()).address == address, "a state with deletions opens exactly"
        assert not (await three.run("cd /testbed; ls $(git ls-files)")).output.count("\n\n"), "what was deleted is gone"
    finally:
        await three.close()


async def _check_separation(backend: Sandboxes, task: Task, alone: bool) -> None:
    one, two = await asyncio.gather(backend.open(task), backend.open(task))
    try:
        await one.run(f"echo x > /testbed/{_MARK}; echo x > /tmp/{_MARK}; (sleep 1234 &) ; echo x > /dev/shm/{_MARK}")
        seen = await two.run(f"ls /testbed/{_MARK} /tmp/{_MARK} 2>/dev/null; pgrep -f 'sleep 123[4]'")
        assert _MARK not in seen.output, "two sandboxes share no file"
        assert not alone or not seen.output.strip(), "two sandboxes share no process"
    finally:
        await one.close()
        await two.close()
    three = await backend.open(task)
    try:
        left = await three.run(f"ls -d /testbed/{_MARK} /tmp/{_MARK} /dev/shm/{_MARK} 2>/dev/null; pgrep -f 'sleep 123[4]'")
        assert not left.output.strip(), f"nothing of an episode is left for the next: {left.output!r}"
        assert not (await three.snapshot()).entries, "the next episode starts from the repository"
    finally:
        await three.close()


async def _check_bounds(backend: Sandboxes, task: Task) -> None:
    one, two = await asyncio.gather(backend.open(task), backend.open(task))
    try:
        await two.run(f"echo mine > {_MARK}")
        kept = await two.snapshot()
        for making in _TOO_LARGE:
            await one.run(making)
            assert await _lost(one), f"what is larger than the sandbox's disk when it is laid out is no state: {making}"
            assert (await two.snapshot()).address == kept.address, "what one sandbox holds is nothing to its neighbour"
            assert (await two.run(f"cat {_MARK}")).output == "mine\n", "a neighbour goes on working"
            await one.run(f"rm -f {_MARK}-*")
            assert not (await one.snapshot()).entries, "once it is gone, the sandbox has a state again"
        await one.run(f"mkdir {_MARK}; echo x > {_MARK}/in; chmod 000 {_MARK}; echo x > {_MARK}-shut; chmod 000 {_MARK}-shut")
        await _lost(one)  # a backend may be able to read it
        await one.run(f"chmod 700 {_MARK} {_MARK}-shut; rm -r {_MARK} {_MARK}-shut")
        await one.run(f"(while :; do echo x > {_MARK}; rm {_MARK}; done) &")
        assert not [lost for lost in [await _lost(one) for _ in range(5)] if lost], "what comes and goes meanwhile breaks no snapshot"
    finally:
        await one.close()
        await two.close()


async def _lost(sandbox: Sandbox) -> bool:
    """Has it no state that is kept? Any other failure is its backend's."""
    try:
        await sandbox.snapshot()
    except SandboxLost:
        return True
    return False
