"""What one logical core must hold, from the program's own tensors, and what to do where that is too much."""

SIZES = {"f32": 4, "s32": 4, "u32": 4, "bf16": 2, "f16": 2, "s16": 2, "u16": 2}


def tensor_bytes(t):
    size = SIZES.get(t["dtype"], 1)
    for n in t["shape"]:
        size *= n
    return size


def per_core(programs, scratch, ranges, given, parts, room):
    """ranges: name -> positions of the inputs that are weights, cache or the optimiser's. All other inputs and results
    are activations; results that take the memory of `given` inputs count once. scratch: bytes of it in use at once.
    programs: of which one is on the device at a time; an input that several have counts once."""
    inputs, results = {}, 0
    for program in programs:
        written = 0
        for t in program.tensors:
            if t["space"] == "hbm" and t["kind"] == "input":
                inputs[t["name"]] = max(tensor_bytes(t), inputs.get(t["name"], 0))
            elif t["space"] == "hbm" and t["kind"] == "output":
                written += tensor_bytes(t)
        results = max(results, written)
    results = max(0, results - sum(inputs.get(f"arg{i}", 0) for i in given))
    out = {name: parts * sum(inputs.pop(f"arg{i}", 0) for i in at) for name, at in ranges.items()}
    out = {"weights": 0, "cache": 0, "optimiser": 0} | out
    out["activations"] = parts * (sum(inputs.values()) + results)
    out["scratch"] = parts * scratch
    out["used"] = sum(out.values())
    return out | {"room": room, "fits": out["used"] <= room}


def advice(memory, tp, most):
    """The smallest number of cores that would hold it, were all of it cut evenly; None where the instance has too few."""
    for cores in (2**i for i in range(12)):
        if cores > tp and cores <= most and memory["used"] * tp / cores <= memory["room"]:
            return cores
    return None
