"""Which layouts are likely to fit a core's memory, before their programs are compiled.

What a program keeps beyond parameters and the optimiser's state is measured on programs of one layer and two, where twice and
four times as many cores share a layer as in the layout that ranks first: smaller ones, of which the first that fits is often
made. Of each token it is a + b / tp: an array is whole on every core or cut by tensor parallelism.
"""

import dataclasses

from trine.estimate import memory, program, training

MEASURED = 2  # numbers of cores that share a layer


@dataclasses.dataclass
class Needs:
    """Bytes a token: {tp: (of one layer, of what is around the layers)}, as measured."""

    found: dict

    def of(self, tp, which):
        if tp in self.found:
            return self.found[tp][which]
        if len(self.found) == 1:
            [only] = self.found.values()
            return only[which]
        (t, x), (u, y) = ((t, found[which]) for t, found in self.found.items())
        cut = (x - y) / (1 / t - 1 / u)
        return x - cut / t + cut / tp

    def needed(self, asked):
        """Bytes of a logical core."""
        model = training.part_of(asked.model, asked.plan)
        layers, seq = model.settings.layers, asked.seq // asked.plan.cp
        own = (self.of(asked.at.tp, 0) * layers + self.of(asked.at.tp, 1)) * asked.each * seq
        held = memory.resident(asked.model, "train", asked.each, asked.seq, asked.at, asked.plan)["used"]
        return held + training.in_flight_bytes(model, asked.at, asked.plan, own, layers, asked.each, seq)


def measured(every):
    """Needs of the layouts in `every`, the best first; None where layers differ or those programs have no room themselves."""
    if not every or not program.equal_layers(every[0].model):
        return None
    smallest = {}
    for asked in sorted(every, key=lambda a: a.each):
        smallest.setdefault(asked.at.tp, asked)
    more = [tp for tp in sorted(smallest) if tp > every[0].at.tp][:MEASURED]
    try:
        return Needs({tp: of_a_token(smallest[tp]) for tp in (more if len(more) == MEASURED else sorted(smallest)[-MEASURED:])})
    except (MemoryError, IndexError) as e:
        if isinstance(e, IndexError) and "NCC_EXTP004" not in str(e):
            raise
        return None


def of_a_token(asked):
    """(bytes of a layer, bytes of what is around them)"""
    seq = asked.seq // asked.plan.cp
    one, two = (
        program.timed_whole(asked.model.with_layers(n), "gradients", asked.each, seq, asked.at, cast=asked.cast, cast_type=asked.cast_type).memory["scratch"]
        for n in (1, 2)
    )
    return (two - one) / asked.each / seq, (2 * one - two) / asked.each / seq
