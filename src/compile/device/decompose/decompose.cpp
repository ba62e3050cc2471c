// The table of decompositions; see decompose.h.
#include "compile/device/decompose/decompose.h"

#include <algorithm>

#include "compile/graph/simplify.h"
#include "ir/op_ids.h"
#include "ops/op.h"

namespace trine::compile::device {

namespace {

constexpr int kRounds = 8;  // what a rule makes may need another

// But for what an engine has a table of.
ir::Replacement by_the_op(ir::Graph& graph, const ir::Node& node) {
  const ops::Op* const op = ops::find_op(node.op);
  return op && op->decompose && op->device.activation.empty() ? op->decompose(graph, node) : ir::Replacement{};
}

// Results without elements: no rule below has to think of them.
ir::Replacement nothing_to_make(ir::Graph& graph, const ir::Node& node) {
  if (node.op == op::constant || node.op == op::parameter || node.is_unique || node.types.empty()) return {};
  const auto is_something = [](const ir::Type& t) { return t.is_token || t.elements() != 0; };
  if (std::any_of(node.types.begin(), node.types.end(), is_something)) return {};
  ir::Replacement out;
  for (const ir::Type& t : node.types) out.push_back(graph.constant(Tensor::make(t.dtype, t.dims), node.where));
  return out;
}

constexpr ir::Rule kRecognise[] = {
    {"nothing to make", {}, nothing_to_make},
    {"the largest in parts of rows", op::reduce, arg_max_in_parts},
    {"whole numbers divided downwards", op::select, divide_downwards},
};

constexpr ir::Rule kRules[] = {
    {"sums of nothing", {}, sum_of_nothing},
    {"gather before converting", op::gather, gather_before_convert},
    {"gather in rows", op::gather, gather_in_rows},
    {"gather by windows", op::gather, gather_by_windows},
    {"slice by a window", op::dynamic_slice, slice_by_window},
    {"update by a window", op::dynamic_update_slice, update_by_window},
    {"scatter by windows", op::scatter, scatter_by_windows},
    {"running sums by scans", op::reduce_window, running_by_scans},
    {"pool by slices", op::reduce_window, pool_by_slices},
    {"unpool by slices", op::select_and_scatter, unpool_by_slices},
    {"negative padding by slices", op::pad, pad_positive},
    {"patches as rows of a multiply", op::convolution, convolve_patches},
    {"rows of a window as channels", op::convolution, rows_as_channels},
    {"a line as an image", op::convolution, line_as_image},
    {"planes of a window as channels", op::convolution, planes_as_channels},
    {"gradient of a kernel by channels last", op::convolution, kernel_gradient_last},
    {"groups of few channels together", op::convolution, groups_together},
    {"padding before convolution", op::convolution, convolve_padded},
    {"sort by the largest", op::sort, sort_by_largest},
    {"sort by rank", op::sort, sort_by_rank},
    {"largest in parts of rows", op::top_k, top_in_parts},
    {"largest by turns", op::top_k, top_by_repeated_max},
    {"places as floats", op::reduce, indices_as_floats},
    {"reduce by rows, then the rows", op::reduce, reduce_by_rows},
    {"long vectors multiplied by elements", op::dot_general, product_of_vectors},
    {"products without a sum by elements", op::dot_general, product_without_sum},
    {"products of a few numbers by elements", op::dot_general, product_of_few},
    {"reduce by one group of dims, then the other", op::reduce, reduce_apart},
    {"reduce by blocks of rows", op::reduce, reduce_by_blocks},
    {"reduce over major dims", op::reduce, reduce_major},
    {"operands of a transposed product swapped", op::transpose, transposed_product},
    {"reduce by halves", op::reduce, reduce_by_halves},
    {"erf_inv by polynomials", op::erf_inv, erf_inv_by_polynomials},
    {"whole numbers as they are written", op::convert, whole_as_written},
    {"64-bit counting in words", op::convert, count_in_words},
    {"whole numbers divided by guesses", op::divide, divide_by_guesses},
    {"remainder by guesses", op::remainder, divide_by_guesses},
    {"total order by bits", op::compare, compare_total},
    {"integers multiplied as floats", op::dot_general, multiply_integers},
    {"functions by those of a table", {}, function_by_others},
    {"angle by octants", op::atan2, atan2_by_octants},
    {"infinities by comparison", op::is_inf, infinite_by_compare},
    {"infinities by comparison", op::is_pos_inf, infinite_by_compare},
    {"infinities by comparison", op::is_neg_inf, infinite_by_compare},
    {"batch norm by parts", op::batch_norm_training, batch_norm_by_parts},
    {"batch norm by parts", op::batch_norm_inference, batch_norm_by_parts},
    {"batch norm by parts", op::batch_norm_grad, batch_norm_by_parts},
    {"bits counted in words", op::count_leading_zeros, count_bits},
    {"bits counted in words", op::popcnt, count_bits},
    {"shift that keeps the sign", op::shift_right_arithmetic, shift_with_sign},
    {"precision by bits", op::reduce_precision, precision_by_bits},
    {"plain forms", {}, plain_form},
    {"random bits in words", op::rng_bit_generator, random_in_words},
    {"bits there and back", op::bitcast_convert, bits_there_and_back},
    {"narrow numbers in words", {}, narrow_in_words},
    {"the op's own decomposition", {}, by_the_op},
};

}  // namespace

ir::Graph recognise(const ir::Graph& graph) { return ir::rewrite(graph, kRecognise).graph; }

ir::Graph decompose(const ir::Graph& graph) {
  ir::Rewritten out = ir::rewrite(recognise(graph), kRules);
  for (int round = 1; round < kRounds && !out.applied.empty(); ++round) out = ir::rewrite(out.graph, kRules);
  return simplify(out.graph).graph;
}

}  // namespace trine::compile::device
