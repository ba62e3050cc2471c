"""How far two tensors are apart, as numbers that people of this field compare by.

`reference` is the wider one. Nothing here decides; `logits_match` has the tolerance map of NxDI's logit matching.
"""

import numpy as np

from trine.debug.graph import is_float, step_of, wide

# k -> (absolute, relative) tolerance of the k largest logits; None: of all. Neuron SDK, nxd-inference, logit matching.
TOLERANCE_MAP = {5: (1e-5, 0.01), 50: (1e-5, 0.02), 1000: (1e-5, 0.03), None: (1e-5, 0.05)}
DIVERGENCE = 0.001  # of the two logits where the most likely token differs


def relative(found, reference):
    """Largest difference over the largest reference; infinite where one of them alone is no number."""
    if found.size == 0:
        return 0.0
    a, b = wide(found).astype(np.float64), wide(reference).astype(np.float64)
    fine = np.isfinite(b)
    if not np.array_equal(fine, np.isfinite(a)):
        return float("inf")
    most = np.abs(b[fine]).max(initial=0.0)
    apart = np.abs(a[fine] - b[fine]).max(initial=0.0)
    return float(apart / most) if most else (0.0 if apart == 0 else float("inf"))


def ulp(found, reference, dtype=None):
    """Largest difference in steps of `found`'s format, each at its element's size, and at the tensor's root mean square
    where an element is smaller: what cancelled is not blamed."""
    dtype = np.dtype(dtype or found.dtype)
    a, b = wide(found).astype(np.float64), wide(reference).astype(np.float64)
    fine = np.isfinite(a) & np.isfinite(b)
    a, b = a[fine], b[fine]
    if not is_float(dtype) or not a.size:
        return float(np.abs(a - b).max(initial=0.0))
    size = np.maximum(np.abs(b), max(float(np.sqrt((b * b).mean())), 1e-37))
    return float((np.abs(a - b) / (2.0 ** np.floor(np.log2(size)) * 2 * step_of(dtype))).max())


def cosine(found, reference):
    a, b = wide(found).astype(np.float64).ravel(), wide(reference).astype(np.float64).ravel()
    fine = np.isfinite(a) & np.isfinite(b)
    norm = np.linalg.norm(a[fine]) * np.linalg.norm(b[fine])
    if not norm:
        return 1.0 if np.array_equal(a[fine], b[fine]) else 0.0
    return float(min(1.0, a[fine] @ b[fine] / norm))


def measured(found, reference, dtype=None):
    """Everything of one pair."""
    found, reference = np.asarray(found), np.asarray(reference)
    a, b = wide(found).astype(np.float64), wide(reference).astype(np.float64)
    fine = np.isfinite(a) & np.isfinite(b)
    norm = np.linalg.norm(b[fine])
    return {
        "max_relative": relative(found, reference), "ulp": ulp(found, reference, dtype), "cosine": cosine(found, reference),
        "l2_relative": float(np.linalg.norm((a - b)[fine]) / norm) if norm else 0.0,
        "max_absolute": float(np.abs((a - b)[fine]).max(initial=0.0)),
        "not_finite": int((~np.isfinite(a)).sum()), "not_finite_reference": int((~np.isfinite(b)).sum()),
    }  # fmt: skip


def top_k(found, reference, k):
    """Share of the k most likely of each row that are the same, and whether the first is, as a share of the rows."""
    a, b = (np.nan_to_num(wide(x).astype(np.float64)).reshape(-1, x.shape[-1]) for x in (found, reference))
    k = min(k, a.shape[-1])
    first = np.argsort(-a, -1, kind="stable")[:, :k], np.argsort(-b, -1, kind="stable")[:, :k]
    same = [len(set(x) & set(y)) / k for x, y in zip(*first)]
    return float(np.mean(same)), float((first[0][:, 0] == first[1][:, 0]).mean())


def logits_match(found, reference, tolerances=None, divergence=DIVERGENCE):
    """As NxDI matches logits: for each k the largest relative error of the reference's k largest; a token that differs
    must be one whose logits lie closer than `divergence`."""
    tolerances = tolerances or TOLERANCE_MAP
    a, b = (wide(np.asarray(x)).astype(np.float64).reshape(-1, x.shape[-1]) for x in (found, reference))
    order = np.argsort(-b, -1, kind="stable")
    rows, passed = [], bool(np.isfinite(a).all())
    for k, (absolute, rel) in tolerances.items():
        if k is not None and k > b.shape[-1]:
            continue
        best = order[:, : k or b.shape[-1]]
        x, y = np.take_along_axis(a, best, -1), np.take_along_axis(b, best, -1)
        error = float((np.abs(x - y) / np.maximum(np.abs(b).max(-1, keepdims=True), 1e-30)).max()) if np.isfinite(x).all() else float("inf")
        holds = bool((np.abs(x - y) <= absolute + rel * np.abs(b).max(-1, keepdims=True)).all())
        rows.append({"k": k or "all", "error": error, "tolerance": rel, "passed": holds})
        passed &= holds
    token, wanted = a.argmax(-1), b.argmax(-1)
    gap = np.take_along_axis(b, wanted[:, None], -1)[:, 0] - np.take_along_axis(b, token[:, None], -1)[:, 0]
    differ = np.flatnonzero(token != wanted)
    close = bool((gap[differ] <= divergence * np.maximum(np.abs(b).max(-1)[differ], 1.0)).all()) if len(differ) else True
    return {"passed": bool(passed and close), "by_k": rows, "tokens_differ": int(len(differ)), "rows": len(a),
            "largest_gap": float(gap[differ].max()) if len(differ) else 0.0}  # fmt: skip
