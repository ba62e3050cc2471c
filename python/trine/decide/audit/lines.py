"""Reads what is not Python line by line: CUDA and C++, shell, Docker, CMake, configurations, requirements and lock files.

Comments are taken out first, by the language of the file.
"""

import re

from trine.decide.audit.rule import Finding
from trine.decide.audit.rules import TABLES

LINE_MAX = 4000  # longer ones are data
C_COMMENT = re.compile(r"""//[^\n]*|/\*.*?(?:\*/|\Z)|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])'""", re.S)
REQUIREMENT = re.compile(r"""^\s*(?:-\s+)?["']?(?P<name>[A-Za-z0-9][\w.-]*)\s*(?:\[[^\]]*\])?\s*(?=$|[<>=!~;@#\s"',])""")
LOCKED = re.compile(r"""^\s*name\s*=\s*"(?P<name>[^"]+)"\s*$""")
INSTALL = re.compile(r"""\b(?:pip3?|uv pip|conda|mamba)\s+install\b(?P<rest>.*)""")
PATCHES = {
    "visible": (r"\bCUDA_VISIBLE_DEVICES\b", "NEURON_RT_VISIBLE_CORES"),
    "gpu_resource": (r"\bnvidia\.com/gpu\b", "aws.amazon.com/neuroncore"),
    "cuda_wheel": (r"\+cu\d{2,3}\b|(?<=download\.pytorch\.org/whl/)cu\d{2,3}\b", lambda m: "" if m[0].startswith("+") else "cpu"),
    "string": (r"(?<![\w/-])(?:cuda|nccl)\b(?!:)", "neuron"),
    "attention_string": (r"\bflash_attention_[234]\b", "sdpa"),
    "jax_platform": (r"(?<=[=\"' :])(?:cuda|gpu)\b", "neuron"),
}


def findings(text, file, kind, own=()):
    kinds = {"lock": (), "loose": ()}.get(kind, (kind,))
    kinds = ("config", "toml") if kind == "toml" else kinds
    rules = [(pattern, rule) for of, pattern, rule in TABLES.lines if set(of) & set(kinds)]
    found = {}
    lines = text.split("\n")
    for number, line in enumerate(without_comments(text, kind).split("\n"), 1):
        if not line or len(line) > LINE_MAX or line.isspace():
            continue
        hits = [(rule, m.start(), m.end()) for pattern, rule in rules if (m := pattern.search(line))]
        hits += [(rule, at, end) for rule, at, end in packages(line, kind, text)]
        for rule, at, end in hits:
            if (number, rule.kind) not in found:
                edits = edits_of(rule, line, number, at, end, kind)
                found[number, rule.kind] = Finding(file, number, at + 1, rule, lines[number - 1].strip()[:200], edits=edits)
    return sorted(found.values(), key=lambda f: (f.line, f.column))


def without_comments(text, kind):
    """The text with comments blanked; lines keep their numbers."""
    if kind in ("cuda", "c"):
        return C_COMMENT.sub(lambda m: re.sub(r"[^\n]", " ", m[0]) if m[0].startswith("/") else m[0], text)
    return re.sub(r"(?m)(^|(?<=\s))#(?!SBATCH|PBS|BSUB|!)[^\n]*", "", text)


def packages(line, kind, text):
    """(rule, start, end) of what a line of a requirements, lock, environment or shell file installs."""
    if kind == "lock":
        named = LOCKED.match(line)
        names = [(named["name"], named.start("name"))] if named else []
    elif kind == "requirements":
        named = REQUIREMENT.match(line)
        names = [(named["name"], named.start("name"))] if named else []
        if named is None and (tail := re.search(r"(?:#egg=|/)([A-Za-z][\w.-]*?)(?:\.git\b|$|@)", line)):
            names = [(tail[1], tail.start(1))]
    elif kind in ("toml", "config") and (kind == "toml" or re.search(r"(?m)^\s*(dependencies|install_requires|requires)\b", text)):
        starts = r"""["'](?P<q>[A-Za-z][\w.-]*)\s*(?:\[[^\]]*\])?\s*(?:[<>=!~@;][^"']*)?["']|^\s*-\s+(?P<y>[A-Za-z][\w.-]*)(?=$|[\s<>=!~\[])|^\s+(?P<s>[A-Za-z][\w.-]*)\s*(?:[<>=!~;\[].*)?$|^(?P<t>[A-Za-z][\w.-]*)\s*=\s*["'{\[]"""
        names = [(m[m.lastgroup], m.start(m.lastgroup)) for m in re.finditer(starts, line)]
    elif kind in ("shell", "docker") and (installed := INSTALL.search(line)):
        names = [(m[1], installed.start("rest") + m.start(1)) for m in re.finditer(r"""(?:^|\s)["']?([A-Za-z][\w.-]*)""", installed["rest"])]
    else:
        return []
    return [(rule, at, at + len(name)) for name, at in names if (rule := TABLES.by_package(name)) is not None]


def edits_of(rule, line, number, at, end, kind):
    def edit(a, b, new):
        return (((number, len(line[:a].encode())), (number, len(line[:b].encode())), new),)

    if rule.fix == "requirement" and kind == "requirements":
        extra = re.search(r"\[cuda[\w-]*\]", line)
        return edit(extra.start(), extra.end(), "") if extra else edit(0, 0, "# not needed on Neuron: ")
    if rule.fix not in PATCHES:
        return ()
    pattern, new = PATCHES[rule.fix]
    found = re.compile(pattern).search(line, at)
    if found is None:
        return ()
    return edit(found.start(), found.end(), new(found) if callable(new) else new)
