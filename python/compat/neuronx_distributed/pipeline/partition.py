"""neuronx_distributed.pipeline.partition: a model's graph cut into stages, and what goes from each stage to the next."""

import inspect
import math

import torch
from torch import fx, nn
from torch.fx.passes.split_module import split_module

from neuronx_distributed.parallel_layers import PARALLEL_FUNCTIONS, mappings
from neuronx_distributed.parallel_layers.layers import BaseParallelLayer


class _Tracer(fx.Tracer):
    """Layers, parallel layers, what parallel regions are entered and left by, and the modules named are one node each."""

    def __init__(self, leaves, names, functions, modules):
        super().__init__(autowrap_modules=tuple(modules), autowrap_functions=tuple(functions))
        self._leaves, self._names = tuple(leaves), set(names)

    def is_leaf_module(self, m, qualified_name):
        return isinstance(m, self._leaves) or type(m).__name__ in self._names or super().is_leaf_module(m, qualified_name)


def traced(module, layer_cls, input_names, leaf_module_cls=(), autowrap_functions=(), autowrap_modules=()):
    """The graph of a module over the inputs named; others have their defaults."""
    names = [c if isinstance(c, str) else c.__name__ for c in leaf_module_cls or ()]
    functions = {*PARALLEL_FUNCTIONS, *(autowrap_functions or ())}
    tracer = _Tracer([layer_cls, BaseParallelLayer], names, functions, {math, mappings, *(autowrap_modules or ())})
    parameters = inspect.signature(module.forward).parameters.values()
    given = input_names or [p.name for p in parameters if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD]
    fixed = {p.name: None if p.default is p.empty else p.default for p in parameters if p.name not in given and p.kind is p.POSITIONAL_OR_KEYWORD}
    try:
        graph = tracer.trace(module, concrete_args=fixed)
    except fx.proxy.TraceError as e:
        raise RuntimeError(f"NxDPPModel: found control flow that depends on a value in {type(module).__name__}.forward ({e}), expected a graph; "
                           "name the module it is in with leaf_module_cls, or give the layers as a list with manual_pp_partition=True") from e  # fmt: skip
    for node in [n for n in graph.nodes if n.op == "placeholder" and n.target not in given]:
        _erase(graph, node)
    return fx.GraphModule(module, graph)


def _erase(graph, node):
    """With what depends on it: of an input that is fixed, checks that it is."""
    for user in list(node.users):
        _erase(graph, user)
    graph.erase_node(node)


def layers_of(module, layer_cls):
    return [name for name, m in module.named_modules() if isinstance(m, layer_cls)]


def even_cuts(layers, stages):
    """Names of the last layers of all stages but the last; the last stages have one layer more where it does not come out even."""
    if len(layers) < stages:
        raise ValueError(f"NxDPPModel: found {len(layers)} layers, expected at least {stages}, one for each stage")
    sizes = [len(layers) // stages + (i >= stages - len(layers) % stages) for i in range(stages)]
    return [layers[sum(sizes[: i + 1]) - 1] for i in range(stages - 1)]


class Stages:
    """A graph as a list of stage modules; `live[i]` names what stage i gets from the one before."""

    def __init__(self, gm, cuts):
        at, self.targets = {}, [set() for _ in range(len(cuts) + 1)]
        stage = 0
        for node in gm.graph.nodes:
            at[node] = stage
            if node.op in ("call_module", "get_attr"):
                self.targets[stage].add(node.target)
            if node.op == "call_module" and stage < len(cuts) and node.target == cuts[stage]:
                stage += 1
        if stage != len(cuts):
            raise ValueError(f"NxDPPModel: found no layer {cuts[stage]!r} in the graph after the cuts before it, expected one of its modules")
        split = split_module(gm, gm, lambda node: at[node], keep_original_order=True)
        self.calls = [n for n in split.graph.nodes if n.op == "call_module"]
        self.modules = [split.get_submodule(n.target) for n in self.calls]
        self.output = next(n for n in split.graph.nodes if n.op == "output")
        self.inputs = [n.name for n in split.graph.nodes if n.op == "placeholder"]
        self._made_by = self._producers(split)
        self.live = [self._live(i) for i in range(len(self.calls))]

    def _producers(self, split):
        """node -> the stage that makes it, and which of its results it is."""
        found = {n: (i, None) for i, n in enumerate(self.calls)}
        for n in split.graph.nodes:
            if n.op == "call_function" and n.args and n.args[0] in found:  # getitem
                found[n] = found[n.args[0]][0], n.args[1]
        return found

    def _uses(self, i):
        """What stage i reads; the last one reads for the output too."""
        used = list(self.calls[i].all_input_nodes)
        if i == len(self.calls) - 1:
            used += self.output.all_input_nodes
        return used

    def _live(self, i):
        later = {n for j in range(i, len(self.calls)) for n in self._uses(j)}
        return sorted((n.name for n in later if n in self._made_by and self._made_by[n][0] < i))

    def run(self, i, module, batch, env):
        """Values after stage i: what was given and what it made."""
        args = [batch[n.name] if n.op == "placeholder" else env[n.name] for n in self.calls[i].args]
        out = module(*args)
        env = dict(env)
        for n, (stage, index) in self._made_by.items():
            if stage == i and index is not None:
                env[n.name] = out[index]
            elif stage == i:
                env[n.name] = out
        if i < len(self.calls) - 1:
            return {name: env[name] for name in self.live[i + 1]}
        return fx.node.map_arg(self.output.args[0], lambda n: batch[n.name] if n.op == "placeholder" else env[n.name])


class ListStages:
    """Layers in a row, each a function of what the one before gives."""

    def __init__(self, layers, stages, partition_fn=None, loss_fn=None):
        where = partition_fn(layers, stages) if partition_fn else self._evenly(layers, stages)
        self.parts = [[i for i, layer in enumerate(layers) if where[layer] == s] for s in range(stages)]
        self.modules = [nn.Sequential(*(layers[i] for i in part)) for part in self.parts]
        self.live, self.inputs, self._loss = [[]] + [["x"]] * (stages - 1), ["inputs", "labels"], loss_fn

    @staticmethod
    def _evenly(layers, stages):
        even_cuts(list(range(len(layers))), stages)  # are there enough?
        return {layer: min(i // (len(layers) // stages), stages - 1) for i, layer in enumerate(layers)}

    def run(self, i, module, batch, env):
        out = module(env["x"] if i else batch["inputs"])
        if i < len(self.modules) - 1:
            return {"x": out}
        return out if self._loss is None else self._loss(out, batch["labels"])


def loss_in(output, spec):
    """The loss that a spec such as (True, False) or {"loss": True} points at."""
    if spec is True or spec is None:
        return output if isinstance(output, torch.Tensor) else output[0] if isinstance(output, (tuple, list)) else output["loss"]
    pairs = spec.items() if isinstance(spec, dict) else enumerate(spec)
    key = next((k for k, v in pairs if v), None)
    if key is None:
        raise ValueError(f"output_loss_value_spec: found {spec}, expected one entry that is True")
    if isinstance(output, dict) and not isinstance(spec, dict):  # as transformers' outputs count: what they have, in order
        return [v for v in output.values() if v is not None][key]
    return output[key]
