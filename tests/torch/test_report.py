"""Time and cost of PyTorch programs: trine.report of models and functions."""

import pytest
import torch

import trine
from trine.torch.build import Unsupported


def mlp(width=64):
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(width, 4 * width), torch.nn.GELU(), torch.nn.Linear(4 * width, width))


X = torch.zeros(32, 64)


def test_a_model_has_a_time_and_a_price():
    r = trine.report(mlp(), X, instance="trn1.2xlarge")
    assert r.time_ns > 0 and r.cost_usd > 0
    assert r.flops >= 2 * 32 * 64 * 256 * 2
    assert "on trn1.2xlarge" in str(r)


@pytest.mark.parametrize("args, kwargs", [((X,), {}), (((X,),), {}), (({"input": X},), {}), ((), {"input": X})])
def test_inputs_are_given_as_people_do(args, kwargs):
    assert trine.report(mlp(), *args, **kwargs).time_ns == trine.report(mlp(), X).time_ns


def test_shapes_are_enough():
    with torch.device("meta"):
        model, x = mlp(), torch.empty(32, 64)
    assert trine.report(model, x).time_ns == trine.report(mlp(), X).time_ns


def test_a_function_has_the_weights_of_the_modules_it_uses():
    model = mlp()
    assert trine.report(lambda x: model(x) + 1, X).hbm_read_bytes >= 2 * 64 * 256 * 4


def test_parameters_are_cast_when_they_are_loaded():
    wide, narrow = trine.report(mlp(256), X.new_zeros(32, 256)), trine.report(mlp(256), X.new_zeros(32, 256), auto_cast="matmult")
    assert narrow.hbm_read_bytes < 0.6 * wide.hbm_read_bytes


def test_gradients_take_longer():
    forward, both = trine.report(mlp(), X), trine.report(mlp(), X, train=True)
    assert both.flops == pytest.approx(2.5 * forward.flops, rel=0.02)  # of both weights, and of what lies between them
    assert both.time_ns > forward.time_ns


def test_what_is_no_tensor_in_the_output_is_left_out():
    class Model(torch.nn.Module):
        def forward(self, x):
            return {"states": [x + 1], "cache": object()}

    assert trine.report(Model(), X).time_ns > 0
    with pytest.raises(TypeError, match="no tensors"):
        trine.report(lambda x: None, X)


def test_tokens_of_64_bits():
    model = torch.nn.Sequential(torch.nn.Embedding(100, 32), torch.nn.Linear(32, 8))
    assert trine.report(model, torch.zeros(4, 16, dtype=torch.int64)).time_ns > 0


def test_an_op_without_a_row_is_named_with_its_line():
    def f(x):
        return torch.masked_select(x, x > 0).sum()

    with pytest.raises(Unsupported, match=r"masked_select(?s:.)*test_report.py:\d+"):
        trine.report(f, X)


def test_an_unknown_instance():
    with pytest.raises(ValueError, match="trn9"):
        trine.report(mlp(), X, instance="trn9.large")
