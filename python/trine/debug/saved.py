"""Tensors in safetensors files: a baseline saved on another machine, and a model held against it, layer by layer.

`save` needs torch and safetensors alone, so that this file can be copied to a GPU machine and run there. Names are those
of the modules; of the zoo's models a layer's number is what is looked for.
"""

import re

LAYER = re.compile(r"(?:^|[./ ])(?:layers?|h|blocks?|block|encoder\.layer|decoder\.layers)[./ ](\d+)(.*)$")


def save(model, *args, path, kwargs=None, pattern=".*"):
    """What each module whose name matches gives when model(*args) runs, and the output, into a safetensors file."""
    import torch
    from safetensors.torch import save_file

    found, handles = {}, []

    def keep(name, value):
        value = value[0] if isinstance(value, (tuple, list)) and value else getattr(value, "logits", value)
        if isinstance(value, torch.Tensor) and value.is_floating_point():
            found[name] = value.detach().cpu().contiguous().clone()

    for name, module in model.named_modules():
        if name and re.search(pattern, name):
            handles.append(module.register_forward_hook(lambda m, a, out, name=name: keep(name, out)))
    try:
        with torch.no_grad():
            keep("output", model(*args, **(kwargs or {})))
    finally:
        for h in handles:
            h.remove()
    save_file(found, path)
    return sorted(found)


def read(baseline):
    """{name: array}"""
    if isinstance(baseline, dict):
        from trine.debug.graph import array_of

        return {name: array_of(value) for name, value in baseline.items()}
    from trine.models.safetensors import SafeTensors

    held = SafeTensors(baseline)
    return {name: held[name] for name in held.keys()}


def common(name):
    """A name that both sides have: "layer 3" of model.layers.3, h.3 and layer 3."""
    found = LAYER.search(name)
    if not found:
        return name.removeprefix("model.").replace("/", ".")
    rest = found[2].strip("./ ").replace("/", ".")
    return f"layer {found[1]}{'.' + rest if rest else ''}"


def places(graph):
    """{common name of a scope: id of the last value made in it}, of every scope and those around it."""
    out = {}
    for node in graph.nodes:
        parts = node.scope.split("/") if node.scope else []
        for n in range(1, len(parts) + 1):
            out[common("/".join(parts[:n]))] = node.outs[0]
    return out


def against_saved(title, cand, chip_values, plain, baseline, tolerance):
    """A Comparison by layers: the first whose value is past the tolerance, on the chip and in f64."""
    from trine.debug import measures
    from trine.debug.comparison import Comparison, output_rows
    from trine.debug.graph import Missing, is_float, wide_values

    tensors, at = read(baseline), places(cand)
    cand_wide = wide_values(cand)
    rows, first = [], None
    for name, want in tensors.items():
        i = at.get(common(name))
        got = chip_values.get(i)
        if got is None or got.size != want.size or not is_float(want.dtype):
            continue
        want = want.reshape(got.shape)
        error, in_wide = measures.relative(got, want), measures.relative(cand_wide[i], want)
        rows.append({"layer": common(name), "ops": 1, "max_relative": error, "cosine": measures.cosine(got, want), "ulp": measures.ulp(got, want),
                     "worst": cand.maker()[i].op, "is_first": False, "last": error, "in_f64": in_wide, "at": i})  # fmt: skip
    rows.sort(key=lambda r: r["at"])
    values = {i: tensors[n] for n, i in (("output", cand.outputs[0][1]), ("logits", cand.outputs[0][1])) if n in tensors}
    outputs = output_rows(cand, cand, chip_values, plain, values, tolerance, None, False, notes := [])
    if not rows and not outputs:
        raise Missing(f"no tensor of the file has a place in the model: the file has {', '.join(list(tensors)[:5])} …; the model has {', '.join(list(at)[:5])} …")
    bad = next((r for r in rows if r["max_relative"] > tolerance), None)
    outcome = "rounding" if bad is None or bad["in_f64"] <= tolerance else "defect"
    if bad is not None:
        bad["is_first"] = True
        node = cand.maker()[bad["at"]]
        reason = "in f64 it is as far off" if outcome == "defect" else "in f64 it is not: rounding"
        first = {"kind": outcome, "op": node.op, "scope": node.scope, "line": node.line, "baseline_op": "", "baseline_line": "", "found_op": node.op,
                 "text": f"{bad['layer']} is {bad['max_relative']:.2g} off the file's; {reason}. What lies between it and the layer before is to blame"}  # fmt: skip
    passed = all(o["passed"] for o in outputs) and (bad is None or bool(outputs))
    return Comparison(title, outcome, passed, tolerance, first, outputs, rows, [], notes)
