"""The wheel as a stranger gets it: built by pip from a copy of the sources, installed into a clean environment, the copy
deleted, and everything used from an empty folder. `make test-wheel` runs it for each Python named.

The wheel carries PyTorch's device. With --torch the environment has torch and uses it; without, what needs it says so.
What is checked is the list at the end.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TORCH = "2.13.0"
PLACEHOLDER = "torch-neuronx==1.0"  # of PyPI

KERNEL = """
import trine.nki as nki, trine.nki.language as nl
@nki.jit
def twice(a):
    out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.add(nl.load(a), nl.load(a)))
    return out
"""
OLD_KERNEL = KERNEL.replace("trine.nki as nki, trine.nki.language", "neuronxcc.nki as nki, neuronxcc.nki.language")
JAX = """
import jax, jax.numpy as jnp
assert jax.devices()[0].platform == "neuron", jax.devices()
f = jax.jit(lambda x: jnp.tanh(x @ x.T).sum())
x = jnp.arange(12.0).reshape(3, 4) / 10
with jax.default_device(jax.devices("cpu")[0]):
    want = float(f(x))
assert abs(float(f(x)) - want) < 1e-5
print(len(jax.devices()), "devices")
"""
TORCH_COMPILE = """
import torch
m = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.Linear(16, 4))
x = torch.randn(2, 8)
got = torch.compile(m, backend="neuron")(x)
assert torch.allclose(got, m(x), atol=1e-5)
print("compiled")
"""
TORCH_DEVICE = """
import torch
x = torch.ones(3, device="neuron")
assert (x + x).cpu().tolist() == [2.0] * 3 and torch.neuron.device_count() == 2
print("neuron:0")
"""


def run(*command, cwd=None, env=None, code=0):
    done = subprocess.run([str(c) for c in command], cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != code:
        sys.exit(f"{' '.join(str(c) for c in command)}\nended with {done.returncode}, expected {code}:\n{done.stdout[-4000:]}")
    return done.stdout


def copy_sources(to):
    listed = run("git", "ls-files", "--cached", "--others", "--exclude-standard", cwd=ROOT)
    for name in listed.splitlines():
        if (ROOT / name).is_file():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, to / name)


def build(python, folder, made):
    """The wheels of Trine and of the compatibility package; their sources are gone afterwards."""
    sources, maker = folder / "sources", folder / "maker"
    copy_sources(sources)
    run(python, "-m", "venv", maker)
    pip = [maker / "bin/python", "-m", "pip", "--disable-pip-version-check"]
    for project in (sources, sources / "python/compat"):
        run(*pip, "wheel", "--quiet", "--no-deps", "--wheel-dir", made, project, cwd=folder)
    shutil.rmtree(sources)


def install(python, folder, made, with_torch):
    clean = folder / "clean"
    run(python, "-m", "venv", clean)
    wheel = next(made.glob("trine-*.whl"))
    pip = [clean / "bin/python", "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    check("what it holds", "\n".join(zipfile.ZipFile(wheel).namelist()), r"trine/_torch\.\S*\.so")
    check("what draws its pages", "\n".join(zipfile.ZipFile(wheel).namelist()), r"trine/pages/assets/vendor/echarts\.min\.js")
    run(*pip, f"{wheel}[jax,torch]" if with_torch else f"{wheel}[jax]")
    return clean, pip


def check(what, out, pattern):
    if not re.search(pattern, out):
        sys.exit(f"{what}: expected /{pattern}/ in\n{out[-3000:]}")
    print(f"  {what}: {re.search(pattern, out)[0].strip()}", flush=True)


def use(clean, pip, made, with_torch):
    """From an empty folder, with nothing of the repository on any path."""
    with tempfile.TemporaryDirectory() as here:
        here, bin = Path(here), clean / "bin"
        env = {"PATH": f"{bin}:/usr/bin:/bin", "HOME": str(here), "LC_ALL": "C.UTF-8", "NO_COLOR": "1"}
        (here / "k.py").write_text(KERNEL)
        (here / "old.py").write_text(OLD_KERNEL)
        (here / "m.py").write_text("import jax.numpy as jnp\n\ndef f(x):\n    return jnp.tanh(x) + 1\n")

        def sh(line, code=0):
            return run("/bin/sh", "-c", line, cwd=here, env=env, code=code)

        check("version", sh("trine --version"), r"trine \d+\.\d+\.\d+")
        check("trine ls", sh("trine ls --instance trn2.3xlarge"), r"instance-type: trn2.3xlarge")
        check("neuron-ls", sh("neuron-ls --json-output | head -3"), r'"neuron_device": 0')
        check("by its path", sh(f"PATH=/usr/bin:/bin {bin}/trine nki k.py --shapes 128x64"), r"twice on trn1.2xlarge, one core")
        check("trine nki", sh("trine nki k.py --shapes 128x64 --values"), r"result 0  float32\[128, 64\]")
        check("estimate", sh("trine estimate --config resnet-18 --instance inf2.xlarge"), r"inf2.xlarge +\S+ [mµ]s")
        check("compile", sh("trine compile m:f --shape x=4x8 && trine run f.trn --values --native"), r"f.trn: \d+ instructions")
        check("python -m trine", sh("python -m trine use"), r"\* +trn1.2xlarge")
        check("a page", sh("""python -c 'from trine.pages import shell; print(shell.one_file("x", "decide", {}))' | head -c 300"""), r"<!doctype html>")
        check("no compat yet", sh("trine nki old.py --shapes 128x64", code=3), r"No module named 'neuronxcc'")
        check("JAX", sh(f"python -c '{JAX}'"), r"2 devices")
        check("outside", sh("python -c 'import trine; print(trine.__file__)'"), re.escape(str(clean)))
        run(*pip, next(made.glob("trine_compat-*.whl")))
        check("compat", sh("trine nki old.py --shapes 128x64 --values"), r"result 0  float32\[128, 64\]")
        check("neuron_parallel_compile", sh("neuron_parallel_compile --help"), r"usage: .*")
        check("completion", sh(f"bash -c 'source {clean}/share/bash-completion/completions/trine && complete -p trine neuron-ls'"), r"-F _trine neuron-ls")
        for path in ("zsh/site-functions/_trine", "fish/vendor_completions.d/trine.fish"):
            check(path, (clean / "share" / path).read_text(), r"trine completion \w+")
        if shutil.which("man"):
            check("man", sh("man -P cat neuron-ls"), r"(?i)trine-ls")
        if with_torch:
            check("torch.compile", sh(f"python -c '{TORCH_COMPILE}'"), r"compiled")
            check("torch's device", sh(f"python -c '{TORCH_DEVICE}'"), r"neuron:0")
            run(*pip, "--no-deps", PLACEHOLDER)
            check("a placeholder", sh("python -c 'import torch'"), r"pip put torch-neuronx 1.0 .* over the torch_neuronx of trine-compat; try  .*")
        else:
            check("no torch", sh("python -c 'import torch_xla'", code=1), rf"found no torch, expected {TORCH}: .*")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pythons", nargs="*", default=[sys.executable], help="interpreters to build and test with")
    parser.add_argument("--torch", action="store_true", help="with torch in the environment, and use it")
    parser.add_argument("--keep", type=Path, help="folder for the wheels; one that is there is not built again")
    asked = parser.parse_args()
    for python in asked.pythons:
        began = time.monotonic()
        version = run(python, "-c", "import platform; print(platform.python_version())").strip()
        print(f"Python {version}{', with torch' if asked.torch else ''}", flush=True)
        with tempfile.TemporaryDirectory(prefix="trine-wheel-") as folder:
            made = (asked.keep or Path(folder)).resolve() / version
            if not list(made.glob("trine_compat-*.whl")):
                build(python, Path(folder), made)
            wheel = next(made.glob("trine-*.whl"))
            print(f"  {wheel.name}, {wheel.stat().st_size / 1e6:.0f} MB, {time.monotonic() - began:.0f} s", flush=True)
            use(*install(python, Path(folder), made, asked.torch), made, asked.torch)
        print(f"  ok, {time.monotonic() - began:.0f} s", flush=True)


if __name__ == "__main__":
    os.environ.pop("PYTHONPATH", None)
    os.environ.setdefault("CXX", "g++")  # the name is part of the compiler cache's key
    main()
