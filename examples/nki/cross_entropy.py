"""Cross entropy of logits[n, vocabulary] against one label per row, without ever holding the probabilities."""

import trine.nki as nki
import trine.nki.isa as nisa
import trine.nki.language as nl


@nki.jit
def cross_entropy(logits, labels, chunk=2048):
    """loss[n, 1] = log Σ exp(logits) - logits[label]; labels[n, 1] are float32 whole numbers."""
    n, vocabulary = logits.shape
    out = nl.ndarray((n, 1), dtype=nl.float32, buffer=nl.shared_hbm)
    chunks = [(c, min(c + chunk, vocabulary)) for c in range(0, vocabulary, chunk)]
    for begin in range(0, n, nl.tile_size.pmax):
        r = slice(begin, min(begin + nl.tile_size.pmax, n))
        p = r.stop - r.start
        label = nl.load(labels[r, :])
        tiles = [nl.load(logits[r, a:b]) for a, b in chunks]
        tops = nl.ndarray((p, len(chunks)), dtype=nl.float32)
        for i, tile in enumerate(tiles):
            nisa.tensor_reduce(dst=tops[:, i : i + 1], op=nl.max, data=tile, axis=1)
        top = nl.ndarray((p, 1), dtype=nl.float32)
        nisa.tensor_reduce(dst=top, op=nl.max, data=tops, axis=1, negate=True)
        sums, picked = nl.ndarray((p, len(chunks)), dtype=nl.float32), nl.ndarray((p, len(chunks)), dtype=nl.float32)
        for i, (tile, (a, b)) in enumerate(zip(tiles, chunks)):
            raised = nl.ndarray((p, b - a), dtype=nl.float32)
            nisa.activation_reduce(dst=raised, op=nl.exp, data=tile, reduce_op=nl.add, reduce_res=sums[:, i : i + 1], bias=top)
            place = nl.ndarray((p, b - a), dtype=nl.float32)
            nisa.iota(dst=place, pattern=[[1, b - a]], offset=a)
            hit = nl.ndarray((p, b - a), dtype=nl.float32)
            nisa.scalar_tensor_tensor(dst=hit, data=place, op0=nl.equal, operand0=label, op1=nl.multiply, operand1=tile)
            nisa.tensor_reduce(dst=picked[:, i : i + 1], op=nl.add, data=hit, axis=1)
        total, own = nl.ndarray((p, 1), dtype=nl.float32), nl.ndarray((p, 1), dtype=nl.float32)
        nisa.tensor_reduce(dst=total, op=nl.add, data=sums, axis=1)
        nisa.tensor_reduce(dst=own, op=nl.add, data=picked, axis=1)
        loss = nl.ndarray((p, 1), dtype=nl.float32)
        nisa.activation(dst=loss, op=nl.log, data=total)
        # log Σ exp(x - top) + top - own; `top` holds its negative
        nisa.tensor_scalar(dst=loss, data=loss, op0=nl.subtract, operand0=top, op1=nl.subtract, operand1=own)
        nl.store(out[r, :], loss)
    return out
