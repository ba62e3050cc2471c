"""neuronxcc.nki._pre_prod_kernels.collectives: which rank sends to which around the ring of its group."""

from dataclasses import dataclass


@dataclass(frozen=True)
class CollectivesConfig:
    replica_groups: list

    @property
    def rank_src_tgt_pairs(self):
        """{rank: the pairs of its ring}"""
        rings = [(group, [(a, b) for a, b in zip(group, [*group[1:], group[0]])]) for group in map(list, self.replica_groups)]
        return {rank: pairs for group, pairs in rings for rank in group}
