"""`trine estimate --profile`: what an estimate timed, as a profile: a model's program without weights, instruction by instruction.

An estimate of many equal layers times a few of them and counts on; the profile is of the largest program that was timed, with
its collectives, and its name says which.
"""

from trine.command import note
from trine.estimate import program
from trine.profile import assemble


def written(path, ask, command):
    """What `ask()` gives; the profile beside it."""
    heard = []
    program.HEARD.append(lambda *what: heard.append(what))
    try:
        answers = ask()
    finally:
        program.HEARD.pop()
    if not heard:
        note("no program was timed: there is no profile")
        return answers
    instance = heard[0][1]
    assembly = assemble.Assembly(path, instance)
    for what, programs, sharing, compiled in _largest([h for h in heard if h[1] == instance]):
        uses = [u for u in compiled.collectives if u["ranks"] > 1]
        times = [assemble.collective_ns(instance, u) for u in uses]
        for number, one in enumerate(programs):
            with_uses = list(zip(uses, times)) if number == len(programs) - 1 else []
            row = assembly.timed_program(what, one, with_uses, sharing)
            assembly.plan.append(("program", row, 0, 0, 0))
    assembly.lay(0, assembly.plan)
    assembly.finish(command=command, source="estimate")
    note(f"profile → {path} (trine profile view {path})")
    return answers


def _largest(heard):
    """Of each kind of program (prefill, decode) the one with most instructions."""
    best = {}
    for what, _, programs, sharing, compiled, _ in heard:
        size = sum(len(p.tensors) for p in programs)
        if what not in best or size > best[what][0]:
            best[what] = (size, (what, programs, sharing, compiled))
    return [found for _, found in best.values()]
