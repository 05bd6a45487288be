"""A GGUF file becomes a folder that computes and spells as transformers' own reading of the file does; what cannot be read is named."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.models.small import SAYS, shape, written

from patchgrad.errors import ConfigError
from patchgrad.models.gguf import file as files
from patchgrad.models.gguf import names
from patchgrad.models.gguf.exporting import Numbers, file_of
from patchgrad.models.gguf.importing import folder_of
from patchgrad.models.gguf.vocabulary import CUTS
from patchgrad.networks import folder, shards
from patchgrad.networks.decoder import Decoder, Family
from patchgrad.networks.prefixes import apart
from patchgrad.networks.scaling import Linear, Llama3, Yarn
from patchgrad.policies.tokenizers.chat import ChatTokenizer
from patchgrad.values import Message

gguf = pytest.importorskip("gguf")
transformers = pytest.importorskip("transformers")
torch.set_num_threads(1)
FAMILIES: list[tuple[Family, str]] = [
    ("llama", "smollm"),
    ("llama", "llama-bpe"),
    ("qwen2", "qwen2"),
    ("qwen3", "qwen2"),
    ("mistral", "gpt-2"),
]


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    monkeypatch.setenv("TQDM_DISABLE", "1")


def logits(network: Decoder) -> torch.Tensor:
    tokens = torch.arange(5, 45)
    with torch.no_grad():
        return network.logits(network.forward_packed(tokens, torch.arange(40), apart([0, 40]).nodes))


def close(ours: torch.Tensor, theirs: torch.Tensor) -> bool:
    return torch.allclose(ours, theirs, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(("family", "way"), FAMILIES)
@pytest.mark.parametrize("numbers", ["F32", "Q8_0"])
@pytest.mark.filterwarnings("ignore")
def test_a_file_is_read_as_transformers_reads_it(tmp_path: Path, family: Family, way: str, numbers: Numbers) -> None:
    size = {"head_size": 128} if family == "qwen3" else {}  # the only one that transformers reads from a file of it
    made = written(tmp_path / "model", family, way, extra=3, **size)
    file_of(tmp_path / "model", tmp_path / "model.gguf", numbers)
    read = folder_of(tmp_path / "model.gguf", tmp_path / "read")
    network = folder.load(tmp_path / "read")
    assert read == network.config
    theirs = transformers.AutoModelForCausalLM.from_pretrained(tmp_path, gguf_file="model.gguf", dtype=torch.float32)
    again = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "read", dtype=torch.float32)
    tokens = torch.arange(5, 45)[None]
    with torch.no_grad():
        assert close(logits(network), theirs(tokens).logits[0])
        assert close(logits(network), again(tokens).logits[0])
    if numbers == "F32":
        assert torch.equal(logits(network), logits(made)), "nothing is lost on the way to a file and back"


@pytest.mark.parametrize("way", CUTS)
def test_text_is_spelt_after_a_way_through_a_file_as_before_and_as_transformers_does(tmp_path: Path, way: str) -> None:
    written(tmp_path / "model", way=way)
    file_of(tmp_path / "model", tmp_path / "model.gguf")
    folder_of(tmp_path / "model.gguf", tmp_path / "read")
    before, after = ChatTokenizer.load(tmp_path / "model"), ChatTokenizer.load(tmp_path / "read")
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path / "read")
    assert (before.special, before.eos, before.stop, before.template.text) == (after.special, after.eos, after.stop, after.template.text)
    for text in SAYS:
        asked = [Message("system", "Mend."), Message("user", f"{text}<tool_call>")]
        assert before.encode(asked, None).tolist() == after.encode(asked, None).tolist()
        if "<|" not in text:  # which transformers takes for a special token
            told = [{"role": message.role, "content": message.content} for message in asked]
            found = theirs.apply_chat_template(told, add_generation_prompt=True, return_dict=True)["input_ids"]
            assert after.encode(asked, None).tolist() == list(found)


WORDS = ["\u2581", *"abcdefg\n", "\u2581a", "ab", "\u2581ab", "cd", "abcd", "\u2581abcd", "de", "fg", "efg", "\u2581\u2581", "bc"]
PIECES = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *WORDS]


def spelt(text: str, prefix: bool) -> list[int]:
    """As sentencepiece does it, and llama.cpp: of all neighbours that are a piece together, those of the highest score become one."""
    pieces = list((" " + text if prefix and text else text).replace(" ", "\u2581"))
    while pairs := [(PIECES.index(a + b), at) for at, (a, b) in enumerate(pairwise(pieces)) if a + b in WORDS]:
        _, at = min(pairs)  # scores fall from piece to piece
        pieces[at : at + 2] = ["".join(pieces[at : at + 2])]
    return [number for piece in pieces for number in ([PIECES.index(piece)] if piece in WORDS else [3 + byte for byte in piece.encode()])]


@pytest.fixture(scope="module", params=[True, False], ids=["prefix", "no prefix"])
def scored(request: pytest.FixtureRequest, whole: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, bool]:
    """A tokenizer that was read from scored pieces, and whether a blank stands before a text."""
    count = len(gguf.GGUFReader(whole).fields["tokenizer.ggml.tokens"].contents())
    rest = count - len(PIECES)

    def said(keys: dict[str, Any]) -> None:
        keys |= {"tokenizer.ggml.model": "llama", "tokenizer.ggml.tokens": [*PIECES, *(f"<unused{n}>" for n in range(rest))]}
        keys["tokenizer.ggml.token_type"] = [2, 3, 3, *[6] * 256, *[1] * len(WORDS), *[5] * rest]
        keys["tokenizer.ggml.scores"] = [0.0] * 259 + [-float(number) for number in range(count - 259)]
        keys |= {"tokenizer.ggml.add_space_prefix": request.param, "tokenizer.ggml.add_bos_token": True}
        keys |= {f"tokenizer.ggml.{name}_token_id": number for number, name in enumerate(("unknown", "bos", "eos"))}
        del keys["tokenizer.ggml.merges"], keys["tokenizer.ggml.pre"]

    path = tmp_path_factory.mktemp("scored")
    folder_of(changed(whole, path / "model.gguf", said), path / "read")
    return transformers.AutoTokenizer.from_pretrained(path / "read"), request.param


@settings(max_examples=200, deadline=None)
@given(text=st.text("abcdefg \n\u00fc\U0001f642", max_size=12))
def test_scored_pieces_are_spelt_as_sentencepiece_spells_them(scored: tuple[Any, bool], text: str) -> None:
    tokenizer, prefix = scored
    found = tokenizer(text)["input_ids"]
    assert found == [1, *spelt(text, prefix)]
    assert tokenizer.decode(found[1:]) == text


@pytest.mark.parametrize(
    "scaling", [None, Linear(4.0), Yarn(4.0, 64), Llama3(8.0, 8192), Llama3(32.0, 8192)], ids=lambda one: str(one).partition("(")[0]
)
def test_how_positions_are_stretched_survives_a_file(tmp_path: Path, scaling: Any) -> None:
    made = written(tmp_path / "model", scaling=scaling)
    file_of(tmp_path / "model", tmp_path / "model.gguf", "F32")
    read = folder_of(tmp_path / "model.gguf", tmp_path / "read")
    assert type(read.scaling) is type(scaling)
    assert torch.allclose(read.frequencies, made.config.frequencies, rtol=1e-6)
    assert (read.reach, read.sharpness) == (made.config.reach, made.config.sharpness)


def test_what_a_file_cannot_tell_is_refused_and_not_left_out(tmp_path: Path) -> None:
    untold: list[dict[str, Any]] = [{"scaling": Yarn(4.0, 64, fast=8.0)}, {"family": "qwen3", "windows": (8, 0)}]
    for number, changes in enumerate(untold):
        written(tmp_path / f"{number}", **changes)
        with pytest.raises(ConfigError, match="export a folder instead"):
            file_of(tmp_path / f"{number}", tmp_path / "model.gguf")
    made = written(tmp_path / "own")
    ChatTokenizer.train(["some text of one's own"], 300).save(tmp_path / "own")
    assert made.config.vocabulary >= 300
    with pytest.raises(ConfigError, match="no name in GGUF"):
        file_of(tmp_path / "own", tmp_path / "model.gguf")
    assert not list(tmp_path.glob("*model.gguf*")), "nothing is left behind"


# --- types of numbers ----------------------------------------------------------------------------


def kinds() -> list[Any]:
    """Every type that the package turns into numbers."""

    def known(kind: Any) -> bool:
        try:
            gguf.dequantize(np.zeros((1, gguf.GGML_QUANT_SIZES[kind][1]), np.uint8), kind)
        except (NotImplementedError, ValueError):
            return False
        return True

    return [kind for kind in gguf.GGMLQuantizationType if known(kind)]


def holding(path: Path, kind: Any, rows: int = 3) -> Path:
    """A file with one tensor of a type, drawn byte by byte."""
    _, length = gguf.GGML_QUANT_SIZES[kind]
    data = np.random.default_rng(0).integers(0, 256, (rows, 2 * length), np.uint8)
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_tensor("some.weight", data, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.mark.parametrize("kind", kinds(), ids=lambda kind: kind.name)
@pytest.mark.filterwarnings("ignore:.*encountered in:RuntimeWarning")
def test_every_type_that_the_package_knows_is_read(tmp_path: Path, kind: Any) -> None:
    found = files.read(holding(tmp_path / "one.gguf", kind)).tensor("some.weight")
    assert found.shape == (3, 2 * gguf.GGML_QUANT_SIZES[kind][0])
    assert found.dtype in (torch.float32, torch.float16, torch.bfloat16)


@pytest.mark.parametrize("name", ["Q8_1", "Q8_K", "I8", "I64", "F64"])
def test_another_type_is_refused_by_its_name(tmp_path: Path, name: str) -> None:
    file = files.read(holding(tmp_path / "one.gguf", gguf.GGMLQuantizationType[name]))
    with pytest.raises(ConfigError, match=f"some.weight .* is of type {name}"):
        file.tensor("some.weight")


# --- files ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of a small model."""
    path = tmp_path_factory.mktemp("gguf")
    written(path / "model")
    file_of(path / "model", path / "model.gguf", "F32")
    return path / "model.gguf"


def changed(
    source: Path, out: Path, said: Callable[[dict[str, Any]], None], tensors: Callable[[dict[str, Any]], None] = lambda _: None
) -> Path:
    """A copy of a file with other keys, or other tensors."""
    reader = gguf.GGUFReader(source)
    keys = {name: field.contents() for name, field in reader.fields.items() if not name.startswith("GGUF.")}
    data = {tensor.name: np.array(tensor.data) for tensor in reader.tensors}
    said(keys)
    tensors(data)
    writer = gguf.GGUFWriter(out, keys.pop("general.architecture"))
    for key, value in keys.items():
        adds = {bool: writer.add_bool, int: writer.add_uint32, float: writer.add_float32, str: writer.add_string, list: writer.add_array}
        adds[type(value)](key, value)
    for name, tensor in data.items():
        writer.add_tensor(name, tensor)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return out


def test_a_copy_with_the_same_keys_is_read_the_same(tmp_path: Path, whole: Path) -> None:
    folder_of(whole, tmp_path / "one")
    folder_of(changed(whole, tmp_path / "copy.gguf", lambda _: None), tmp_path / "two")
    assert (tmp_path / "one" / "model.safetensors").read_bytes() == (tmp_path / "two" / "model.safetensors").read_bytes()
    assert (tmp_path / "one" / "tokenizer.json").read_bytes() == (tmp_path / "two" / "tokenizer.json").read_bytes()


TOKENS = "tokenizer.ggml.tokens"
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "architecture": ({"general.architecture": "gemma3"}, "of architecture gemma3: there are llama, qwen2, qwen3"),
    "experts": ({"llama.expert_count": 8}, "llama.expert_count"),
    "window": ({"llama.attention.sliding_window": 64}, "llama.attention.sliding_window"),
    "scale of logits": ({"llama.logit_scale": 0.5}, "llama.logit_scale"),
    "part of a head": ({"llama.rope.dimension_count": 8}, "rotations, of another size"),
    "values": ({"llama.attention.value_length": 32}, "values, or rotations"),
    "longrope": ({"llama.rope.scaling.type": "longrope", "llama.rope.scaling.factor": 4.0}, "scaled by longrope"),
    "sharpness": (
        {"llama.rope.scaling.type": "yarn", "llama.rope.scaling.factor": 4.0, "llama.rope.scaling.attn_factor": 2.0},
        "scaled by yarn",
    ),
    "layers": ({"llama.block_count": 3}, "does not match"),
    "a layer too few": ({"llama.block_count": 1}, r"has blk\.1\."),
    "more layers than any memory holds": ({"llama.block_count": 2**31 - 1}, "not the weights of 2147483647 layers"),
    "no size": ({"llama.embedding_length": None}, "has no embedding_length"),
    "tokenizer": ({"tokenizer.ggml.model": "bert"}, "a tokenizer of the kind bert"),
    "way to cut": ({"tokenizer.ggml.pre": "tekken"}, "cuts text by tekken"),
    "merges": ({"tokenizer.ggml.merges": ["q zz"]}, "has no merges"),
    "types": ({"tokenizer.ggml.token_type": [1, 2]}, "each token once, with its type"),
    "no tokens": ({TOKENS: None}, "each token once"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_computed_or_spelt_is_refused_by_name_and_leaves_nothing(tmp_path: Path, whole: Path, name: str) -> None:
    change, words = REFUSED[name]

    def said(keys: dict[str, Any]) -> None:
        keys.update({key: value for key, value in change.items() if value is not None})
        for key in [key for key, value in change.items() if value is None]:
            del keys[key]

    path = changed(whole, tmp_path / "model.gguf", said)
    with pytest.raises(ConfigError, match=words):
        folder_of(path, tmp_path / "read")
    assert sorted(one.name for one in tmp_path.iterdir()) == ["model.gguf"]


@pytest.mark.parametrize("size", [2**16, 2**24 + 2, 2**31 - 1, 2**32 - 1])
def test_no_size_that_a_file_tells_is_built_before_its_tensors_are_seen_to_have_it(tmp_path: Path, whole: Path, size: int) -> None:
    keys = gguf.GGUFReader(whole).fields
    for key in [key for key, field in keys.items() if key.startswith("llama.") and isinstance(field.contents(), int)]:
        path = changed(whole, tmp_path / f"{key}.gguf", lambda said, key=key: said.update({key: size}))  # type: ignore[misc]
        try:
            folder_of(path, tmp_path / key)
        except ConfigError:
            continue
        assert key in ("llama.context_length", "llama.vocab_size"), key


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda data: data.pop("blk.0.ffn_up.weight"), "ffn_up.weight is missing or misshapen"),
        (lambda data: data.update({"blk.0.attn_rot": np.zeros(4, np.float32)}), "attn_rot"),
        (lambda data: data.update({"output_norm.weight": np.zeros(4, np.float32)}), "output_norm.weight is missing or misshapen"),
        (lambda data: data.update({"rope_freqs.weight": np.full(8, 3.0, np.float32)}), "not those of Llama 3"),
        (lambda data: data.pop("token_embd.weight"), "has no token_embd.weight"),
    ],
)
def test_a_tensor_that_lacks_or_is_nobodys_is_named(tmp_path: Path, whole: Path, change: Any, words: str) -> None:
    path = changed(whole, tmp_path / "model.gguf", lambda _: None, change)
    with pytest.raises(ConfigError, match=words):
        folder_of(path, tmp_path / "read")


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(share=st.floats(0, 0.999), at=st.integers(0, 400), byte=st.integers(0, 255))
def test_a_file_that_is_cut_or_has_another_byte_at_its_head_is_read_or_refused_in_a_sentence(
    tmp_path: Path, whole: Path, share: float, at: int, byte: int
) -> None:
    data = bytearray(whole.read_bytes())
    (tmp_path / "cut.gguf").write_bytes(data[: int(len(data) * share)])
    with pytest.raises(ConfigError):
        folder_of(tmp_path / "cut.gguf", tmp_path / "read")
    data[at] = byte
    (tmp_path / "other.gguf").write_bytes(data)
    try:
        folder_of(tmp_path / "other.gguf", tmp_path / "read")
    except ConfigError:
        return
    shutil.rmtree(tmp_path / "read")


def test_a_file_in_parts_is_read_with_all_of_them(tmp_path: Path, whole: Path) -> None:
    reader = gguf.GGUFReader(whole)
    folder_of(whole, tmp_path / "one")
    for number in (1, 2):
        path = tmp_path / f"model-{number:05}-of-00002.gguf"

        def half(data: dict[str, Any], number: int = number) -> None:
            for name in [tensor.name for tensor in reader.tensors[number % 2 :: 2]]:
                del data[name]

        changed(whole, path, lambda _: None, half)
    folder_of(tmp_path / "model-00001-of-00002.gguf", tmp_path / "two")
    one, two = (folder.load(tmp_path / name) for name in ("one", "two"))
    assert torch.equal(logits(one), logits(two))
    (tmp_path / "model-00002-of-00002.gguf").unlink()
    with pytest.raises(ConfigError, match=r"model-00002-of-00002\.gguf does not lie beside it"):
        folder_of(tmp_path / "model-00001-of-00002.gguf", tmp_path / "three")


def test_a_folder_that_is_there_is_not_written_over(tmp_path: Path, whole: Path) -> None:
    (tmp_path / "read").mkdir()
    with pytest.raises(ConfigError, match="there already"):
        folder_of(whole, tmp_path / "read")
    with pytest.raises(ConfigError, match="there is no file"):
        folder_of(tmp_path / "nowhere.gguf", tmp_path / "other")


def test_weights_are_written_in_files_of_a_size_and_read_as_one(tmp_path: Path) -> None:
    made = written(tmp_path / "model")
    state = made.state_dict()
    (tmp_path / "model" / "model.safetensors").unlink()
    shards.write(tmp_path / "model", iter(state.items()), most=40_000)
    assert len(list((tmp_path / "model").glob("model-*-of-*.safetensors"))) > 3
    index = json.loads((tmp_path / "model" / "model.safetensors.index.json").read_text())
    assert index["weight_map"].keys() == state.keys()
    assert torch.equal(logits(folder.load(tmp_path / "model")), logits(made))


@settings(max_examples=30, deadline=None)
@given(st.sampled_from(["llama", "qwen2"]), st.sampled_from([1, 2, 3]), st.sampled_from([2, 4, 6]))
def test_rows_of_queries_and_keys_come_back_from_neighbours(family: Family, kv_heads: int, size: int) -> None:
    config = shape(family, 50, heads=6, kv_heads=kv_heads, head_size=size, hidden=6 * size)
    for name, rows in (("blk.0.attn_q.weight", 6 * size), ("blk.1.attn_k.bias", kv_heads * size), ("blk.0.attn_v.weight", kv_heads * size)):
        tensor = torch.randn(rows, 5) if name.endswith("weight") else torch.randn(rows)
        turned = names.to_neighbours(name, tensor, config)
        assert torch.equal(names.from_neighbours(name, turned, config), tensor)
        if family == "llama" and "attn_v" not in name and size > 2:
            assert torch.equal(turned[1], tensor[size // 2]), "a pair's second half stands beside its first"
