"""What a host offers: what is missing is told with what to do about it."""

from __future__ import annotations

from pathlib import Path

import pytest

from patchgrad.sandboxes import host


def test_every_offer_has_words_for_its_lack() -> None:
    found = host.offers()
    assert len({offer.name for offer in found}) == len(found) > 5
    assert all(offer.without and offer.advice for offer in found)


@pytest.mark.parametrize(
    ("switch", "value", "advice"),
    [
        ("kernel/unprivileged_userns_clone", "0\n", "unprivileged_userns_clone=1"),
        ("kernel/apparmor_restrict_unprivileged_userns", "1\n", "apparmor_restrict_unprivileged_userns=0"),
        ("user/max_user_namespaces", "0\n", "max_user_namespaces=15000"),
    ],
)
def test_a_closed_switch_of_the_kernel_is_named_with_the_command_that_opens_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, switch: str, value: str, advice: str
) -> None:
    (tmp_path / "sys" / switch).parent.mkdir(parents=True)
    (tmp_path / "sys" / switch).write_text(value)
    monkeypatch.setattr(host, "_TRY", "import os; os._exit(1)")
    (namespaces,) = [offer for offer in host.offers(tmp_path) if "namespaces" in offer.name]
    assert (namespaces.there, namespaces.found) == (False, "unshare: Operation not permitted")
    assert advice in namespaces.advice


def test_without_a_closed_switch_it_is_a_container_that_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "_TRY", "import os; os._exit(1)")
    (namespaces,) = [offer for offer in host.offers(tmp_path) if "namespaces" in offer.name]
    assert "seccomp=unconfined" in namespaces.advice


def test_an_engine_is_where_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://elsewhere:2375")
    (engine,) = [offer for offer in host.offers() if "engine" in offer.name]
    assert (engine.there, engine.found) == (True, "tcp://elsewhere:2375")
