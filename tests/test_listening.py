"""Under which names a server of ours answers: its own, and no name that a page of somebody else's could lead here."""

from __future__ import annotations

import socket

import pytest

from patchgrad.links.listening import Place


@pytest.mark.parametrize("host", ["127.0.0.1:8517", "localhost:8517", "LOCALHOST:8517", "[::1]:8517"])
def test_this_machine_alone_is_named_with_the_port(host: str) -> None:
    assert Place().names(host)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost:80", "10.0.0.5:8517", "evil.example:8517", "localhost:x", "[::1:8517", ""])
def test_other_names_and_ports_are_not_its(host: str) -> None:
    assert not Place().names(host)


def test_the_port_of_the_web_is_not_told() -> None:
    assert Place(port=80).names("localhost")


BEYOND = Place("0.0.0.0", key="secret")


@pytest.mark.parametrize("host", ["10.0.0.5:8517", "10.0.0.5:9000", "[fe80::1]:8517", "localhost:9000", f"{socket.gethostname()}:8517"])
def test_who_others_reach_is_named_by_its_addresses_and_its_own_name_through_any_port(host: str) -> None:
    assert BEYOND.names(host)


@pytest.mark.parametrize("host", ["evil.example:8517", "10.0.0.5.evil.example", "localhost.evil.example:8517", ""])
def test_a_key_opens_no_foreign_name(host: str) -> None:
    assert not BEYOND.names(host)
    assert not Place(key="secret").names(host)


def test_a_name_that_was_told_is_its_own_through_any_port() -> None:
    place = Place("0.0.0.0", key="secret", host_name=["GPU.example.org"])
    assert place.names("gpu.example.org:443")
    assert place.names("gpu.example.org")
    assert not place.names("other.example.org")


def test_the_name_where_it_listens_is_its_own() -> None:
    assert Place("gpu.example.org", key="secret").names("gpu.example.org:8517")
