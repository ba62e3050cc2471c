"""Prints docs/models.md: `python -m trine.models.page`. The table of families is made of their rows."""

from trine import models
from trine.models.families import FAMILIES, Key
from trine.models.gguf import FAMILIES as GGUF_FAMILIES
from trine.models.phases import UNCUT
from trine.models.quantisation import METHODS
from trine.models.quantised import FORMATS

TOP = """# Models

Generated from the rows of `python/trine/models` (`*_rows.py`); `make docs` rewrites it.

`trine.models` has the architectures that people deploy, written as JAX functions and built from a Hugging Face `config.json`.
Each is checked against `transformers` (or diffusers) in f32, by the same weights: forward, and for what writes text a prompt
into the cache and tokens out of it. A family is listed once its check passes. It reads files and downloads nothing.

```python
from trine import models

model = models.build("llama-3-8b", "bfloat16")   # a name below, config.json, a folder, a GGUF file, or a dictionary
model.parameters_shapes()                        # jax.ShapeDtypeStruct of every parameter: no weights
params = model.load("folder or file.gguf")       # or model.init(jax.random.key(0))
logits = model.forward(params, {"tokens": tokens})
logits, cache = model.prefill(params, {"tokens": tokens}, model.empty_cache(batch, length))
logits, cache = model.decode(params, {"tokens": token, "at": position}, cache)
params, state, loss = model.train_step(params, state, {"tokens": tokens, "labels": labels})
function, shapes = models.phase(model, "decode", batch=1, seq=2048, tp=8)   # of one core; jax.jit(function).lower(*shapes)
```

Parameters are plain trees of arrays; a dense weight is [inputs, outputs]. The functions are pure and take the parameters first.

With `tp` cores, each core has some of the heads, of the MLP's columns and of the vocabulary (`model.shardings()` says which
axis), and sums go over the mesh axis `tp`. Where there are fewer key heads than cores, they are repeated. Sizes that do not
divide are padded with zeros (`model.spread`). Not cut: %s.

A key of the configuration that a family does not read, and that is not known to say nothing about what is computed (dropout,
token numbers and the like), is refused by name, with the nearest key that is read. So is a `model_type`.

Weights: safetensors (one file, or several with their index) and GGUF (%s). From GGUF also come the
configuration (%s) and byte-pair tokenizers.

## Weights in few bits

A decoder's `quantization_config` says how its dense weights are stored: %s. They are stored so, counted
so, and made whole on the chip before they are multiplied in the model's own type; embedding, head, norms and routers stay whole, as
does what the configuration names. What it says of activations is not read. Refused by name: other methods, bitsandbytes' four bits
(a table of sixteen values, for which the chip has no form), sparsity, and training. Files of such weights are not loaded:
times and sizes are made of the configuration.

## Families
"""


def _value(value):
    """What a row says of one choice: a constant, or the key of the configuration it is read from."""
    if isinstance(value, Key):
        return f"`{value.names[0]}`"
    return "by config" if callable(value) else "–" if value in ("", ()) else str(value)


COLUMNS = ("norm", "positions", "block", "mixer", "activation", "gated", "kv_heads", "window", "experts", "qk_norm", "forms", "tied")
PLAIN = dict(norm="layer", positions="rope", block="pre", mixer="attention", activation="gelu", gated=False, kv_heads="all", window="–",
             experts="–", qk_norm="–", forms="–", tied=True)  # fmt: skip
TITLES = {"forms": "layers differ"}


def families_table(rows):
    yield "| model_type | what it is | " + " | ".join(TITLES.get(c, c.replace("_", " ")) for c in COLUMNS) + " |"
    yield "|---" * (2 + len(COLUMNS)) + "|"
    for row in rows:
        cells = (_value(row.values.get(c, PLAIN[c])) for c in COLUMNS)
        yield f"| {row.name} | {row.note} | " + " | ".join({"True": "yes", "False": "no"}.get(c, c) for c in cells) + " |"


def configurations_table():
    yield "| name | family | parameters |"
    yield "|---|---|---:|"
    for name in models.configurations():
        model = models.build(name)
        yield f"| {name} | {model.family.name} | {model.parameters_count() / 1e6:,.1f} M |"


def main():
    rows = list(FAMILIES.values())
    whole = ", ".join(row.name for row in rows if row.kind in UNCUT)
    print(TOP % (whole, ", ".join(row[0] for row in FORMATS.values()), ", ".join(GGUF_FAMILIES.values()),
        ", ".join(f"`{name}`" for name in METHODS)))
    stacks = [row for row in rows if row.values and row.kind in ("decoder", "encoder", "seq2seq", "vit", "speech")]
    print("\n".join(families_table(stacks)))
    print("\nA key in a cell is read from the configuration. The others are made of these or of convolutions:\n")
    print("\n".join(f"- `{row.name}`: {row.note}" for row in rows if row not in stacks))
    print("\n## Configurations in the package\n")
    print("Facts of published models, for estimates; weights are not.\n")
    print("\n".join(configurations_table()))


if __name__ == "__main__":
    main()
