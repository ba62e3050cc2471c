// Ops without a lowering of their own, written as ops that have one: the graph computes the same values.
// What is made may be an internal op (Op::is_internal): window_load, window_store, row_gather, arg_max_parts, scan.
#pragma once

#include "ir/rewrite.h"

namespace trine::compile::device {

// Recognises what several nodes compute, as one; the first step of decompose().
ir::Graph recognise(const ir::Graph& graph);
ir::Graph decompose(const ir::Graph& graph);

// The rules, a file for each group.
ir::Replacement gather_before_convert(ir::Graph& graph, const ir::Node& node);
ir::Replacement gather_in_rows(ir::Graph& graph, const ir::Node& node);
ir::Replacement gather_by_windows(ir::Graph& graph, const ir::Node& node);
ir::Replacement slice_by_window(ir::Graph& graph, const ir::Node& node);
ir::Replacement update_by_window(ir::Graph& graph, const ir::Node& node);
ir::Replacement scatter_by_windows(ir::Graph& graph, const ir::Node& node);

ir::Replacement running_by_scans(ir::Graph& graph, const ir::Node& node);
ir::Replacement pool_by_slices(ir::Graph& graph, const ir::Node& node);
ir::Replacement unpool_by_slices(ir::Graph& graph, const ir::Node& node);
ir::Replacement pad_positive(ir::Graph& graph, const ir::Node& node);
ir::Replacement convolve_padded(ir::Graph& graph, const ir::Node& node);

ir::Replacement convolve_patches(ir::Graph& graph, const ir::Node& node);
ir::Replacement rows_as_channels(ir::Graph& graph, const ir::Node& node);
ir::Replacement line_as_image(ir::Graph& graph, const ir::Node& node);
ir::Replacement planes_as_channels(ir::Graph& graph, const ir::Node& node);
ir::Replacement kernel_gradient_last(ir::Graph& graph, const ir::Node& node);
ir::Replacement groups_together(ir::Graph& graph, const ir::Node& node);

ir::Replacement reduce_by_rows(ir::Graph& graph, const ir::Node& node);
ir::Replacement product_of_vectors(ir::Graph& graph, const ir::Node& node);
ir::Replacement product_without_sum(ir::Graph& graph, const ir::Node& node);
ir::Replacement product_of_few(ir::Graph& graph, const ir::Node& node);
ir::Replacement reduce_apart(ir::Graph& graph, const ir::Node& node);
ir::Replacement reduce_by_blocks(ir::Graph& graph, const ir::Node& node);
ir::Replacement reduce_major(ir::Graph& graph, const ir::Node& node);
ir::Replacement transposed_product(ir::Graph& graph, const ir::Node& node);

ir::Replacement sort_by_largest(ir::Graph& graph, const ir::Node& node);
ir::Replacement sort_by_rank(ir::Graph& graph, const ir::Node& node);
ir::Replacement arg_max_in_parts(ir::Graph& graph, const ir::Node& node);
ir::Replacement indices_as_floats(ir::Graph& graph, const ir::Node& node);
ir::Replacement top_in_parts(ir::Graph& graph, const ir::Node& node);
ir::Replacement top_by_repeated_max(ir::Graph& graph, const ir::Node& node);
ir::Replacement reduce_by_halves(ir::Graph& graph, const ir::Node& node);
ir::Replacement erf_inv_by_polynomials(ir::Graph& graph, const ir::Node& node);
ir::Replacement whole_as_written(ir::Graph& graph, const ir::Node& node);
ir::Replacement count_in_words(ir::Graph& graph, const ir::Node& node);
ir::Replacement compare_total(ir::Graph& graph, const ir::Node& node);
ir::Replacement divide_downwards(ir::Graph& graph, const ir::Node& node);
ir::Replacement divide_by_guesses(ir::Graph& graph, const ir::Node& node);
ir::Replacement narrow_in_words(ir::Graph& graph, const ir::Node& node);
ir::Replacement sum_of_nothing(ir::Graph& graph, const ir::Node& node);
ir::Replacement multiply_integers(ir::Graph& graph, const ir::Node& node);

ir::Replacement function_by_others(ir::Graph& graph, const ir::Node& node);
ir::Replacement atan2_by_octants(ir::Graph& graph, const ir::Node& node);
ir::Replacement infinite_by_compare(ir::Graph& graph, const ir::Node& node);
ir::Replacement batch_norm_by_parts(ir::Graph& graph, const ir::Node& node);

ir::Replacement count_bits(ir::Graph& graph, const ir::Node& node);
ir::Replacement shift_with_sign(ir::Graph& graph, const ir::Node& node);
ir::Replacement precision_by_bits(ir::Graph& graph, const ir::Node& node);
ir::Replacement plain_form(ir::Graph& graph, const ir::Node& node);

ir::Replacement random_in_words(ir::Graph& graph, const ir::Node& node);
ir::Replacement bits_there_and_back(ir::Graph& graph, const ir::Node& node);

}  // namespace trine::compile::device
