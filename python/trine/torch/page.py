"""Prints docs/torch.md: `python -m trine.torch.page`."""

import collections
import json
import pathlib

import torch

from trine.torch import decompose
from trine.torch.emit import SKIPPED, overload_name
from trine.torch.rows import ROWS

HEAD = """<!-- Written by `python -m trine.torch.page`; do not edit. -->
# PyTorch on virtual NeuronCores

With Trine and torch 2.13.0 installed (`pip install .[torch]`), torch finds the device `neuron` by itself. A first port, step by
step: [tutorial](tutorials/port_a_pytorch_model.md).

| way in | what you write | what happens |
|---|---|---|
| compiled | `torch.compile(model, backend="neuron")` | forward and backward become programs, through AOTAutograd |
| eager | `model.to("neuron")`, `x.to("neuron")` | each op runs at once on a virtual NeuronCore |
| lazy | `xm.xla_device()`, `xm.mark_step()` | ops are recorded; a step runs as one program |

These give native values, from host plans. Time and cost come from the same graphs as device programs:

| | |
|---|---|
| `trine.report(model, inputs, instance="trn1.2xlarge")` | the model as instructions of one core, from shapes alone. `train=True` adds the gradients; `auto_cast="matmult"` multiplies in bf16 |
| `with trine.timed() as t:` | around a training loop or anything else: every program that runs inside, how often, its time on the chip, launches and dollars, and collectives between processes by their schedules; `t.as_dict()`; `t.over_ranks()` says what each process waits for |

64-bit integers are 32 bits wide on the chip.

## The device

| | |
|---|---|
| devices | as many as the chosen instance has (`TRINE_INSTANCE`, `trine use`, `NEURON_RT_VISIBLE_CORES`). `xla` is the same device under its older name, and lazy |
| eager ops | an op is compiled once for its shapes, dtypes and strides. An op without a row runs on torch's CPU, on the same memory: `torch.neuron.fallbacks()` counts them, `torch.neuron.fallback_reasons()` says why. Programs are kept for the next process in `~/.cache/trine` |
| lazy steps | `xm.mark_step()`, `xm.optimizer_step(…, barrier=True)` or reading a value (`item`, `print`, `cpu`) runs what was recorded: forward, backward and optimizer in one program. The trace is its key: the second step finds it in memory, a second process in the compile cache. Parameters and optimizer state are updated in place; learning rates and seeds are inputs. `torch_xla.debug.metrics` counts |
| memory | each device has its share of HBM. Past it, `torch.OutOfMemoryError` lists the largest tensors. `torch.neuron.memory_allocated()`, `memory_summary()` and the like count |
| streams | an op of the default stream has run when it returns. Each other `torch.neuron.Stream` has a thread: its ops and collectives run in their order beside the default stream and beside other streams; events, `wait_stream` and `synchronize` mean what they mean on `torch.cuda`, and FSDP2 prefetches by them. Who reads or writes memory that a stream still uses waits for it, with or without an event. An error in such an op is raised at the next wait or read, with the op's name and stream. Compiled models, and ops on torch's CPU, wait for the current stream and run at once |
| random numbers | `torch.manual_seed` seeds the generator; `torch.Generator("neuron")`, `torch.neuron.get_rng_state()` |
| autocast | `torch.autocast("neuron", dtype=torch.bfloat16)`, by torch's own lists of ops; f16 and both f8 too |
| NKI kernels | called in a compiled model, or as an operator with a gradient (`torch_neuronx.nki_op`, `register_autograd`): part of the program, in values and in time ([nki.md](nki.md#inside-pytorch-and-jax)) |
| several processes | `torchrun`, `xmp.spawn`, `torch_xla.launch`; `torch.distributed` with the backend `neuron` or `xla`; `DistributedDataParallel`, `xm.all_reduce` and the like. `mpirun` and `accelerate launch` too. Each process has the cores to itself; ranks that `torchrun` or `xmp.spawn` starts are forked from one process that has imported torch, the first to come to a graph compiles it for all; ranks of a host share memory, sums have the bits of the chips' schedule, and a rank that ends, hangs or diverges is one error on every rank, with its line. `trine collectives` gives their time on the chip's links; [torch's own tests](distributed_test.md) of groups |
| data loaders | workers by fork or spawn, `pin_memory`, prefetch. Device tensors that a worker returns are copied |
| older scripts | `torch_xla` (`core.xla_model`, `runtime`, `amp`, `distributed` with ZeRO-1 and FSDP, `debug`, `utils`) and `torch_neuronx` (`trace` with `compiler_args`, `analyze`, `DataParallel` over cores, `dynamic_batch_size`, `replace_weights`), from `python/compat`. A trace is a ScriptModule that `torch.jit` saves and loads. `neuron_parallel_compile python train.py` runs the script without computing, compiles the graphs of its steps in parallel and fills the cache |
| NxD | `neuronx_distributed`, from `python/compat`: parallel layers, `nxd.initialize_parallel_model`, ZeRO-1, 1F1B and interleaved pipelines, LoRA, experts, checkpoints and their converter; `lightning` under Lightning's own Trainer and torchrun. `NXD_CPU_MODE=1` runs the same script on CPU tensors over gloo, to compare with |
| which of them | accelerate, transformers and libraries above them take `torch_xla` where it can be imported, and the device `neuron` only where it cannot. With `python/compat` installed, `USE_TORCH_XLA=0` in the environment chooses `neuron`; without it there is nothing to choose |
| SPMD | one process has all cores: `xr.use_spmd()`, `xs.Mesh`, `xs.mark_sharding`, `MpDeviceLoader(input_sharding=…)`, `SpmdFullyShardedDataParallel`. A marked tensor lies in parts on the cores, and a step that meets one is a program for each, with collectives, cut by the same partitioner as JAX's. A dim that its axes do not divide stays whole |
| DTensor | `init_device_mesh`, `distribute_tensor`, `parallelize_module`, `fully_shard` on `neuron`, and on `xla` where ranks are processes; in one process a mesh of `xla` is SPMD's |
| not there yet | of NxD: `trace` and `quantization`, which are for inference, and the converter of optimizer states. The real package loads in the place of ours: what it imports of `torch_neuronx`, `libneuronxla` and `neuronxcc` is there by name, its attention kernels by value |

## Compiled models

| | |
|---|---|
| shapes | are static: each new one is compiled, and kept |
| buckets | `torch.compile(model, backend="neuron", dynamic=True, options={"buckets": {0: [1, 8], 1: [64, 128]}})` compiles these sizes alone, by dim; a list stands for every dim that varies. Inputs are padded with zeros and results cut back. For inference whose rows are independent and whose padding is masked |
| cache | programs are kept by their graph in the compile cache (`trine cache`): a second process compiles none of them. Each that is compiled says so on stderr (`[NeuronCC] …`; `-q` in `NEURON_CC_FLAGS` silences it) |
| mutation | is functionalised; buffers written in the graph are written in place |
| random numbers | come from one seed per run, drawn from torch's generator, so `torch.manual_seed` decides them. They are not torch's own CPU numbers |
| weights | are passed where they lie. Multiplies keep packed forms beside them, dropped when torch's version counter, the address, or a sample of the bytes changes |
| f32, bf16, f16 | sums and functions of narrow floats are computed in f32 and rounded once, as on torch's CPU |
| ops without a row | run on torch's CPU between two programs; `trine.torch.pieces.FALLBACKS` counts them |
| graph breaks | one warning for each place, with its line and the reason, from the logger `trine.torch`. At level INFO it says what was compiled, and how long that took |

One emitter (`python/trine/torch/`) serves every way in: a row for each ATen overload writes StableHLO. Rows are compared with
torch's CPU over torch's own OpInfo samples, forward and gradient: a part in `make test`, all in `make test-torch`.
"""


def core():
    """The overloads torch tags as core."""
    for full in torch._C._dispatch_get_all_op_names():
        space, _, name = full.partition("::")
        if space == "aten":
            base, _, form = name.partition(".")
            op = getattr(getattr(torch.ops.aten, base), form or "default", None)
            if op is not None and torch.Tag.core in op.tags:
                yield overload_name(op)


def main():
    all_core = sorted(set(core()))
    lacking = [n for n in all_core if n not in ROWS and n not in SKIPPED]
    taken_apart = {overload_name(op) for op in decompose.table() if isinstance(op, torch._ops.OpOverload)}
    print(HEAD)
    print(f"## Rows\n\n{len(ROWS)} overloads have a row; {len(taken_apart - set(ROWS))} more are taken apart by torch's own "
          f"decompositions first. Of core ATen's {len(all_core)}, {len(all_core) - len(lacking)} have a row.\n")
    files = collections.defaultdict(lambda: collections.defaultdict(list))
    for name, function in ROWS.items():
        base, form = name.split(".", 1)
        files[_folder(name, function)][base].append(form)
    for module in sorted(files):
        print(f"**{module}**: {', '.join(_named(b, f) for b, f in sorted(files[module].items()))}\n")
    print("## Core ATen without a row\n")
    for name in lacking:
        how = "taken apart first" if name in taken_apart else "runs on the CPU, counted"
        print(f"- `{name}`: {how}")
    print_sweep()


def print_sweep():
    """What tests/torch/device_sweep.py --save found."""
    results = json.loads(pathlib.Path(__file__).with_name("opinfo.json").read_text())
    print(f"\n## OpInfo on the device\n\nOf torch {results['torch']}'s own samples ({', '.join(results['dtypes'])}; up to {results['samples']} of each operator, "
          f"forward and gradient) {results['agree']:,} of {results['total']:,} agree with the CPU, {results['agree'] / results['total']:.1%}. The others:\n")
    for name, (count, why) in results["failed"].items():
        print(f"- `{name}`, {count}: {why}")
    print(f"\nAten ops that torch's CPU computed on the way, on the device's memory, counted: {', '.join(f'`{n}`' for n in results['on_the_cpu'])}.")


def _folder(name, function):
    if name.startswith(("_foreach", "_fused_adam", "_fused_sgd")):
        return "foreach"
    return function.__module__.rsplit(".", 1)[1]


def _named(base, forms):
    return f"`{base}`" if forms == ["default"] else f"`{base}.{{{','.join(sorted(forms))}}}`"


if __name__ == "__main__":
    main()
