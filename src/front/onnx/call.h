// One ONNX node about to become nodes of the graph: its inputs as values, its attributes by name, and the row of its
// op. A row is (name, since which opset, how many inputs, lowering); rows/*.cpp hold them, rows/rows.cpp finds them.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "front/onnx/build.h"
#include "front/onnx/model.h"

namespace trine::front::onnx {

class Maker;

// What a name of the file stands for: a tensor, or a list of them that is known when the model is read.
struct Item {
  Value value = {};
  std::shared_ptr<const Values> list = {};

  explicit operator bool() const { return bool(value) || list != nullptr; }
};

struct Call {
  Build& b;
  Maker& maker;
  const NodeProto& node;
  int64_t opset = 0;
  ir::OpId op = {};                           // the row's
  std::vector<Item> items = {};               // inputs, absent ones empty
  Values in = {};                             // those that are tensors, at the same indices
  std::vector<Item> lists = {};               // set by lowerings whose results are lists
  std::optional<Error> attribute_error = {};  // an attribute of another kind than asked for

  bool has(size_t i) const { return i < in.size() && bool(in[i]); }
  size_t outputs() const { return node.outputs.size(); }
  bool wants(size_t i) const { return i < node.outputs.size() && !node.outputs[i].empty(); }

  // Attributes; absent: the given value. Of another kind: an error, and the given value.
  const AttributeProto* find(std::string_view name) const;
  int64_t integer(std::string_view name, int64_t otherwise);
  double real(std::string_view name, double otherwise);
  std::string_view text(std::string_view name, std::string_view otherwise = {});
  Ints ints(std::string_view name);
  std::vector<float> reals(std::string_view name);
  std::vector<std::string_view> texts(std::string_view name);
  const GraphProto* graph(std::string_view name);

  // An axis of this rank, counted from the end where negative.
  Result<int> axis(int64_t axis, int rank, std::string_view what = "axis") const;
  Result<Ints> axes(Ints axes, int rank) const;  // sorted, named once
  // Input i as integers known when the model is read.
  Result<Ints> need_ints(size_t i, std::string_view what);
  Result<double> need_number(size_t i, std::string_view what);

  const std::string& file() const;

 private:
  const AttributeProto* find_of(std::string_view name, AttributeKind kind);
};

using Lowered = Result<Values>;

struct Row {
  std::string_view name = {};
  int since = 1;
  int inputs_min = 1, inputs_max = 1;  // -1: any number
  Lowered (*lower)(Call& call) = nullptr;
  std::string_view domain = {};  // empty: ai.onnx
  bool takes_lists = false;      // an input may be a list of tensors
  ir::OpId op = {};              // rows_of_ops(): ours, which it is
};

// The row of the newest version not after `opset`; null where there is none.
const Row* find_row(std::string_view domain, std::string_view op, int64_t opset);
std::vector<const Row*> all_rows();

std::span<const Row> rows_of_ops();
std::span<const Row> rows_elementwise();
std::span<const Row> rows_activation();
std::span<const Row> rows_shape();
std::span<const Row> rows_fill();
std::span<const Row> rows_index();
std::span<const Row> rows_reduce();
std::span<const Row> rows_matmul();
std::span<const Row> rows_conv();
std::span<const Row> rows_pool();
std::span<const Row> rows_norm();
std::span<const Row> rows_resize();
std::span<const Row> rows_quantize();
std::span<const Row> rows_control();
std::span<const Row> rows_recurrent();
std::span<const Row> rows_list();
std::span<const Row> rows_loss();
std::span<const Row> rows_signal();
std::span<const Row> rows_sample();

// The one result of a lowering.
inline Lowered one(Made made) {
  if (!made) return Error(made.error());
  return Values{*made};
}

}  // namespace trine::front::onnx
