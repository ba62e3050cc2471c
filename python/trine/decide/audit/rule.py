"""What a rule is: one row that says how a dependence on CUDA is recognised, what it is for, what stands in for it on Trainium and
how long the change takes.

The rows are in rules/*.py. Hours are ranges of an engineer who knows PyTorch and is new to Trainium; `basis` says where they come
from. A rule's hours count once for each `per`: a place, a file, or the whole project.
"""

import dataclasses

# What is to be done, from the least to the most.
RUNS, LINE, HOURS, KERNEL, BLOCKS = "runs", "line", "hours", "kernel", "blocks"
EFFORTS = {
    RUNS: "nothing to do",
    LINE: "one line",
    HOURS: "hours",
    KERNEL: "kernels",
    BLOCKS: "blocks",
}
SEVERITY = {RUNS: "note", LINE: "warning", HOURS: "warning", KERNEL: "error", BLOCKS: "error"}


@dataclasses.dataclass(frozen=True)
class Rule:
    kind: str
    what: str
    purpose: str
    instead: str
    effort: str
    hours: tuple = (0, 0)
    per: str = "place"  # or file, project
    basis: str = "nothing to write"

    # how it is recognised; any of them is enough
    names: tuple = ()  # after imports and aliases: "torch.cuda.Stream"; "cupy.*" is cupy and all below it
    methods: tuple = ()  # of values: "cuda()" is called, "is_cuda" is read
    modules: tuple = ()  # patterns of a module's own name, for those that are not in any list
    calls: tuple = ()  # (pattern of a value's name, pattern of its function's)
    strings: tuple = ()  # patterns that a whole string in code has
    keywords: tuple = ()  # (argument, pattern of its value as written, pattern of the function called)
    packages: tuple = ()  # in requirements, as PyPI or conda names them; "nvidia-*"
    lines: tuple = ()  # (kinds of files, pattern) for what is not Python

    fix: str = ""  # the patch that fix.py makes

    @property
    def severity(self):
        return SEVERITY[self.effort]


@dataclasses.dataclass
class Finding:
    """One place. `effort_h` is what it adds to the project's hours, so that they sum up."""

    file: str
    line: int
    column: int
    rule: Rule
    text: str
    guarded: bool = False  # under a check that CUDA, or the package, is there at all
    part: str = "code"  # or tests, vendored
    effort_h: tuple = (0, 0)
    edits: tuple = ()  # ((line, byte), (line, byte), new text)

    @property
    def kind(self):
        return self.rule.kind

    @property
    def severity(self):
        return "note" if self.guarded and self.rule.severity == "warning" else self.rule.severity

    def as_dict(self):
        return {
            "file": self.file, "line": self.line, "column": self.column, "kind": self.kind, "what": self.rule.what,
            "for": self.rule.purpose, "instead": self.rule.instead, "effort": self.rule.effort, "effort_h": list(self.effort_h),
            "basis": self.rule.basis, "severity": self.severity, "fix": bool(self.edits), "guarded": self.guarded,
            "part": self.part, "text": self.text,
        }  # fmt: skip
