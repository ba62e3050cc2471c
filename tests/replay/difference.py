"""What is other between two collections of programs, and the lines that say it."""

import difflib
import re

WINDOW = 4000  # lines of a text that are compared closely: difflib takes the square of it
HEADING = re.compile(r"(stream|step|part|program) ")


def differing(before, now):
    """[(key, [form])] of programs in both whose forms differ, and the keys that only one of them has."""
    changed = []
    for key in sorted(before.keys() & now.keys()):
        old, new = before[key], now[key]
        forms = [f for f in (*new, *(f for f in old if f not in new)) if f not in old or f not in new or old[f][0] != new[f][0]]
        if forms:
            changed.append((key, forms))
    return changed, sorted(before.keys() - now.keys()), sorted(now.keys() - before.keys())


def lines(old, new, most):
    """Lines that tell two texts apart, `-` of the old and `+` of the new, from the first on, with what is around them."""
    a, b = old.splitlines(), new.splitlines()
    first = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
    last = 0
    while last < min(len(a), len(b)) - first and a[-1 - last] == b[-1 - last]:
        last += 1
    heading = next((line for line in reversed(a[: first + 1]) if HEADING.match(line)), "")
    begin = max(0, first - 3)
    a, b = (x[begin : max(begin, len(x) - max(0, last - 3))][:WINDOW] for x in (a, b))
    found = [line for line in list(difflib.unified_diff(a, b, lineterm="", n=2))[2:] if not line.startswith("@@")]
    out = [f"  line {first + 1}" + (f", in: {heading[:100]}" if heading else "")] + [f"    {line[:220]}" for line in found]
    return out if len(out) <= most else out[:most] + [f"    … {len(out) - most} more lines"]


def report(before, now, changed, gone, new, most):
    """Lines for people: of each program the forms that changed, their summaries and their lines."""
    out = []
    for key, forms in changed:
        out += ["", f"{key}: {', '.join(forms)}"]
        for form in forms:
            old, got = before[key].get(form), now[key].get(form)
            if not old or not got:
                out.append(f"  {form}: {'gone' if old else 'new'}")
                continue
            if old[1] != got[1]:
                out += [f"  {form} was  {old[1]}", f"  {'':{len(form)}} is   {got[1]}"]
            if old[2] is not None and got[2] is not None:
                out += lines(old[2], got[2], most)
            elif old[1] == got[1]:
                out.append(f"  {form}: the same counts and time, other lines")
    return out + [f"{key}: {what}" for what, keys in (("gone", gone), ("new", new)) for key in keys]
