"""Refusals of the C++ side in NKI's terms: which rule a message is about, and dtypes by their NKI names.

`_core.Trace` refuses with JSON: a general code, the instruction or pass, what was found and what to do. The verifier and
the rows write for assembly programmers; here their words become an NkiError's.
"""

import json
import re

from trine.nki import dtypes
from trine.nki.errors import NkiError

# First match decides. Matched against "rule: found; expected; try".
_CODES = [
    (r"capacity|needs [\d,]+ bytes .* in use", "NKI030"),
    (r"^address|lies at byte|overlap", "NKI023"),
    (r"needs `|which \S+ lacks|is not on \S+|not on trn|\S+ cannot do|has it not|serves its queues in turn|on \S+ it is one value"
     r"|is a constant, and on", "NKI004"),
    (r"PSUM bank", "NKI024"),
    (r"both lie in PSUM|^operand memory|is in PSUM|engine reads SBUF|engine writes PSUM|is on core", "NKI016"),
    (r"starts at partition", "NKI020"),
    (r"^access pattern|has stride|free dim \d", "NKI021"),
    (r"covers elements|covers partitions", "NKI010"),
    (r"^loops|^register|is r\d", "NKI028"),
    (r"^after|semaphores", "NKI027"),
    (r"^engine", "NKI022"),
    (r"bitwise operators take", "NKI017"),
    (r"operator|cmp_op|is no comparison|\bop\d? (is|=)", "NKI018"),
    (r"at most [\d,]+ fit|takes at most|elements per partition, at most|partitions; at most|at most \d+ partitions", "NKI019"),
    (r"(is|are) (f32|tf32|bf16|f16|f8\w+|f4\w+|[su]\d+|bool)\b|formats?\b|casts? nothing|has to be f32|same dtype", "NKI017"),
    (r"elements|partitions|columns| rows|by \d+|counterpart|entries|shape", "NKI015"),
    (r"dge|hwdge|swdge|queue|axes|index tile|DMA", "NKI025"),
    (r"^operand|^attribute|is missing|has no ", "NKI003"),
]  # fmt: skip
_COMPILED = [(re.compile(pattern), code) for pattern, code in _CODES]
_BY_CLASS = {"out_of_memory": "NKI030", "unsupported": "NKI004", "out_of_range": "NKI010"}
_IMPERATIVE = """allocate call cast change check choose copy cut drop fill give keep leave let load make move name negate
  put replace set shorten split start store take transpose use view write""".split()
_DTYPE = re.compile(r"\b(" + "|".join(sorted(dtypes.by_trine, key=len, reverse=True)) + r")\b")


def nki_names(text: str) -> str:
    """Trine's dtype names by NKI's, memories in capitals."""
    text = _DTYPE.sub(lambda m: str(dtypes.by_trine[m[1]]), text)
    return re.sub(r"\b(sbuf|psum|hbm)\b(?![_\d\[=`])", lambda m: m[1].upper(), text)


def refusal(exc: Exception, where, files) -> NkiError:
    """The NkiError that an exception of `_core.Trace` stands for; where is the call in hand, files its short names."""
    try:
        fields = json.loads(str(exc))
    except ValueError:
        return NkiError("NKI049", str(exc), file=where[0], line=where[1])
    found, expected, fix = (fields.get(k, "") for k in ("found", "expected", "try"))
    whole = f"{fields.get('rule', '')}: {found}; {expected}; {fix}"
    code = next((code for pattern, code in _COMPILED if pattern.search(whole)), _BY_CLASS.get(fields.get("code"), "NKI049"))
    if fix and not expected:
        expected, fix = _apart(fix)
    file, line = (files.get(fields["file"], fields["file"]), fields["line"]) if fields.get("file") else where
    return NkiError(code, nki_names(found), nki_names(expected), nki_names(fix), file=file, line=line)


def _apart(text):
    """("rule", "what to do") of the one clause a row ends its message with."""
    if text.split(" ", 1)[0] in _IMPERATIVE:
        return "", text
    rule, so, todo = text.partition(", so ")
    return (rule, todo) if so else (text, "")
