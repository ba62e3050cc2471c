"""Injected faults as a user meets them: in values, time, counters and status codes; core dumps; what an archive leaves out."""

import json
import os
import re
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
KERNEL = ROOT / "tests/run/tile_add.tasm"
TORCH = """
import torch, trine
x = torch.ones(8, 8, device="neuron")
for i in range(4):
    try:
        print((x + x).cpu().sum().item())
    except RuntimeError as e:
        print(str(e).splitlines()[0])
"""


def time_of(field, *words):
    return json.loads(field.run("run", str(KERNEL), "--time", "--json", *words).stdout)["time"]["time_ns"]


def test_time(field):
    well = time_of(field)
    slow = [time_of(field, "--fault", f"slow:dma={e},by=50") for e in range(16)]
    assert max(slow) > well and min(slow) >= well
    assert time_of(field, "--fault", "throttle:by=20") > well


def test_a_stuck_semaphore_leaves_a_core_dump(field, tmp_path):
    done = field.run("run", str(KERNEL), "--values", "--fault", "stuck:semaphore=0", NEURON_RT_LOCAL_CORE_DUMP_DIRECTORY=str(tmp_path))
    assert done.returncode == 1 and "status NRT_TIMEOUT (5)" in done.stderr
    [file] = tmp_path.glob("core.*.json")
    dump = json.loads(file.read_text())
    assert (dump["version"], dump["status"], dump["code"]) == (1, "NRT_TIMEOUT", 5)
    waiting = [e for e in dump["engines"] if e["state"] == "waits"]
    assert waiting and any("s0>=" in e["waits_for"] and e["where"] for e in waiting)
    assert any(len(m["bytes"]) == 128 for m in dump["memory"]), "64 bytes of each operand"
    shown = subprocess.run([sys.executable, "-c", f"from trine import _core; print(_core.core_dump_text(open({str(file)!r}).read()))"], capture_output=True, text=True)
    assert re.search(r"NRT_TIMEOUT \(5\)", shown.stdout) and "engines" in shown.stdout and "s0>=" in shown.stdout


def test_a_flipped_bit_is_one_value(field, tmp_path):
    import numpy as np

    for name, more in (("well", ()), ("flip", ("--fault", "flip:tensor=out,byte=2,bit=6"))):
        (tmp_path / name).mkdir()
        done = field.run("run", str(KERNEL), "--values", "--output", str(tmp_path / name), *more)
        assert done.returncode == 0, done.stderr
    well, flip = (np.load(next((tmp_path / n).glob("*.npy"))).reshape(-1).view(np.uint8) for n in ("well", "flip"))
    different = np.flatnonzero(well != flip)
    assert different.tolist() == [2] and well[2] ^ flip[2] == 64


@pytest.mark.parametrize(("fault", "code"), [("lost:core=0,after=2", "NRT_EXEC_UNIT_UNRECOVERABLE (101)"), ("ecc:mem_uncorrected=1,after=2", "NRT_EXEC_HW_ERR_HBM_UE (1201)"),
                                             ("stuck:semaphore=1,after=2", "NRT_TIMEOUT (5)")])  # fmt: skip
def test_torch_meets_a_status_code(field, fault, code):
    done = subprocess.run([sys.executable, "-c", TORCH], env={**field.environment, "TRINE_FAULT": fault}, capture_output=True, text=True)
    lines = done.stdout.splitlines()
    assert lines[0] == "128.0" and any(code in line for line in lines), done.stdout + done.stderr
    if fault.startswith("ecc"):
        assert lines[-1] == "128.0", "once"


def test_counters_show_faults(field):
    field.start("torch", TRINE_FAULT="ecc:sram_corrected=7;throttle:by=3")
    sample = json.loads(field.run("top", "--once", "--json").stdout)["sample"]
    assert sample["system_data"]["neuron_hw_counters"]["neuron_devices"][0]["sram_ecc_corrected"] == 7
    assert sample["neuron_runtime_data"][0]["report"]["trine"]["cores"]["0"]["throttled_percent"] > 0


def test_rates_are_seeded(field):
    script = "import torch, trine; x = torch.ones(256, 256, device='neuron'); print(hash(str((x + x).cpu().sum(0).tolist())))"
    runs = [subprocess.run([sys.executable, "-c", script], env={**field.environment, "TRINE_FAULT": f, "PYTHONHASHSEED": "0"}, capture_output=True, text=True).stdout
            for f in ("flip:rate=1e-4,seed=1", "flip:rate=1e-4,seed=1", "flip:rate=1e-4,seed=2", "")]  # fmt: skip
    assert runs[0] == runs[1] != runs[2] and runs[3] not in runs[:3]


def test_a_wrong_fault_is_said(field):
    done = field.run("run", str(KERNEL), "--fault", "melt:core=0")
    assert done.returncode == 2 and 'found "melt", expected flip, stuck, slow, throttle, lost, ecc' in done.stderr


def test_gatherinfo_leaves_secrets_out(field, tmp_path):
    secrets = {"NEURON_COMPILE_CACHE_URL": "https://user:hunter2@cache.example/x", "TRINE_SERVE_KEY": "open-sesame-4711", "NEURON_CC_FLAGS": "--opt token=abcdef123456"}
    log = tmp_path / "my.log"
    log.write_text("Authorization: Bearer abcdefgh12345678\nAKIAABCDEFGHIJKLMNOP\nplain line\n")
    done = field.run("gatherinfo", "--output", str(tmp_path), "--include", str(log), "--json", HOME="/home/somebody", **secrets)
    assert done.returncode == 0, done.stderr
    with tarfile.open(json.loads(done.stdout)["archive"]) as archive:
        texts = {m.name.split("/", 1)[1]: archive.extractfile(m).read().decode() for m in archive.getmembers()}
    assert {"versions.json", "environment.json", "machine.txt", "counters.json", "files/my.log"} <= set(texts)
    everything = "\n".join(texts.values())
    for secret in ("hunter2", "open-sesame-4711", "abcdef123456", "abcdefgh12345678", "AKIAABCDEFGHIJKLMNOP"):
        assert secret not in everything
    assert "plain line" in texts["files/my.log"] and "NEURON_CC_FLAGS" in texts["environment.json"]
    assert os.stat(json.loads(done.stdout)["archive"]).st_mode & 0o077 == 0
