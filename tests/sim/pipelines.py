"""Random programs that cannot deadlock: a chain of stages, each an engine's loop nest over the same number of items.

A stage handles item i when the stage before has, and not before the stage after is done with item i - buffers. The
nests differ in shape, the instructions in cost, so that many kinds of steady state and of ragged ends arise.
"""

import random

ENGINES = ["sync", "vector", "scalar", "gpsimd", "tensor"]


def split_items(rng, items):
    """`items` as a nest of one to three loops, outermost first."""
    nest = []
    while items > 1 and len(nest) < 2 and rng.random() < 0.7:
        outer = rng.choice([d for d in range(1, items + 1) if items % d == 0])
        nest.append(outer)
        items //= outer
    return nest + [items]


def item_index(nest):
    """Scale of each loop index in the number of the item, and the text of it."""
    scales, scale = [], 1
    for count in reversed(nest):
        scales.insert(0, scale)
        scale *= count
    return scales


def affine(constant, scales):
    text = str(constant)
    for depth, scale in enumerate(scales):
        if scale:
            text += f"+{scale}*i{depth}"
    return text


def instruction(rng, engine, columns):
    data = f"[0:128, 0, {columns}@1]"
    if engine == "tensor":
        return f"nc_matmul dst=acc{data} stationary=w moving=x{data} accumulate=overwrite"
    if engine == "sync":
        return f"dma_copy dst=y{data} src=h[0, 128@512 {columns}@1] queue={rng.randrange(3)}"
    if engine == "scalar":
        return f"activation dst=z{data} data=x{data} op={rng.choice(['exp', 'gelu', 'copy'])}"
    if engine == "gpsimd":
        return f"memset dst=g{data} value=0"
    return rng.choice([f"tensor_copy dst=v{data} src=x{data}", f"tensor_tensor dst=v{data} data1=x{data} data2=v{data} op=add"])


def program(seed):
    rng = random.Random(seed)
    items = rng.choice([1, 7, 24, 60, 96, 128])
    engines = rng.sample(ENGINES, rng.randint(2, 5))
    lines = ["program pipeline", "tensor h hbm f32[128,512] input", "tensor acc psum f32[128,512] at 0:0",
             "tensor w sbuf f32[128,128] at 0:0"]
    lines += [f"tensor {name} sbuf f32[128,512] at 0:{512 + 2048 * i}" for i, name in enumerate("xyzgv")]
    for stage, engine in enumerate(engines):
        nest = split_items(rng, items)
        scales = item_index(nest)
        ahead = rng.randint(1, 6)
        lines.append(f"stream {engine}")
        lines += [f"  loop {count}" for count in nest]
        waits = []
        if stage:
            unit = 16 if engines[stage - 1] == "sync" else 1
            waits.append(f"s{stage - 1}>=" + affine(unit, [unit * s for s in scales]))
        if stage + 1 < len(engines):
            unit = 16 if engines[stage + 1] == "sync" else 1
            waits.append(f"s{stage + 1}>=" + affine(unit * (1 - ahead), [unit * s for s in scales]))
        body = [instruction(rng, engine, rng.choice([1, 32, 128, 512])) for _ in range(rng.randint(1, 3))]
        body[0] += f" wait {' '.join(waits)}" if waits else ""
        body[-1] += f" then s{stage}+={16 if engine == 'sync' else 1}"
        lines += ["    " + line for line in body]
        lines += ["  end_loop"] * len(nest)
    return "\n".join(lines) + "\n"
