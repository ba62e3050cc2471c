"""The six steps: pick, baseline, port, validate, benchmark, evaluate. Each gives a value that JSON can hold."""

import copy
import os
import shutil
import subprocess
import sys
import time
import types

from trine.command import UNSUPPORTED, Stop, note
from trine.decide import audit, bench
from trine.decide.audit import dry_run
from trine.decide.audit import report as audit_report
from trine.decide.migrate import baseline as gpu
from trine.decide.migrate import decoder
from trine.decide.migrate.evaluate import cells, evaluate, time_cell
from trine.decide.paper import write
from trine.progress import stage

STEPS = ("pick", "baseline", "port", "validate", "benchmark", "evaluate")
LARGE = 64 << 20  # files above are linked, not copied: weights and data
SCRIPT_S = 600
NOISE = 1.5  # what the device's error may be of the CPU's own in bf16; the ratio of Neuron's three-way comparison
EXACT = 1e-3  # relative error of f32 on the device
SEED = 0


class Run:
    """A migration under way: the project, what is done, and the model of the ported copy, made once it is needed."""

    def __init__(self, project, state, prices):
        self.project, self.state, self.prices = project, state, prices
        self.ported = state.folder / "ported"
        self._module = self._config = None

    @property
    def config(self):
        """A decoder's configuration."""
        if self._config is None:
            self._config = decoder.loaded(self.project)
        return self._config

    @property
    def module(self):
        if self._module is None:
            import torch

            torch.manual_seed(SEED)
            self._module = dry_run.made_by(self.project.project["model"], str(self.ported))
        return self._module

    def inputs(self, batch=None):
        import torch

        torch.manual_seed(SEED + 1)
        return dry_run.read_inputs(self.project.inputs_of(batch or self.project.batch))

    def cores_of(self, instance):
        from trine.nki import machine

        if instance not in self.prices.chips:
            raise Stop(UNSUPPORTED, f"[try] instances: found {instance!r}, expected one of those that `trine prices` lists")
        chip, chips = self.prices.chips[instance]
        return machine.chip(chip)["cores"] * chips


def pick(run):
    """What is moved: read, never run."""
    found = audit.audit(str(run.project.root))
    if not found.files:
        raise Stop(UNSUPPORTED, f"{run.project.root}: found nothing to read, expected the Python of a project")
    if run.project.is_decoder:
        decoder.loaded(run.project)  # what is no decoder is told before anything is copied
    return {"path": run.project.project["path"], "files": found.files, "lines": found.lines, "model": run.project.project["model"] or run.project.project["config"],
            "inputs": run.project.project["inputs"], "train": run.project.project["train"], "traffic": run.project.traffic}  # fmt: skip


def copied(run):
    """The project beside the state, to be patched there; the user's own files are never written. What could not be copied."""

    def small(source, target):
        if os.path.getsize(source) > LARGE:
            os.symlink(source, target)
        else:
            shutil.copy2(source, target)
        return target

    def leave(folder, names):
        here = os.path.realpath(folder)
        return [n for n in names if n in (".git", "__pycache__", ".venv", "node_modules") or os.path.join(here, n) == str(run.state.folder.resolve())
                or os.path.islink(os.path.join(folder, n))]  # fmt: skip

    fresh = run.ported.with_name("ported.new")
    shutil.rmtree(fresh, ignore_errors=True)
    left = []
    try:
        shutil.copytree(run.project.root, fresh, copy_function=small, ignore=leave)
    except shutil.Error as e:  # pipes, and what may not be read: all else is there
        left = [[os.path.relpath(source, run.project.root), str(why).split("] ")[-1]] for source, _, why in e.args[0]]
        note(f"trine migrate: {len(left)} files could not be copied, the first: {': '.join(left[0])}")
    shutil.rmtree(run.ported, ignore_errors=True)
    os.replace(fresh, run.ported)
    return left


def port(run):
    """Audit, patch, dry run, and the project's own script on the virtual device."""
    left = copied(run)
    before = audit.audit(str(run.ported))
    patches = audit.patches(before)
    for file, _, after in patches:
        write(file.path, after, like=file.path)
    after, dry = audit.audit(str(run.ported)), None
    if not run.project.is_decoder:  # a configuration has no code that could be exported
        with stage("exporting the model"):
            dry = dry_run.dry_run(run.project.project["model"], run.project.project["inputs"], str(run.ported), run.project.trial["instances"][0], run.project.project["train"])
    out = {"before": audit_report.as_dict(before), "after": audit_report.as_dict(after, dry), "patched": [file.name for file, _, _ in patches],
           "will_run": after.will_run(), "hours": list(after.hours()), "not_copied": left}  # fmt: skip
    if dry:
        out |= {"ops": len(dry.ops), "ops_on_cpu": [r["op"] for r in dry.on_cpu]}
    if run.project.project["script"]:
        out["script"] = run_script(run)
    return out


def run_script(run):
    name, arguments = run.project.project["script"], [str(a) for a in run.project.project["arguments"]]
    path = (run.ported / name).resolve()
    if not path.is_relative_to(run.ported.resolve()) or not path.is_file():
        raise Stop(UNSUPPORTED, f"[project] script: found {name!r}, expected a file of the project")
    with stage(f"running {name} on the virtual device"):
        try:
            done = subprocess.run([sys.executable, str(path), *arguments], cwd=run.ported, capture_output=True, text=True, timeout=SCRIPT_S)
        except subprocess.TimeoutExpired:
            return {"ok": False, "tail": f"did not end within {SCRIPT_S} s"}
    tail = (done.stdout if done.returncode == 0 else done.stdout + done.stderr).strip().splitlines()[-6:]
    return {"ok": done.returncode == 0, "tail": "\n".join(tail)}


def outcome(module, args, kwargs, train):
    """Outputs of the model, or the gradients of their mean square, in f64 on the CPU."""
    import torch

    module.eval()  # dropout is chance
    with torch.set_grad_enabled(train):
        out = module(*args, **kwargs)
        tensors = [t for t in torch.utils._pytree.tree_leaves(out) if isinstance(t, torch.Tensor) and t.is_floating_point()]
        if train:
            sum(t.float().square().mean() for t in tensors).backward()
            tensors = [p.grad for p in module.parameters() if p.grad is not None]
    return [t.detach().cpu().double() for t in tensors]


def apart(found, wanted):
    """By the measures of `trine debug compare`, over all tensors; `top1`: how often the first output's largest is the same."""
    import numpy

    from trine.debug import measures

    a, b = (numpy.concatenate([t.numpy().ravel() for t in ts]) if ts else numpy.zeros(0) for ts in (found, wanted))
    out = measures.measured(a, b, numpy.float32)
    if found and found[0].dim() >= 2:
        out["top1"] = measures.top_k(found[0].numpy(), wanted[0].numpy(), 1)[1]
    return out


def validate(run):
    """Three ways: f32 on the CPU as the truth, bf16 on the CPU as the noise that is expected, the device in both."""
    import torch

    import trine  # noqa: F401  the device "neuron"

    if run.project.is_decoder:
        with stage("a small likeness on the CPU and on the virtual device"):
            return decoder.validate(run.config)
    train = run.project.project["train"]
    args, kwargs = run.inputs()

    def on(device, dtype):
        def moved(x):
            return x.to(device, dtype) if x.is_floating_point() else x.to(device)

        return outcome(copy.deepcopy(run.module).to(device, dtype), [moved(a) for a in args], {k: moved(v) for k, v in kwargs.items()}, train)

    with stage("the model on the CPU and on the virtual device"):
        truth, noise = on("cpu", torch.float32), on("cpu", torch.bfloat16)
        exact, rounded = on("neuron", torch.float32), on("neuron", torch.bfloat16)
    rows = {"f32 on the device": apart(exact, truth), "bf16 on the device": apart(rounded, truth), "bf16 on the CPU": apart(noise, truth)}
    wide, narrow, noisy = (rows[name]["l2_relative"] for name in rows)
    finite = not any(rows[name]["not_finite"] > rows[name]["not_finite_reference"] for name in ("f32 on the device", "bf16 on the device"))
    holds = finite and wide <= EXACT and narrow <= max(EXACT, NOISE * noisy)
    return {"of": "gradients" if train else "outputs", "rows": rows, "holds": bool(holds), "limits": {"f32": EXACT, "bf16_times_cpu": NOISE}}


def benchmark(run):
    """The first instance with the project's own batch: under load, in a burst, with faults; all in chip time. A decoder's
    requests are whole ones, of which a batch begins and ends together."""
    project = run.project
    if project.is_decoder:
        tried = [c for c in decoder.cells(project, run.config) if c[4] >= project.request]
        row = next((r for r in (cell_of(run, c) for c in tried) if "why_not" not in r), None)
        if row is None:
            return {"why_not": "nothing of what is tried fits"}
        service = 1e-3 * (row["batch"] * row["first_token_ms"] + project.traffic["output"] * row["call_ms"])
        exposed = row["collectives_ms"] / row["call_ms"]
    else:
        row = cell_of(run, (project.trial["instances"][0], project.trial["precisions"][-1], project.batch))
        if "why_not" in row:
            return row
        service, exposed = row["call_ms"] * 1e-3, 0.0
    asked = types.SimpleNamespace(requests=5000, seed=SEED, slo_ms=0 if project.is_decoder else project.traffic["p99_ms"], burst=10 * row["batch"])
    found = bench.under_load(service, row["copies"], 1, row["batch"], exposed, asked)
    return row | {"time": "chip", "service_ms": 1e3 * service, **found}


def held_or_made(run, name, make, *depends):
    """A piece of a step, from what is done or made now."""
    from trine.decide.migrate import state

    key = state.digest(*depends)
    held = run.state.get(name, key)
    if held is None:
        begin = time.perf_counter()
        held = make()
        run.state.put(name, key, held, time.perf_counter() - begin)
    return held


def cell_of(run, cell):
    """A cell's time; a decoder's two programs are kept apart, as many cells read the prompt by the same one."""
    project = run.project
    if not project.is_decoder:

        def make():
            with stage(f"timing {cell[0]}, {cell[1]}, batch {cell[2]}"):
                return time_cell(project, run.module, cell, run.cores_of)

        return held_or_made(run, f"cell {' '.join(map(str, cell))}", make, run.port_key, project.project, cell)
    if cell[0] not in run.prices.chips:
        run.cores_of(cell[0])
    instance, precision, batch, tp, context = cell
    config = {k: v for k, v in run.config.items() if k != "_name_or_path"}

    def program(phase, words):
        with stage(f"timing {instance}, {precision}, tp {tp}, {words}"):
            return decoder.timed(project, run.config, cell, phase)

    decode = held_or_made(run, f"decode {' '.join(map(str, cell))}", lambda: program("decode", f"batch {batch}, window {context}"), config, cell)
    prompt = project.traffic["prompt"]
    prefill = decode if "why_not" in decode else held_or_made(
        run, f"prefill {instance} {precision} {tp}", lambda: program("prefill", f"prompt {prompt}"), config, instance, precision, tp, prompt)  # fmt: skip
    return decoder.joined(project, cell, prefill, decode)


def evaluated(run, done):
    every = decoder.cells(run.project, run.config) if run.project.is_decoder else cells(run.project)
    rows = []
    for i, cell in enumerate(every):
        rows.append(cell_of(run, cell))
        if sys.stderr.isatty():
            print(f"\r  {i + 1} of {len(every)} tried", end="\n" if i + 1 == len(every) else "", file=sys.stderr, flush=True)
    low, high = done["port"]["hours"]
    hours = ((low, (low + high) / 2, high), f"trine audit, {len(done['port']['after']['findings'])} findings left")
    return evaluate(run.project, rows, done["baseline"], hours, run.prices)


def all_steps(run, again=()):
    """{step: value}; what is held and still true is not done again."""
    from trine.decide.migrate import state

    done, project = {}, run.project
    files = state.files_digest(project.root, (run.state.folder, project.file))
    keys = {"pick": (files, project.project, project.traffic), "port": (files, project.project, project.trial["instances"][0])}
    of_model = (run.config, project.traffic) if project.is_decoder else ()
    keys["baseline"] = (keys["port"], project.baseline, *of_model, project.trial["batches"] if of_model else None)
    keys["validate"] = (keys["port"], run.config if of_model else None)
    keys["benchmark"] = (keys["port"], project.trial, project.traffic)
    keys["benchmark"] = (keys["benchmark"], *of_model)
    measured = project.file.parent / project.baseline["file"]
    if project.baseline["file"] and measured.is_file():
        keys["baseline"] = (keys["baseline"], measured.stat().st_size, measured.stat().st_mtime_ns)
    keys["evaluate"] = (keys["benchmark"], keys["baseline"], run.prices.hourly, run.prices.buy, run.prices.inputs)
    run.port_key = state.digest(keys["port"])
    functions = {"pick": pick, "port": port, "validate": validate, "benchmark": benchmark, "evaluate": lambda r: evaluated(r, done),
                 "baseline": lambda r: decoder.baseline(project, r.config) if project.is_decoder else gpu.baseline(project, copy.deepcopy(r.module), *r.inputs())}  # fmt: skip
    for name in ("pick", "port", "baseline", "validate", "benchmark", "evaluate"):  # the baseline counts FLOPs of the ported model
        key = state.digest(keys[name])
        held = None if name in again else run.state.get(name, key)
        if held is not None and (name != "port" or run.ported.is_dir()):
            note(f"  {name:10} as before")
        else:
            begin = time.perf_counter()
            held = functions[name](run)
            run.state.put(name, key, held, time.perf_counter() - begin)
            note(f"  {name:10} {time.perf_counter() - begin:.1f} s")
        done[name] = held
    return done
