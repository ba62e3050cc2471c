// Losses that models carry when they are exported for training.
#include "base/text.h"
#include "front/onnx/call.h"
#include "ir/op_ids.h"

namespace trine::front::onnx {

namespace {

Made log_softmax(Build& b, Value x) {
  const Value shifted = TRY(b.binary(op::subtract, x, TRY(b.reduce(x, "maximum", {1}, true))));
  const Value sum = TRY(b.reduce(TRY(b.unary(op::exponential, shifted)), "add", {1}, true));
  return b.binary(op::subtract, shifted, TRY(b.unary(op::log, sum)));
}

// -weight[target] * x[target] of each position, zero where the target is to be ignored; then summed or averaged.
Made likelihood_loss(Call& c, Value x, Value target, Value weight) {
  Build& b = c.b;
  Dims indices = dims(x);
  if (rank(x) < 2 || rank(target) != rank(x) - 1)
    return fail(Code::invalid, cat("targets of ", ir::text(target.type()), " for ", ir::text(x.type())));
  indices.erase(indices.begin() + 1);
  if (dims(target) != indices)
    return fail(Code::invalid, cat("targets of ", ir::text(target.type()), " for ", ir::text(x.type())));
  Ints at = count_up(0, rank(x));
  at.erase(at.begin() + 1);
  const Value classes = TRY(b.iota(dtype(target), dims(x), 1)), zero = TRY(b.number(dtype(x), 0));
  Value hit = TRY(b.compare(classes, TRY(b.broadcast(target, dims(x), at)), "EQ"));
  if (c.find("ignore_index") != nullptr) {
    const Value counts =
        TRY(b.compare(target, TRY(b.convert(b.integer(c.integer("ignore_index", 0)), dtype(target))), "NE"));
    hit = TRY(b.binary(op::and_, hit, TRY(b.broadcast(counts, dims(x), at))));
  }
  const Value one_value = TRY(b.number(dtype(x), 1));
  const Value scale = weight ? TRY(b.broadcast(TRY(b.convert(weight, dtype(x))), dims(x), {1})) : one_value;
  const Value weights = TRY(b.select(hit, scale, zero));
  const Value chosen = TRY(b.select(hit, TRY(b.binary(op::multiply, x, weights)), zero));
  const Value loss = TRY(b.unary(op::negate, TRY(b.reduce(chosen, "add", {1}, false))));
  const std::string_view how = c.text("reduction", "mean");
  if (how == "none") return loss;
  const Value sum = TRY(b.reduce(loss, "add", count_up(0, rank(loss)), false));
  if (how == "sum") return sum;
  if (how != "mean") return fail(Code::invalid, cat("reduction `", how, "`; expected none, sum or mean"));
  return b.binary(op::divide, sum, TRY(b.reduce(weights, "add", count_up(0, rank(weights)), false)));
}

Lowered negative_log_likelihood(Call& c) {
  return one(likelihood_loss(c, c.in[0], c.in[1], c.has(2) ? c.in[2] : Value{}));
}

Lowered softmax_cross_entropy(Call& c) {
  if (rank(c.in[0]) < 2)
    return fail(Code::invalid, cat("of ", ir::text(c.in[0].type()), "; expected batch and classes"));
  const Value logs = TRY(log_softmax(c.b, c.in[0]));
  return Values{TRY(likelihood_loss(c, logs, c.in[1], c.has(2) ? c.in[2] : Value{})), logs};
}

const Row kRows[] = {
    {"NegativeLogLikelihoodLoss", 12, 2, 3, negative_log_likelihood},
    {"SoftmaxCrossEntropyLoss", 12, 2, 3, softmax_cross_entropy},
};

}  // namespace

std::span<const Row> rows_loss() { return kRows; }

}  // namespace trine::front::onnx
