"""trl's SFTTrainer with LoRA of peft on four ranks, as torchrun starts them: the losses of three steps and the adapter's weights."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path


def train(folder, is_cpu):
    import torch
    from datasets import Dataset
    from peft import LoraConfig
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedTokenizerFast, set_seed
    from trl import SFTConfig, SFTTrainer

    set_seed(0)
    words = {w: i for i, w in enumerate(["<pad>", "<s>", "</s>", *map(str, range(100))])}
    plain = Tokenizer(models.WordLevel(words, unk_token="<s>"))
    plain.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=plain, bos_token="<s>", eos_token="</s>", pad_token="<pad>")
    sizes = dict(hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, vocab_size=128)
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model("llama", **sizes))
    text = Dataset.from_list([{"text": " ".join(str((i * k) % 100) for k in range(12))} for i in range(48)])
    arguments = SFTConfig(folder, max_steps=3, per_device_train_batch_size=2, gradient_accumulation_steps=2, learning_rate=1e-2, logging_steps=1,
                          report_to=[], use_cpu=is_cpu, bf16=False, max_length=16, disable_tqdm=True, gradient_checkpointing=True, save_strategy="no",
                          ddp_find_unused_parameters=False)  # fmt: skip
    lora = LoraConfig(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM")
    trainer = SFTTrainer(model, arguments, train_dataset=text, processing_class=tokenizer, peft_config=lora)
    with torch.no_grad():  # B begins with zeros, A with what a device draws
        for name, p in trainer.model.named_parameters():
            if "lora_A" in name:
                p.copy_(torch.linspace(-0.1, 0.1, p.numel()).reshape(p.shape))
    trainer.train()
    if int(os.environ["RANK"]) == 0:
        weights = {n: p.detach().cpu().flatten().tolist() for n, p in trainer.model.named_parameters() if "layers.1" in n and p.requires_grad}
        losses = [h["loss"] for h in trainer.state.log_history if "loss" in h]
        Path(folder, "found.json").write_text(json.dumps({"losses": losses, **weights}))
    torch.distributed.destroy_process_group()


def run(device):
    env = {**os.environ, "USE_TORCH_XLA": "0", "TRINE_INSTANCE": "trn1.32xlarge", "OMP_NUM_THREADS": "1"}
    if device == "cpu":
        env["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
    with tempfile.TemporaryDirectory() as folder:
        launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=4", __file__, folder, device]
        subprocess.run(launch, env=env, check=True)
        return json.loads(Path(folder, "found.json").read_text())


if __name__ == "__main__":
    train(sys.argv[1], sys.argv[2] == "cpu")
