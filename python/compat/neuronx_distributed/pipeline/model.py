"""neuronx_distributed.pipeline.model: a model in stages, each on the ranks of its own; micro-batches go through them one after another.

A graph is traced with the transformer's layers whole and cut between them (`pipeline_cuts`, `auto_partition`), or the layers are
given as a list (`manual_pp_partition`). With virtual_pipeline_size each rank has several chunks.
"""

import itertools

import torch
import torch.distributed as dist
from torch import nn

from neuronx_distributed.parallel_layers import parallel_state as state
from neuronx_distributed.pipeline import partition
from neuronx_distributed.pipeline.comm import Mail
from neuronx_distributed.pipeline.scheduler import InferenceSchedule, Train1F1BSchedule, TrainInterleavedSchedule
from neuronx_distributed.utils import get_device, mark_step
from neuronx_distributed.utils.model_utils import move_model_to_device, reinit_model

_count = itertools.count()


class NxDPPModel(nn.Module):
    def __init__(self, module, transformer_layer_cls=None, num_microbatches=1, virtual_pipeline_size=1, output_loss_value_spec=None,
                 return_mb_loss=False, broadcast_and_average_loss=False, use_zero1_optimizer=False, use_model_wrapper=False,
                 use_optimizer_wrapper=False, pipeline_cuts=None, input_names=None, leaf_module_cls=None, autowrap_functions=None,
                 autowrap_modules=None, autowrap_obj_methods=None, tracer_cls=None, param_init_fn=None, trace_file_path=None,
                 return_loss_on_cpu=True, deallocate_pipeline_outputs=False, auto_partition=False, fuse_microbatches=False,
                 manual_pp_partition=False, manual_pp_stage_partition_fn=None, manual_pp_loss_fn=None, **_):  # fmt: skip
        super().__init__()
        self.pipeline_parallel_size, self.pipeline_parallel_rank = state.get_pipeline_model_parallel_size(), state.get_pipeline_model_parallel_rank()
        self.transformer_layer_cls, self.num_microbatches, self.virtual_pipeline_size = transformer_layer_cls, num_microbatches, virtual_pipeline_size
        self.output_loss_value_spec, self.return_mb_loss, self.broadcast_and_average_loss = output_loss_value_spec, return_mb_loss, broadcast_and_average_loss
        self.output_loss = output_loss_value_spec is not None or manual_pp_loss_fn is not None
        self.return_loss_on_cpu, self.param_init_fn, self.use_model_wrapper = return_loss_on_cpu, param_init_fn, use_model_wrapper
        self.num_stages = self.pipeline_parallel_size * virtual_pipeline_size
        self._held = [module]  # its parts of other stages are nobody's parameters here
        self._cuts, self._inputs = list(pipeline_cuts or ()), input_names
        self._tracing = leaf_module_cls, autowrap_functions, autowrap_modules
        self._stages, self._ready, self._name = None, False, f"pipeline/{next(_count)}"
        if manual_pp_partition:
            self._stages = partition.ListStages(list(module), self.num_stages, manual_pp_stage_partition_fn, manual_pp_loss_fn)
            self._take()
        elif self._cuts or auto_partition or self.num_stages == 1:
            self.partition()

    original_torch_module = property(lambda self: self._held[0])

    def cut_pipeline_stage(self, cut_point):
        """A stage ends after this layer."""
        self._cuts.append(cut_point)
        if len(self._cuts) == self.num_stages - 1:
            self.partition()

    def trace(self, args=None, kwargs=None, input_names=None, leaf_modules=None, autowrap_functions=None, autowrap_modules=None):
        """Other settings of the trace; the stages are made once all cuts are known."""
        self._inputs = input_names or self._inputs
        self._tracing = leaf_modules or self._tracing[0], autowrap_functions or self._tracing[1], autowrap_modules or self._tracing[2]

    def partition(self):
        root = self._held[0]
        if self.transformer_layer_cls is None:
            raise ValueError("NxDPPModel: found no transformer_layer_cls, expected the class of the layers that stages are cut between")
        cuts = self._cuts or partition.even_cuts(partition.layers_of(root, self.transformer_layer_cls), self.num_stages)
        if len(cuts) != self.num_stages - 1:
            raise ValueError(f"NxDPPModel: found {len(cuts)} cuts {cuts}, expected {self.num_stages - 1} for {self.num_stages} stages")
        gm = partition.traced(root, self.transformer_layer_cls, self._inputs, *self._tracing)
        self._stages = partition.Stages(gm, cuts)
        self._take()

    def _take(self):
        """The stages that this rank has: every so many-th."""
        mine = range(self.pipeline_parallel_rank, self.num_stages, self.pipeline_parallel_size)
        self.local_stage_modules = [self._stages.modules[i] for i in mine]
        self._make_shared_groups()
        if not self.use_model_wrapper:
            self.move_model_to_device()

    # names and parameters of this rank

    def _names_of(self, stage):
        """(name in the whole model, module) of what a stage calls."""
        if isinstance(self._stages, partition.ListStages):
            return [(str(i), self._held[0][i]) for i in self._stages.parts[stage]]
        return [(t, _found(self._held[0], t)) for t in sorted(self._stages.targets[stage])]

    def _mine(self):
        for stage in range(self.pipeline_parallel_rank, self.num_stages, self.pipeline_parallel_size):
            yield from self._names_of(stage)

    def _named(self, kind, stage_items):
        seen = set()
        for name, m in stage_items:
            found = [("", m)] if isinstance(m, torch.Tensor) else getattr(m, kind)()
            for n, p in found:
                if id(p) not in seen and isinstance(p, nn.Parameter) == (kind == "named_parameters"):
                    seen.add(id(p))
                    yield f"{name}.{n}" if n else name, p

    def local_named_parameters(self, *args, **kwargs):
        return self._named("named_parameters", self._mine())

    def local_parameters(self, *args, **kwargs):
        return (p for _, p in self.local_named_parameters())

    def local_named_buffers(self, *args, **kwargs):
        return self._named("named_buffers", self._mine())

    def local_named_modules(self, *args, **kwargs):
        return ((f"{name}.{n}" if n else name, m) for name, top in self._mine() if isinstance(top, nn.Module) for n, m in top.named_modules())

    def local_modules(self):
        return (m for _, m in self.local_named_modules())

    modules = local_modules

    def local_state_dict(self, *args, **kwargs):
        out = {}
        for name, m in self._mine():
            out |= {f"{name}.{n}": v for n, v in m.state_dict().items()} if isinstance(m, nn.Module) else {name: m.detach()}
        return out

    named_parameters, parameters, named_buffers, state_dict = local_named_parameters, local_parameters, local_named_buffers, local_state_dict

    def load_state_dict(self, state_dict, strict=True):
        for name, m in self._mine():
            if isinstance(m, nn.Module):
                part = {k.removeprefix(f"{name}."): v for k, v in state_dict.items() if k.startswith(f"{name}.")}
                m.load_state_dict(part, strict=strict)
            elif name in state_dict:
                m.data.copy_(state_dict[name])

    def train(self, mode=True):
        for m in self.local_stage_modules:
            m.train(mode)
        return self

    def move_model_to_device(self):
        for m in self.local_stage_modules:
            if self.param_init_fn is not None:
                reinit_model(m, torch.device("cpu"), self.param_init_fn)
        everything = nn.ModuleList(self.local_stage_modules)
        move_model_to_device(everything, get_device())  # at once: weights that two chunks share stay shared
        self._share()

    def _make_shared_groups(self):
        """Of a weight that several ranks have (tied embeddings): who, and the group that sums its gradient."""
        owners = {}
        for stage in range(self.num_stages):
            for name, p in self._named("named_parameters", self._names_of(stage)):
                owners.setdefault(id(p), (name, p, set()))[2].add(stage % self.pipeline_parallel_size)
        self._shared = []
        for name, p, ranks in owners.values():
            if len(ranks) > 1:
                mesh = [[row[r] for r in sorted(ranks)] for row in state.get_pipeline_model_parallel_replica_groups()]
                groups = [dist.new_group(row) for row in mesh]  # every process makes every group
                mine = next((g for g, row in zip(groups, mesh) if dist.get_rank() in row), None)
                if mine is not None:
                    self._shared.append([self._slots_of(p), mine, self.pipeline_parallel_rank != min(ranks)])

    def _slots_of(self, p):
        return [(m, n) for top in self.local_stage_modules for m in top.modules() for n, q in m._parameters.items() if q is p]

    def _share(self):
        """The copies begin equal; only one counts in norms."""
        for slots, group, is_copy in self._shared:
            p = slots[0][0]._parameters[slots[0][1]]
            dist.broadcast(p.data, dist.get_global_rank(group, 0), group=group)
            p.shared = is_copy

    def _sum_shared(self):
        for slots, group, _ in self._shared:
            p = slots[0][0]._parameters[slots[0][1]]
            held = p.grad if p.grad is not None else getattr(p, "main_grad", None)
            if held is None:
                held = p.grad = torch.zeros_like(p)
            dist.all_reduce(held, group=group)

    # a step

    def forward(self, *args, **kwargs):
        raise RuntimeError("NxDPPModel: found a call of the model, expected run_train(**inputs) or run_eval(**inputs): a rank has only its stages")

    def run_train(self, *args, **kwargs):
        """Forward and backward of all micro-batches; the mean loss on the ranks of the last stage, None on others."""
        self.train()
        n, pp = self.num_microbatches, self.pipeline_parallel_size
        schedule = (Train1F1BSchedule(n, pp, self.pipeline_parallel_rank) if self.virtual_pipeline_size == 1
                    else TrainInterleavedSchedule(n, self.virtual_pipeline_size, pp, self.pipeline_parallel_rank))  # fmt: skip
        self._run(schedule, self._batches(kwargs))
        self._sum_shared()
        mark_step()
        return self._loss()

    @torch.no_grad()
    def run_eval(self, *args, **kwargs):
        """The mean loss, or without output_loss_value_spec the outputs of the micro-batches."""
        self.train(False)
        n = self.num_microbatches
        self._run(InferenceSchedule(n, self.pipeline_parallel_size, self.pipeline_parallel_rank, self.virtual_pipeline_size), self._batches(kwargs))
        mark_step()
        return self._loss() if self.output_loss else self._outputs or None

    def _batches(self, kwargs):
        n, device = self.num_microbatches, get_device()
        for name, v in kwargs.items():
            if isinstance(v, torch.Tensor) and v.size(0) % n:
                raise ValueError(f"run_train: found {name} of {list(v.shape)}, expected a batch that {n} micro-batches divide")
        cut = {k: v.to(device).chunk(n) if isinstance(v, torch.Tensor) else [v] * n for k, v in kwargs.items()}
        return [{name: cut[name][i] if name in cut else None for name in {*self._stages.inputs, *cut}} for i in range(n)]

    def _run(self, schedule, batches):
        self._mail, self._saved, self._losses, self._outputs = Mail(self._name, get_device()), {}, [], []
        for task in schedule:
            (self._forward if task.is_forward else self._backward)(task, batches[task.mb])
        self._mail.wait()

    def _peer(self, stage):
        row = next(r for r in state.get_pipeline_model_parallel_replica_groups() if dist.get_rank() in r)
        return row[stage % self.pipeline_parallel_size]

    def _forward(self, task, batch):
        stage = task.chunk * self.pipeline_parallel_size + self.pipeline_parallel_rank
        given, env = self._mail.receive(self._peer(stage - 1), 2 * stage, f"f{task.mb}.{stage}") if stage else ([], {})
        out = self._stages.run(stage, self.local_stage_modules[task.chunk], batch, env)
        if stage == self.num_stages - 1:
            loss = partition.loss_in(out, self.output_loss_value_spec) if self.output_loss else None
            self._losses += [loss.detach()] if loss is not None else []
            self._outputs.append(out)
            out = loss / self.num_microbatches if loss is not None else None
        else:
            out = self._mail.send(out, self._peer(stage + 1), 2 * stage + 2, f"f{task.mb}.{stage + 1}")
        if torch.is_grad_enabled():
            self._saved[task.mb, task.chunk] = given, out

    def _backward(self, task, batch):
        stage = task.chunk * self.pipeline_parallel_size + self.pipeline_parallel_rank
        given, out = self._saved.pop((task.mb, task.chunk))
        if stage == self.num_stages - 1:
            out.backward()
        else:
            _, grads = self._mail.receive(self._peer(stage + 1), 2 * stage + 1, f"b{task.mb}.{stage}")
            for i in [i for i in grads if out[i].grad_fn is None]:  # given by the stage before and handed on
                out[i].grad = grads[i] if out[i].grad is None else out[i].grad + grads[i]
            if made := [i for i in grads if out[i].grad_fn is not None]:
                torch.autograd.backward([out[i] for i in made], [grads[i] for i in made])
        if stage:
            needed = {i: t for i, t in enumerate(given) if isinstance(t, torch.Tensor) and t.requires_grad}
            found = {i: t.grad if t.grad is not None else torch.zeros_like(t) for i, t in needed.items()}
            self._mail.send(found, self._peer(stage - 1), 2 * stage - 1, f"b{task.mb}.{stage - 1}")

    def _loss(self):
        if not self.output_loss:
            return None
        last = self.pipeline_parallel_rank == self.pipeline_parallel_size - 1
        if self.return_mb_loss:
            return self._losses if last else None
        loss = torch.stack(self._losses).mean() if last else torch.zeros((), device=get_device())
        if self.broadcast_and_average_loss:
            for group in (state.get_context_model_parallel_group(), state.get_data_parallel_group()):
                loss = loss / group.size()
                dist.all_reduce(loss, group=group)
            dist.all_reduce(loss, group=state.get_pipeline_model_parallel_group())
        elif not last:
            return None
        return loss.cpu() if self.return_loss_on_cpu else loss

    def __getattr__(self, name):
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(self.__dict__["_held"][0], name)


def _found(root, target):
    """The module or parameter of a dotted name."""
    for part in target.split("."):
        root = getattr(root, part)
    return root
