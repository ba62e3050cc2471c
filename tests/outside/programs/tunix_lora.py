"""LoRA by tunix and qwix on its Llama-3, small, over meshes of 8 and of 32 devices: losses, adapters, and how often a step is compiled."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import qwix
from flax import nnx
from tunix.models.llama3 import model as llama3
from tunix.sft import peft_trainer, utils

MESHES = {"8": (4, 2), "32": (8, 4)}
STEPS, ROWS = 3, 16


def network(mesh):
    """The base and its adapters, made in parts where they are to lie."""
    config = llama3.ModelConfig(num_layers=2, vocab_size=128, embed_dim=64, hidden_dim=128, num_heads=4, head_dim=16, num_kv_heads=4,
                                rope_theta=10_000, norm_eps=1e-5)  # fmt: skip

    @nnx.jit
    def make():
        made = llama3.Llama3(config, rngs=nnx.Rngs(0))
        state = nnx.state(made)
        nnx.update(made, jax.lax.with_sharding_constraint(state, nnx.get_partition_spec(state)))
        return made

    with mesh:
        base = make()
        provider = qwix.LoraProvider(module_path=".*q_proj|.*kv_proj|.*gate_proj|.*down_proj", rank=4, alpha=8.0)
        model = qwix.apply_lora_to_model(base, provider, rngs=nnx.Rngs(1), **example())
        state = nnx.state(model)
        nnx.update(model, jax.lax.with_sharding_constraint(state, nnx.get_partition_spec(state)))
    return model


def example():
    """A batch that the mesh divides; the model's own is of one."""
    shape = (ROWS, 12)
    return {"input_tokens": jnp.ones(shape, jnp.int32), "positions": jnp.ones(shape, jnp.int32), "cache": None,
            "attention_mask": jnp.ones((*shape, 12), bool)}  # fmt: skip


def inputs(x):
    mask = x.input_tokens != 0
    return {"input_tokens": x.input_tokens, "input_mask": x.input_mask, "positions": utils.build_positions_from_mask(mask),
            "attention_mask": utils.make_causal_attn_mask(mask)}  # fmt: skip


def trained(shape):
    mesh = jax.sharding.Mesh(np.array(jax.devices()[: shape[0] * shape[1]]).reshape(shape), ("fsdp", "tp"))
    model = network(mesh)
    trainer = peft_trainer.PeftTrainer(model, optax.sgd(0.5), peft_trainer.TrainingConfig(eval_every_n_steps=100, max_steps=STEPS))
    trainer = trainer.with_gen_model_input_fn(inputs)
    losses, known = [], trainer._post_process_train_step
    step = trainer.create_train_step_fn()

    def kept(model, optimizer, inputs):
        loss, aux, norm = step(model, optimizer, inputs)
        return loss, loss, norm

    trainer.create_train_step_fn = lambda: kept
    trainer._post_process_train_step = lambda loss: (losses.append(loss), known(None))
    data = np.random.default_rng(0).integers(1, 128, (STEPS, ROWS, 12)).astype(np.int32)
    with mesh:
        trainer.train([peft_trainer.TrainingInput(input_tokens=t, input_mask=np.ones_like(t, bool)) for t in data])
        compiled = trainer._jitted_train_step_fn.func.jitted_fn._cache_size()
        adapters = jax.tree.leaves(nnx.state(model, nnx.LoRAParam))
    return {"losses": jnp.stack([jnp.asarray(l) for l in losses]), "adapters": jnp.stack([jnp.abs(a).sum() for a in adapters]), "compiled": np.int32(compiled)}


def run(device):
    return {f"{name} on {devices}": value for devices, shape in MESHES.items() for name, value in trained(shape).items()}
