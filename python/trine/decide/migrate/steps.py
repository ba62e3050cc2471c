"""The six steps: pick, baseline, port, validate, benchmark, evaluate. Each gives a value that JSON can hold."""

import copy
import os
import shutil
import subprocess
import sys
import types

from trine.command import UNSUPPORTED, Stop, note
from trine.decide import audit, bench
from trine.decide.audit import dry_run
from trine.decide.audit import report as audit_report
from trine.decide.audit.command import write
from trine.decide.migrate import baseline as gpu
from trine.decide.migrate.evaluate import cells, evaluate, time_cell
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
        self._module = None

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
    return {"path": run.project.project["path"], "files": found.files, "lines": found.lines, "model": run.project.project["model"],
            "inputs": run.project.project["inputs"], "train": run.project.project["train"], "traffic": run.project.traffic}  # fmt: skip


def copied(run):
    """The project beside the state, to be patched there; the user's own files are never written."""

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
    shutil.copytree(run.project.root, fresh, copy_function=small, ignore=leave)
    shutil.rmtree(run.ported, ignore_errors=True)
    os.replace(fresh, run.ported)


def port(run):
    """Audit, patch, dry run, and the project's own script on the virtual device."""
    copied(run)
    before = audit.audit(str(run.ported))
    patches = audit.patches(before)
    for file, _, after in patches:
        write(file.path, after, like=file.path)
    after = audit.audit(str(run.ported))
    with stage("exporting the model"):
        dry = dry_run.dry_run(run.project.project["model"], run.project.project["inputs"], str(run.ported), run.project.trial["instances"][0], run.project.project["train"])
    out = {"before": audit_report.as_dict(before), "after": audit_report.as_dict(after, dry), "patched": [file.name for file, _, _ in patches],
           "will_run": after.will_run(), "hours": list(after.hours()), "ops": len(dry.ops), "ops_on_cpu": [r["op"] for r in dry.on_cpu]}  # fmt: skip
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
    import torch

    a, b = torch.cat([t.flatten() for t in found]), torch.cat([t.flatten() for t in wanted])
    norm = float(b.norm())
    out = {"relative": float((a - b).norm()) / norm if norm else float((a - b).norm()), "max_abs": float((a - b).abs().max()) if a.numel() else 0.0,
           "cosine": float(torch.nn.functional.cosine_similarity(a, b, dim=0))}  # fmt: skip
    if found and found[0].dim() >= 2:
        out["top1"] = float((found[0].argmax(-1) == wanted[0].argmax(-1)).double().mean())
    return out


def validate(run):
    """Three ways: f32 on the CPU as the truth, bf16 on the CPU as the noise that is expected, the device in both."""
    import torch

    import trine  # noqa: F401  the device "neuron"

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
    holds = rows["f32 on the device"]["relative"] <= EXACT and rows["bf16 on the device"]["relative"] <= max(EXACT, NOISE * rows["bf16 on the CPU"]["relative"])
    return {"of": "gradients" if train else "outputs", "rows": rows, "holds": bool(holds), "limits": {"f32": EXACT, "bf16_times_cpu": NOISE}}


def benchmark(run):
    """The first instance with the project's own batch: under load, in a burst, with faults; all in chip time."""
    instance = run.project.trial["instances"][0]
    precision = run.project.trial["precisions"][-1]
    row = cell_of(run, (instance, precision, run.project.batch))
    if "why_not" in row:
        return row
    asked = types.SimpleNamespace(requests=5000, seed=SEED, slo_ms=run.project.traffic["p99_ms"], burst=10 * run.project.batch)
    found = bench.under_load(row["call_ms"] * 1e-3, row["cores"], 1, row["batch"], 0.0, asked)
    return row | {"time": "chip", **found}


def cell_of(run, cell):
    """A cell's time, from what is done or made now."""
    from trine.decide.migrate import state

    name, key = f"cell {' '.join(map(str, cell))}", state.digest(run.port_key, run.project.project, cell)
    held = run.state.get(name, key)
    if held is None:
        import time

        begin = time.perf_counter()
        with stage(f"timing {cell[0]}, {cell[1]}, batch {cell[2]}"):
            held = time_cell(run.project, run.module, cell, run.cores_of)
        run.state.put(name, key, held, time.perf_counter() - begin)
    return held


def evaluated(run, done):
    every = cells(run.project)
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
    import time

    from trine.decide.migrate import state

    done, project = {}, run.project
    files = state.files_digest(project.root, (run.state.folder, project.file))
    keys = {"pick": (files, project.project, project.traffic), "port": (files, project.project, project.trial["instances"][0])}
    keys["baseline"] = (keys["port"], project.baseline)
    keys["validate"] = keys["port"]
    keys["benchmark"] = (keys["port"], project.trial, project.traffic)
    keys["evaluate"] = (keys["benchmark"], project.baseline)
    run.port_key = state.digest(keys["port"])
    functions = {"pick": pick, "port": port, "validate": validate, "benchmark": benchmark, "evaluate": lambda r: evaluated(r, done),
                 "baseline": lambda r: gpu.baseline(project, copy.deepcopy(r.module), *r.inputs())}  # fmt: skip
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
