"""Ops that torch has one kernel for, on its own devices, and no way to take apart: written here with smaller ones.

Cells of LSTM and GRU as accelerators have them, with their gradients, and the transformer layer of inference.
"""

import torch
import torch.nn.functional as F

aten = torch.ops.aten


def _sum(x, *more):
    for m in more:
        x = x if m is None else x + m
    return x


def _lstm_cell(input_gates, hidden_gates, cx, input_bias=None, hidden_bias=None):
    i, f, g, o = _sum(input_gates, hidden_gates, input_bias, hidden_bias).chunk(4, 1)
    i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
    cy = f * cx + i * g
    return o * cy.tanh(), cy, torch.cat((i, f, g, o), 1)


def _lstm_cell_backward(grad_hy, grad_cy, cx, cy, workspace, has_bias):
    i, f, g, o = workspace.chunk(4, 1)
    t = cy.tanh()
    grad_hy = torch.zeros_like(cy) if grad_hy is None else grad_hy
    c = _sum(grad_hy * o * (1 - t * t), grad_cy)
    gates = torch.cat((c * g * i * (1 - i), c * cx * f * (1 - f), c * i * (1 - g * g), grad_hy * t * o * (1 - o)), 1)
    return gates, c * f, gates.sum(0) if has_bias else None


def _gru_cell(input_gates, hidden_gates, hx, input_bias=None, hidden_bias=None):
    ir, iz, i_n = _sum(input_gates, input_bias).chunk(3, 1)
    hr, hz, hn = _sum(hidden_gates, hidden_bias).chunk(3, 1)
    r, z = (ir + hr).sigmoid(), (iz + hz).sigmoid()
    n = (i_n + r * hn).tanh()
    return n + z * (hx - n), torch.cat((r, z, n, hx, hn), 1)


def _gru_cell_backward(grad_hy, workspace, has_bias):
    r, z, n, hx, hn = workspace.chunk(5, 1)
    gn = grad_hy * (1 - z) * (1 - n * n)
    gz, gr = grad_hy * (hx - n) * z * (1 - z), gn * hn * r * (1 - r)
    given, hidden = torch.cat((gr, gz, gn), 1), torch.cat((gr, gz, gn * r), 1)
    sums = (given.sum(0), hidden.sum(0)) if has_bias else (None, None)
    return given, hidden, grad_hy * z, *sums


def _attention(query, key, value, embed_dim, heads, qkv_weight, qkv_bias, proj_weight, proj_bias, mask=None,
               need_weights=True, average_attn_weights=True, mask_type=None):  # fmt: skip
    parts = zip((query, key, value), qkv_weight.chunk(3), qkv_bias.chunk(3))
    q, k, v = (F.linear(x, w, b).unflatten(-1, (heads, -1)).transpose(1, 2) for x, w, b in parts)
    scores = (q / (embed_dim // heads) ** 0.5) @ k.mT
    if mask is not None:  # 0: of queries and keys, 1: of keys of each row, 2: both
        mask = mask.to(torch.bool)
        scores = scores.masked_fill(mask[:, None, None] if mask_type == 1 else mask, float("-inf"))
    weights = scores.softmax(-1)
    out = F.linear((weights @ v).transpose(1, 2).flatten(2), proj_weight, proj_bias)
    if not need_weights:
        return out, None
    return out, weights.mean(1) if average_attn_weights else weights


def _encoder_layer(src, embed_dim, heads, qkv_weight, qkv_bias, proj_weight, proj_bias, use_gelu, norm_first, eps, norm_weight_1,
                   norm_bias_1, norm_weight_2, norm_bias_2, ffn_weight_1, ffn_bias_1, ffn_weight_2, ffn_bias_2, mask=None,
                   mask_type=None):  # fmt: skip
    def attention(x):
        return _attention(x, x, x, embed_dim, heads, qkv_weight, qkv_bias, proj_weight, proj_bias, mask, False, True, mask_type)[0]

    def feed_forward(x):
        h = F.linear(x, ffn_weight_1, ffn_bias_1)
        return F.linear(F.gelu(h) if use_gelu else h.relu(), ffn_weight_2, ffn_bias_2)

    x = src
    for part, weight, bias in ((attention, norm_weight_1, norm_bias_1), (feed_forward, norm_weight_2, norm_bias_2)):
        if norm_first:
            x = x + part(F.layer_norm(x, (embed_dim,), weight, bias, eps))
        else:
            x = F.layer_norm(x + part(x), (embed_dim,), weight, bias, eps)
    return x


TABLE = {
    aten._thnn_fused_lstm_cell.default: _lstm_cell,
    aten._thnn_fused_lstm_cell_backward_impl.default: _lstm_cell_backward,
    aten._thnn_fused_gru_cell.default: _gru_cell,
    aten._thnn_fused_gru_cell_backward.default: _gru_cell_backward,
    aten._native_multi_head_attention.default: _attention,
    aten._transformer_encoder_layer_fwd.default: _encoder_layer,
}
