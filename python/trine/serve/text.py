"""Text into tokens and back, by the `tokenizers` library: read from a tokenizer.json, or built from a GGUF's vocabulary.

Every token also has its bytes, so that a stream never shows half a character and grammars see what the model writes.
"""

import codecs
import json
import re
from pathlib import Path

from trine.models.tokenizer import letters_of_bytes
from trine.serve import gguf_text

MARK = "\ufdd0"  # a noncharacter: breaks up special tokens that a user wrote, so that they stay text
BYTE = re.compile(r"<0x([0-9A-Fa-f]{2})>")


def of_gguf(path):
    return Text(*gguf_text.read(path))


def of_folder(folder):
    from tokenizers import Tokenizer

    folder = Path(folder)
    made = Tokenizer.from_file(str(folder / "tokenizer.json"))

    def read(name):
        return json.loads((folder / name).read_text()) if (folder / name).exists() else {}

    config, model, generation = read("tokenizer_config.json"), read("config.json"), read("generation_config.json")

    def number(name):
        token = config.get(name)
        token = token.get("content") if isinstance(token, dict) else token
        return made.token_to_id(token) if token else None

    template = config.get("chat_template")
    if isinstance(template, list):  # several by name
        template = next((t["template"] for t in template if t.get("name") == "default"), None)
    if template is None and (folder / "chat_template.jinja").exists():
        template = (folder / "chat_template.jinja").read_text()
    ends = [e for given in (generation.get("eos_token_id"), model.get("eos_token_id")) for e in (given if isinstance(given, list) else [given])]
    eos = number("eos_token")
    eos = eos if eos is not None else next((e for e in ends if isinstance(e, int)), None)
    return Text(made, {"bos": number("bos_token"), "eos": eos, "ends": [e for e in ends if isinstance(e, int)],
                       "add_bos": bool(config.get("add_bos_token", False)), "template": template,
                       "size": model.get("vocab_size") or made.get_vocab_size()})  # fmt: skip


def of_bytes():
    """One byte a token, and ChatML's marks: for a model whose tokenizer is not at hand."""
    from tokenizers import AddedToken, Tokenizer, decoders, models

    letters = letters_of_bytes()
    made = Tokenizer(models.BPE(vocab={letters[byte]: byte for byte in range(256)}, merges=[]))
    made.pre_tokenizer, made.decoder = gguf_text.splitter(None), decoders.ByteLevel()
    marks = ["<|im_start|>", "<|im_end|>"]
    made.add_special_tokens([AddedToken(mark, special=True, normalized=False) for mark in marks])
    return Text(made, {"bos": None, "eos": made.token_to_id(marks[1]), "add_bos": False, "template": None, "size": made.get_vocab_size()})


def load(path):
    """Of a GGUF file, or of a folder with a tokenizer.json."""
    return of_folder(path) if Path(path).is_dir() else of_gguf(path)


class Text:
    """`bos`, `eos`, `ends` (all tokens that end an answer), `template`, `size` (rows of the model's vocabulary), `pieces`."""

    def __init__(self, tokenizer, facts):
        self.tokenizer = tokenizer
        self.bos, self.eos, self.template = facts["bos"], facts["eos"], facts["template"]
        self.add_bos, self.size = facts["add_bos"], facts["size"]
        self.special = {number: token.content for number, token in tokenizer.get_added_tokens_decoder().items() if token.special}
        self.ends = sorted({e for e in [self.eos, *facts.get("ends", ()), *self._turn_ends()] if e is not None})
        self._pieces = None
        names = sorted(self.special.values(), key=len, reverse=True)
        self._special = re.compile("|".join(map(re.escape, names))) if names else None

    def _turn_ends(self):
        known = {"<|im_end|>", "<|eot_id|>", "<|endoftext|>", "<end_of_turn>", "<|end|>", "</s>"}
        return [number for number, token in self.special.items() if token in known]

    @property
    def pieces(self):
        """The bytes of each token; a special token has none."""
        if self._pieces is None:
            vocabulary = self.tokenizer.get_vocab(with_added_tokens=True)
            decoder = json.loads(self.tokenizer.to_str()).get("decoder") if self.tokenizer.decoder else None
            byte_level = "ByteLevel" in json.dumps(decoder)
            letters = {letter: byte for byte, letter in letters_of_bytes().items()}
            pieces = [b""] * max(self.size, max(vocabulary.values()) + 1)
            added = self.tokenizer.get_added_tokens_decoder()
            for token, number in vocabulary.items():
                if number in self.special:
                    continue
                if number in added:
                    pieces[number] = token.encode()
                elif byte_level:
                    pieces[number] = b"".join(bytes([letters[c]]) if c in letters else c.encode() for c in token)
                elif match := BYTE.fullmatch(token):
                    pieces[number] = bytes([int(match[1], 16)])
                else:
                    pieces[number] = token.replace("▁", " ").encode()
            self._pieces = pieces
        return self._pieces

    @property
    def longest(self):
        """Characters of the longest token: a text longer than this many times the context cannot fit."""
        return max(16, max((len(p) for p in self.pieces), default=16), max(map(len, self.special.values()), default=0))

    def encode(self, text, add_special=True):
        """Tokens. Special tokens are found, but not inside what `guarded` broke up."""
        if MARK not in text:
            found = self.tokenizer.encode(text, add_special_tokens=False).ids
        else:
            found, end = [], 0
            for match in self._special.finditer(text) if self._special else ():
                found += self._plain(text[end : match.start()])
                found.append(self.tokenizer.token_to_id(match.group()))
                end = match.end()
            found += self._plain(text[end:])
        if add_special and self.add_bos and self.bos is not None and found[:1] != [self.bos]:
            found = [self.bos, *found]
        return found

    def _plain(self, text):
        if not text:
            return []
        self.tokenizer.encode_special_tokens = True
        try:
            return self.tokenizer.encode(text.replace(MARK, ""), add_special_tokens=False).ids
        finally:
            self.tokenizer.encode_special_tokens = False

    def guarded(self, text):
        """A user's text in which no special token can be found."""
        text = text.replace(MARK, "")
        return self._special.sub(lambda m: m.group()[0] + MARK + m.group()[1:], text) if self._special else text

    def decode(self, tokens, special=False):
        return self.bytes_of(tokens, special).decode("utf-8", "replace")

    def bytes_of(self, tokens, special=False):
        return b"".join(self.special[t].encode() if t in self.special and special else self.pieces[t] for t in tokens)

    def name(self, token):
        """What stands for one token in a list of log probabilities."""
        return self.special[token] if token in self.special else self.pieces[token].decode("utf-8", "replace")


class Stream:
    """Text as tokens come, whole characters only, held back while a stop string may still be completed."""

    def __init__(self, text, stops=(), special=False):
        self.text, self.stops, self.special = text, [s for s in stops if s], special
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._held, self.stopped, self.first = "", None, True

    def push(self, token):
        """The text that may be shown now. `stopped` is the stop string once one is found."""
        if self.stopped is not None:
            return ""
        if token in self.text.special:
            raw = self.text.special[token].encode() if self.special else b""
        else:
            raw = self.text.pieces[token]
        return self._show(self._held + self._decoder.decode(raw), False)

    def end(self):
        return "" if self.stopped is not None else self._show(self._held + self._decoder.decode(b"", True), True)

    def _show(self, text, last):
        self._held = ""
        found = [(at, s) for s in self.stops if (at := text.find(s)) >= 0]
        if found:
            at, self.stopped = min(found)
            return text[:at]
        if last:
            return text
        keep = max((n for s in self.stops for n in range(1, len(s)) if text.endswith(s[:n])), default=0)
        if keep:
            self._held, text = text[-keep:], text[:-keep]
        return text
