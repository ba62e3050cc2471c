"""transformers' Trainer on tiny random models, with and without gradient_checkpointing_enable(), and Mixtral: losses of three steps and of an evaluation.

The device `neuron` eagerly ("native") and `xla` lazily ("recorded"): with torch_xla importable transformers takes the second, unless
USE_TORCH_XLA=0.
"""

import json
import os
import subprocess
import sys
import tempfile

SIZES = dict(hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, vocab_size=120, pad_token_id=0,
             max_position_embeddings=64)  # fmt: skip


def losses(family, is_cpu, checkpointing=False, **more):
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM, Trainer, TrainingArguments, set_seed

    set_seed(0)
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(family, **SIZES, **more))
    if checkpointing:
        model.gradient_checkpointing_enable()
    rows = [{"input_ids": torch.arange(2 + i, 18 + i), "labels": torch.arange(2 + i, 18 + i)} for i in range(16)]
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(folder, max_steps=3, per_device_train_batch_size=4, learning_rate=1e-3, logging_steps=1, report_to=[],
                                      save_strategy="no", use_cpu=is_cpu, disable_tqdm=True, eval_strategy="steps", eval_steps=3)  # fmt: skip
        trainer = Trainer(model, arguments, train_dataset=rows, eval_dataset=rows[:4])
        trainer.train()
    return [h.get("loss", h.get("eval_loss")) for h in trainer.state.log_history if "loss" in h or "eval_loss" in h]


def all_losses(is_cpu):
    return {"llama": losses("llama", is_cpu), "llama-recomputed": losses("llama", is_cpu, True), "mixtral": losses("mixtral", is_cpu, num_local_experts=4)}


def run(device):
    out = {}
    for name, uses_xla in (("native", "0"), ("recorded", "0" if device == "cpu" else "1")):
        env = {**os.environ, "USE_TORCH_XLA": uses_xla}
        done = subprocess.run([sys.executable, __file__, device], env=env, stdout=subprocess.PIPE, text=True, check=True)
        out |= {f"{k}-{name}": v for k, v in json.loads(done.stdout.splitlines()[-1]).items()}
    return out


if __name__ == "__main__":
    print("\n" + json.dumps(all_losses(sys.argv[1] == "cpu")))
