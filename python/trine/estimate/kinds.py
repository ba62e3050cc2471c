"""Models whose layers are not all alike: which kinds of layer there are, and shorter models made of them.

A long program is taken from short ones: a few layers of each kind, and for each kind one that has more of it. What a
further layer adds is the same wherever it stands.
"""

import dataclasses
import re

from trine import _core

# Stacks of a kind of model: the field of its settings, and what its layers are called in a program.
STACKS = {
    "decoder": [("", "")],
    "encoder": [("", "")],
    "vit": [("", "")],
    "seq2seq": [("encoder", "encoder "), ("decoder", "decoder ")],
    "seeing": [("text", ""), ("vision", "image ")],
    "speech": [("stack", "")],
}
COUNTED = {"flux": (("layers", "double "), ("singles", "single ")), "dit": (("layers", ""),), "sd3": (("layers", ""),),
    "perceiver": (("layers", ""),)}


def layer_keys(model):
    """(what it is called, its kind) of each layer in order; empty where the model is timed whole."""
    s, kind = model.settings, model.family.kind
    if kind == "seq2seq" and s.encoder.positions == "relative" or kind == "perceiver" and s.blocks > 1:
        return []
    if kind == "sd3":
        return [("", "last" if i == s.layers - 1 else "dual" if i in s.dual else "plain") for i in range(s.layers)]
    if kind in COUNTED:
        return [(called, "") for field, called in COUNTED[kind] for _ in range(getattr(s, field))]
    found = []
    for field, called in STACKS.get(kind, ()):
        stack = getattr(s, field) if field else s
        found += [(called, form_of(stack, i)) for i in range(1 if stack.shared else stack.layers)]
    return found if not any(shared(s, field) for field, _ in STACKS.get(kind, ())) else []


def shared(settings, field):
    return (getattr(settings, field) if field else settings).shared


def form_of(stack, i):
    own = dict(stack.forms[i]) if stack.forms else {}
    if stack.window and stack.window_from:
        own["window"] = stack.window if i >= stack.window_from else 0
    return tuple(sorted(own.items(), key=repr))


def with_these(model, keys):
    """The same model with these layers alone."""
    s, kind = model.settings, model.family.kind
    if kind == "sd3":
        made = dataclasses.replace(s, layers=len(keys), dual=tuple(i for i, (_, form) in enumerate(keys) if form == "dual"))
    elif kind in COUNTED:
        made = dataclasses.replace(s, **{field: sum(key[0] == called for key in keys) for field, called in COUNTED[kind]})
    else:
        made = s
        for field, called in STACKS[kind]:
            stack = getattr(s, field) if field else s
            forms = tuple(form for name, form in keys if name == called)
            stack = dataclasses.replace(stack, layers=len(forms), forms=forms if any(forms) else (), window_from=0)
            made = dataclasses.replace(made, **{field: stack}) if field else stack
    return model.with_settings(made)


def sample(keys, each):
    """`each` layers of every kind, in the order in which they stand, and the kinds with more of them than that."""
    few, counts = [], {}
    for key in keys:
        counts[key] = counts.get(key, 0) + 1
        if counts[key] <= each:
            few.append(key)
    return few, {key: count - each for key, count in counts.items() if count > each}


def with_more(few, key, more):
    """The sample with so many more of one kind, after those it has."""
    at = max(i for i, one in enumerate(few) if one == key) + 1
    return few[:at] + [key] * more + few[at:]


def mixed(base, longer, uses, layers):
    """base + times × (run - base) of every (run, times), number by number."""
    def total(of):
        first = of(base)
        return type(first)(first + sum(times * (of(run) - first) for run, times in longer))

    def each(name, of):
        return {k: total(lambda run, k=k: getattr(run, name)[k]) if k in of else v for k, v in getattr(base, name).items()}

    counted = base.counted
    for run, times in longer:  # base + 2 × (the mean of both - base) is both less one base
        one = _core.extend_reports(base.counted, run.counted, times)
        counted = _core.extend_reports(base.counted, _core.reports_between(counted, one, 1), 2)
    parts = ("weights", "cache", "optimiser", "activations", "scratch")
    held = each("memory", parts)
    held |= {name: max(0, held[name]) for name in parts}
    held["used"] = sum(held[name] for name in parts)
    runs = [base, *(run for run, _ in longer)]
    return dataclasses.replace(
        base, device_ms=total(lambda run: run.device_ms), counted=counted, uses=uses, memory=held | {"fits": held["used"] <= held["room"]},
        layers=layers,
        host_bytes=base.host_bytes, on_host=sorted({op for run in runs for op in run.on_host}),
        **{name: sum(getattr(run, name) for run in runs) for name in ("trace_s", "compile_s", "timer_s")},
    )  # fmt: skip


def uses_of(base, longer):
    """What is asked of other cores, as often as all layers ask for it."""
    def counts(run):
        return {(u["kind"], u["bytes"], u["ranks"]): u for u in run.uses}

    had = counts(base)
    made = {key: use["count"] for key, use in had.items()}
    rows = dict(had)
    for run, times in longer:
        for key, use in counts(run).items():
            rows.setdefault(key, use)
            made[key] = made.get(key, 0) + times * (use["count"] - (had[key]["count"] if key in had else 0))
    return [use | {"count": int(round(made[key]))} for key, use in rows.items()]


def rows_of(keys, few, base, longer):
    """Where the time goes, layer by layer. longer: kind -> (run, how many more layers it has)."""
    def by_number(run):
        found = {}
        for row in run.layers:
            match = re.match(r"(.*?)layer (\d+)(.*)", row["layer"])
            found.setdefault((match[1], int(match[2])) if match else None, []).append((match[3] if match else "", row))
        return found

    def sums(run, places):
        groups = {}
        for place in places:
            for rest, row in by_number(run).get(place, ()):
                group = groups.setdefault((rest, row["part"]), {})
                for unit, ms in {"ms": row["ms"], **row["busy_ms"]}.items():
                    group[unit] = group.get(unit, 0.0) + ms
        return groups

    def places(layout, key):
        """(called, number) of the layers of a kind, numbered within their stack."""
        return [(key[0], sum(other[0] == key[0] for other in layout[:i])) for i, one in enumerate(layout) if one == key]

    of_kind = {}
    for key in dict.fromkeys(few):
        have = sums(base, places(few, key))
        if key in longer:
            run, more = longer[key]
            full = sums(run, places(with_more(few, key, more), key))
            of_kind[key] = {name: {k: max(0.0, v - have.get(name, {}).get(k, 0.0)) / more for k, v in row.items()} for name, row in full.items()}
        else:
            of_kind[key] = {name: {k: v / few.count(key) for k, v in row.items()} for name, row in have.items()}
    out, numbers = [row for _, row in by_number(base).get(None, ())], {}
    for key in keys:
        number = numbers[key[0]] = numbers.get(key[0], -1) + 1
        for (rest, part), values in of_kind[key].items():
            busy = {k: v for k, v in values.items() if k != "ms"}
            out.append({"layer": f"{key[0]}layer {number}{rest}", "part": part, "ms": values["ms"],
                "bound": max(busy, key=busy.get, default="none"), "busy_ms": busy})
    return out
