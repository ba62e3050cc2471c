// RNN, GRU and LSTM: each direction one loop over time, the input's share of all gates multiplied before it.
#include <algorithm>

#include "base/text.h"
#include "front/onnx/call.h"
#include "front/onnx/loop.h"
#include "ir/op_ids.h"

namespace trine::front::onnx {

namespace {

struct Activation {
  std::string name = {};
  double alpha = 0, beta = 0;
};

Made apply(Build& b, const Activation& f, Value x) {
  if (f.name == "sigmoid") return b.unary(op::logistic, x);
  if (f.name == "tanh") return b.unary(op::tanh, x);
  if (f.name == "relu") return b.with_number(op::maximum, x, 0);
  const auto line = [&]() -> Made {
    return b.with_number(op::add, TRY(b.with_number(op::multiply, x, f.alpha)), f.beta);
  };
  if (f.name == "affine") return line();
  if (f.name == "hardsigmoid") return b.clamp(TRY(line()), 0, 1);
  if (f.name == "scaledtanh")
    return b.with_number(op::multiply, TRY(b.unary(op::tanh, TRY(b.with_number(op::multiply, x, f.beta)))), f.alpha);
  const Value above = TRY(b.compare_number(x, 0, "GT"));
  if (f.name == "leakyrelu") return b.select(above, x, TRY(b.with_number(op::multiply, x, f.alpha)));
  if (f.name == "elu")
    return b.select(above, x, TRY(b.with_number(op::multiply, TRY(b.unary(op::exponential_minus_one, x)), f.alpha)));
  if (f.name == "thresholdedrelu")
    return b.select(TRY(b.compare_number(x, f.alpha, "GT")), x, TRY(b.number(dtype(x), 0)));
  if (f.name == "softsign") return b.binary(op::divide, x, TRY(b.with_number(op::add, TRY(b.unary(op::abs, x)), 1)));
  return fail(Code::unsupported, cat("activation `", f.name, "`"));
}

// What a cell computes in one step.
struct Cell {
  int gates = 1;
  std::vector<Activation> f = {};
  double clip = 0;  // 0: none
  bool linear_before_reset = false, input_forget = false;
  Value r = {}, w_bias = {}, r_bias = {}, peepholes = {};  // r: [gates * hidden, hidden]; biases: [gates * hidden]
  int64_t hidden = 0;
};

Made clipped(Build& b, const Cell& cell, Value x) {
  return cell.clip > 0 ? b.clamp(x, -cell.clip, cell.clip) : Made(x);
}

Made act(Build& b, const Cell& cell, size_t i, Value x) { return apply(b, cell.f[i], TRY(clipped(b, cell, x))); }

Made gate(Build& b, Value all, const Cell& cell, int64_t i) {
  return b.slice_dim(all, rank(all) - 1, i * cell.hidden, (i + 1) * cell.hidden);
}

Made times(Build& b, Value h, Value r) { return b.dot(h, r, {}, {}, {1}, {1}, dtype(h)); }

Result<Values> rnn_step(Build& b, const Cell& cell, Value x, const Values& state) {
  return Values{TRY(act(b, cell, 0, TRY(b.binary(op::add, x, TRY(times(b, state[0], cell.r))))))};
}

// Gates z, r, h. x has the input's share and all biases but, with linear_before_reset, that of h's recurrence.
Result<Values> gru_step(Build& b, const Cell& cell, Value x, const Values& state) {
  const Value h = state[0];
  const Value zr = TRY(b.slice_dim(cell.r, 0, 0, 2 * cell.hidden)),
              rh = TRY(b.slice_dim(cell.r, 0, 2 * cell.hidden, 3 * cell.hidden));
  const Value both = TRY(b.binary(op::add, TRY(b.slice_dim(x, 1, 0, 2 * cell.hidden)), TRY(times(b, h, zr))));
  const Value z = TRY(act(b, cell, 0, TRY(gate(b, both, cell, 0)))),
              r = TRY(act(b, cell, 0, TRY(gate(b, both, cell, 1))));
  Value inner = {};
  if (cell.linear_before_reset) {
    const Value share = TRY(b.binary(op::add, TRY(times(b, h, rh)), TRY(gate(b, cell.r_bias, cell, 2))));
    inner = TRY(b.binary(op::multiply, r, share));
  } else {
    inner = TRY(times(b, TRY(b.binary(op::multiply, r, h)), rh));
  }
  const Value fresh = TRY(act(b, cell, 1, TRY(b.binary(op::add, TRY(gate(b, x, cell, 2)), inner))));
  const Value keep = TRY(b.binary(op::multiply, z, h));
  const Value one_value = TRY(b.number(dtype(z), 1));
  return Values{
      TRY(b.binary(op::add, TRY(b.binary(op::multiply, TRY(b.binary(op::subtract, one_value, z)), fresh)), keep))};
}

// Gates i, o, f, c.
Result<Values> lstm_step(Build& b, const Cell& cell, Value x, const Values& state) {
  const Value h = state[0], old = state[1];
  const Value all = TRY(b.binary(op::add, x, TRY(times(b, h, cell.r))));
  const auto peeked = [&](int64_t i, int64_t p, Value c) -> Made {
    const Value g = TRY(gate(b, all, cell, i));
    if (!cell.peepholes) return g;
    return b.binary(op::add, g, TRY(b.binary(op::multiply, TRY(gate(b, cell.peepholes, cell, p)), c)));
  };
  const Value i = TRY(act(b, cell, 0, TRY(peeked(0, 0, old))));
  const Value one_value = TRY(b.number(dtype(x), 1));
  const Value f =
      cell.input_forget ? TRY(b.binary(op::subtract, one_value, i)) : TRY(act(b, cell, 0, TRY(peeked(2, 2, old))));
  const Value fresh = TRY(act(b, cell, 1, TRY(gate(b, all, cell, 3))));
  const Value c = TRY(b.binary(op::add, TRY(b.binary(op::multiply, f, old)), TRY(b.binary(op::multiply, i, fresh))));
  const Value o = TRY(act(b, cell, 0, TRY(peeked(1, 1, c))));
  return Values{TRY(b.binary(op::multiply, o, TRY(act(b, cell, 2, c)))), c};
}

using StepOf = Result<Values> (*)(Build&, const Cell&, Value x, const Values& state);

struct Kind {
  int gates;
  size_t states, functions;
  std::vector<std::string> defaults;
  StepOf step;
};

Result<std::vector<Activation>> activations(Call& c, const Kind& kind, size_t direction) {
  const auto names = c.texts("activations");
  const auto alphas = c.reals("activation_alpha"), betas = c.reals("activation_beta");
  std::vector<Activation> out;
  for (size_t i = 0; i < kind.functions; ++i) {
    const size_t k = direction * kind.functions + i;
    if (!names.empty() && k >= names.size()) return fail(Code::invalid, cat("found ", names.size(), " activations"));
    Activation f{.name = names.empty() ? kind.defaults[i] : lower(names[k])};
    f.alpha = f.name == "leakyrelu" ? 0.01 : f.name == "hardsigmoid" ? 0.2 : 1;
    f.beta = f.name == "hardsigmoid" ? 0.5 : f.name == "affine" ? 0 : 1;
    if (k < alphas.size()) f.alpha = double(alphas[k]);
    if (k < betas.size()) f.beta = double(betas[k]);
    out.push_back(f);
  }
  return out;
}

// Entry d of the first dim.
Made direction_of(Build& b, Value x, int64_t d) {
  const Value part = TRY(b.slice_dim(x, 0, d, d + 1));
  return b.reshape(part, Dims(dims(part).begin() + 1, dims(part).end()));
}

Result<Cell> cell_of(Call& c, const Kind& kind, int64_t d) {
  Cell cell{.gates = kind.gates, .f = TRY(activations(c, kind, size_t(d))), .clip = c.real("clip", 0)};
  cell.linear_before_reset = c.integer("linear_before_reset", 0) != 0;
  cell.input_forget = c.integer("input_forget", 0) != 0;
  cell.r = TRY(direction_of(c.b, c.in[2], d));
  cell.hidden = dims(cell.r)[1];
  const int64_t all = kind.gates * cell.hidden;
  if (c.has(3)) {
    const Value bias = TRY(direction_of(c.b, c.in[3], d));
    if (dims(bias) != Dims{2 * all}) return fail(Code::invalid, cat("biases of ", ir::text(c.in[3].type())));
    cell.w_bias = TRY(c.b.slice_dim(bias, 0, 0, all));
    cell.r_bias = TRY(c.b.slice_dim(bias, 0, all, 2 * all));
  } else {
    cell.w_bias = cell.r_bias = TRY(c.b.number(dtype(c.in[0]), 0, {all}));
  }
  if (kind.states == 2 && c.has(7)) {
    cell.peepholes = TRY(direction_of(c.b, c.in[7], d));
    if (dims(cell.peepholes) != Dims{3 * cell.hidden})
      return fail(Code::invalid, cat("peepholes of ", ir::text(c.in[7].type())));
  }
  return cell;
}

// The input's share of all gates at all times, with the biases that need nothing else: [time, batch, gates * hidden].
Made input_share(Call& c, const Cell& cell, Value x, int64_t d) {
  const Value w = TRY(direction_of(c.b, c.in[1], d));
  Value bias = cell.w_bias;
  Value other = cell.r_bias;
  if (cell.linear_before_reset && cell.gates == 3) {
    const Value zero = TRY(c.b.number(dtype(x), 0, {cell.hidden}));
    other = TRY(c.b.concat({TRY(c.b.slice_dim(other, 0, 0, 2 * cell.hidden)), zero}, 0));
  }
  bias = TRY(c.b.binary(op::add, bias, other));
  return c.b.binary(op::add, TRY(c.b.dot(x, w, {}, {}, {2}, {1}, dtype(x))), bias);
}

struct Direction {
  Value all = {};    // [time, batch, hidden]
  Values last = {};  // [batch, hidden] of each state
};

// Past a sequence's length states stay and outputs are zero.
Result<Direction> run_direction(Call& c, const Kind& kind, Value x, int64_t d, bool backward) {
  Build& b = c.b;
  const Cell cell = TRY(cell_of(c, kind, d));
  const Value share = TRY(input_share(c, cell, x, d));
  const int64_t time = dims(x)[0], batch = dims(x)[1];
  Loop loop{.iterations = time};
  for (size_t s = 0; s < kind.states; ++s) {
    Value init = TRY(b.number(dtype(x), 0, {batch, cell.hidden}));
    if (c.has(5 + s)) init = TRY(direction_of(b, c.in[5 + s], d));
    loop.carried.push_back(init);
  }
  Value lengths = {};
  if (c.has(4)) lengths = TRY(b.convert(c.in[4], Dtype::s64));
  loop.step = [&](Value number, const Values& state) -> Result<Step> {
    Value at = number;
    if (backward) at = TRY(b.binary(op::subtract, b.integer(time - 1), number));
    Values next = TRY(kind.step(b, cell, TRY(at_step(b, share, 0, at)), state));
    Value out = next[0];
    if (lengths) {
      const Value inside = TRY(b.reshape(TRY(b.compare(at, lengths, "LT")), {batch, 1}));
      out = TRY(b.select(inside, out, TRY(b.number(dtype(x), 0))));
      for (size_t s = 0; s < next.size(); ++s) next[s] = TRY(b.select(inside, next[s], state[s]));
    }
    return Step{.carried = next, .collected = {out}};
  };
  Values out = TRY(run_loop(b, loop));
  Direction result{.all = out.back(), .last = Values(out.begin(), out.end() - 1)};
  if (backward) result.all = TRY(b.op(op::reverse, {result.all}, {{"dimensions", Ints{0}}}));
  return result;
}

Result<void> check_shapes(Call& c, const Kind& kind, int64_t directions) {
  const bool ok = rank(c.in[0]) == 3 && rank(c.in[1]) == 3 && rank(c.in[2]) == 3 && dims(c.in[1])[0] == directions &&
                  dims(c.in[2])[0] == directions && dims(c.in[2])[1] == kind.gates * dims(c.in[2])[2] &&
                  dims(c.in[1])[1] == dims(c.in[2])[1];
  if (!ok)
    return fail(Code::invalid, cat("input ", ir::text(c.in[0].type()), ", weights ", ir::text(c.in[1].type()), " and ",
                                   ir::text(c.in[2].type()), " do not fit for ", directions, " directions"));
  for (size_t i : {size_t{3}, size_t{5}, size_t{6}, size_t{7}})
    if (c.has(i) && (rank(c.in[i]) < 2 || dims(c.in[i])[0] != directions))
      return fail(Code::invalid,
                  cat("input ", i, " is ", ir::text(c.in[i].type()), "; expected ", directions, " directions first"));
  return {};
}

Lowered recurrent(Call& c, const Kind& kind) {
  const std::string_view direction = c.text("direction", "forward");
  const int64_t directions = direction == "bidirectional" ? 2 : 1;
  const bool batch_first = c.integer("layout", 0) != 0;
  Value x = c.in[0];
  if (batch_first) {  // states are [batch, directions, hidden] then
    if (rank(x) == 3) x = TRY(c.b.transpose(x, {1, 0, 2}));
    for (size_t i : {size_t{5}, size_t{6}})
      if (c.has(i) && rank(c.in[i]) == 3) c.in[i] = TRY(c.b.transpose(c.in[i], {1, 0, 2}));
  }
  TRY(check_shapes(c, kind, directions));
  Values all;
  std::vector<Values> last(kind.states);
  const auto with_dim = [&](Value v, int64_t at) -> Made {
    Dims to = dims(v);
    to.insert(to.begin() + at, 1);
    return c.b.reshape(v, to);
  };
  for (int64_t d = 0; d < directions; ++d) {
    const Direction done = TRY(run_direction(c, kind, x, d, d == 1 || direction == "reverse"));
    all.push_back(TRY(with_dim(done.all, 1)));
    for (size_t s = 0; s < kind.states; ++s) last[s].push_back(TRY(with_dim(done.last[s], 0)));
  }
  Values out = {TRY(c.b.concat(all, 1))};
  if (batch_first) out[0] = TRY(c.b.transpose(out[0], {2, 0, 1, 3}));
  for (const Values& states : last) {
    Value joined = TRY(c.b.concat(states, 0));
    out.push_back(batch_first ? TRY(c.b.transpose(joined, {1, 0, 2})) : joined);
  }
  return out;
}

Lowered rnn(Call& c) { return recurrent(c, {1, 1, 1, {"tanh"}, rnn_step}); }
Lowered gru(Call& c) { return recurrent(c, {3, 1, 2, {"sigmoid", "tanh"}, gru_step}); }
Lowered lstm(Call& c) { return recurrent(c, {4, 2, 3, {"sigmoid", "tanh", "tanh"}, lstm_step}); }

const Row kRows[] = {
    {"GRU", 7, 3, 6, gru},
    {"LSTM", 7, 3, 8, lstm},
    {"RNN", 7, 3, 6, rnn},
};

}  // namespace

std::span<const Row> rows_recurrent() { return kRows; }

}  // namespace trine::front::onnx
