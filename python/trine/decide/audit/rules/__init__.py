"""All rows, and the tables to look them up by."""

import fnmatch
import re

from trine.decide.audit.rules import frameworks, kernels, launch, libraries, torch

RULES = [*torch.RULES, *kernels.RULES, *libraries.RULES, *frameworks.RULES, *launch.RULES]
BY_KIND = {rule.kind: rule for rule in RULES}


class Tables:
    """What rules look for, by how it is found."""

    def __init__(self, rules):
        self.names = {}  # whole name -> rule; "cupy.*" under "cupy" in `below`
        self.below = {}
        self.methods, self.strings, self.keywords, self.packages, self.lines = {}, [], {}, [], []
        self.modules, self.calls = [], []
        for rule in rules:
            for name in rule.names:
                (self.below if name.endswith(".*") else self.names)[name.removesuffix(".*")] = rule
            for name in rule.methods:
                self.methods[name.removesuffix("()")] = (rule, name.endswith("()"))
            self.strings += [(re.compile(p), rule) for p in rule.strings]
            for argument, value, of in rule.keywords:
                self.keywords.setdefault(argument, []).append((re.compile(value), re.compile(of), rule))
            self.packages += [(re.compile(fnmatch.translate(p)), rule) for p in rule.packages]
            self.modules += [(re.compile(p), rule) for p in rule.modules]
            if rule.calls:
                self.calls.append((*map(re.compile, rule.calls), rule))
            self.lines += [(kinds.split(), re.compile(p), rule) for kinds, p in rule.lines]

    def by_name(self, name):
        """The rule of a dotted name: its own, else that of the nearest name above it."""
        if name in self.names:
            return self.names[name]
        top = name.partition(".")[0]
        while name:
            if name in self.below:
                return self.below[name]
            name = name.rpartition(".")[0]
        return next((rule for pattern, rule in self.modules if pattern.fullmatch(top)), None)

    def by_call(self, of, name):
        """The rule of `of.name(…)` where `of` is a value of which nothing is known but its name."""
        return next((rule for values, names, rule in self.calls if names.fullmatch(name) and values.fullmatch(of)), None)

    def by_string(self, text):
        return next((rule for pattern, rule in self.strings if pattern.fullmatch(text)), None)

    def by_package(self, name):
        name = re.sub(r"[-_.]+", "-", name).lower()
        return next((rule for pattern, rule in self.packages if pattern.match(name)), None)


TABLES = Tables(RULES)


# In every string that a rule looks for there is one of these.
IN_STRINGS = "cuda gpu nccl nvidia nvcc cudnn cublas tf32 flash_attention 8bit 32bit xla_ device_time device_memory tensorrt xlarge nvte triton".split()


# Packages of which only some parts count: a file is told by the part's name.
MIXED = "torch jax tensorflow transformers diffusers numba nvidia faiss mmcv pytorch3d detectron2 lightning".split()


def _stem(name):
    parts = name.removesuffix(".*").removesuffix("(gpu)").lower().split(".")
    return "cuda" if "cuda" in parts else parts[-1] if parts[0] in MIXED else parts[0]


def _stems():
    """Words of which a file has at least one where any rule can hold; all others need not be parsed."""
    out = set(IN_STRINGS)
    for rule in RULES:
        out |= {_stem(name) for name in rule.names}
        out |= {m.removesuffix("()").lower() for m in rule.methods} | {k[0] for k in rule.keywords}
        out |= {package.replace("*", "").strip("-") for package in rule.packages}
    return sorted(w for w in out if not any(o != w and o in w for o in out))


STEMS = _stems()


def may_hold(text):
    text = text.lower()
    return any(stem in text for stem in STEMS)
