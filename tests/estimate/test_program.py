"""How a phase becomes programs: how many are compiled of a short one."""

import os
import subprocess
import sys

from trine.estimate import estimate, program

BERT = dict(model_type="bert", hidden_size=64, num_hidden_layers=8, num_attention_heads=4, intermediate_size=128, vocab_size=512,
            max_position_embeddings=128)  # fmt: skip


def test_a_short_program_is_compiled_whole_after_one_look(monkeypatch):
    layers, whole = [], program.timed_whole

    def timed_whole(model, *args, **how):
        layers.append(model.settings.layers)
        return whole(model, *args, **how)

    monkeypatch.setattr(program, "timed_whole", timed_whole)
    estimate(BERT, batch=1, seq=32)
    assert layers == [1, 8]


def test_what_is_imported_is_not_searched_and_starts_no_threads():
    code = (
        "from trine.estimate import cached, command; command.prepare(); cached.import_jax(); import gc, os; "
        "print(gc.isenabled(), gc.get_freeze_count() > 50_000, len(os.listdir('/proc/self/task')))"
    )
    clean = {k: v for k, v in os.environ.items() if k != "OPENBLAS_NUM_THREADS"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=clean, check=True)
    assert done.stdout.split() == ["True", "True", "1"]
