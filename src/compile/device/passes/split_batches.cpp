// split-batches: convolutions over a batch that does not fit on chip: as long as values are that large, one image
// after the other. What images do not share is then never brought out of SBUF and back; further on, where values are
// small, they are one batch again. A batch of which even that is large goes through by some images at a time. Finds
// the nodes that treat every image alike, from the input on, and makes them image by image.
#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "arch/chips/chip.h"
#include "compile/device/loops/map.h"
#include "compile/thresholds.h"
#include "ir/op_ids.h"
#include "ir/rewrite.h"
#include "ops/build.h"
#include "ops/network/convolution_shape.h"

namespace trine::compile::device {

namespace {

namespace tuned = thresholds::passes;

using ir::Node;
using ir::Value;

int64_t size_of(const Value& v) { return v.type().elements() * bytes(v.type().dtype); }
// Bytes of a value that may not stay on chip; two of half of it may not either.
int64_t large_on(const arch::Chip& chip) { return chip.partitions * chip.sbuf.bytes_per_partition / 4; }

// Of the first convolution.
int64_t images_of(const ir::Graph& graph) {
  for (const Node* node : graph.order())
    if (node->op == op::convolution && node->types.size() == 1 && !node->inputs[0].type().dims.empty())
      return node->inputs[0].type().dims[0];
  return 1;
}

class Images {
 public:
  // each: images at once; more than one: of all that treats them alike, else of what is large.
  Images(const ir::Graph& graph, const arch::Chip& chip, int64_t each = 1)
      : graph_(graph), large_(large_on(chip)), images_(images_of(graph)), each_(each) {
    if (images_ <= each_ || images_ % each_ || images_ / each_ > tuned::kPiecesMost) return;
    for (const Node* node : graph.order())
      if (is_alike(*node)) alike_.insert(node);
    find_ends();
  }

  // Worth it, where what is put together again is small.
  bool apply() const {
    return has_convolution_ && !ends_.empty() &&
           std::all_of(ends_.begin(), ends_.end(), [&](const Node* n) { return size_of(n->result()) <= 2 * large_; });
  }

  ir::Graph made() {
    return ir::substituted(graph_, [&](ir::Graph& to, const Node& old, const ir::NewValue& now) -> ir::Replacement {
      if (!ends_.count(&old)) return {};
      ops::Values parts;
      for (int64_t i = 0; i < images_ / each_; ++i) parts.push_back(piece(to, old.result(), i, now));
      ops::Make make(to, location(to, old));
      ir::Attrs attrs;
      attrs.set("dimension", int64_t{0});
      return {make.op(op::concatenate, std::move(parts), std::move(attrs))};
    });
  }

 private:
  uint32_t location(ir::Graph& to, const Node& old) const {
    return old.where ? to.add_location(graph_.location(old.where)) : 0;
  }
  bool has_images(const Value& v) const { return !v.type().dims.empty() && v.type().dims[0] == images_; }
  bool is_input(const Value& v) const {
    return has_images(v) && (v.node->op == op::parameter || (v.node->op == op::slice && is_piece(*v.node)));
  }
  // Some images of an input, as an Images of more at once writes them.
  static bool is_piece(const Node& n) {
    const ir::Ints &begin = n.attrs.ints("start_indices"), &end = n.attrs.ints("limit_indices"),
                   &step = n.attrs.ints("strides");
    bool all = n.inputs[0].node->op == op::parameter && !begin.empty();
    for (size_t d = 0; d < begin.size(); ++d)
      all = all && (step.empty() || step[d] == 1) && (!d || end[d] - begin[d] == n.inputs[0].type().dims[d]);
    return all;
  }
  // Known image by image: made so, or given.
  bool is_known(const Value& v) const { return alike_.count(v.node) || is_input(v); }

  bool is_alike(const Node& n) {
    if (n.types.size() != 1 || !n.regions.empty() || !n.captures.empty() || !has_images(n.result())) return false;
    const auto zero_at_first = [&](std::string_view name) {
      const ir::Ints& list = n.attrs.ints(name);
      return !list.empty() && list[0] == 0;
    };
    if (n.op == op::convolution) {
      const auto shape = ops::ConvolutionShape::from(n.attrs, n.inputs[0].type().dims, n.inputs[1].type().dims);
      return shape && shape->input_batch == 0 && shape->output_batch == 0 && shape->batch_groups == 1 &&
             is_known(n.inputs[0]) && !alike_.count(n.inputs[1].node) &&
             (each_ > 1 || std::max(size_of(n.inputs[0]), size_of(n.result())) > large_ / 2) &&
             (has_convolution_ = true);
    }
    if (n.op == op::broadcast_in_dim) {
      const ir::Ints& to = n.attrs.ints("broadcast_dimensions");
      return std::find(to.begin(), to.end(), 0) == to.end();
    }
    if (n.op == op::pad)
      return is_known(n.inputs[0]) && zero_at_first("edge_padding_low") && zero_at_first("edge_padding_high") &&
             zero_at_first("interior_padding");
    if (n.op == op::reduce_window) {
      const ir::Ints &sizes = n.attrs.ints("window_dimensions"), &strides = n.attrs.ints("window_strides");
      const bool slides = (!sizes.empty() && sizes[0] != 1) || (!strides.empty() && strides[0] != 1);
      return n.inputs.size() == 2 && is_known(n.inputs[0]) && !slides && n.inputs[0].type().dims[0] == images_;
    }
    if (n.op == op::reduce) {
      const ir::Ints& over = n.attrs.ints("dimensions");
      return each_ > 1 && n.inputs.size() == 2 && is_known(n.inputs[0]) && has_images(n.inputs[0]) &&
             std::find(over.begin(), over.end(), 0) == over.end();
    }
    return has_map(n) && std::all_of(n.inputs.begin(), n.inputs.end(),
                                     [&](const Value& v) { return is_known(v) && v.type().dims == n.types[0].dims; });
  }
  // Read by what is not alike, or given back.
  void find_ends() {
    for (const Node* node : graph_.order())
      if (!alike_.count(node))
        for (const auto* list : {&node->inputs, &node->captures})
          for (const Value& v : *list)
            if (alike_.count(v.node) && depends(v)) ends_.insert(v.node);
    for (const auto* list : {&graph_.results, &graph_.effects})
      for (const Value& v : *list)
        if (alike_.count(v.node) && depends(v)) ends_.insert(v.node);
  }
  // Of the images, rather than the same for all of them.
  bool depends(const Value& v) const { return v.node->op != op::broadcast_in_dim; }

  Value piece(ir::Graph& to, const Value& old, int64_t i, const ir::NewValue& now) {
    if (!alike_.count(old.node)) return is_input(old) ? given(to, old, i, now) : now(old);
    auto& made = made_[old.node];
    made.resize(size_t(images_ / each_));
    if (made[size_t(i)].node) return made[size_t(i)];
    const Node& n = *old.node;
    ops::Values inputs;
    for (size_t k = 0; k < n.inputs.size(); ++k) {
      const bool second = n.op == op::convolution || n.op == op::pad || n.op == op::reduce_window || n.op == op::reduce;
      const bool shared = n.op == op::broadcast_in_dim || (second && k == 1);
      inputs.push_back(shared ? now(n.inputs[k]) : piece(to, n.inputs[k], i, now));
    }
    ir::Type type = n.types[0];
    type.dims[0] = each_;
    return made_[old.node][size_t(i)] = to.add1(n.op, std::move(inputs), std::move(type), n.attrs, location(to, n));
  }
  Value given(ir::Graph& to, const Value& old, int64_t i, const ir::NewValue& now) {
    const bool is_slice = old.node->op == op::slice;
    const int64_t first = (is_slice ? old.node->attrs.ints("start_indices")[0] : 0) + i * each_;
    ops::Make make(to, location(to, *old.node));
    return make.slice_dim(now(is_slice ? old.node->inputs[0] : old), 0, first, first + each_);
  }

  const ir::Graph& graph_;
  const int64_t large_;  // bytes
  const int64_t images_, each_;
  bool has_convolution_ = false;
  std::unordered_set<const Node*> alike_, ends_;
  std::unordered_map<const Node*, std::vector<Value>> made_;
};

}  // namespace

// So many images at once that the last convolution has a batch that stays on chip: there weights are read for many of
// them. All where that is so already.
static int64_t at_once(const ir::Graph& graph, const arch::Chip& chip) {
  const int64_t images = images_of(graph);
  int64_t last = 0, each = images;
  for (const Node* node : graph.order())
    if (node->op == op::convolution && node->types.size() == 1)
      last = std::max(size_of(node->inputs[0]), size_of(node->result()));
  while (each > 0 && each % 2 == 0 && last / (images / each) > large_on(chip) / 2) each /= 2;
  return each;
}

ir::Graph split_batches(ir::Graph graph, const arch::Chip& chip) {
  if (const int64_t each = at_once(graph, chip); each > 1 && each < images_of(graph))
    if (Images some(graph, chip, each); some.apply()) graph = some.made();
  if (Images images(graph, chip); images.apply()) return images.made();
  return graph;
}

}  // namespace trine::compile::device
