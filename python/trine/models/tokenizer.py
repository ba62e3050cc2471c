"""Byte-pair encoding: text into tokens and back, by a vocabulary and its merges.

Text is cut into words by a pattern first; merges never cross them. Special tokens are found before anything else.
"""

import functools
import re
import unicodedata

CONTROL, CUSTOM = 3, 4  # kinds of token that stand for themselves

# Patterns are written for ASCII and run over a shadow of the text in which other characters stand for their class.
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?[A-Za-z]+| ?[0-9]+| ?[^\sA-Za-z0-9]+|\s+(?!\S)|\s+"
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\nA-Za-z0-9]?[A-Za-z]+|[0-9]{1,%d}| ?[^\sA-Za-z0-9]+[\r\n]*"
          r"|\s*[\r\n]+|\s+(?!\S)|\s+")  # fmt: skip
PATTERNS = {"gpt-2": [GPT2], "smollm": ["[0-9]", GPT2], "starcoder": ["[0-9]", GPT2], "refact": ["[0-9]", GPT2],
            "llama-bpe": [LLAMA3 % 3], "qwen2": [LLAMA3 % 1]}  # fmt: skip


def letters_of_bytes():
    """The printable character that stands for each byte in a vocabulary."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in plain]
    return {b: chr(b) for b in plain} | {b: chr(256 + i) for i, b in enumerate(others)}


def shadow(text):
    def stand_in(char):
        if char < "\x80":
            return char
        kind = unicodedata.category(char)
        return "a" if kind[0] == "L" else "0" if kind[0] == "N" else "\t" if char.isspace() else "!"

    return "".join(map(stand_in, text))


def words(text, patterns):
    """The text in pieces: each pattern's matches, and what lies between them, cut further by the next."""
    pieces = [text]
    for pattern in patterns:
        cut = []
        for piece in pieces:
            end = 0
            for match in re.finditer(pattern, shadow(piece)):
                cut += [piece[end : match.start()], match.group() and piece[match.start() : match.end()]]
                end = match.end()
            cut.append(piece[end:])
        pieces = [piece for piece in cut if piece]
    return pieces


class Tokenizer:
    def __init__(self, tokens, merges, kinds=(), pattern="gpt-2", end=None):
        if pattern not in PATTERNS:
            raise ValueError(f'a tokenizer that cuts words as "{pattern}" does; known are {", ".join(PATTERNS)}')
        self.tokens, self.end, self.patterns = tokens, end, PATTERNS[pattern]
        self.numbers = {token: i for i, token in enumerate(tokens)}
        self.ranks = {tuple(merge.split(" ", 1)): i for i, merge in enumerate(merges)}
        self.special = {t for t, kind in zip(tokens, kinds, strict=False) if kind in (CONTROL, CUSTOM)}
        self.letters = letters_of_bytes()
        self.bytes = {letter: byte for byte, letter in self.letters.items()}
        longest_first = sorted(self.special, key=len, reverse=True)
        self._split = re.compile("(" + "|".join(map(re.escape, longest_first)) + ")") if longest_first else None
        self._merged = functools.lru_cache(1 << 14)(self._merge)

    def _merge(self, word):
        parts = list(word)
        while len(parts) > 1:
            rank, at = min((self.ranks.get(pair, len(self.ranks)), i) for i, pair in enumerate(zip(parts, parts[1:], strict=False)))
            if rank == len(self.ranks):
                break
            parts[at : at + 2] = [parts[at] + parts[at + 1]]
        return parts

    def encode(self, text):
        """Token numbers; special tokens written in the text are themselves."""
        found = []
        for piece in self._split.split(text) if self._split else [text]:
            if piece in self.special:
                found.append(self.numbers[piece])
                continue
            for word in words(piece, self.patterns):
                spelled = "".join(self.letters[b] for b in word.encode())
                for part in self._merged(spelled):
                    found += [self.numbers[part]] if part in self.numbers else [self.numbers[c] for c in part if c in self.numbers]
        return found

    def decode(self, numbers, special=False):
        """Text; special tokens are left out unless asked for."""
        out = b""
        for number in numbers:
            token = self.tokens[int(number)]
            if token in self.special:
                out += token.encode() if special else b""
            else:
                out += b"".join(bytes([self.bytes[c]]) if c in self.bytes else c.encode() for c in token)
        return out.decode("utf-8", "replace")
