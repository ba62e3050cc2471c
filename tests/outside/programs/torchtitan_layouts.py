"""torchtitan's llama3 debug model on eight ranks, in every layout of its parallelisms: the losses of two steps.

The same on CPUs over gloo; attention that is spread over ranks torch has not there, so those layouts run without it, on the same
data. Weights come of their names, so that they are the same in every layout. TITAN_ONLY=<layouts by comma> runs a few.
"""

import hashlib
import json
import os
import socket
import sys
import tempfile
import traceback
from pathlib import Path

if "cpu" in sys.argv[1:3]:
    os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"  # or torch would take our device for the accelerator

import torch  # noqa: E402

RANKS, STEPS = 8, 2
COMMON = {"job.dump_folder": ".", "model.name": "llama3", "model.flavor": "debugmodel", "model.hf_assets_path": "tokenizer", "training.dataset": "c4_test",
          "training.dataset_path": "corpus", "training.local_batch_size": 4, "training.seq_len": 64, "training.steps": STEPS,
          "training.mixed_precision_param": "float32", "metrics.log_freq": 1, "optimizer.lr": 1e-2, "lr_scheduler.warmup_steps": 0,
          "parallelism.pipeline_parallel_microbatch_size": 1, "activation_checkpoint.mode": "none"}  # fmt: skip
SHORT = {"dp": "data_parallel_replicate_degree", "fsdp": "data_parallel_shard_degree", "tp": "tensor_parallel_degree", "pp": "pipeline_parallel_degree",
         "cp": "context_parallel_degree"}  # fmt: skip
LAYOUTS = {
    "fsdp8": {}, "dp8": {}, "dp2-fsdp4": {}, "tp8": {}, "fsdp4-tp2": {}, "fsdp4-cp2": {}, "fsdp2-tp2-cp2": {}, "dp2-fsdp2-tp2": {},
    "fsdp4-pp2": {"parallelism.pipeline_parallel_schedule": "1F1B"},
    "fsdp4-pp2-gpipe": {"parallelism.pipeline_parallel_schedule": "GPipe"},
    "fsdp4-pp2-interleaved": {"parallelism.pipeline_parallel_schedule": "Interleaved1F1B"},
    "fsdp2-tp2-pp2": {}, "tp2-pp2-cp2": {},
    "fsdp8-recomputed": {"activation_checkpoint.mode": "full"},
    "fsdp4-tp2-selective": {"activation_checkpoint.mode": "selective", "activation_checkpoint.selective_ac_option": "op"},
}  # fmt: skip


def degrees(name):
    found = dict.fromkeys(SHORT, 1)
    for part in name.split("-"):
        key = part.rstrip("0123456789")
        if key in SHORT and part != key:
            found[key] = int(part[len(key) :])
    return found


def arguments(name, device):
    by = degrees(name)
    ranks = RANKS
    if device == "cpu":  # no attention over ranks there
        ranks, by["cp"] = RANKS // by["cp"], 1
    settings = COMMON | LAYOUTS[name] | {f"parallelism.{SHORT[k]}": v for k, v in by.items()}
    return ranks, [f"--{k}={v}" for k, v in settings.items()]


def write_assets(folder):
    """A tokenizer of letters, and text: torchtitan's own are not in its wheel."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    letters = {c: i + 2 for i, c in enumerate(map(chr, range(32, 127)))}
    tokenizer = Tokenizer(models.WordLevel({"<s>": 0, "</s>": 1, **letters}, unk_token="<s>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    (folder / "tokenizer").mkdir()
    tokenizer.save(str(folder / "tokenizer/tokenizer.json"))
    (folder / "tokenizer/tokenizer_config.json").write_text(json.dumps({"bos_token": "<s>", "eos_token": "</s>"}))
    (folder / "corpus").mkdir()
    lines = [{"text": " ".join(f"{(i * k * k) % 97} times {k}" for k in range(40))} for i in range(64)]
    (folder / "corpus/data.json").write_text("\n".join(map(json.dumps, lines)))


def pretend_cpu():
    """torchtitan looks for an accelerator and asks it about memory; gloo has no PREMUL_SUM."""
    import types

    from torch.distributed.fsdp import FSDPModule

    divide = FSDPModule.set_gradient_divide_factor
    FSDPModule.set_gradient_divide_factor = lambda self, factor: (self.set_force_sum_reduction_for_comms(True), divide(self, factor))

    torch._utils._get_available_device_type = lambda: "cpu"
    properties = types.SimpleNamespace(name="cpu", total_memory=1 << 34)
    torch.cpu.get_device_name = lambda device=None: "cpu"
    torch.cpu.get_device_properties = lambda device=None: properties
    torch.cpu.current_device = lambda: 0
    torch.cpu.memory_stats = lambda device=None: {}
    torch.cpu.reset_peak_memory_stats = torch.cpu.empty_cache = lambda device=None: None


def set_weights(parts):
    """Each by its name: the same values however it is spread."""
    from torch.distributed.tensor import DTensor, distribute_tensor

    for part in parts:
        for name, p in part.named_parameters():
            name = name.replace("_checkpoint_wrapped_module.", "").replace("_orig_mod.", "")
            seed = int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "little")
            values = torch.randn(p.shape, generator=torch.Generator().manual_seed(seed)) * 0.05 + (1.0 if p.dim() == 1 else 0.0)
            values = values.to(p.device)
            with torch.no_grad():
                p.copy_(distribute_tensor(values, p.device_mesh, p.placements, src_data_rank=None) if isinstance(p, DTensor) else values)


def train(arguments):
    """torchtitan's training; the losses that it logs."""
    from torchtitan.config import ConfigManager
    from torchtitan.train import Trainer

    trainer, losses = Trainer(ConfigManager().parse_args(arguments)), []
    set_weights(trainer.model_parts)
    log = trainer.metrics_processor.log
    trainer.metrics_processor.log = lambda step, loss, *rest, **more: (losses.append(float(loss)), log(step, loss, *rest, **more))
    trainer.train()
    trainer.close()
    torch.distributed.destroy_process_group()
    return losses


def run_rank(rank, ranks, device, name, arguments, folder):
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": "0" if device == "cpu" else str(rank), "WORLD_SIZE": str(ranks), "LOCAL_WORLD_SIZE": str(ranks)}
    try:
        losses = train(arguments)
        (folder / f"{name}-{rank}.json").write_text(json.dumps(losses))
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        os._exit(1)


def losses_of(name, device, folder):
    ranks, asked = arguments(name, device)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free.getsockname()[1])}
    started = []
    for rank in range(ranks):
        pid = os.fork()
        if not pid:
            run_rank(rank, ranks, device, name, asked, folder)
        started.append(pid)
    ended = [os.waitpid(pid, 0)[1] for pid in started]
    print(name, device, "ended with", ended, flush=True)
    return max((json.loads(f.read_text()) for f in folder.glob(f"{name}-?.json")), default=[])  # of a pipeline only the last stage knows


def run(device):
    os.environ["TRINE_INSTANCE"] = "trn1.32xlarge"
    torch.set_num_threads(1)
    if device == "cpu":
        pretend_cpu()
    import torchtitan.train  # noqa: F401 - once, before the ranks are forked

    names = [n for n in os.environ.get("TITAN_ONLY", "").split(",") if n] or list(LAYOUTS)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        write_assets(Path(folder))
        return {name: losses_of(name, device, Path(folder)) for name in names}


if __name__ == "__main__":
    print(run(sys.argv[1]))
