"""`patchgrad models`: from a file of llama.cpp to a checked folder and back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.models.small import written

from patchgrad.cli import main

pytest.importorskip("gguf")


def test_a_file_is_imported_shown_checked_and_exported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    written(tmp_path / "model", tied=True)
    assert main(["models", "export", str(tmp_path / "model"), "--out", str(tmp_path / "one.gguf"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"file": str(tmp_path / "one.gguf"), "bytes": (tmp_path / "one.gguf").stat().st_size}
    assert main(["models", "import", str(tmp_path / "one.gguf"), "--out", str(tmp_path / "read")]) == 0
    assert "llama, " in capsys.readouterr().out
    assert main(["models", "show", str(tmp_path / "read")]) == 0
    shown = capsys.readouterr().out
    assert "the embedding" in shown
    assert "<|im_start|>user" in shown
    assert main(["models", "show", str(tmp_path / "read"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["network"]["family"] == "llama"
    assert main(["models", "check", str(tmp_path / "read")]) == 0
    found = capsys.readouterr().out
    assert "DIFFERS" not in found
    assert found.count("ok  ") == 7 or "install transformers" in found


def test_a_chat_that_a_template_rewrites_differs_and_the_command_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written(tmp_path / "model", context=2048)
    config = tmp_path / "model" / "tokenizer_config.json"
    told = json.loads(config.read_text())
    told["chat_template"] = told["chat_template"].replace("message['content']", "(message['content'].split('</think>')[-1])")
    config.write_text(json.dumps(told))
    assert main(["models", "check", str(tmp_path / "model"), "--json"]) == 1
    found = {one["name"]: one for one in json.loads(capsys.readouterr().out.splitlines()[-1])["findings"]}
    assert found["a second turn"]["holds"] is not False
    assert found["an answer with a thought"]["holds"] is not True


def test_what_cannot_be_done_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "no.gguf").write_bytes(b"no")
    for words, told in (
        (["import", str(tmp_path / "no.gguf"), "--out", str(tmp_path / "a")], "is not a whole GGUF file"),
        (["get", "gpt"], "the catalogue has no model 'gpt'"),
        (["show", str(tmp_path)], "has no config.json"),
        (["check", str(tmp_path / "nowhere")], "no model folder"),
    ):
        assert main(["models", *words]) == 2
        assert told in capsys.readouterr().err
