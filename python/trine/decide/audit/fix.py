"""Patches for what is mechanical. A patch is a list of edits, each ((line, byte), (line, byte), new text), against the file as read.

An edit is made only where it is certain to say the same for the device neuron; everything else stays a finding without one. A
patched Python file must compile, or none of its patches is written.
"""

import ast
import re

DEVICE = '"neuron"'
OPENING = r"""^(?P<open>[rRbBfFuU]*(?:'''|\"\"\"|'|\"))"""


def span(node):
    return (node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset)


def between(reader, start, end):
    """The source from one (line, byte) to another."""
    (first, a), (last, b) = start, end
    if first == last:
        return reader.data[first - 1][a:b].decode(errors="replace")
    parts = [reader.data[first - 1][a:], *reader.data[first : last - 1], reader.data[last - 1][:b]]
    return b"".join(parts).decode(errors="replace")


def source(reader, node):
    return between(reader, *span(node))


def swap(node, text):
    return ((*span(node), text),)


def last_word(node, old, new):
    """Swaps the last attribute of a chain, which ends where the node ends."""
    line, end = node.end_lineno, node.end_col_offset
    return (((line, end - len(old)), (line, end), new),)


# by what the rule holds of


def string_edits(reader, rule, node):
    """A device, backend or variable that a string names: the word in it is changed, quotes and the rest stay."""
    words = {"device-string": ("cuda", "neuron"), "nccl": ("nccl", "neuron"), "visible-devices": ("CUDA_VISIBLE_DEVICES", "NEURON_RT_VISIBLE_CORES"),
             "gpu-resource": ("nvidia.com/gpu", "aws.amazon.com/neuroncore"), "flash-attention-2": (r"flash_attention_[234]", "sdpa")}  # fmt: skip
    if rule.kind not in words:
        return ()
    old, new = words[rule.kind]
    text = source(reader, node)
    if rule.kind == "nccl" and ":" in text:
        return swap(node, re.sub("cuda:nccl", "neuron:neuron", text))
    old = old if rule.kind == "flash-attention-2" else re.escape(old)
    changed, count = re.subn(OPENING + old, rf"\g<open>{new}", text, flags=re.I if rule.kind == "nccl" else 0)
    return swap(node, changed) if count == 1 and node.lineno == node.end_lineno else ()


def method_edits(reader, rule, node):
    if rule.kind == "is-cuda":
        return last_word(node, "is_cuda", "is_neuron")
    if rule.kind != "cuda-method" or any(isinstance(a, ast.Starred) for a in node.args) or any(k.arg is None for k in node.keywords):
        return ()
    named = {k.arg: source(reader, k.value) for k in node.keywords}
    given = [source(reader, a) for a in node.args]
    device = named.pop("device", None) or (given.pop(0) if given else None)
    if device is None or device == "None":
        device = DEVICE
    elif device.isdigit():
        device = f'"neuron:{device}"'
    device = re.sub(r"""^(['"])cuda""", r"\1neuron", device)
    if set(named) - {"non_blocking"} or len(given) > 1 or "torch.cuda" in device:
        return ()
    rest = "".join([*(f", non_blocking={g}" for g in given), *(f", {k}={v}" for k, v in named.items())])
    start = (node.func.end_lineno, node.func.end_col_offset - len("cuda"))
    return ((start, span(node)[1], f"to({device}{rest})"),)


def name_edits(reader, rule, node, meaning):
    """Of a chain such as torch.cuda.synchronize, or a name that an import gave."""
    if rule.kind == "torch-cuda" and isinstance(node, ast.Attribute):
        at = node
        while isinstance(at, ast.Attribute) and (at.attr != "cuda" or not _is_torch(reader, at.value)):
            at = at.value
        return last_word(at, "cuda", "neuron") if isinstance(at, ast.Attribute) else ()
    if rule.kind == "cuda-profiler" and isinstance(node, ast.Attribute) and node.attr == "CUDA":
        return last_word(node, "CUDA", "PrivateUse1")
    return ()


def _is_torch(reader, node):
    return "torch" in reader.scope.resolve(node)


def _torch_name(reader):
    """How this scope writes torch; "" where it does not have it."""
    for name in ("torch", "th", "t", "T"):
        if "torch" in reader.scope.meanings_of(name):
            return name
    return ""


def call_edits(reader, rule, node, meaning):
    if rule.kind == "amp":
        return _amp_call(reader, node, meaning)
    if rule.kind == "torch-compile":
        return _compile_call(reader, node)
    return name_edits(reader, rule, node.func, meaning)


def _amp_name(reader, func):
    """torch.cuda.amp.autocast -> torch.amp.autocast; a name from an import is changed there."""
    at = func
    while isinstance(at, ast.Attribute) and "torch.cuda" not in reader.scope.resolve(at):
        at = at.value
    if isinstance(at, ast.Attribute) and _is_torch(reader, at.value):
        root = at.value
        return ((span(root)[1], span(at)[1], ""),)  # takes `.cuda` out
    return () if isinstance(func, ast.Name) else None


def _amp_call(reader, node, meaning):
    """Gives torch.amp's functions their device; autocast also bf16, where no type is asked for."""
    is_plain = meaning.startswith("torch.amp.")
    edits, what = () if is_plain else _amp_name(reader, node.func), meaning.rpartition(".")[2]
    if edits is None or what not in ("autocast", "GradScaler", "custom_fwd", "custom_bwd") or any(isinstance(a, ast.Starred) for a in node.args):
        return ()
    inside = _after_parenthesis(reader, node)
    if inside is None:
        return ()
    has = {k.arg for k in node.keywords}
    first = {"autocast": DEVICE, "GradScaler": DEVICE}.get(what, f"device_type={DEVICE}")
    if "device_type" in has or "device" in has:
        return edits
    if what == "autocast" and "dtype" not in has and len(node.args) < 2 and _torch_name(reader):
        if node.args:
            return (*edits, (inside, inside, f"{first}, dtype={_torch_name(reader)}.bfloat16, enabled="))
        first += f", dtype={_torch_name(reader)}.bfloat16"
    elif what == "autocast" and node.args:
        return (*edits, (inside, inside, f"{first}, enabled=")) if len(node.args) == 1 else ()
    return (*edits, (inside, inside, first + (", " if node.args or node.keywords else "")))


def _after_parenthesis(reader, call):
    """Where the arguments of a call begin."""
    line, byte = span(call.func)[1]
    text = reader.data[line - 1][byte:]
    found = re.match(rb"\s*\(", text)
    return (line, byte + found.end()) if found else None


def decorator_edits(reader, rule, node, meaning):
    """`@autocast`-like decorators without parentheses need a device too."""
    what = meaning.rpartition(".")[2]
    if rule.kind == "amp" and what in ("custom_fwd", "custom_bwd"):
        edits = _amp_name(reader, node)
        return () if edits is None else (*edits, (span(node)[1], span(node)[1], f"(device_type={DEVICE})"))
    if rule.kind == "torch-compile":
        return ((span(node)[1], span(node)[1], f"(backend={DEVICE})"),)
    return name_edits(reader, rule, node, meaning)


def is_left_to_cuda(rule, call, meaning):
    """False where a call that means CUDA by default is given another device or backend."""
    given = {k.arg: k.value for k in call.keywords}
    if meaning.startswith("torch.amp."):
        return "device" not in given and not call.args
    if rule.kind != "torch-compile":
        return True
    backend = given.get("backend")
    return "disable" not in given and (backend is None or getattr(backend, "value", None) == "inductor")


def _compile_call(reader, node):
    given = {k.arg: k for k in node.keywords}
    if None in given or any(isinstance(a, ast.Starred) for a in node.args):
        return ()
    if "backend" in given and "mode" in given:
        return ()
    if "backend" in given:
        return swap(given["backend"].value, DEVICE)
    if "mode" in given:
        return swap(given["mode"], f"backend={DEVICE}")
    last = max([*node.args, *node.keywords], key=lambda n: span(n)[1], default=None)
    if last is None:
        inside = _after_parenthesis(reader, node)
        return ((inside, inside, f"backend={DEVICE}"),) if inside else ()
    if isinstance(last, ast.GeneratorExp):
        return ()
    at = span(last)[1]
    tail = between(reader, at, span(node)[1])
    closing = re.match(r"\s*\)*", tail)[0].count(")") - 1  # an argument in parentheses of its own
    if closing > 0:
        return ()
    return ((at, at, f", backend={DEVICE}"),)


def keyword_edits(reader, rule, keyword):
    if rule.kind == "flash-attention-2":
        return swap(keyword, 'attn_implementation="sdpa"')
    return ()


def platform_edits(reader, rule, node):
    """jax.devices("gpu") and its like."""
    if rule.kind != "jax-platform":
        return ()
    named = [a for a in [*node.args, *[k.value for k in node.keywords]] if isinstance(a, ast.Constant) and a.value in ("gpu", "cuda")]
    return tuple(e for a in named for e in swap(a, DEVICE))


def import_edits(reader, rule, node, alias, meaning):
    if rule.kind == "amp" and isinstance(node, ast.ImportFrom) and node.module == "torch.cuda.amp":
        if all(a.name in ("autocast", "GradScaler", "custom_fwd", "custom_bwd") for a in node.names):
            return _module(reader, node, "torch.cuda.amp", "torch.amp")
        return ()
    if rule.kind != "torch-cuda":
        return ()
    if isinstance(node, ast.ImportFrom):
        if node.module == "torch" and alias.name == "cuda":
            return swap(alias, f"neuron as {alias.asname or 'cuda'}")
        from trine.decide.audit.rules.torch import SAME

        return _module(reader, node, "torch.cuda", "torch.neuron") if node.module == "torch.cuda" and all(a.name in SAME for a in node.names) else ()
    if alias.name == "torch.cuda":
        return swap(alias, f"torch.neuron as {alias.asname}" if alias.asname else "torch.neuron")
    return ()


def _module(reader, node, old, new):
    """`from torch.cuda.amp import …`: the module's name, which stands in the statement's first line."""
    line = reader.data[node.lineno - 1]
    at = line.find(old.encode(), node.col_offset)
    return (((node.lineno, at), (node.lineno, at + len(old)), new),) if at >= 0 else ()


# writing


def patched(text, findings):
    """The text with the edits of these findings, and those findings that were patched. Edits that overlap are made once."""
    data = text.encode()
    starts = [0]
    for line in text.split("\n"):
        starts.append(starts[-1] + len(line.encode()) + 1)
    edits = {}
    for finding in findings:
        for (first, a), (last, b), new in finding.edits:
            edits[starts[first - 1] + a, starts[last - 1] + b] = new
    made, end = [], -1
    for (a, b), new in sorted(edits.items(), key=lambda e: (e[0][0], -e[0][1])):
        if a >= end:  # one inside another waits: the outer one's text is read again
            made.append((a, b, new))
            end = b
    out = data
    for a, b, new in reversed(made):
        out = out[:a] + new.encode() + out[b:]
    return out.decode()


def compiles(text, file):
    try:
        compile(text, file, "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True
