"""LoRA of peft on a tiny LLaMA: trained, saved, loaded again, merged."""

import tempfile

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM


def base(device):
    torch.manual_seed(0)
    return LlamaForCausalLM(LlamaConfig(hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
                                        num_key_value_heads=2, vocab_size=120)).to(device)


def run(device):
    ids = torch.arange(2, 34).reshape(2, 16).to(device)
    torch.manual_seed(1)
    model = get_peft_model(base(device), LoraConfig(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj"]))
    optimizer = torch.optim.AdamW((p for p in model.parameters() if p.requires_grad), lr=1e-2)
    losses = []
    for _ in range(4):
        loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.detach().cpu())
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        again = PeftModel.from_pretrained(base(device), folder).eval()
    merged = again.merge_and_unload()
    with torch.no_grad():
        return {"losses": torch.stack(losses), "merged": merged(input_ids=ids).logits.cpu(),
                "trained": model.eval()(input_ids=ids).logits.cpu()}
