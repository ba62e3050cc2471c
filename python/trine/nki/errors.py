"""NkiError: the one exception for everything an NKI kernel does that the machine would refuse.

A code names the rule and never changes its meaning; RULES is the table that docs/nki.md prints.
"""

import linecache

# code -> what it means, in a few words. The text of one error is made where it is raised.
RULES = {
    "NKI001": "no such function in this version of NKI",
    "NKI002": "NKI call outside a kernel",
    "NKI003": "argument is missing, unknown or of the wrong kind",
    "NKI004": "not on this generation of the chip",
    "NKI005": "kernel result must be a tensor in shared_hbm",
    "NKI006": "argument is no array the chip can hold",
    "NKI007": "launch grid does not fit the machine",
    "NKI010": "index out of range",
    "NKI011": "view cannot be expressed as an access pattern",
    "NKI012": "partition dimension has to stay first",
    "NKI013": "a runtime value cannot steer Python",
    "NKI014": "tile too tall",
    "NKI015": "shape and element counts differ",
    "NKI016": "operand in the wrong memory",
    "NKI017": "dtype not allowed here",
    "NKI018": "operator not allowed here",
    "NKI019": "tile too large",
    "NKI020": "start partition not reachable",
    "NKI021": "access pattern too long for the instruction",
    "NKI022": "engine cannot run this instruction",
    "NKI023": "address does not fit or is not aligned",
    "NKI024": "PSUM misused",
    "NKI025": "DMA cannot do this",
    "NKI026": "cores do not agree",
    "NKI027": "scheduling constraint cannot hold",
    "NKI028": "loop or register used wrongly",
    "NKI030": "over capacity",
    "NKI040": "read of memory nobody wrote",
    "NKI041": "address outside its tensor at run time",
    "NKI042": "accumulation on PSUM that no matmul started",
    "NKI043": "not a number",
    "NKI044": "function input outside its table's range",
    "NKI045": "register holds what it must not",
    "NKI046": "data race",
    "NKI047": "deadlock",
    "NKI048": "an assert on a tile does not hold",
    "NKI049": "instruction refused by the machine",
}


class NkiError(Exception):
    """code, rule, file, line, found, expected, fix: the parts of the message, for tools."""

    def __init__(self, code, found="", expected="", fix="", *, file="", line=0, rule=""):
        self.code = code
        self.rule = rule or RULES.get(code, "")
        self.found, self.expected, self.fix = found, expected, fix
        self.file, self.line = file, line
        super().__init__(self._text())

    def _text(self) -> str:
        lines = [f"error {self.code}: {self.rule}"]
        if self.file:
            source = linecache.getline(self.file, self.line).strip()
            name = self.file.rsplit("/", 1)[-1]
            lines.append(f"  --> {name}:{self.line}" + (f"   {source}" if source else ""))
        for label, value in (("found", self.found), ("expected", self.expected), ("try", self.fix)):
            if value:
                lines.append(f"  {label:<9} {value}")
        return "\n".join(lines)


class MissingName(NkiError, AttributeError):
    """A name NKI has not, or we have not; an AttributeError too, so that hasattr works."""
