"""Items on other machines: processes stand for these, and are killed, frozen and added."""

from __future__ import annotations

import asyncio
import hashlib
import os
import pickle
import signal
import subprocess
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from tests.journals import Over
from tests.learning.test_provenance import harness, tasks, worth
from tests.rollouts.process_hosts import ProcessHosts
from tests.rollouts.test_loop import command

from patchgrad.contracts import Executor, Journal, Policy, Sandboxes, Tokenizer
from patchgrad.errors import ClusterFault, ComponentError
from patchgrad.links import Message
from patchgrad.links.notice import give, noticed
from patchgrad.policies.scripted import ScriptedPolicy
from patchgrad.rollouts.attempts import AttemptSettings, collect_groups, given_up, kin
from patchgrad.rollouts.executors import LocalExecutor
from patchgrad.rollouts.executors.hosts.carrying import Sender
from patchgrad.rollouts.executors.hosts.executor import HostsExecutor
from patchgrad.rollouts.executors.hosts.host import Host
from patchgrad.rollouts.executors.hosts.messages import Ask, Drop, Leave, Left, Reply, Start, Work
from patchgrad.rollouts.journals import MemoryJournal
from patchgrad.rollouts.tool_cache import ToolCache
from patchgrad.store import Run
from patchgrad.testing import check_executor
from patchgrad.testing.examples import TASK
from patchgrad.values import Action, Attempt, Budget, Group, Ids, Repository, Sampling, Turn, floats, ids, root_address
from patchgrad.values import Message as Heard


def over(hosts: ProcessHosts, concurrency: int = 8, patience: float = 60.0) -> HostsExecutor:
    return HostsExecutor(hosts, concurrency, given_up=lambda item: ("given up", item), kin=str, patience=patience)


def test_an_executor_over_hosts_keeps_the_contract() -> None:
    asyncio.run(check_executor(lambda bound: HostsExecutor(ProcessHosts(2), bound, given_up=str), deadline=280.0))


async def waited(folder: str, item: int) -> tuple[int, int]:
    """The item and who ran it; it waits until a file of its name is there."""
    (Path(folder) / f"began-{item}-{os.getpid()}").touch()
    while not (Path(folder) / "go on").exists():
        await asyncio.sleep(0.01)
    return item, os.getpid()


async def ending(folder: str, item: int) -> int:
    """The item; 3 ends the host that it runs on."""
    (Path(folder) / f"began-{item}-{os.getpid()}").touch()
    if item == 3:
        while len(list(Path(folder).glob("began-*"))) < 4:
            await asyncio.sleep(0.01)
        os.kill(os.getpid(), signal.SIGKILL)
    await asyncio.sleep(0.3)
    return item


async def began(folder: Path, count: int) -> None:
    while len(list(folder.glob("began-*"))) < count:
        await asyncio.sleep(0.01)


def go(test: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(240):
            await test()

    asyncio.run(bounded())


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_what_ran_on_a_lost_host_runs_on_another_one(how: signal.Signals, tmp_path: Path) -> None:
    async def test() -> None:
        hosts = ProcessHosts(2, cells=4, silence=8.0)
        executor = over(hosts)

        async def lose() -> None:
            await began(tmp_path, 8)
            hosts.links[0].signal(how)
            hosts.add()
            await began(tmp_path, 12)
            (tmp_path / "go on").touch()

        losing = asyncio.create_task(lose())
        results = [result async for result in executor.map(f"{__name__}:waited", str(tmp_path), range(8))]
        await losing
        assert sorted(item for item, _ in results) == list(range(8))
        assert hosts.links[0].process.pid not in {process for _, process in results}
        assert dict(executor.lost) == {"host 0": 1}
        await executor.close()

    go(test)


def test_what_ran_on_a_host_whose_machine_is_about_to_end_goes_on_elsewhere_before_it_does(tmp_path: Path) -> None:
    async def test() -> None:
        hosts = ProcessHosts(2, cells=4)
        executor = over(hosts)
        leaving = hosts.links[0]

        async def leave() -> None:
            await began(tmp_path, 8)
            notice = give(leaving.process.pid, "a spot machine")
            hosts.add()
            await began(tmp_path, 12)
            assert leaving.process.wait(30) == -signal.SIGKILL  # it has given back all of them, and is no more
            notice.unlink()
            (tmp_path / "go on").touch()

        left = asyncio.create_task(leave())
        results = [result async for result in executor.map(f"{__name__}:waited", str(tmp_path), range(8))]
        await left
        assert sorted(item for item, _ in results) == list(range(8))
        assert leaving.process.pid not in {process for _, process in results}
        assert Left(1) in leaving.said
        assert not executor.lost
        await executor.close()

    go(test)


def test_a_notice_that_is_left_over_is_for_nobody(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "60"]) as process:
        notice = give(process.pid, "soon")
        process.kill()
    with pytest.raises(FileNotFoundError):
        give(process.pid, "soon")
    assert notice.exists()
    assert not noticed()
    notice.unlink()
    own = give(os.getpid(), " ")
    assert noticed() == "it gave no reason"
    own.unlink()
    assert not noticed()


def test_where_all_machines_leave_a_run_says_so(tmp_path: Path) -> None:
    async def test() -> None:
        hosts = ProcessHosts(1)
        executor = over(hosts, patience=1.0)

        async def leave() -> Path:
            await began(tmp_path, 4)
            return give(hosts.links[0].process.pid, "maintenance")

        left = asyncio.create_task(leave())
        with pytest.raises(ClusterFault, match=r"no host for attempts for 1 s \(left: host 0\)"):
            [result async for result in executor.map(f"{__name__}:waited", str(tmp_path), range(8))]
        (await left).unlink()
        await executor.close()

    go(test)


def test_an_item_that_ends_every_host_is_given_up_and_no_other_is(tmp_path: Path) -> None:
    async def test() -> None:
        hosts = ProcessHosts(2, cells=4)
        executor = over(hosts)
        for _ in range(3):
            hosts.add()
        results = [result async for result in executor.map(f"{__name__}:ending", str(tmp_path), range(8))]
        assert sorted(results, key=str) == sorted([("given up", 3), 0, 1, 2, 4, 5, 6, 7], key=str)
        assert sum(executor.lost.values()) == 3, "two with others, and one of its own"
        await executor.close()

    go(test)


def test_without_a_host_a_run_waits_as_long_as_it_is_told_and_says_whom_it_lost(tmp_path: Path) -> None:
    async def test() -> None:
        hosts = ProcessHosts(1, cells=8)
        executor = over(hosts, patience=2.0)
        losing = asyncio.create_task(began(tmp_path, 1))
        losing.add_done_callback(lambda _: hosts.links[0].kill())
        with pytest.raises(ClusterFault, match=r"no host for attempts for 2 s \(lost: host 0\)"):
            async for _ in executor.map(f"{__name__}:waited", str(tmp_path), range(2)):
                pass
        await executor.close()

    go(test)


def test_a_host_that_comes_later_takes_part(tmp_path: Path) -> None:
    async def test() -> None:
        hosts = ProcessHosts(1, cells=2)
        executor = over(hosts)

        async def more() -> None:
            await began(tmp_path, 2)
            hosts.add()
            await began(tmp_path, 4)
            (tmp_path / "go on").touch()

        adding = asyncio.create_task(more())
        results = [result async for result in executor.map(f"{__name__}:waited", str(tmp_path), range(6))]
        await adding
        assert {process for _, process in results} == {link.process.pid for link in hosts.links}
        await executor.close()

    go(test)


KEPT = (Sandboxes, Tokenizer, ToolCache)
SCRIPT = [command("ls"), command("edit --file shop/cart.py 2:2 'total += x'"), command("cat shop/cart.py"), command("submit")]


def collected(run: Run, executor: Executor, label: str, folder: Path, delay: float = 0.0) -> list[Group]:
    """Two attempts at each of two tasks, in a run's journal."""
    own = replace(harness(run), executor=executor, cache=ToolCache())
    settings = AttemptSettings(Budget(8, 100_000), worth, 7)

    async def collect() -> list[Group]:
        try:
            return await collect_groups(own, ScriptedPolicy(SCRIPT, delay=delay), tasks(folder / "archives"), 2, settings, label)
        finally:
            await executor.close()

    return asyncio.run(collect())


def addresses(groups: Iterable[Group]) -> list[tuple[str, str, list[str]]]:
    """What an attempt came to: its id, how it ended, and its turns."""
    done = (rollout.trajectory for group in groups for rollout in group.rollouts)
    return [(one.id, one.stop, [turn.address for turn in one.turns]) for one in done]


def attempts_over(hosts: ProcessHosts) -> HostsExecutor:
    return HostsExecutor(hosts, 4, given_up=given_up, kin=kin, kept=KEPT)


def test_attempts_on_hosts_have_the_turns_of_attempts_here_and_one_journal_has_them(tmp_path: Path) -> None:
    with Run.create(tmp_path / "run", "") as run:
        here = collected(run, LocalExecutor(4), "here", tmp_path)
        there = collected(run, attempts_over(ProcessHosts(2, cells=2)), "here", tmp_path / "again")
        assert addresses(there) == addresses(here), "what the journal knows is not done again"
        hosts = ProcessHosts(2, cells=2)
        anew = collected(run, attempts_over(hosts), "there", tmp_path)
        assert [stop for _, stop, _ in addresses(anew)] == ["submitted"] * 4
        assert [r.verdict.patch for g in anew for r in g.rollouts] == [r.verdict.patch for g in here for r in g.rollouts]
        assert all(link.said for link in hosts.links), "each host made some"
        for name, _, turns in addresses(anew):
            assert all(run.journal.holds(turn, name) for turn in turns)
            assert [turn.address for turn in run.journal.known(name, root_address(tasks(tmp_path / "archives")[0], name))[0]] in ([], turns)


def test_an_attempt_whose_host_is_killed_goes_on_elsewhere_after_its_last_turn(tmp_path: Path) -> None:
    with Run.create(tmp_path / "whole", "") as run:
        whole = collected(run, attempts_over(ProcessHosts(1, cells=4)), "a", tmp_path)
    with Run.create(tmp_path / "torn", "") as run:
        hosts = ProcessHosts(1, cells=4)
        written: list[str] = []

        async def turn(attempt: str, one: Turn) -> None:
            await run.journal.turn(attempt, one)
            written.append(one.address)
            if len(written) == 8:
                hosts.links[0].kill()
                hosts.add()

        own = replace(harness(run), executor=attempts_over(hosts), cache=ToolCache(), journal=Over(run.journal, turn=turn))
        settings = AttemptSettings(Budget(8, 100_000), worth, 7)

        async def collect() -> list[Group]:
            try:
                return await collect_groups(own, ScriptedPolicy(SCRIPT), tasks(tmp_path / "archives"), 2, settings, "a")
            finally:
                await own.executor.close()

        torn = asyncio.run(collect())
        assert addresses(torn) == addresses(whole), "every turn is the one that it would have been"
        assert len(written) < 8 + 16, "what was kept is not done again"
        again = [address for address in set(written) if written.count(address) > 1]
        assert len(again) <= 4, "a host that was killed lost at most the turn of each attempt that it was in"


async def read(shared: str, attempt: Attempt) -> str:
    """The archive of a task as a host has it."""
    return Path(attempt.task.repository.location).read_text()


def test_an_archive_that_a_host_cannot_read_is_fetched_once_and_is_what_it_was(tmp_path: Path) -> None:
    location = tmp_path / "task.tar"
    location.write_text("an archive")
    digest = hashlib.sha256(b"an archive").hexdigest()
    task = replace(TASK, repository=Repository("archive", str(location), digest))
    sender = Sender()
    said: list[Message] = []
    starts = [Start(1, number, sender.pack(Attempt(task, f"a/{number}", 0, Budget(1, 10), Sampling(1, 0)))) for number in range(2)]
    location.unlink()

    async def test() -> None:
        host = Host(said.append, tmp_path / "host")
        host.take(Work(1, f"{__name__}:read", sender.pack(""), {}))
        for start in starts:
            host.take(start)
        while not said:
            await asyncio.sleep(0)
        (ask,) = said
        assert isinstance(ask, Ask)
        assert (ask.method, pickle.loads(ask.arguments)) == ("archive", (str(location),))
        host.take(Reply(ask.number, pickle.dumps(b"an archive"), False))
        while len(said) < 3:
            await asyncio.sleep(0)
        assert [pickle.loads(done.result) for done in said[1:]] == ["an archive"] * 2
        await host.close()

    go(test)


def test_another_archive_than_the_task_names_breaks_the_attempt_and_is_asked_for_again(tmp_path: Path) -> None:
    location = tmp_path / "task.tar"
    location.write_text("an archive")
    task = replace(TASK, repository=Repository("archive", str(location), hashlib.sha256(b"an archive").hexdigest()))
    sender = Sender()
    said: list[Message] = []
    start = Start(1, 0, sender.pack(Attempt(task, "a", 0, Budget(1, 10), Sampling(1, 0))))
    location.unlink()

    async def test() -> None:
        host = Host(said.append, tmp_path / "host")
        host.take(Work(1, f"{__name__}:read", sender.pack(""), {}))
        for content, failed in ((b"another one", True), (b"an archive", False)):
            said.clear()
            host.take(start)
            while not said:
                await asyncio.sleep(0)
            host.take(Reply(said[0].number, pickle.dumps(content), False))
            while len(said) < 2:
                await asyncio.sleep(0)
            assert said[1].failed is failed
        await host.close()

    go(test)


def test_a_host_that_is_asked_to_leave_ends_its_calls_and_drops_what_they_asked(tmp_path: Path) -> None:
    said: list[Message] = []

    async def test() -> None:
        host = Host(said.append, tmp_path)
        journal = MemoryJournal()
        sender = Sender()
        host.take(Work(1, f"{__name__}:recalling", sender.pack(journal), {}))
        host.take(Start(1, 0, sender.pack("a")))
        while not said:
            await asyncio.sleep(0)
        host.take(Leave(1))
        while len(said) < 3:
            await asyncio.sleep(0)
        assert said[1:] == [Drop(said[0].number), Left(1)]

    go(test)


async def recalling(journal: Journal, attempt: str) -> object:
    """What the journal knows of an attempt."""
    return await journal.recall(attempt, "root")


def test_a_part_that_a_user_has_beside_the_recipe_reaches_hosts_that_have_no_such_file(tmp_path: Path) -> None:
    async def test() -> None:
        hosts = ProcessHosts(1)
        code = {"mine/__init__.py": b"", "mine/work.py": b"async def add(shared, item):\n    return shared + item\n"}
        executor = HostsExecutor(hosts, 2, given_up=lambda item: item, code=code)
        assert sorted([result async for result in executor.map("mine.work:add", 10, [1, 2])]) == [11, 12]
        await executor.close()

    go(test)


class Spoken:
    """A policy of text that makes ids itself."""

    version, context = 0, 100

    def encode(self, messages: Sequence[Heard], previous: Action | None) -> Ids:
        return ids(messages[-1].content.encode())

    async def act(self, session: str, tokens: Ids, sampling: Sampling) -> Action:
        return Action(tokens, floats([]), 0, f"{len(tokens)} ids", "stop")

    def release(self, session: str) -> None:
        """There is nothing to forget."""

    def close(self) -> None:
        """There is nothing to end."""


async def answered(policy: Policy, words: str) -> str:
    """What it says to these words."""
    return (await policy.act("a", policy.encode([Heard("user", words)], None), Sampling(8, 0))).text


def test_a_policy_of_text_answers_where_it_is_and_its_ids_are_made_on_hosts() -> None:
    async def test() -> None:
        executor = over(ProcessHosts(1))
        assert [said async for said in executor.map(f"{__name__}:answered", Spoken(), ["four", "seventh"])] == ["4 ids", "7 ids"]
        await executor.close()

    go(test)


def test_what_cannot_travel_is_refused_by_name_before_anything_runs(tmp_path: Path) -> None:
    async def test() -> None:
        executor = over(ProcessHosts(1))
        with open(tmp_path / "held", "w") as held, pytest.raises(ComponentError, match="cannot be sent to other machines"):
            async for _ in executor.map(f"{__name__}:read", held, [1]):
                pass
        await executor.close()

    go(test)
