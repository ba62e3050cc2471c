"""Streams of `neuron` run beside each other, in the order that events and shared memory ask for."""

import os
import random
import subprocess
import sys
import threading
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("trine._torch")

import trine  # noqa: E402
from trine import _torch  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
ENV = {**os.environ, "PYTHONPATH": f"{ROOT}/python:{ROOT}/python/compat", "TRINE_INSTANCE": "trn1.32xlarge", "OMP_NUM_THREADS": "1"}


class Held:
    """A stream that does not go on until it is told to."""

    def __init__(self, stream):
        self.moment = _torch.Moment()
        _torch.hold_stream(stream.device_index, stream.stream_id, self.moment)

    def let_go(self):
        self.moment.come()

    def let_go_soon(self):
        """From another thread, while this one waits."""
        threading.Timer(0.05, self.let_go).start()


@pytest.fixture
def stream():
    made = torch.neuron.Stream()
    yield made
    torch.neuron.synchronize()


def on(*shape):
    return torch.randn(*shape).to("neuron")


def test_streams_run_beside_each_other_and_the_default(stream):
    other, x = torch.neuron.Stream(), on(8, 8)
    held = Held(stream)
    with stream:
        late = x @ x
    with other:
        soon = x + x
        end = other.record_event()
    end.synchronize()
    here = x * 3
    assert end.query() and other.query() and not stream.query()
    assert torch.equal(soon.cpu(), x.cpu() * 2) and torch.equal(here.cpu(), x.cpu() * 3)
    held.let_go()
    stream.synchronize()
    assert stream.query()
    torch.testing.assert_close(late.cpu(), x.cpu() @ x.cpu())


def test_an_event_is_when_its_stream_came_to_it(stream):
    first, last = torch.neuron.Event(enable_timing=True), torch.neuron.Event(enable_timing=True)
    assert first.query()  # never recorded
    held, x = Held(stream), on(4)
    with stream:
        first.record()
        x + x
        last.record()
    assert not first.query() and not last.query()
    with pytest.raises(RuntimeError, match="completed"):
        first.elapsed_time(last)
    held.let_go()
    last.synchronize()
    assert first.query() and last.query() and first.elapsed_time(last) >= 0 >= last.elapsed_time(first)
    again = Held(stream)
    last.record(stream)
    assert not last.query()
    again.let_go()


def test_a_stream_waits_for_an_event_and_not_for_what_comes_after_it(stream):
    other, x = torch.neuron.Stream(), on(4)
    held = Held(stream)
    event = stream.record_event()
    other.wait_event(event)
    with other:
        y = x + 1
    assert not other.query()
    held.let_go()
    event.synchronize()
    after = Held(stream)
    other.synchronize()
    assert not stream.query() and torch.equal(y.cpu(), x.cpu() + 1)
    other.wait_stream(stream)
    with other:
        y = x + 2
    assert not other.query()
    after.let_go_soon()
    torch.neuron.current_stream().wait_stream(other)
    assert other.query() and stream.query() and torch.equal(y.cpu(), x.cpu() + 2)


@pytest.mark.parametrize(
    "read",
    [
        lambda t: t.tolist(),
        lambda t: t.cpu().tolist(),
        lambda t: [v.item() for v in t],
        lambda t: (t + 0).tolist(),
        lambda t: torch.neuron.synchronize() or _torch.cpu_alias(t).tolist(),
        lambda t: torch.nonzero(t).flatten().tolist() and t.tolist(),
        lambda t: t[None].expand(2, 4)[1].clone().tolist(),
        lambda t: t.numpy(force=True).tolist(),
        lambda t: torch.empty(4, device="neuron").copy_(t).tolist(),
        lambda t: t.resize_(5)[:4].tolist(),
        lambda t: torch.compile(lambda v: v * 1, backend="neuron")(t).tolist(),
    ],
)
def test_who_reads_a_value_waits_for_it(stream, read):
    x = torch.arange(4.0, device="neuron")
    held = Held(stream)
    with stream:
        y = x * 2 + 1
    held.let_go_soon()
    assert read(y) == [1.0, 3.0, 5.0, 7.0]


def test_who_writes_waits_for_those_who_read(stream):
    x = torch.arange(4.0, device="neuron")
    held = Held(stream)
    with stream:
        y = x * 2
    held.let_go_soon()
    x.zero_()
    assert y.tolist() == [0.0, 2.0, 4.0, 6.0] and x.tolist() == [0.0] * 4


def test_other_bytes_of_the_same_memory_are_free(stream):
    whole = torch.zeros(4, 4, device="neuron")
    held = Held(stream)
    with stream:
        whole[1:3].add_(1)
    whole[0].add_(5)
    assert whole[3].tolist() == [0.0] * 4 and whole[0].tolist() == [5.0] * 4 and not stream.query()
    held.let_go()
    assert whole.sum(1).tolist() == [20.0, 4.0, 4.0, 0.0]


def test_memory_that_tasks_hold_is_waited_for_before_it_is_out(stream):
    torch.ones(4, dtype=torch.uint8, device="neuron").zero_() + 1  # who makes the programs holds their first tensors a while
    free = torch.neuron.mem_get_info()[0]
    try:
        most = torch.empty(free - 2**20, dtype=torch.uint8, device="neuron")
    except torch.OutOfMemoryError as e:
        assert "this machine has no" in str(e), e  # not the device's
        pytest.skip("others have the memory of this machine")
    held = Held(stream)
    with stream:
        y = most[:4].zero_() + 1
    del most
    held.let_go_soon()
    again = torch.empty(free - 2**20, dtype=torch.uint8, device="neuron")
    assert y.tolist() == [1] * 4 and again.numel() == free - 2**20
    del again


def test_memory_lives_as_long_as_tasks_use_it(stream):
    x = torch.arange(4.0, device="neuron")
    moved = torch.arange(4.0, device="neuron")
    held = Held(stream)
    with stream:
        y = (x * 2)[1:] + moved[1:]
    del x
    moved.untyped_storage().resize_(0)
    others = [torch.full((4,), -1.0, device="neuron") for _ in range(32)]
    held.let_go()
    assert y.tolist() == [3.0, 6.0, 9.0] and all(t.tolist() == [-1.0] * 4 for t in others)


def test_copies_of_pinned_memory_wait_and_others_are_done_at_once(stream):
    pinned, plain = torch.arange(4.0).pin_memory(), torch.arange(4.0)
    held = Held(stream)
    with stream:
        a = pinned.to("neuron", non_blocking=True)
        back = torch.zeros(4).pin_memory()
        back.copy_(a + 1, non_blocking=True)
        done = stream.record_event()
    assert back.tolist() == [0.0] * 4
    held.let_go_soon()
    with stream:
        b = plain.to("neuron")
    plain.zero_()
    done.synchronize()
    assert back.tolist() == [1.0, 2.0, 3.0, 4.0] and b.tolist() == [0.0, 1.0, 2.0, 3.0]


def test_an_error_is_thrown_at_the_next_wait_with_the_name_of_its_op(stream):
    weight, index = on(4, 2), torch.tensor([1, 7], device="neuron")
    held = Held(stream)
    with stream:
        torch.nn.functional.embedding(index, weight)
    held.let_go()
    with pytest.raises(IndexError, match=r"aten::embedding: found index 7(.|\n)*stream \d+ of neuron:0"):
        stream.synchronize()
    torch.neuron.synchronize()  # said once
    with stream:
        torch.nn.functional.embedding(index, weight)
    with pytest.raises(IndexError, match="aten::embedding"):
        while True:
            (weight + 1).sum().item()


def test_a_long_queue_holds_its_caller_back(stream):
    x = torch.zeros(4, device="neuron")
    with stream:
        for _ in range(2000):
            x += 1
        y = x * 1
    assert y.tolist() == [2000.0] * 4


def test_gradients_are_computed_on_the_streams_of_their_ops(stream):
    a, b = torch.randn(6, 6, requires_grad=True), torch.randn(6, 6, requires_grad=True)
    x, y = (t.detach().to("neuron").requires_grad_() for t in (a, b))
    stream.wait_stream(torch.neuron.current_stream())
    with stream:
        h = (x @ y).tanh()
    torch.neuron.current_stream().wait_stream(stream)
    (h * y + h.sum()).square().mean().backward()
    g = (a @ b).tanh()
    (g * b + g.sum()).square().mean().backward()
    torch.testing.assert_close(x.grad.cpu(), a.grad, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(y.grad.cpu(), b.grad, rtol=1e-4, atol=1e-4)


def test_a_compiled_model_runs_in_the_order_of_its_stream(stream):
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))
    x = torch.randn(3, 4)
    expected = model(x + 1)
    moved = torch.compile(model.to("neuron"), backend="neuron")
    held, given = Held(stream), x.to("neuron")
    held.let_go_soon()
    with stream:
        out = moved(given + 1) * 2
    stream.synchronize()
    torch.testing.assert_close(out.cpu(), expected * 2)


def test_programs_of_a_stream_are_timed(stream):
    x = on(16, 16)
    x @ x
    with trine.timed() as alone:
        for _ in range(3):
            x @ x
    with trine.timed() as beside, stream:
        for _ in range(3):
            x @ x
    assert [p.runs for p in beside.programs] == [p.runs for p in alone.programs] == [3]


OPS = [
    lambda a, b, c: a.add_(b),
    lambda a, b, c: a.mul_(0.5),
    lambda a, b, c: a.copy_(b.t()),
    lambda a, b, c: a.copy_(torch.tanh(b @ c)),
    lambda a, b, c: a[1:].copy_(b[:-1]),
    lambda a, b, c: a.copy_(torch.cat([b[:3], c[3:]])),
    lambda a, b, c: a.t().add_(b.mean(0)),
    lambda a, b, c: a.copy_(torch.where(b > c, b, c)),
]


@pytest.mark.parametrize("seed", range(6))
def test_random_graphs_over_four_streams_agree_with_the_cpu(seed):
    """By events alone where `explicit`, by what memory is shared where not."""
    pick = random.Random(seed)
    torch.manual_seed(seed)
    here = [torch.randn(8, 8) for _ in range(6)]
    there = [t.to("neuron") for t in here]
    streams = [torch.neuron.Stream() for _ in range(4)] + [torch.neuron.default_stream()]
    explicit, last = seed % 2 == 0, [None] * len(here)
    for _ in range(250):
        op, stream, which = pick.choice(OPS), pick.choice(streams), pick.sample(range(len(here)), 3)
        op(*(here[i] for i in which))
        with torch.neuron.stream(stream):
            if explicit:
                for i in which:
                    if last[i] is not None:
                        stream.wait_event(last[i])
            op(*(there[i] for i in which))
            if explicit:
                event = stream.record_event()
                for i in which:
                    last[i] = event
        if pick.random() < 0.02:
            i = pick.randrange(len(here))
            torch.testing.assert_close(there[i].cpu(), here[i], rtol=1e-3, atol=1e-3)
    for a, b in zip(there, here):
        torch.testing.assert_close(a.cpu(), b, rtol=1e-3, atol=1e-3)


FORKED = """
import os, torch
from trine import _torch
s, x = torch.neuron.Stream(), torch.arange(3.0, device="neuron")
moment = _torch.Moment()
_torch.hold_stream(0, s.stream_id, moment)
with s:
    y = x + 1
child = os.fork()
if child == 0:
    with s:
        z = x + 2
    s.synchronize()
    print(z.tolist(), s.query(), flush=True)
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
moment.come()
print(y.tolist())
"""

ENDED = """
import atexit, torch
from trine import _torch
s, x = torch.neuron.Stream(), torch.randn(64, 64, device="neuron")
with s:
    for _ in range(100):
        x = x @ x
    _torch.hold_stream(0, s.stream_id, _torch.Moment())  # that never comes
    x = x + 1
print("ended")
"""


@pytest.mark.parametrize("script, said", [(FORKED, "[2.0, 3.0, 4.0] True\n[1.0, 2.0, 3.0]\n"), (ENDED, "ended\n")])
def test_a_process_forks_and_ends_with_work_pending(script, said):
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=ENV, timeout=120)
    assert done.returncode == 0 and done.stdout == said, done.stdout + done.stderr[-2000:]


def test_collectives_of_ranks_on_streams():
    launch = [sys.executable, str(ROOT / "tests/torch/fork_ranks.py"), "2", str(ROOT / "tests/torch/stream_ranks.py")]
    done = subprocess.run(launch, capture_output=True, text=True, timeout=240, env=ENV)
    assert done.returncode == 0 and all(f"rank {i} agrees" in done.stdout for i in range(2)), done.stdout + done.stderr[-3000:]
