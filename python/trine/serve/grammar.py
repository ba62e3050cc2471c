"""What an answer must look like: a JSON schema, a regular expression, a grammar or a choice, as a mask over tokens.

llguidance does the parsing; its limits bound what a hostile schema can cost. A grammar is compiled once and copied for
every choice of a request.
"""

import functools
import json
import threading

from trine.serve.errors import Wrong

SIZE_LIMIT = 256 << 10  # characters of a schema or grammar
DEPTH_LIMIT = 64
SPACING = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": ", "lenient": False}


def limits():
    from llguidance import LLParserLimits

    return LLParserLimits(initial_lexer_fuel=1_000_000, step_lexer_fuel=500_000, step_max_items=100_000,
                          max_lexer_states=50_000, max_grammar_size=200_000, verbose_errors=False)  # fmt: skip


def depth_of(value):
    depth, layer = 0, [value]
    while layer and depth <= DEPTH_LIMIT:
        depth += 1
        layer = [inner for one in layer if isinstance(one, (dict, list)) for inner in (one.values() if isinstance(one, dict) else one)]
    return depth


def of_schema(schema, where="response_format"):
    if isinstance(schema, bool):
        schema = {} if schema else {"not": {}}
    if not isinstance(schema, dict):
        raise Wrong(f"{where}: a schema is an object; found {type(schema).__name__}", 400, where, "invalid_json_schema")
    if depth_of(schema) > DEPTH_LIMIT:
        raise Wrong(f"{where}: the schema is nested deeper than {DEPTH_LIMIT}", 400, where, "invalid_json_schema")
    text = json.dumps(schema)
    if len(text) > SIZE_LIMIT:
        raise Wrong(f"{where}: the schema has {len(text)} characters; at most {SIZE_LIMIT} are read", 400, where, "invalid_json_schema")
    from llguidance import LLMatcher

    # Fixed spaces: a model that may write spaces for ever never ends its document.
    return LLMatcher.grammar_from_json_schema(text, overrides=SPACING)


def of_choice(choices, where="structured_outputs"):
    if not isinstance(choices, list) or not choices or not all(isinstance(c, str) for c in choices):
        raise Wrong(f"{where}: choice is a list of strings, at least one", 400, where)
    from llguidance import LLMatcher

    return LLMatcher.grammar_from_lark("start: " + " | ".join(json.dumps(c) for c in choices))


def of_regex(pattern, where="structured_outputs"):
    checked_text(pattern, where)
    from llguidance import LLMatcher

    return LLMatcher.grammar_from_regex(pattern)


def of_ebnf(source, where="structured_outputs"):
    """Lark's or GBNF's spelling (`root ::= …`)."""
    checked_text(source, where)
    from llguidance import LLMatcher
    from llguidance.gbnf_to_lark import any_to_lark

    try:
        return LLMatcher.grammar_from_lark(any_to_lark(source))
    except Exception as e:  # the converter raises whatever it stumbles over
        raise Wrong(f"{where}: the grammar cannot be read: {e}", 400, where, "invalid_grammar") from None


def checked_text(text, where):
    if not isinstance(text, str) or not text:
        raise Wrong(f"{where}: expected a text", 400, where)
    if len(text) > SIZE_LIMIT:
        raise Wrong(f"{where}: {len(text)} characters; at most {SIZE_LIMIT} are read", 400, where)


class Grammars:
    """Compiles for one vocabulary; keeps the last ones compiled."""

    def __init__(self, text):
        self.text = text
        self._lock = threading.Lock()
        self._vocabulary = None
        self._made = functools.lru_cache(64)(self._make)

    def vocabulary(self):
        with self._lock:
            if self._vocabulary is None:
                from llguidance import LLTokenizer, TokenizerWrapper

                self._vocabulary = LLTokenizer(TokenizerWrapper(Words(self.text)), eos_token=self.text.ends or None)
            return self._vocabulary

    def _make(self, grammar):
        from llguidance import LLMatcher

        matcher = LLMatcher(self.vocabulary(), grammar, log_level=0, limits=limits())
        if matcher.is_error():
            raise Wrong(f"the schema or grammar cannot be used: {first_line(matcher.get_error())}", 400, "response_format", "invalid_json_schema")
        return matcher

    def matcher(self, grammar):
        """A fresh matcher; slow the first time (run it off the event loop)."""
        return Matcher(self._made(grammar).deep_copy(), self.text)


def first_line(text):
    return text.strip().split("\n")[0][:300]


class Words:
    """What llguidance asks of a tokenizer."""

    def __init__(self, text):
        self.eos_token_id = text.eos if text.eos is not None else text.ends[0]
        self.bos_token_id = text.bos
        self.tokens = [b"\xff" + text.special[i].encode() if i in text.special else piece for i, piece in enumerate(text.pieces)]
        self.special_token_ids = sorted(text.special)
        self._text = text

    def __call__(self, raw):
        return self._text.encode(raw.decode("utf-8", "replace") if isinstance(raw, bytes) else raw, add_special=False)


class Matcher:
    """The state of one choice: `mask(tokens)` gives the bits for the token after these."""

    def __init__(self, inner, text):
        self.inner, self.text, self.eaten = inner, text, 0

    def mask(self, tokens):
        """Packed bits, or the reason why no token can follow."""
        new = tokens[self.eaten :]
        if new and not self.inner.consume_tokens(list(new)):
            raise Wrong(f"the grammar gave up: {first_line(self.inner.get_error())}", 400, "response_format")
        self.eaten = len(tokens)
        bits = self.inner.compute_bitmask()
        if self.inner.is_error():
            raise Wrong(f"the grammar gave up: {first_line(self.inner.get_error())}", 400, "response_format")
        return bits
