"""Tokenizers that GGUF files bring: SentencePiece's joins against its definition, every way to cut words, and what is not known by name."""

import random

import pytest

gguf = pytest.importorskip("gguf")
pytest.importorskip("tokenizers")

from hypothesis import HealthCheck, given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from trine.models.safetensors import FileError  # noqa: E402
from trine.models.tokenizer import letters_of_bytes  # noqa: E402
from trine.serve import gguf_text, text  # noqa: E402
from trine.serve.errors import Wrong  # noqa: E402

TEXTS = ["the cat sat on the mat", " leading and  two  spaces ", "naïve café 東京 🙂", "x", "", "a\nb\n\nc\td", "It's 12345 o'clock, isn't IT? don't", "def f(x):\n    return x**2  # ok"]


def written(path, kind, tokens, **more):
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_tokenizer_model(kind)
    writer.add_token_list(tokens)
    for name, value in more.items():
        getattr(writer, f"add_{name}")(value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def pieces():
    """(tokens, scores, kinds) of a small vocabulary: letters, words joined at random, every byte."""
    random.seed(3)
    letters = sorted(set("".join(TEXTS).replace(" ", "▁")) - set("東京🙂\n\t"))
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{b:02X}>" for b in range(256)), "<own>", *letters]
    kinds = [2, 3, 3] + [6] * 256 + [4] + [1] * len(letters)
    words = ["▁" + w for t in TEXTS for w in t.split()]
    made = sorted({w[a:b] for w in words for a in range(len(w)) for b in range(a + 2, len(w) + 1)})
    random.shuffle(made)
    made = [t for t in made if random.random() < 0.6 and not set(t) & set("東京🙂")] + ["▁▁"]
    scores = [0.0] * len(tokens) + [-float(i) for i in range(len(made))]
    return tokens + made, scores, kinds + [1] * len(made)


def joined(raw, tokens, scores):
    """SentencePiece's definition: join the neighbours whose whole has the best score, the leftmost of equals, until none are left."""
    number = {t: i for i, t in enumerate(tokens)}
    symbols = list("▁" + raw.replace(" ", "▁")) if raw else []
    while True:
        pairs = [(-scores[number[a + b]], at) for at, (a, b) in enumerate(zip(symbols, symbols[1:], strict=False)) if a + b in number]
        if not pairs:
            break
        at = min(pairs)[1]
        symbols[at : at + 2] = [symbols[at] + symbols[at + 1]]
    return [i for s in symbols for i in ([number[s]] if s in number else [number[f"<0x{b:02X}>"] for b in s.encode()])]


def test_sentencepiece(tmp_path):
    tokens, scores, kinds = pieces()
    path = written(tmp_path / "m.gguf", "llama", tokens, token_scores=scores, token_types=kinds, bos_token_id=1, eos_token_id=2)
    made = text.load(path)
    assert made.add_bos and made.encode("the")[0] == 1 and made.ends == [2]
    for raw in TEXTS:
        found = made.encode(raw, add_special=False)
        assert found == joined(raw, tokens, scores), raw
        assert made.decode(found) == (" " + raw if raw else "")
    assert made.encode("<own>", add_special=False)[-1] == tokens.index("<own>") and made.decode([tokens.index("<own>")]) == "<own>"
    assert tokens.index("</s>") not in made.encode(made.guarded("</s>"), add_special=False)


def test_sentencepiece_without_a_space_before(tmp_path):
    tokens, scores, kinds = pieces()
    made = text.load(written(tmp_path / "m.gguf", "llama", tokens, token_scores=scores, token_types=kinds, add_space_prefix=False))
    assert made.decode(made.encode("the cat", add_special=False)) == "the cat"


@pytest.mark.parametrize("kind", [k for kinds in gguf_text.CUTS for k in kinds if k])
def test_every_way_to_cut_words(kind, tmp_path):
    letters = letters_of_bytes()
    made = text.load(written(tmp_path / "m.gguf", "gpt2", [*(letters[b] for b in range(256)), "th"], token_merges=["t h"], tokenizer_pre=kind))
    for raw in TEXTS:
        assert made.decode(made.encode(raw, add_special=False)) == raw


@pytest.mark.parametrize("kind, words", [
    ("gpt-2", ["It", "'s", " 12345", " o", "'", "clock", ","]), ("smollm", ["It", "'s", " ", "1", "2", "3", "4", "5", " o", "'", "clock", ","]),
    ("llama-bpe", ["It", "'s", " ", "123", "45", " o", "'clock", ","]), ("qwen2", ["It", "'s", " ", "1", "2", "3", "4", "5", " o", "'clock", ","]),
    ("deepseek-v3", ["It", "'s", " ", "123", "45", " o", "'clock", ","]), ("gpt-4o", ["It's", " ", "123", "45", " o", "'clock", ","]),
    ("tekken", ["It", "'s", " ", "1", "2", "3", "4", "5", " o", "'clock", ","])])  # fmt: skip
def test_words(kind, words):
    letters = {letter: byte for byte, letter in letters_of_bytes().items()}
    found = gguf_text.splitter(kind).pre_tokenize_str("It's 12345 o'clock,")
    assert [bytes(letters[c] for c in word).decode() for word, _ in found] == words


anything = st.one_of(st.text(max_size=4), st.integers(-5, 300), st.floats(), st.lists(st.text(max_size=3), max_size=6), st.lists(st.integers(0, 7), max_size=6),
                     st.lists(st.floats(), max_size=4), st.booleans())  # fmt: skip
KEYS = ["tokens", "merges", "scores", "token_type", "pre", "bos_token_id", "eos_token_id", "unknown_token_id", "add_bos_token", "add_space_prefix"]


@settings(max_examples=300, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))
@given(kind=st.sampled_from(["gpt2", "llama", "", 7]), more=st.dictionaries(st.sampled_from(KEYS), anything), template=anything)
def test_anything_is_a_tokenizer_or_refused(monkeypatch, kind, more, template):
    class File(gguf_text.Gguf):
        def __init__(self, path):
            tokens = {"tokenizer.ggml.tokens": ["<unk>", "a", "b", "ab", "▁"], "tokenizer.ggml.merges": ["a b"], "tokenizer.ggml.scores": [0.0, 0.0, 0.0, -1.0, 0.0]}
            self.path, self.metadata = path, tokens | {"tokenizer.ggml.model": kind, "tokenizer.chat_template": template}
            self.metadata |= {f"tokenizer.ggml.{name}": value for name, value in more.items()}

    monkeypatch.setattr(gguf_text, "Gguf", File)
    try:
        made = text.of_gguf("file")
    except (Wrong, FileError) as e:
        assert str(e)
    else:
        assert made.decode(made.encode("ab a")) is not None


def test_what_is_not_known_is_named(tmp_path):
    with pytest.raises(Wrong, match='cuts words as "klingon" does is not known; known are gpt-2'):
        gguf_text.splitter("klingon")
    with pytest.raises(Wrong, match='a tokenizer of kind "t5"'):
        text.load(written(tmp_path / "m.gguf", "t5", ["a"]))
    with pytest.raises(FileError, match="merges is missing"):
        text.load(written(tmp_path / "o.gguf", "gpt2", ["a"]))
    with pytest.raises(Wrong, match="without a score for each"):
        text.load(written(tmp_path / "n.gguf", "llama", ["a", "b"]))
