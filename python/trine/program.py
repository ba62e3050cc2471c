"""Programs: read assembly text or a program file, run it bit-exactly, look at what the run noticed.

    from trine.program import Program
    result = Program.load("matmul.tasm").run({"a": a, "b": b}, chip="trn2")
    result.outputs["out"], result.findings
"""

from trine._core import Finding, Program, RunResult, assemble

__all__ = ["Finding", "Program", "RunResult", "assemble"]
