"""neuronx_distributed.lightning under torchrun, four ranks, TP 2 and DP 2: the losses of one process, and a run that goes on from a checkpoint."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("trine._torch")
pytest.importorskip("lightning.pytorch")
HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]


def launched(out, steps, *begin, **settings):
    out.mkdir(exist_ok=True)
    env = {**os.environ, "TRINE_INSTANCE": "trn1.32xlarge", "PYTHONPATH": f"{ROOT}/python:{ROOT}/python/compat", **settings}
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node=4", "--standalone", str(HERE / "lightning_script.py"), str(out), str(steps)]
    done = subprocess.run([*command, *map(str, begin)], env=env, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads((out / "losses.json").read_text())["losses"], done.stdout + done.stderr


def alone(steps):
    """The same steps of the whole model by torch alone."""
    g = torch.Generator().manual_seed(7)
    up, down = torch.nn.Linear(16, 32), torch.nn.Linear(32, 16)
    with torch.no_grad():
        up.weight.copy_(torch.randn(32, 16, generator=g) / 4), down.weight.copy_(torch.randn(16, 32, generator=g) / 6)
        up.bias.zero_(), down.bias.zero_()

    def row(i):
        g = torch.Generator().manual_seed(i)
        return torch.randn(16, generator=g), torch.randn(16, generator=g)

    parameters = [*up.parameters(), *down.parameters()]
    decayed = [{"params": [up.weight, down.weight], "weight_decay": 0.01}, {"params": [up.bias, down.bias], "weight_decay": 0.0}]
    optimizer, losses = torch.optim.AdamW(decayed, lr=0.02), []
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda s: 1 / (1 + s))
    for step in range(steps):
        rows = [row(2 * i + rank) for rank in (0, 1) for i in range(4 * (step % 2), 4 * (step % 2) + 4)]
        x, y = (torch.stack(part) for part in zip(*rows, strict=True))
        loss = torch.nn.functional.mse_loss(down(torch.nn.functional.gelu(up(x))), y)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step(), optimizer.zero_grad(), schedule.step()
        losses.append(loss.item())
    return losses


@pytest.mark.slow
def test_losses_of_one_process_and_on_from_a_checkpoint(tmp_path):
    losses, said = launched(tmp_path / "whole", 6)
    assert losses == pytest.approx(alone(6), rel=2e-5)
    kept = tmp_path / "whole/kept"
    assert sorted(p.name for p in kept.iterdir()) == ["step4.ckpt", "step6.ckpt"], "the oldest is removed"
    assert "Printing Model Layers:" in said and list((tmp_path / "whole/hooks_outputs").rglob("global_step_4/*_grad_output_norm.pt"))
    assert list((tmp_path / "whole/tb").rglob("events.out*")), "one rank writes for TensorBoard"
    on, _ = launched(tmp_path / "on", 6, kept / "step4.ckpt")
    assert on == pytest.approx(losses[4:], rel=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{"ZERO": "1"}, {"AUTOMATIC": "1"}, {"NXD_CPU_MODE": "1"}], ids=lambda s: next(iter(s)))
def test_other_ways(tmp_path, settings):
    losses, _ = launched(tmp_path / "out", 3, **settings)
    assert losses == pytest.approx(alone(3), rel=2e-5)
    if "ZERO" in settings:
        assert (tmp_path / "out/kept/step2.ckpt/tp_rank_00_pp_rank_00_dp_rank_01").exists(), "each rank writes its part of the state"
