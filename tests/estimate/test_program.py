"""How a phase becomes programs: how many are compiled of a short one."""

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
