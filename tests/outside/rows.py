"""What `make outside` runs: packages that nobody here wrote, by their own tests or in programs that use them.

`tests` names a package whose wheel carries its tests: pytest runs them on both devices. `program` names a file of
programs/, whose `run(device)` returns arrays by name, which are compared with those of the CPU.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    name: str
    framework: str  # jax or torch
    says: str
    tests: tuple[str, ...] = ()  # what pytest gets, below site-packages
    deselect: str = ""  # pytest's -k
    program: str = ""
    devices: int = 0  # of a program over several: the machine has so many, and XLA's CPU too
    tolerance: float = 1e-4  # of the largest value of an array; more where Adam follows the signs of small gradients


ROWS = [
    Row("optax", "jax", "optimizers, losses, line searches: its own tests", ("optax",), "not doctest"),
    Row("chex", "jax", "assertions, variants, fakes: its own tests", ("chex",)),
    Row("haiku", "jax", "modules and transforms: its own tests", ("haiku/_src",)),
    Row("rlax", "jax", "reinforcement learning's losses: its own tests", ("rlax/_src",)),
    Row("distrax", "jax", "distributions and bijectors: its own tests", ("distrax/_src",)),
    Row("flax-nnx", "jax", "a convolutional network trained for ten steps, dropout and batch norm", program="flax_nnx", tolerance=1e-2),
    Row("flax-linen", "jax", "a transformer encoder trained for five steps", program="flax_linen"),
    Row("flax-meshes", "jax", "nnx and linen over meshes of 8 and 32 devices, data by model", program="flax_meshes", devices=32, tolerance=1e-3),
    Row("tunix", "jax", "LoRA on its Llama-3 over meshes of 8 and 32 devices; steps compiled as often as on the CPU", program="tunix_lora", devices=32),
    Row("equinox", "jax", "an MLP and an LSTM over a scan, trained", program="equinox_train"),
    Row("diffrax", "jax", "ODEs by Tsit5 and Kvaerno5, and their gradients", program="diffrax_solve"),
    Row("numpyro", "jax", "NUTS on a logistic regression, and SVI", program="numpyro_infer", tolerance=1e-2),
    Row("blackjax", "jax", "HMC on a banana", program="blackjax_hmc", tolerance=1e-2),
    Row("transformers-generate", "torch", "generate() of tiny random models: greedy, beams, sampling with a seed", program="transformers_generate"),
    Row("transformers-train", "torch", "three AdamW steps of tiny random models, by family", program="transformers_train"),
    Row("transformers-trainer", "torch", "Trainer on neuron and xla: LLaMA, with its activations recomputed, and Mixtral", program="transformers_trainer"),
    Row("trl", "torch", "SFT with LoRA of peft on four ranks, as torchrun starts them", program="trl_sft"),
    Row("torchtitan", "torch", "its llama3 debug model on eight ranks: FSDP2, DDP, HSDP, TP, CP, PP and mixes", program="torchtitan_layouts"),
    Row("peft", "torch", "LoRA on a tiny LLaMA: trained, saved, loaded, merged", program="peft_lora"),
    Row("accelerate", "torch", "a training loop with gradient accumulation and a scheduler", program="accelerate_loop"),
    Row("accelerate-scripts", "torch", "its own test scripts on two ranks, as torchrun starts them", program="accelerate_scripts"),
    Row("sentence-transformers", "torch", "all-MiniLM-L6-v2: embeddings and their similarities", program="sentence_embeddings"),
    Row("diffusers", "torch", "text-to-image pipelines with random weights, four steps", program="diffusers_pipelines", tolerance=1e-3),
    Row("einops", "torch", "rearrange, reduce, repeat and pack on both frameworks", program="einops_both"),
]
