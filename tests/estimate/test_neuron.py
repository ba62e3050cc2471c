"""What the likely time takes from Neuron's own choices, beside our program: no number of it is fitted."""

import pytest

from trine import _core, models
from trine.estimate import calibration, cores, estimate, experts, neuron, stages

SIZES = dict(hidden_size=512, num_hidden_layers=4, num_attention_heads=4, intermediate_size=512, vocab_size=512)
LLAMA = dict(model_type="llama", **SIZES)
NEOX = dict(model_type="gpt_neox", **SIZES)


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
    """On cores whose engines take turns the likely step is those turns of each program, however long our own waits."""
    step = estimate(LLAMA, phase="train", batch=1, seq=64, instance="trn1.32xlarge", dtype="bfloat16")
    each = [stages.neuron_ms(run, "training", "trn1") for run, _ in step.runs]
    assert step.neuron_ms == pytest.approx(sum(each)) and step.factor == 1.0
    for ms, (run, _) in zip(each, step.runs, strict=True):
        busy = sum(row["busy_ms"].get(unit, 0.0) for row in run.layers for unit in neuron.COMPUTE)
        assert ms == pytest.approx(max(busy, stages.dma_ms(run, "trn1")))
    newer = estimate(LLAMA, phase="train", batch=1, seq=64, instance="trn2.3xlarge", dtype="bfloat16")
    assert newer.device_ms <= newer.neuron_ms


def test_a_prompt_takes_its_engines_or_its_bytes_and_a_share_of_the_other():
    prompt = estimate(LLAMA, phase="prefill", batch=1, seq=128, instance="trn1.2xlarge", dtype="bfloat16")
    share, waits = calibration.waiting("short prompts"), min(prompt.serial_ms, prompt.dma_ms)
    assert 0 < share < 1 and prompt.neuron_ms == pytest.approx(max(prompt.serial_ms, prompt.dma_ms) + share * waits)
    assert prompt.least_ms == prompt.dma_ms < prompt.device_ms


def test_a_pipeline_is_late_with_all_its_engines():
    how = dict(phase="train", batch=1, seq=64, instance="trn1.32xlarge", nodes=1, tp=8, accumulate=4, dtype="bfloat16")
    whole, halves = estimate(LLAMA, pp=1, **how), estimate(LLAMA, pp=2, **how)
    assert whole.step.likely.parts()["bubbles"] == 0 < halves.step.likely.parts()["bubbles"]
    assert halves.neuron_ms > halves.step.likely.parts()["compute"]


def test_weights_in_few_bits_take_as_long_as_whole_ones():
    how = dict(phase="decode", seq=64, instance="trn2.3xlarge", dtype="bfloat16")
    whole = estimate(LLAMA, **how)
    few = estimate(LLAMA | {"quantization_config": {"quant_method": "mxfp4"}}, **how)
    assert few.likely_ms == pytest.approx(whole.likely_ms) and few.device_ms != pytest.approx(whole.device_ms, rel=0.01)
    assert few.memory["weights"] < whole.memory["weights"]
    assert any("whole weights" in why for why in few.why_likely()) == (few.neuron_ms < few.device_ms)


def in_short_rows(ffn, tp=1, instance="trn1.32xlarge", size=2, **more):
    model = models.build(LLAMA | dict(intermediate_size=ffn) | more)
    at, _ = cores.layout(_core.instance(instance), model, 1, tp)
    return neuron.short_rows_ms(model, at, size)


def test_weights_whose_columns_make_no_wider_tile_come_in_short_rows():
    rows = 3 * 512 * 43 * 4  # gate, up and down of four layers, by 128 columns
    each = 512 / 17 + 5.4 - 256 / 17
    assert in_short_rows(43 * 128) == pytest.approx(rows * each / 16 / 1e6)
    assert in_short_rows(43 * 256, tp=2) == in_short_rows(43 * 128)
    for wide in (42, 7, 27, 8, 86):  # by 7, 7, 3, 8 and 2 tiles
        assert in_short_rows(wide * 128) == 0
    assert in_short_rows(43 * 128 + 64) == 0  # tiles that end within: unknown
    assert in_short_rows(43 * 128, size=4) == 0 == in_short_rows(43 * 128, instance="trn2.48xlarge")


def test_a_likely_step_waits_for_short_rows():
    short, long = (estimate(LLAMA | dict(intermediate_size=n * 128), phase="decode", seq=128, instance="trn1.2xlarge") for n in (43, 44))
    assert short.short_rows_ms > 0 == long.short_rows_ms
    assert short.neuron_ms == pytest.approx(short.device_ms + short.short_rows_ms)
    assert "weights in short rows" in " ".join(short.why_likely())


def read_for_norms(instance="trn1.32xlarge", tp=2, batch=1, seq=128, phase="prefill", size=2, sdk=None, **config):
    model = models.build(NEOX | config)
    at, _ = cores.layout(_core.instance(instance), model, batch, tp)
    return neuron.norms_ms(model, phase, batch, seq, at, size, sdk)


def test_layer_norms_read_sums_over_cores_element_by_element():
    elements = 4 * 2 * 512 * 128  # two sums of 512 channels in each of four layers
    assert read_for_norms() == pytest.approx(elements * (5.4 + 2 / 17) / 16 / 1e6)
    assert read_for_norms(size=4) == pytest.approx(elements * (5.4 + 4 / 17) / 16 / 1e6)
    assert read_for_norms(tp=4) == read_for_norms() == 2 * read_for_norms(seq=64)
    assert read_for_norms(tp=1) == 0 == read_for_norms(phase="decode")  # nothing is summed; a token's sums are few
    assert read_for_norms(seq=256) == 0 == read_for_norms(batch=2)  # not measured
    assert read_for_norms(sdk="2.18") == 0 == read_for_norms(instance="trn2.48xlarge")
    rms = models.build(LLAMA)
    at, _ = cores.layout(_core.instance("trn1.32xlarge"), rms, 1, 2)
    assert neuron.norms_ms(rms, "prefill", 1, 128, at, 2) == 0


def test_a_likely_prompt_has_them_beside_the_rest():
    found = estimate(NEOX, phase="prefill", seq=128, instance="trn1.32xlarge", tp=2)
    assert found.norms_ms > 0 and found.on_device_ms == pytest.approx(found.neuron_ms * found.factor + found.norms_ms + found.collectives_ms)
    assert "element by element" in " ".join(found.why_likely())


def test_prompts_wait_for_bytes_beside_compute_only_where_engines_take_turns():
    old, new = (estimate(LLAMA, phase="prefill", seq=256, instance=i) for i in ("trn1.2xlarge", "trn2.3xlarge"))
    assert old.waits_ms == old.dma_ms > 0 == new.waits_ms
    assert new.neuron_ms == pytest.approx(max(new.device_ms, new.serial_ms))


# ---- experts


def test_blocks_are_as_many_as_the_worst_routing_needs():
    assert experts.blocks(8, 2, 128, 512) == 0  # fewer pairs than a block: every expert has every token
    assert experts.blocks(128, 4, 512, 512) == 4 + 127  # one token each for 127 experts, and the rest for one
    assert experts.blocks(8, 2, 8192, 512) == 32 + 7
    assert experts.blocks(2048, 1, 1024, 512) == 0  # tokens fetch their experts' weights


def test_a_prompt_of_experts_is_computed_in_blocks():
    mixture = dict(model_type="mixtral", num_local_experts=8, num_experts_per_tok=2, **SIZES)
    model = models.build(mixture, "bfloat16")
    at, _ = cores.layout(_core.instance("trn2.3xlarge"), model, 1, 1, 1)
    found = experts.in_blocks(model, "prefill", 1, 2048, at, 2)
    count, chip = 8 + 7, _core.chip("trn2")
    assert found.factors == {i: (count * 512 / (8 * 2048), count / 8) for i in range(4)}
    moved = 3 * 4 * count * 512 * 512 * 2  # gathered, read and written, by four layers
    assert found.rows_ms == pytest.approx(moved / chip["dma.rate_bytes_per_ns"] / chip["dma.engines_per_core"] / 1e6)
    assert not experts.in_blocks(model, "decode", 1, 2048, at, 2).factors
    assert not experts.in_blocks(model, "prefill", 1, 2048, at, 2, sdk="2.18").factors
    assert not experts.in_blocks(models.build(LLAMA), "prefill", 1, 2048, at, 2).factors


def test_blocks_scale_what_experts_compute_and_read():
    mixture = dict(model_type="mixtral", num_local_experts=8, num_experts_per_tok=2, **SIZES)
    prompt = estimate(mixture, phase="prefill", batch=1, seq=512, instance="trn2.3xlarge", lnc=1, dtype="bfloat16")
    (ours, _), (theirs, _) = prompt.runs[0], prompt.neuron_runs[0]
    for old, new in zip(ours.layers, theirs.layers, strict=True):
        is_expert = old["part"] == "mlp"
        assert new["busy_ms"].get("tensor", 0.0) == pytest.approx(old["busy_ms"].get("tensor", 0.0) * (9 / 8 if is_expert else 1.0))
    assert theirs.device_ms > ours.device_ms
    assert prompt.on_device_ms == pytest.approx(prompt.neuron_ms * prompt.factor + prompt.blocks.rows_ms + prompt.collectives_ms)


def test_tails_of_sequences_within_a_tile_are_not_stretched():
    def of(patch, **more):
        config = dict(model_type="vit", hidden_size=768, num_hidden_layers=2, num_attention_heads=12, intermediate_size=3072, image_size=224)
        return config | dict(patch_size=patch) | more

    tails = [neuron.tail(models.build(of(patch))) for patch in (32, 16, 14)]
    assert tails == pytest.approx([1, 256 / 197, 384 / 257])
    fewer, more = (estimate(of(patch), batch=2, instance="inf2.xlarge", auto_cast="matmult") for patch in (32, 16))
    assert fewer.report["flops"] < 0.4 * more.report["flops"] and fewer.on_device_ms < more.on_device_ms
