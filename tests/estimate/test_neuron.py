"""What the likely time takes from Neuron's own choices, beside our program: no number of it is fitted."""

import pytest

from trine import _core, models
from trine.estimate import cores, estimate, neuron

SIZES = dict(hidden_size=512, num_hidden_layers=4, num_attention_heads=4, intermediate_size=512, vocab_size=512)
LLAMA = dict(model_type="llama", **SIZES)


def written_out(config, batch, seq, sdk="2.18"):
    model = models.build(config)
    at, _ = cores.layout(_core.instance("trn1.2xlarge"), model, batch, 1)
    return neuron.unfused_ms(model, "prefill", batch, seq, at, sdk)


def test_scores_that_are_written_out_cost_a_transfer_for_each_token_and_layer():
    each = neuron.transfer_ns(_core.chip("trn1")) / 1e6
    assert written_out(LLAMA, 2, 2048) == pytest.approx(2 * 2048 * 4 * each)
    assert written_out(LLAMA, 1, 512) == 0  # they fit on the chip
    assert written_out(LLAMA, 1, 4096) == 0 < written_out(LLAMA, 2, 4096)  # the kernel is for a batch of one
    assert written_out(LLAMA, 2, 4096, sdk="2.21") == 0


def test_layers_without_attention_write_out_none():
    mixed = dict(model_type="lfm2", layer_types=["conv", "conv", "conv", "full_attention"], **SIZES)
    assert written_out(mixed, 2, 2048) == pytest.approx(written_out(LLAMA, 2, 2048) / 4)


def test_training_does_not_wait_for_our_spills():
    """On cores whose engines take turns the likely step is those turns, however long our own program waits."""
    step = estimate(LLAMA, phase="train", batch=1, seq=64, instance="trn1.32xlarge", dtype="bfloat16")
    assert step.neuron_ms == pytest.approx(max(step.serial_ms, step.dma_ms))
    assert step.least_ms == step.dma_ms and step.factor == 1.0
    newer = estimate(LLAMA, phase="train", batch=1, seq=64, instance="trn2.3xlarge", dtype="bfloat16")
    assert newer.least_ms == newer.device_ms <= newer.neuron_ms


def test_a_pipeline_is_late_with_all_its_engines():
    whole = estimate(LLAMA, phase="train", batch=1, seq=64, instance="trn1.32xlarge", nodes=1, tp=8, pp=2, accumulate=4, dtype="bfloat16")
    assert whole.late == pytest.approx(1 + whole.late_ms / (whole.device_ms - whole.late_ms)) and whole.late > 1.1
    busy = sum(whole.busy_ms[unit] for unit in neuron.COMPUTE if unit in whole.busy_ms)
    assert whole.serial_ms == pytest.approx(whole.late * busy)


def test_weights_in_few_bits_take_as_long_as_whole_ones():
    how = dict(phase="decode", seq=64, instance="trn2.3xlarge", dtype="bfloat16")
    whole = estimate(LLAMA, **how)
    few = estimate(LLAMA | {"quantization_config": {"quant_method": "mxfp4"}}, **how)
    assert few.likely_ms == pytest.approx(whole.likely_ms) and few.device_ms != pytest.approx(whole.device_ms, rel=0.01)
    assert few.memory["weights"] < whole.memory["weights"]
    assert any("whole weights" in why for why in few.why_likely()) == (few.neuron_ms < few.device_ms)
