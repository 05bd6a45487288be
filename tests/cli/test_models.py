"""`patchgrad models`: from a file of llama.cpp to a checked folder and back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from tests.models.small import written

from patchgrad.cli import main
from patchgrad.networks import folder
from patchgrad.networks.lora import Lora, adapters
from patchgrad.policies.tokenizers.chat import CHATML, ChatTokenizer
from patchgrad.store import Run
from patchgrad.trainers.local import LocalTrainer

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


def test_a_checkpoint_of_adapters_is_exported_as_a_folder_of_its_own_and_as_a_file(tmp_path: Path) -> None:
    written(tmp_path / "model", tied=True)
    network = folder.load(tmp_path / "model")
    trainer = LocalTrainer(network, lora=Lora(2), base=str(tmp_path / "model"))
    with torch.no_grad():
        for tensor in adapters(trainer.network).values():
            tensor.normal_(std=0.1, generator=torch.Generator().manual_seed(1))
    run = Run.create(tmp_path / "run", "")

    def fill(place: Path) -> None:
        trainer.save(place)
        ChatTokenizer.load(tmp_path / "model").save(place)

    run.checkpoints.save("rft-0", fill)
    run.save_state({"checkpoint": "rft-0"})
    run.close()
    step = tmp_path / "run" / "checkpoints" / "rft-0"
    assert not (step / "model.safetensors").exists(), "adapters alone"
    for source, out in ((tmp_path / "run", tmp_path / "whole"), (step, tmp_path / "again")):
        assert main(["models", "export", str(source), "--out", str(out)]) == 0
        for name, tensor in folder.load(out).named_parameters():
            assert torch.equal(tensor, trainer.weights()[name])
        assert ChatTokenizer.load(out).fingerprint == ChatTokenizer.load(tmp_path / "model").fingerprint
    assert main(["models", "export", str(tmp_path / "run"), "--out", str(tmp_path / "one.gguf"), "--numbers", "F32"]) == 0
    assert main(["models", "import", str(tmp_path / "one.gguf"), "--out", str(tmp_path / "read")]) == 0
    read = dict(folder.load(tmp_path / "read").named_parameters())
    assert all(torch.equal(tensor, read[name]) for name, tensor in trainer.weights().items())
    assert main(["models", "export", str(step), "--out", str(tmp_path / "whole")]) == 2, "a folder that is there is left"
    assert main(["models", "export", str(step), "--out", str(tmp_path / "other"), "--numbers", "F16"]) == 2


def thinking(tags: str) -> str:
    """A template that writes these tags before whatever the assistant says."""
    turn = CHATML.replace("+ message['content']", "+ ('TAGS' if message['role'] == 'assistant' else '') + message['content']")
    return turn.replace("assistant\\n", "assistant\\nTAGS").replace("TAGS", tags)


ANSWERS = {
    "as it is": (CHATML, []),
    "drops thoughts": (
        CHATML.replace("message['content']", "(message['content'] if loop.last else message['content'].split('</think>')[-1])"),
        ["the template takes it out of earlier turns"],
    ),
    "opens a thought": (thinking("<think>\\n"), ["a prompt opens it, so an answer begins inside it"]),
    "ends a thought": (thinking("<think>\\n\\n</think>\\n\\n"), ["a prompt ends it, so an answer begins behind it"]),
}


@pytest.mark.parametrize("kind", ANSWERS)
def test_what_is_in_a_model_names_its_special_tokens_and_what_becomes_of_thoughts(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written(tmp_path, context=2048, eos=(2, 9))
    (tmp_path / "tokenizer_config.json").write_text(
        json.dumps(json.loads((tmp_path / "tokenizer_config.json").read_text()) | {"chat_template": ANSWERS[kind][0]})
    )
    told = json.loads((tmp_path / "tokenizer.json").read_text())
    told["added_tokens"] += [{**told["added_tokens"][0], "id": 321, "content": "<repo>"}]
    (tmp_path / "tokenizer.json").write_text(json.dumps(told))
    assert main(["models", "show", str(tmp_path), "--json"]) == 0
    chat = json.loads(capsys.readouterr().out)["chat"]
    assert chat["special tokens"] == {
        "<|endoftext|>": "ends an answer",
        "<|im_start|>": "frames messages",
        "<|im_end|>": "ends an answer",
        "<repo>": "no part of a conversation",
    }
    assert chat["an answer ends at"].split(", ") == ["'", "<|endoftext|>", "<|im_end|>"]
    assert chat["thoughts"].split("; ")[1:] == ANSWERS[kind][1]
    assert main(["models", "show", str(tmp_path)]) == 0
    assert "  special tokens    <|endoftext|>, <|im_end|>: ends an answer\n" in capsys.readouterr().out


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
