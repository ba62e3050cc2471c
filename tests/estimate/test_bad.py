"""Bad configurations and files: each is refused in words that name what is wrong, and none shows a traceback."""

import json
import os

import pytest

from trine import command

LLAMA = {"model_type": "llama", "vocab_size": 256, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
         "num_key_value_heads": 2, "intermediate_size": 128, "max_position_embeddings": 128}  # fmt: skip
BERT = {"model_type": "bert", "vocab_size": 200, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2,
        "intermediate_size": 128, "max_position_embeddings": 64, "type_vocab_size": 2}  # fmt: skip
NAMES = ("phase profile seq new-tokens image-size lnc nodes dp pp accumulate global-batch tokens sdk compare p50 p99 sort price picture dtype zero cp ep "
         "chunks recompute optimizer num-layers-per-virtual-pipeline-stage").split()


def gguf(*entries):
    return b"GGUF" + (3).to_bytes(4, "little") + (0).to_bytes(8, "little") + len(entries).to_bytes(8, "little") + b"".join(entries)


def entry(name, kind, value):
    return len(name).to_bytes(8, "little") + name + kind.to_bytes(4, "little") + value


BAD = [
    # a configuration, or a file's bytes; what is said
    (b"", "not JSON"),
    (b"null", "a configuration is an object, this is NoneType"),
    (b"[]", "a configuration is an object, this is list"),
    (b"{}", 'model_type "None" is not in the zoo'),
    (b"\xff\xfe\x00", "not JSON"),
    (b"[" * 100_000, "not JSON"),
    (b'{"a":' * 100_000, "not JSON"),
    (b'{"model_type": "llama", "hidden_size": ' + b"9" * 5000 + b"}", "not JSON"),
    (b"GGUF", "bytes are needed at"),
    (gguf(), "architecture None"),
    (b"GGUF" + (3).to_bytes(4, "little") + b"\xff" * 16, "are read"),
    (gguf(entry(b"general.architecture", 4, (5).to_bytes(4, "little"))), "general.architecture is 5; expected str"),
    (gguf(entry(b"general.architecture", 8, (5).to_bytes(8, "little") + b"llama")), "needs"),
    (LLAMA | {"model_type": 5}, "model_type is 5; expected the name of a family"),
    (LLAMA | {"model_type": ["llama"]}, "expected the name of a family"),
    (LLAMA | {"model_type": "lama"}, 'did you mean "llama"?'),
    (LLAMA | {"hidden_size": "abc"}, "\"hidden_size\" is 'abc'; expected a number"),
    (LLAMA | {"hidden_size": None}, 'needs "hidden_size"'),
    (LLAMA | {"hidden_size": -1}, "expected 1 or more"),
    (LLAMA | {"hidden_size": 0}, "expected 1 or more"),
    (LLAMA | {"hidden_size": [1]}, "does not fit together"),
    (LLAMA | {"hidden_size": {"a": 1}}, "does not fit together"),
    (LLAMA | {"hidden_size": 1.5}, "expected a whole number"),
    (LLAMA | {"hidden_size": True}, "expected a whole number"),
    (LLAMA | {"hidden_size": float("nan")}, "expected a number"),
    (LLAMA | {"hidden_size": float("inf")}, "expected a number"),
    (LLAMA | {"hidden_size": 2**63}, "expected a number up to"),
    (LLAMA | {"num_attention_heads": 0}, "does not fit together"),
    (LLAMA | {"num_attention_heads": -4}, "expected 1 or more"),
    (LLAMA | {"num_hidden_layers": 10**9}, "1,000,000,000 layers; at most 16,384 are read"),
    (LLAMA | {"num_hidden_layers": 1.5}, "expected a whole number"),
    (LLAMA | {"num_hidden_layers": "two"}, "expected a number"),
    (LLAMA | {"num_key_value_heads": "x"}, "expected a number"),
    (LLAMA | {"vocab_size": 0}, '"vocab_size" is 0; expected 1 or more'),
    (LLAMA | {"vocab_size": 1.5}, "expected a whole number"),
    (LLAMA | {"intermediate_size": -1}, "expected 0 or more"),
    (LLAMA | {"head_dim": -8}, "expected 1 or more"),
    (LLAMA | {"hidden_act": "nope"}, 'an activation "nope"; known are'),
    (LLAMA | {"hidden_act": 5}, "expected a name"),
    (LLAMA | {"rope_theta": "x"}, '"rope_theta" is'),
    (LLAMA | {"rope_scaling": {"rope_type": 7}}, 'rope_type "7" is not known'),
    (LLAMA | {"rope_scaling": {"type": "linear", "factor": "x"}}, '"rope_scaling.factor" is'),
    (LLAMA | {"rope_scaling": {"rope_type": "longrope", "short_factor": 5}}, "does not fit together"),
    (LLAMA | {"rms_norm_eps": "x"}, '"rms_norm_eps" is'),
    (LLAMA | {"quantization_config": 5}, "quantization_config is 5; expected an object"),
    (LLAMA | {"quantization_config": {"quant_method": "gptq", "bits": "x"}}, "x bits by gptq"),
    (LLAMA | {"layer_types": ["a", "b"]}, "layer_types"),
    (LLAMA | {"nonsense": 1}, 'does not read the key "nonsense"'),
    (BERT | {"hidden_size": "abc"}, "expected a number"),
    (BERT | {"num_hidden_layers": 10**9}, "at most 16,384 are read"),
    (BERT | {"type_vocab_size": -1}, "expected 0 or more"),
    (BERT | {"num_attention_heads": 0}, "does not fit together"),
]  # fmt: skip


def ask(path, capsys):
    options = dict.fromkeys(NAMES) | {"config": str(path), "batch": 1, "tp": 1, "seq": 16, "zero1": False, "no-zero1": False,
                                      "search": False, "overlap-grad-reduce": False, "sequence-parallel": False, "use-distributed-optimizer": False,
                                      "auto-cast": "none", "auto-cast-type": "bf16", "json": False, "instance": "trn1.2xlarge"}  # fmt: skip
    asked = {"options": options, "words": [], "typed": [], "command": "estimate", "module": "trine.estimate.command", "trine": "trine"}
    code = command.main(json.dumps(asked))
    return code, capsys.readouterr().err


@pytest.mark.parametrize("given,said", BAD, ids=range(len(BAD)))
def test_refused(tmp_path, capsys, given, said):
    path = tmp_path / "config.json"
    path.write_bytes(given if isinstance(given, bytes) else json.dumps(given).encode())
    code, err = ask(path, capsys)
    assert code == command.UNSUPPORTED and err.startswith("trine estimate: ") and len(err.splitlines()) == 1, err
    assert said in err and "internal error" not in err


def test_what_is_no_file(tmp_path, capsys):
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    for name, said in (("folder", "no such file"), ("none", "no such file"), ("pipe", "expected a config.json")):
        code, err = ask(tmp_path / name, capsys)
        assert code == command.UNSUPPORTED and said in err


def test_our_own_bug_is_one_line(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr("trine.estimate.command.run", lambda asked: [][1])
    code, err = ask(tmp_path, capsys)
    assert code == command.OUTSIDE and err.startswith("trine estimate: internal error: IndexError: ") and len(err.splitlines()) == 1
