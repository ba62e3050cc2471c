"""trine audit: rules, patches, names through imports, bad input, reports."""

import json
import os
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest
from pages import run_page

sys.path.insert(0, str(Path(__file__).parent))
from samples import PATCHED, SAMPLES  # noqa: E402

from trine.decide import audit  # noqa: E402
from trine.decide.audit import fix, loose, project, report  # noqa: E402
from trine.decide.audit.rule import EFFORTS  # noqa: E402
from trine.decide.audit.rules import RULES  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]


def kinds(text, name="a.py", own=()):
    return {f.kind for f in audit.findings_of(text, name, project.kind_of(name), own)}


@pytest.mark.parametrize("kind, name, holds, holds_not", SAMPLES, ids=[f"{s[0]}-{s[1]}-{i}" for i, s in enumerate(SAMPLES)])
def test_a_rule_holds_where_it_should_and_nowhere_else(kind, name, holds, holds_not):
    assert kind in kinds(holds, name)
    assert kind not in kinds(holds_not, name)


def test_every_rule_has_a_sample_and_its_reasons():
    assert {r.kind for r in RULES} == {s[0] for s in SAMPLES}
    assert len({r.kind for r in RULES}) == len(RULES)
    for r in RULES:
        assert r.effort in EFFORTS and r.per in ("place", "file", "project") and 0 <= r.hours[0] <= r.hours[1]
        assert r.what and r.purpose and r.instead and r.basis
        assert r.hours == (0, 0) or "estimate" in r.basis


@pytest.mark.parametrize("name, before, after", PATCHED, ids=range(len(PATCHED)))
def test_a_patch(name, before, after):
    kind = project.kind_of(name)
    assert audit.fixed_text(before, name, kind) == after
    assert audit.fixed_text(after, name, kind) == after
    assert kind != "python" or fix.compiles(after, name)


def test_the_shared_names_are_those_torch_neuron_has():
    torch = pytest.importorskip("torch")
    from trine.decide.audit.rules.torch import SAME

    assert not [name for name in SAME if not hasattr(torch.neuron, name)]
    assert not [name for name in SAME if not hasattr(torch.cuda, name)]


# names


@pytest.mark.parametrize("text", [
    "import torch as t\nc = t.cuda\nc.empty_cache()\n",
    "def f():\n    from torch import cuda\n    return cuda.empty_cache()\n",
    "try:\n    import torch as t\nexcept ImportError:\n    t = None\nt.cuda.empty_cache()\n",
    "import torch\nclass A:\n    torch = 1\n    def f(self):\n        torch.cuda.empty_cache()\n",
])  # fmt: skip
def test_names_are_resolved(text):
    assert "torch-cuda" in kinds(text)


@pytest.mark.parametrize("text", [
    "import torch\ndef f(torch):\n    torch.cuda.empty_cache()\n",
    "from .torch import cuda\ncuda.empty_cache()\n",
    "import torch\nx = 'torch.cuda.empty_cache()'\n# torch.cuda.empty_cache()\n",
    "def f(cuda):\n    return cuda.empty_cache()\n",
])  # fmt: skip
def test_other_things_of_the_same_name_are_not(text):
    assert "torch-cuda" not in kinds(text)


def test_the_projects_own_packages_are_no_dependence():
    text = "from flash_attn import flash_attn_func\n"
    assert kinds(text) == {"flash-attn"} and kinds(text, own=("flash_attn",)) == set()


def test_what_is_guarded_counts_less():
    text = "import torch\nif torch.cuda.is_available():\n    x = x.cuda()\ny = y.cuda()\n"
    found = {f.line: f for f in audit.findings_of(text, "a.py", "python") if f.kind == "cuda-method"}
    assert found[3].severity == "note" and found[4].severity == "warning"


def test_a_kernel_is_one_place():
    text = "import triton\nimport triton.language as tl\n@triton.autotune(configs=[triton.Config({})], key=[])\n@triton.jit\ndef k(x):\n    tl.load(x)\n    tl.store(x, 1)\n"
    assert [(f.line, f.kind) for f in audit.findings_of(text, "a.py", "python")] == [(1, "triton"), (2, "triton"), (4, "triton-kernel")]


# files that are not as they should be


def test_python_2_and_broken_files_are_read():
    text = "import torch as t\nprint 'cuda'\nx = t.cuda.FloatTensor(3)\nx = x.cuda()\n# y.cuda()\n'''z.cuda()'''\n"
    assert [(f.line, f.kind) for f in loose.findings(text, "a.py")] == [(2, "device-string"), (3, "cuda-tensor-type"), (4, "cuda-method")]
    assert kinds("<<<<<<< HEAD\nx.cuda()\n") == {"cuda-method"}
    assert kinds("def f(:\n  x.cuda()\n") == {"cuda-method"}


@pytest.mark.parametrize("text", [
    "x = " + "(" * 5000 + ")" * 5000 + "\ny.cuda()\n",
    "x = " + "+".join(["1"] * 50000) + "\ny.cuda()\n",
    "x = " + "[" * 150 + "y.cuda()" + "]" * 150 + "\n",
    "x = '" + "a" * 3_000_000 + "'; y.cuda()\n",
    "x = " + "-" * 20000 + "1\ny.cuda()\n",
])  # fmt: skip
def test_deep_and_long_files_are_read(text):
    assert "cuda-method" in kinds(text)


def test_a_project_that_is_hard_to_read(tmp_path):
    (tmp_path / "a.py").write_text("x.cuda()\n")
    (tmp_path / "binary.py").write_bytes(b"\0\1\2" * 100)
    (tmp_path / "latin.py").write_bytes(b"# -*- coding: latin-1 -*-\n# gr\xfc\xdfe\nx.cuda()\n")
    (tmp_path / "bom.py").write_bytes(b"\xef\xbb\xbfx.cuda()\n")
    (tmp_path / "bad.ipynb").write_text("{")
    (tmp_path / "loop").symlink_to(tmp_path)
    (tmp_path / "gone.py").symlink_to(tmp_path / "nowhere.py")
    (tmp_path / "big.json").write_text("[" + "0," * 700_000 + "0]")
    (tmp_path / "empty.py").write_text("")
    (tmp_path / ("n" * 200 + ".py")).write_text("x.cuda()\n")
    deep = tmp_path / Path(*["d"] * 60)
    deep.mkdir(parents=True)
    (deep / "b.py").write_text("x.cuda()\n")
    found = audit.audit(str(tmp_path))
    assert len(found.findings) == 5
    why = dict(found.skipped)
    assert why["binary.py"] == "binary" and "link" in why["loop"] and "link" in why["gone.py"]
    assert "no notebook" in why["bad.ipynb"] and "1.4 MB" in why["big.json"]
    assert [f.edits for f in found.findings if f.file in ("latin.py", "bom.py")] == [(), ()], "bytes that would change are not patched"


def test_a_large_repository_costs_nothing_but_its_code(tmp_path):
    with open(tmp_path / "weights.bin", "wb") as f:
        f.truncate(1 << 30)
    with open(tmp_path / "generated.py", "wb") as f:
        f.truncate(1 << 30)
    (tmp_path / "a.py").write_text("x.cuda()\n")
    found = audit.audit(str(tmp_path))
    assert len(found.findings) == 1 and "1073.7 MB" in dict(found.skipped)["generated.py"]


def test_nothing_of_a_project_runs(tmp_path):
    ran = tmp_path / "ran"
    for name in ("a.py", "setup.py", "conftest.py", "__init__.py"):
        (tmp_path / name).write_text(f"open({str(ran)!r}, 'w')\nx.cuda()\n")
    for _, _, after in audit.patches(audit.audit(str(tmp_path))):
        assert "neuron" in after
    assert not ran.exists()


def test_notebooks_are_read_and_patched(tmp_path):
    cells = [{"cell_type": "markdown", "source": ["x.cuda()\n"]},
             {"cell_type": "code", "source": ["!pip install flash-attn\n", "import torch\n", "x = \"ä\"\n", "y = torch.ones(3).cuda()"]},
             {"cell_type": "code", "source": "z = x.to('cuda')"}]  # fmt: skip
    path = tmp_path / "a.ipynb"
    path.write_text(json.dumps({"cells": cells, "nbformat": 4}, indent=1))
    found = audit.audit(str(tmp_path))
    lines = path.read_text().splitlines()
    assert [(f.kind, f.text in lines[f.line - 1]) for f in found.findings] == [("cuda-method", True), ("flash-attn", True), ("device-string", True)]
    ((_, _, after),) = audit.patches(found)
    assert json.loads(after)["cells"][1]["source"][3] == 'y = torch.ones(3).to("neuron")'


# hours


def test_hours_sum_up(tmp_path):
    (tmp_path / "a.py").write_text("import flash_attn\nflash_attn.f()\nimport triton\n@triton.jit\ndef a(): pass\n@triton.jit\ndef b(): pass\n")
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/test_a.py").write_text("import triton\n@triton.jit\ndef c(): pass\n")
    found = audit.audit(str(tmp_path))
    assert found.hours() == (1 + 2 * 4, 6 + 2 * 24) and found.hours("tests") == (4, 24)
    assert found.will_run() == "after its kernels are ported"
    listed = report.as_dict(found)
    assert sum(f["effort_h"][1] for f in listed["findings"]) == 6 + 3 * 24 and listed["hours"]["high"] == 54


# the command


def command(*words, code=0):
    done = subprocess.run(["trine", "audit", *map(str, words)], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == code, done.stderr + done.stdout
    return done


def test_the_command_reports(tmp_path):
    out = json.loads(command("examples/migrate", "--json", "--sarif", tmp_path / "a.sarif", "--html", tmp_path / "a.html").stdout)
    assert out["version"] == 1 and set(out["findings"][0]) >= {"file", "line", "kind", "what", "instead", "effort_h", "severity"}
    made = json.loads((tmp_path / "a.sarif").read_text())
    assert made["version"] == "2.1.0" and len(made["runs"][0]["results"]) == len(out["findings"])
    rules = made["runs"][0]["tool"]["driver"]["rules"]
    assert all(rules[r["ruleIndex"]]["id"] == r["ruleId"] and r["level"] in ("note", "warning", "error") for r in made["runs"][0]["results"])
    page = (tmp_path / "a.html").read_text()
    HTMLParser().feed(page)
    assert "http" not in page and "<script" not in page and "train.py:68" in page
    text = command("examples/migrate").stdout
    assert "30 places depend on CUDA in 2 files" in text and "runs after --fix" in text


def test_the_command_refuses(tmp_path):
    assert "found no" in command(tmp_path / "nothing", code=3).stderr
    assert "found nothing to read" in command(tmp_path, code=3).stderr
    command("examples/migrate", "--fix", "--diff", code=2)
    command("examples/migrate", "--inputs", "3x4", code=2)
    (tmp_path / "a.py").write_bytes(b"\0")
    assert "binary" in command(tmp_path, code=3).stderr


def test_requirements_alone(tmp_path):
    path = tmp_path / "deps.txt"
    path.write_text("torch\nflash-attn==2.5\nnvidia-cudnn-cu12\n")
    out = json.loads(command(path, "--json").stdout)
    assert [(f["line"], f["kind"]) for f in out["findings"]] == [(2, "flash-attn"), (3, "nvidia-package")]


def test_the_diff_is_a_patch(tmp_path):
    for name in ("train.py", "infer.py"):
        (tmp_path / name).write_text((ROOT / "examples/migrate" / name).read_text())
    made = command(tmp_path, "--diff").stdout
    assert "+" + '    model = Model().to("neuron")' in made
    done = subprocess.run(["patch", "-p1"], input=made, text=True, cwd=tmp_path, capture_output=True)
    assert done.returncode == 0, done.stdout
    assert "as it is" in command(tmp_path).stdout


MODELS = """
import torch


class Held(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a = torch.nn.Linear(8, 4)

    def forward(self, x, mask=None):
        return self.a(x) if mask is None else self.a(x) * mask


class Refused(Held):
    def forward(self, x):
        return torch.linalg.svdvals(super().forward(x))


def on_a_gpu():
    return Held().cuda()
"""


def test_the_dry_run(tmp_path):
    (tmp_path / "nets.py").write_text(MODELS)
    out = json.loads(command(tmp_path, "--model", "nets:Held", "--inputs", "2x8,mask=2x4", "--json").stdout)["dry_run"]
    assert out["runs"] and out["fits"] and out["parameters"] == 36 and out["band_ns"][0] <= out["time_ns"] <= out["band_ns"][1]
    assert {r["op"] for r in out["ops"]} == {"aten.linear.default", "aten.mul.Tensor"} and out["cost_usd"] > 0
    assert "nets.py:11" in out["ops"][0]["lines"][0]
    done = command(tmp_path, "--model", "nets:Refused", "--inputs", "2x8").stdout
    assert "runs on the CPU" in done and "nets.py:16  return torch.linalg.svdvals" in done and "not timed" in done
    assert "nets.py:20" in command(tmp_path, "--model", "nets:on_a_gpu", "--inputs", "2x8", code=3).stderr
    assert "nets.py:11" in command(tmp_path, "--model", "nets:Held", "--inputs", "2x9", code=3).stderr
    command(tmp_path, "--model", "nets", "--inputs", "2x9", code=2)
    command(tmp_path, "--model", "nets:Held", "--inputs", "2xx9", code=2)
    command(tmp_path, "--model", "nets:Held", "--inputs", "2x9:lots", code=2)


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes every file")
def test_a_file_that_cannot_be_written(tmp_path):
    (tmp_path / "a.py").write_text("x.cuda()\n")
    (tmp_path / "a.py").chmod(0o444)
    assert "cannot be written" in command(tmp_path, "--fix", code=5).stderr
    assert (tmp_path / "a.py").read_text() == "x.cuda()\n"


@pytest.mark.slow
def test_what_is_patched_runs_on_neuron(tmp_path):
    for name in ("train.py", "infer.py"):
        (tmp_path / name).write_text((ROOT / "examples/migrate" / name).read_text())
    assert "25 places patched in 2 files" in command(tmp_path, "--fix").stdout
    env = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
    for words in (["train.py", "--steps", "12", "--checkpoint", "a.pt"], ["infer.py", "--runs", "2"]):
        done = subprocess.run([sys.executable, *words], capture_output=True, text=True, cwd=tmp_path, env=env)
        assert done.returncode == 0 and done.stdout.startswith("neuron:0"), done.stderr[-2000:]


@pytest.mark.slow
def test_the_page_of_the_audit_is_true(tmp_path):
    shutil.copytree(ROOT / "examples/migrate", tmp_path / "examples/migrate")
    env = {**os.environ, "PYTHONPATH": str(ROOT / "python"), "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    assert run_page((ROOT / "docs/audit.md").read_text(), tmp_path, env) == 5
