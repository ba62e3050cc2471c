"""The tokenizer inside a GGUF file as one of the `tokenizers` library: byte-pair encoding ("gpt2") and SentencePiece's ("llama").

How text is cut into words is not in the file, only the name of a way: CUTS has a row for each, as the models' own tokenizer.json have it.
"""

import math

from trine.models.gguf import Gguf
from trine.models.safetensors import FileError
from trine.models.tokenizer import CONTROL, CUSTOM
from trine.serve.errors import Wrong

SHORT = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
CHUNKS = SHORT + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,%d}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
CASES = r"[^\r\n\p{L}\p{N}]?{U}*{L}+{E}|[^\r\n\p{L}\p{N}]?{U}+{L}*{E}|\p{N}{D}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"


def by_case(end, digits):
    return CASES.replace("{U}", UPPER).replace("{L}", LOWER).replace("{E}", end).replace("{D}", digits)


GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
DEEPSEEK3 = [r"\p{N}{1,3}", "[一-龥぀-ゟ゠-ヿ]+", r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"""
             r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"]  # fmt: skip
# What text is cut at, one after the other; what a row finds and what lies between are words.
CUTS = {
    ("gpt-2", "default", "mpt", "olmo", "jais", None): [GPT2],
    ("smollm", "starcoder", "refact", "command-r", "codeshell"): [r"\p{N}", GPT2],
    ("llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "lfm2", "dbrx", "smaug-bpe", "glm4", "chatglm-bpe"): [CHUNKS % 3],
    ("qwen2", "deepseek-r1-qwen", "stablelm2", "hunyuan"): [CHUNKS % 1],
    ("deepseek-v3", "hunyuan-dense"): DEEPSEEK3,
    ("deepseek-llm",): [r"[\r\n]", r"\s?[\p{Lu}\p{Ll}\p{Lt}]+", r"\s?[!-/:-~！-／：-～‘-‟　-。]+", r"\s+$", "[一-龥ࠀ-一가-퟿]+", r"\p{N}+"],
    ("deepseek-coder",): [r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", "[一-龥ࠀ-一가-퟿]+", r"\p{N}"],
    ("falcon",): [r"[\p{P}\$\+<=>\^~\|`]+", GPT2, "[0-9][0-9][0-9]"],
    ("bloom",): [r" ?[^(\s|.,!?…。，、।۔،)]+"],
    ("gpt-4o",): [by_case(SHORT + "?", "{1,3}")],
    ("tekken",): [by_case("", "")],
}  # fmt: skip


def splitter(kind):
    """How a GGUF's `tokenizer.ggml.pre` cuts text into words."""
    from tokenizers import Regex, pre_tokenizers

    rows = next((row for kinds, row in CUTS.items() if kind in kinds), None)
    if rows is None:
        known = ", ".join(str(k) for kinds in CUTS for k in kinds if k)
        raise Wrong(f'a tokenizer that cuts words as "{kind}" does is not known; known are {known}', 400)
    cuts = [pre_tokenizers.Split(Regex(row), "isolated") for row in rows]
    return pre_tokenizers.Sequence([*cuts, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def byte_pairs(file, tokens):
    from tokenizers import Tokenizer, decoders, models

    merges = file.texts("tokenizer.ggml.merges")
    if any(" " not in m for m in merges):
        raise Wrong("a merge that is not two tokens with a space between them")
    made = Tokenizer(models.BPE(vocab={t: i for i, t in enumerate(tokens)}, merges=[tuple(m.split(" ", 1)) for m in merges]))
    made.pre_tokenizer, made.decoder = splitter(file.given("tokenizer.ggml.pre", str)), decoders.ByteLevel()
    return made


def merges_of(tokens, scores):
    """SentencePiece joins the neighbours whose whole has the best score: pairs, best first."""
    number = {t: i for i, t in enumerate(tokens)}
    found = []
    for whole, i in number.items():
        cuts = [(number[whole[:at]], number[whole[at:]], at) for at in range(1, len(whole)) if whole[:at] in number and whole[at:] in number]
        found += [(-scores[i], i, left, right) for left, right, _ in sorted(cuts)]
    return [(tokens[left], tokens[right]) for _, _, left, right in sorted(found)]


def pieces(file, tokens):
    from tokenizers import Tokenizer, decoders, models, normalizers

    scores = file.given("tokenizer.ggml.scores", list, ())
    if len(scores) != len(tokens) or not all(isinstance(s, (int, float)) and math.isfinite(s) for s in scores):
        raise Wrong(f"a SentencePiece tokenizer of {len(tokens)} tokens without a score for each")
    unknown = file.given("tokenizer.ggml.unknown_token_id", int, 0)
    made = Tokenizer(models.BPE(vocab={t: i for i, t in enumerate(tokens)}, merges=merges_of(tokens, scores), byte_fallback=True, fuse_unk=True,
                                unk_token=tokens[unknown] if 0 <= unknown < len(tokens) else None))  # fmt: skip
    first = [normalizers.Prepend("▁")] if file.metadata.get("tokenizer.ggml.add_space_prefix", True) else []
    made.normalizer = normalizers.Sequence([*first, normalizers.Replace(" ", "▁")])
    made.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    return made


KINDS = {"gpt2": byte_pairs, "llama": pieces}


def read(path):
    """(tokenizer, facts of serve.text.Text)"""
    from tokenizers import AddedToken

    file = Gguf(path)
    kind = file.given("tokenizer.ggml.model", str)
    if kind not in KINDS:
        raise Wrong(f'{path}: a tokenizer of kind "{kind}"; byte-pair encoding ("gpt2") and SentencePiece\'s ("llama") are what can be read')
    tokens = file.texts("tokenizer.ggml.tokens")
    try:
        made = KINDS[kind](file, tokens)
    except (Wrong, FileError):
        raise
    except Exception as e:  # the library raises nothing narrower
        raise Wrong(f"{path}: the tokenizer cannot be made: {e}") from None
    kinds = list(zip(tokens, file.given("tokenizer.ggml.token_type", list, ()), strict=False))
    hidden = (CONTROL, CUSTOM) if kind == "gpt2" else (CONTROL,)
    made.add_special_tokens([AddedToken(t, special=True, normalized=False) for t, of in kinds if of in hidden])
    if kind == "llama":  # its makers' own words are text like any other; runs of spaces are joined by their scores
        made.add_tokens([AddedToken(t, normalized=False) for t, of in kinds if of == CUSTOM and "▁" not in t])

    def number(name):
        found = file.given(f"tokenizer.ggml.{name}", int)
        return found if found is not None and 0 <= found < len(tokens) else None

    return made, {
        "bos": number("bos_token_id"), "eos": number("eos_token_id"), "template": file.given("tokenizer.chat_template", str),
        "add_bos": bool(file.metadata.get("tokenizer.ggml.add_bos_token", kind == "llama")),
        "size": len(tokens)}  # fmt: skip
