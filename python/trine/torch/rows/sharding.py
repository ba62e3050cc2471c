"""A sharding that torch_xla's SPMD asked of a value in the middle of a step; see trine.torch.old.spmd."""

from trine.torch.rules import row


@row("_trine_spmd.constrain")
def constrain(b, x, mesh, sharding):
    if not b.mesh or b.mesh[0] != mesh:  # on one device, or on another mesh's: it is a hint
        return x
    return b.op("sdy.sharding_constraint", [x], x.dims, x.dtype, f"sharding = #sdy.sharding<@mesh, {sharding}>")
