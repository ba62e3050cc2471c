"""The rows of a baseline: models with their sizes, phases, number formats and modes."""

MODES = ("eager", "cuda-graph", "default", "reduce-overhead", "max-autotune")
# phase: infer, prefill, decode, train. tokens: the sequence, or the context that a decode step attends to.
WORKLOADS = [
    ("bert-base", "infer", 1, 128), ("bert-base", "infer", 8, 128), ("bert-base", "infer", 32, 128),
    ("bert-large", "infer", 1, 128), ("bert-large", "infer", 8, 128),
    ("gpt2", "prefill", 1, 512), ("gpt2", "decode", 1, 512),
    ("llama-3.2-1b", "prefill", 1, 1024), ("llama-3.2-1b", "decode", 1, 1024), ("llama-3.2-1b", "decode", 32, 1024),
    ("llama-3.2-1b", "train", 4, 1024),
    ("llama-3-8b", "prefill", 1, 1024), ("llama-3-8b", "decode", 1, 1024), ("llama-3-8b", "decode", 32, 1024),
    ("llama-3-8b", "train", 1, 1024),
    ("resnet50", "infer", 1, 0), ("resnet50", "infer", 64, 0),
    ("vit-base", "infer", 1, 0), ("vit-base", "infer", 32, 0),
    ("sd-unet", "infer", 2, 0),
]  # fmt: skip
AUTOTUNED = ("bert-base/infer-b8", "llama-3.2-1b/decode-b1-", "vit-base/infer-b32")
DEFAULTS = ("bert-base/infer-b1-", "llama-3.2-1b/decode-b1-")


def workload_name(model, phase, batch, tokens):
    length = f"-{'c' if phase == 'decode' else 's'}{tokens}" if tokens else ""
    return f"{model}/{phase}-b{batch}{length}"


def all_rows():
    """Names of the rows that run unasked, what matters most first, and of those that only --rows asks for."""
    names = [workload_name(*w) for w in WORKLOADS]
    fits_f32 = [n for n in names if n != "llama-3-8b/train-b1-s1024"]  # 8 B parameters, gradients and AdamW: 128 GB
    quick = [n for n in names if "/train-" not in n]
    rows = [f"{n}/bf16/eager" for n in names] + [f"{n}/f32/eager" for n in fits_f32]
    rows += [f"{n}/bf16/reduce-overhead" for n in names]
    rows += [f"{n}/bf16/max-autotune" for n in names if n.startswith(AUTOTUNED)]
    rows += [f"{n}/{dtype}/cuda-graph" for dtype in ("bf16", "tf32", "f32") for n in quick]
    rows += [f"{n}/bf16/default" for n in names if n.startswith(DEFAULTS)]
    rows += [f"{n}/f32/reduce-overhead" for n in names if n.startswith(DEFAULTS)]
    listed = set(rows)
    return rows, [f"{n}/{d}/{m}" for n in names for d in ("bf16", "f32", "tf32") for m in MODES if f"{n}/{d}/{m}" not in listed]


CONFIGS = {
    "bert-base": {"kind": "bert", "width": 768, "layers": 12, "heads": 12, "ffn": 3072, "vocab": 30522, "positions": 512},
    "bert-large": {"kind": "bert", "width": 1024, "layers": 24, "heads": 16, "ffn": 4096, "vocab": 30522, "positions": 512},
    "gpt2": {"kind": "gpt2", "width": 768, "layers": 12, "heads": 12, "kv": 12, "ffn": 3072, "vocab": 50257, "positions": 1024},
    "llama-3.2-1b": {"kind": "llama", "width": 2048, "layers": 16, "heads": 32, "kv": 8, "ffn": 8192, "vocab": 128256, "tied": True},
    "llama-3-8b": {"kind": "llama", "width": 4096, "layers": 32, "heads": 32, "kv": 8, "ffn": 14336, "vocab": 128256, "tied": False},
    "resnet50": {"kind": "resnet", "width": 64, "blocks": (3, 4, 6, 3), "image": 224, "classes": 1000},
    "vit-base": {"kind": "vit", "width": 768, "layers": 12, "heads": 12, "ffn": 3072, "image": 224, "patch": 16, "classes": 1000},
    "sd-unet": {"kind": "unet", "channels": (320, 640, 1280, 1280), "heads": 8, "text": 768, "text_tokens": 77, "image": 64, "groups": 32},
}
SMALL = {
    "bert": {"width": 64, "layers": 2, "heads": 4, "ffn": 128, "vocab": 500},
    "gpt2": {"width": 64, "layers": 2, "heads": 4, "kv": 4, "ffn": 128, "vocab": 500},
    "llama": {"width": 64, "layers": 2, "heads": 4, "kv": 2, "ffn": 128, "vocab": 500},
    "resnet": {"width": 8, "blocks": (1, 1, 1, 1), "image": 32, "classes": 10},
    "vit": {"width": 64, "layers": 2, "heads": 4, "ffn": 128, "image": 32, "classes": 10},
    "unet": {"channels": (16, 32, 32, 32), "heads": 4, "text": 24, "text_tokens": 7, "image": 16, "groups": 4},
}


def config_of(model, small):
    config = dict(CONFIGS[model])
    if small:
        config.update(SMALL[config["kind"]])
    return config
