"""Models of the zoo by phase, lowered for the corpus as `trine estimate` lowers them: one core's program, few layers."""

from replay.programs_jax import lowered

TRN = ["trn1", "trn2"]
ALL = ["inf2", "trn1", "trn2", "trn3"]

# configuration, phase, batch, tokens, cores, layers, dtype, cast, chips
ROWS = [
    ("bert-base", "forward", 8, 128, 1, 2, "float32", "matmult", ["inf1", *ALL]),
    ("bert-base", "forward", 1, 384, 1, 1, "bfloat16", "none", TRN),
    ("bert-large", "train", 2, 128, 4, 1, "float32", "matmult", ["trn1"]),
    ("albert-base", "forward", 2, 64, 1, 2, "float32", "none", ["trn1"]),
    ("distilbert-base", "forward", 4, 128, 1, 2, "bfloat16", "none", ["inf2"]),
    ("minilm-l6", "forward", 16, 64, 1, 2, "bfloat16", "none", ["trn1"]),
    ("gpt2", "prefill", 1, 256, 1, 2, "bfloat16", "none", TRN),
    ("gpt2", "decode", 4, 256, 1, 2, "bfloat16", "none", TRN),
    ("gpt2", "train", 1, 128, 1, 1, "bfloat16", "none", TRN),
    ("gpt2", "gradients", 1, 128, 1, 1, "float32", "none", ["trn2"]),
    ("llama-2-7b", "decode", 1, 1024, 8, 2, "bfloat16", "none", ALL),
    ("llama-3-8b", "prefill", 1, 512, 8, 1, "bfloat16", "none", ALL),
    ("llama-3-8b", "decode", 8, 2048, 8, 2, "bfloat16", "none", ALL),
    ("llama-3-8b", "train", 1, 256, 32, 1, "bfloat16", "none", TRN),
    ("llama-3-70b", "decode", 1, 4096, 32, 1, "bfloat16", "none", TRN),
    ("llama-3.2-1b", "prefill", 1, 128, 1, 1, "float32", "matmult", ["trn2"]),
    ("smollm2-135m", "decode", 1, 256, 1, 3, "float32", "none", ["trn1", "trn2"]),
    ("mistral-7b", "decode", 1, 1024, 8, 1, "bfloat16", "none", ["trn2"]),
    ("mixtral-8x7b", "decode", 4, 512, 8, 1, "bfloat16", "none", TRN),
    ("mixtral-8x7b", "prefill", 1, 128, 8, 1, "bfloat16", "none", ["trn2"]),
    ("gemma-2b", "decode", 1, 512, 1, 1, "bfloat16", "none", ["trn2"]),
    ("phi-2", "prefill", 1, 128, 4, 1, "bfloat16", "none", ["trn1"]),
    ("falcon-7b", "decode", 1, 512, 1, 1, "bfloat16", "none", ["trn1"]),
    ("gpt-neox-20b", "decode", 1, 512, 8, 1, "bfloat16", "none", ["trn1"]),
    ("opt-1.3b", "prefill", 1, 128, 2, 1, "float16", "none", ["trn2"]),
    ("olmo2-1b", "decode", 2, 256, 1, 1, "bfloat16", "none", ["trn2"]),
    ("qwen2-7b", "decode", 1, 512, 4, 1, "bfloat16", "none", ["trn2"]),
    ("qwen3-0.6b", "prefill", 1, 128, 1, 1, "bfloat16", "none", ["trn2"]),
    ("starcoder2-3b", "decode", 1, 512, 2, 1, "bfloat16", "none", ["trn1"]),
    ("t5-small", "forward", 1, 64, 1, 0, "float32", "none", TRN),
    ("vit-base", "forward", 4, 197, 1, 1, "bfloat16", "none", TRN),
    ("clip-vit-base-32", "forward", 2, 77, 1, 0, "bfloat16", "none", ["trn2"]),
    ("resnet-18", "forward", 1, 1, 1, 0, "bfloat16", "none", TRN),
    ("sd-1.5-unet", "forward", 1, 77, 1, 0, "bfloat16", "none", ["trn2"]),
]

# Of models whose layers are told in parts of the configuration.
FEWER = {
    "t5-small": {"num_layers": 1, "num_decoder_layers": 1},
    "clip-vit-base-32": {"text_config": {"num_hidden_layers": 1}, "vision_config": {"num_hidden_layers": 1}},
}


def config_of(name):
    from trine import models

    config = models.load_config(name)
    for key, value in FEWER.get(name, {}).items():
        config[key] = config[key] | value if isinstance(value, dict) else value
    return config


def programs():
    import jax

    from trine import models
    from trine.estimate.lowering import leaf_range

    out = {}
    for name, phase, batch, tokens, cores, layers, dtype, cast, chips in ROWS:
        model = models.build(config_of(name), dtype)
        if layers:
            model = model.with_layers(layers)
        work = models.phase(model, phase, batch, tokens, cores)
        text = lowered(jax.jit(work.function, keep_unused=True, donate_argnums=work.donated), work.shapes, named=f"{name}_{phase}")
        about = {"jax": True, "chips": chips, "cast": cast, "weights": leaf_range(work.shapes, 0), "cost": 20.0}
        out[f"{name} {phase} batch {batch} tokens {tokens} cores {cores} layers {layers or FEWER.get(name) and 1 or 'all'} {dtype}"] = text, about
    return out
