"""What tracing gave is kept: a second process imports no JAX and says the same to the byte; what decides it has another key."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from trine import _core, models
from trine.estimate import estimate, cached
from trine.models.model import Model

BERT = {"model_type": "bert", "vocab_size": 200, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2,
        "intermediate_size": 128, "max_position_embeddings": 64, "type_vocab_size": 2}  # fmt: skip
LLAMA = {"model_type": "llama", "vocab_size": 256, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
         "num_key_value_heads": 2, "intermediate_size": 128, "max_position_embeddings": 128}  # fmt: skip
ON = ("--instance", "trn1.2xlarge", "--json")
ASKED = {
    "forward": ["estimate", "bert-base", *ON],
    "decode": ["estimate", LLAMA, "--phase", "decode", "--seq", "64", "--tp", "2", "--profile", "PROFILE", *ON],
    "train": ["estimate", LLAMA, "--phase", "train", "--seq", "32", "--batch", "2", "--zero", "1", *ON],
    "train whole": ["estimate", BERT, "--phase", "train", "--seq", "32", "--zero", "0", *ON],
    "search": ["estimate", LLAMA, "--phase", "train", "--seq", "32", "--global-batch", "8", "--search", *ON],
    "tco": ["tco", "--config", LLAMA, "--machines", "trn1.2xlarge", "--prompt", "32", "--output", "32", "--batch", "2",
            "--tokens-per-day", "1e9", "--json"],
}  # fmt: skip
TIMES = re.compile(rb'"(trace|compile|timer)_s": [0-9.e-]+|"created": "[^"]*"')


@pytest.fixture
def keeps(monkeypatch, tmp_path):
    """A cache of its own, which is on."""
    monkeypatch.setenv("NEURON_CC_FLAGS", "")
    monkeypatch.setenv("NEURON_COMPILE_CACHE_URL", str(tmp_path / "cache"))
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    return tmp_path / "cache"


def entries(cache):
    return sorted(cache.rglob("*.entry"))


def traced(cache):
    """Those of programs that were traced."""
    return [path for path in entries(cache) if b"traced " in path.read_bytes()[:400]]


@pytest.mark.parametrize("name", ASKED)
def test_a_second_process_imports_no_jax_and_says_the_same(keeps, tmp_path, name):
    profile, file = tmp_path / "profile.ntff", tmp_path / "config.json"

    def run(**more):
        words = [str(file) if isinstance(word, dict) else str(profile) if word == "PROFILE" else word for word in ASKED[name]]
        for content in (word for word in ASKED[name] if isinstance(word, dict)):
            file.write_text(json.dumps(content))
        done = subprocess.run(["trine", *words], capture_output=True, timeout=500, check=False, env={**os.environ, **more})
        assert done.returncode == 0, done.stderr.decode()
        shown = TIMES.sub(b"", done.stdout), TIMES.sub(b"", profile.read_bytes()) if profile.exists() else b""
        return shown, {line.split()[-1] for line in done.stderr.splitlines() if line.startswith(b"import time:")}

    without, _ = run(NEURON_CC_FLAGS="--no_cache")
    assert not entries(keeps)
    first, imported = run(PYTHONPROFILEIMPORTTIME="1")
    assert first == without and b"jax" in imported
    second, imported = run(PYTHONPROFILEIMPORTTIME="1")
    assert second == without and b"jax" not in imported and (b"numpy" not in imported or name in ("decode", "tco"))
    assert not profile.exists() or second[1].count(b"models/decoder.py")


def test_what_decides_a_program_is_in_its_key(keeps, monkeypatch):
    stored = LLAMA | {"quantization_config": {"quant_method": "bitsandbytes", "load_in_8bit": True}}
    asked = ["decode", 1, 64, 2, 1, None]
    model = Model(LLAMA, "bfloat16")
    changed = [
        (model, asked),
        *((Model(config, dtype), asked) for config, dtype in ((LLAMA | {"rope_theta": 5e5}, "bfloat16"), (LLAMA, "float32"), (stored, "bfloat16"))),
        (Model(LLAMA | {"initializer_range": 0.1}, "bfloat16"), asked),  # of the configuration, though of no setting
        (model.with_layers(1), asked), (model.with_head(""), asked), (model.with_share("keys"), asked), (Model(BERT, "bfloat16"), asked),
        *((model, asked[:i] + [other] + asked[i + 1 :]) for i, other in enumerate(["prefill", 2, 32, 1, 2, 16])),
        (None, asked),
    ]  # fmt: skip
    keys = [cached.key_of("program", *one) for one in changed] + [cached.key_of("sizes", model, asked)]
    monkeypatch.setenv("JAX_DEFAULT_MATMUL_PRECISION", "highest")
    keys.append(cached.key_of("program", model, asked))
    monkeypatch.setattr(cached, "settings_here", lambda: [("jax_enable_x64", "'now'")])
    keys.append(cached.key_of("program", model, asked))
    for name in ("versions", "sources"):
        monkeypatch.setattr(cached, name, lambda name=name: f"another of {name}")
        keys.append(cached.key_of("program", model, asked))
    assert len({_core.cache_hash(*key) for key in keys}) == len(keys)
    named = Model(LLAMA | {"_name_or_path": "mine"}, "bfloat16")
    assert cached.key_of("program", named, asked) == keys[-1]  # what a user calls it decides nothing


def test_sources_and_versions_that_decide(tmp_path, monkeypatch):
    root = Path(cached.__file__).parents[1]
    for folder in cached.TRACED:
        shutil.copytree(root / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    seen = {cached.sources(root), cached.sources(tmp_path)}
    for name in ("models/block.py", "models/settings.py", "estimate/lowering.py", "estimate/training.py", "jax/rules.py"):
        (tmp_path / name).write_text((tmp_path / name).read_text() + "\n")
        cached.sources.cache_clear()
        seen.add(cached.sources(tmp_path))
    assert len(seen) == 7
    for i, name in enumerate(("jax", "jaxlib", "numpy", "ml_dtypes")):
        assert name in cached.TRACING
        (tmp_path / name).mkdir(exist_ok=True)
        (tmp_path / name / "version.py").write_text(f"{i}")
    said = {cached.versions()}
    for name in cached.TRACING:  # as if it lay elsewhere, in another version
        elsewhere = {name: SimpleNamespace(origin=str(tmp_path / name / "__init__.py"))}
        with monkeypatch.context() as patch:
            find = cached.importlib.util.find_spec
            patch.setattr(cached.importlib.util, "find_spec", lambda n, elsewhere=elsewhere, find=find: elsewhere.get(n) or find(n))
            cached.versions.cache_clear()
            said.add(cached.versions())
    cached.versions.cache_clear()
    assert len(said) == 5 and None not in said
    monkeypatch.setattr(cached, "TRACING", ("no_such_module",))
    cached.versions.cache_clear()
    assert cached.versions() is None and cached.key_of("program", None, []) is None
    cached.versions.cache_clear()


def counted(monkeypatch):
    from trine.estimate import program

    made, before = [], program.traced_phase
    monkeypatch.setattr(program, "traced_phase", lambda *asked: made.append(asked) or before(*asked))
    return made


def test_settings_that_were_changed_here_have_programs_of_their_own(keeps, monkeypatch):
    import jax

    made = counted(monkeypatch)
    estimate(BERT, seq=32)
    estimate(BERT, seq=32)
    assert len(made) == 1
    with jax.default_matmul_precision("highest"):
        estimate(BERT, seq=32)
    assert len(made) == 2


def test_entries_obey_the_rules_of_the_cache(keeps, monkeypatch):
    made = counted(monkeypatch)
    first = estimate(BERT, seq=32).as_dict()
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in entries(keeps)) and len(traced(keeps)) == 1
    monkeypatch.setenv("TRINE_CACHE_KEY", "secret")  # none of those is signed by it
    estimate(BERT, seq=32)
    estimate(BERT, seq=32)
    assert len(made) == 2
    for path in entries(keeps):  # what is damaged is made anew
        path.write_bytes(path.read_bytes()[:-1] + b"?")
    again = estimate(BERT, seq=32).as_dict()
    assert len(made) == 3 and again["latency_ms"] == first["latency_ms"] and again["memory_bytes_per_core"] == first["memory_bytes_per_core"]
    monkeypatch.setenv("NEURON_CC_FLAGS", "--no_cache")
    estimate(BERT, seq=32)
    assert len(made) == 4


BAD_PROGRAMS = [
    b"", b"{}", b"{}\nmodule", b"[]\nmodule", b"null\nmodule", b"\xff\nmodule", b"[" * 5000 + b"\nmodule", b" " * (1 << 17) + b"{}\nmodule",
    *(json.dumps({"ranges": {"weights": [0, 2]}, "given": [], "host_bytes": 1} | wrong).encode() + b"\nmodule" for wrong in (
        {"host_bytes": -1}, {"host_bytes": 1.5}, {"host_bytes": True}, {"host_bytes": 1 << 63}, {"given": [[0]]}, {"given": [3]}, {"given": {}},
        {"ranges": {"weights": [2, 0]}}, {"ranges": {"weights": [0, 1 << 40]}}, {"ranges": {"weights": [-1, 2]}}, {"ranges": {"used": [0, 1]}},
        {"ranges": [[0, 1]]}, {"more": 1},
    )),
]  # fmt: skip


@pytest.mark.parametrize("bad", BAD_PROGRAMS, ids=range(len(BAD_PROGRAMS)))
def test_an_entry_that_is_whole_but_no_program_is_not_read(bad):
    assert cached.read_program(bad) is None


@pytest.mark.parametrize("bad", [b"", b"1", b"[1]", b"[1,-1]", b"[1,2,3]", b'["1",2]', b"[1,true]", b"[1,1e400]", b"[[1],2]", b"{}"])
def test_nor_are_numbers_that_are_none(bad):
    assert cached.read_numbers(bad, 2) is None
    assert cached.read_numbers(b"[1, 2]", 2) == [1, 2]


def test_such_an_entry_is_made_anew(keeps, monkeypatch):
    made, first = counted(monkeypatch), estimate(BERT, seq=32).as_dict()
    model = cached.build(BERT, "float32")
    cached.parameters_size(model, 1)
    for what, asked in (("program", ["forward", 1, 32, 1, 1, None]), ("writes", []), ("sizes", [1])):
        key = cached.key_of(what, model, asked)
        assert _core.cache_get(*key) is not None
        _core.cache_put(*key, "", b"none\nof it")
    again = estimate(BERT, seq=32).as_dict()
    assert len(made) == 2 and again["latency_ms"] == first["latency_ms"]
    assert cached.parameters_size(cached.build(BERT, "float32"), 1) == Model(BERT).parameters_size()


def test_a_configuration_that_does_not_fit_is_refused_every_time(keeps):
    for _ in range(2):
        with pytest.raises(models.ConfigError):
            estimate(BERT | {"num_attention_heads": 0})
    assert not traced(keeps)


def test_settings_are_read_without_jax_or_numpy():
    code = "import sys\nfrom trine.models.model import Model\nfrom trine import models\n"
    code += "m = Model(models.load_config('llama-3-8b'), 'bfloat16', checked=True)\nassert m.with_layers(2).itemsize == 2\n"
    code += "assert not {'jax', 'numpy', 'ml_dtypes'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
