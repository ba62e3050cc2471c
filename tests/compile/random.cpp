// Random graphs: simplified, fused and planned, they give what the reference evaluator gives. Seeds are printed.
#include "compile/host/native.h"
#include "ir/op_ids.h"
#include "ir/text.h"
#include "ops/evaluate.h"
#include "tests/compile/testing.h"
#include "tests/compile/verify_each.h"

#include <doctest/doctest.h>

namespace trine::compile {

namespace {

class Maker {
 public:
  explicit Maker(uint32_t seed) : random_(seed) {}

  ir::Graph graph(int nodes) {
    const Dims shapes[] = {{3, 4, 5}, {4, 5}, {5}, {3, 4}, {}, {12, 5}};
    for (int i = 0; i < 4; ++i) {
      values_.push_back(g_.parameter(ir::tensor_type(Dtype::f32, shapes[pick(6)])));
      g_.params.push_back(values_.back());
    }
    for (int i = 0; i < nodes; ++i)
      if (ir::Value v = next()) values_.push_back(v);
    const int results = 1 + int(pick(3));
    g_.results = {values_.back()};
    for (int i = 1; i < results; ++i) g_.results.push_back(any());
    return std::move(g_);
  }

 private:
  size_t pick(size_t n) { return std::uniform_int_distribution<size_t>(0, n - 1)(random_); }
  ir::Value any() { return values_[values_.size() - 1 - pick(std::min<size_t>(values_.size(), 8))]; }

  ir::Value node(ir::OpId op, std::vector<ir::Value> inputs, ir::Attrs attrs = {}, ir::Type declared = {}) {
    ir::Spec spec{.op = op, .inputs = std::move(inputs), .attrs = std::move(attrs)};
    if (!declared.dims.empty() || op == op::reshape) spec.types = {declared};
    auto made = ops::make(g_, std::move(spec));
    return made ? (*made)->result() : ir::Value{};
  }
  // The value brought to the dims, by broadcasting if its dims are the last of them.
  ir::Value fitted(ir::Value v, const Dims& dims) {
    const Dims& have = v.type().dims;
    if (have == dims) return v;
    if (have.size() > dims.size()) return {};
    const size_t lead = dims.size() - have.size();
    ir::Ints to;
    for (size_t d = 0; d < have.size(); ++d) {
      if (have[d] != dims[lead + d]) return {};
      to.push_back(int64_t(lead + d));
    }
    return node(op::broadcast_in_dim, {v}, {{"broadcast_dimensions", to}}, ir::tensor_type(Dtype::f32, dims));
  }
  ir::Value next() {
    const ir::Value x = any();
    const Dims& dims = x.type().dims;
    switch (pick(9)) {
      case 0: {
        const ir::OpId unary[] = {op::tanh, op::negate, op::abs, op::logistic, op::floor};
        return node(unary[pick(5)], {x});
      }
      case 1:
      case 2: {
        const ir::OpId binary[] = {op::add, op::subtract, op::maximum, op::minimum};
        ir::Value y = fitted(any(), dims);
        return y ? node(binary[pick(4)], {x, y}) : y;
      }
      case 3: {
        if (dims.empty()) return {};
        ir::Ints over;
        for (size_t d = 0; d < dims.size(); ++d)
          if (pick(2)) over.push_back(int64_t(d));
        const bool sum = pick(2);
        Tensor start = Tensor::make(Dtype::f32, {});
        *start.view().as<float>() = sum ? float(pick(2)) : -INFINITY;
        ir::Value r = node(op::reduce, {x, g_.constant(start)},
                           {{"dimensions", over}, {"kind", std::string(sum ? "add" : "maximum")}});
        return r ? node(op::tanh, {r}) : r;
      }
      case 4: {
        // A row's number brought back to its row.
        if (dims.empty()) return {};
        Tensor start = Tensor::make(Dtype::f32, {});
        const int64_t last = int64_t(dims.size()) - 1;
        ir::Value r =
            node(op::reduce, {x, g_.constant(start)}, {{"dimensions", ir::Ints{last}}, {"kind", std::string("add")}});
        ir::Ints to;
        for (int64_t d = 0; d < last; ++d) to.push_back(d);
        ir::Value back = node(op::broadcast_in_dim, {node(op::tanh, {r})}, {{"broadcast_dimensions", to}}, x.type());
        return back ? node(op::subtract, {x, back}) : back;
      }
      case 5: {
        if (dims.size() < 2) return {};
        ir::Ints order;
        for (size_t d = 0; d < dims.size(); ++d) order.push_back(int64_t(d));
        std::shuffle(order.begin(), order.end(), random_);
        return node(op::transpose, {x}, {{"permutation", order}});
      }
      case 6: {
        Dims flat = dims;
        if (flat.size() < 2) return {};
        flat[1] *= flat[0];
        flat.erase(flat.begin());
        return node(op::reshape, {x}, {}, ir::tensor_type(Dtype::f32, flat));
      }
      case 7:
        return gathered(x, any());
      default: {
        ir::Value y = fitted(any(), dims);
        if (!y) return {};
        ir::Value is = node(op::compare, {x, y}, {{"direction", std::string("GT")}});
        return node(op::select, {is, x, node(op::negate, {y})});
      }
    }
  }

  // Elements of x at indices made of y: some lie outside. Of whole rows, of columns, or by an index for each dim.
  ir::Value gathered(ir::Value x, ir::Value y) {
    if (x.type().dims.empty()) return {};
    auto whole = [&](ir::Value v) {
      const ir::Type type = ir::tensor_type(Dtype::s32, v.type().dims);
      auto made = ops::make(g_, ir::Spec{.op = op::convert, .inputs = {node(op::add, {v, v})}, .types = {type}});
      return made ? (*made)->result() : ir::Value{};
    };
    const Dims &dims = x.type().dims, &indices = y.type().dims;
    const int64_t rank = int64_t(indices.size());
    ir::Ints sizes(dims.begin(), dims.end()), window, collapsed, map;
    ir::Value index = whole(y);
    if (pick(2)) {
      const int64_t axis = int64_t(pick(dims.size()));
      sizes[size_t(axis)] = 1;
      collapsed = map = {axis};
      const bool in_front = pick(2);
      for (int64_t d = 0; d + 1 < int64_t(dims.size()); ++d) window.push_back(in_front ? d : rank + d);
    } else {
      Dims one = indices;
      one.push_back(1);
      std::vector<ir::Value> parts;
      for (size_t d = 0; d < dims.size(); ++d) {
        const ir::Value from = d % 2 ? whole(node(op::negate, {y})) : index;
        auto made =
            ops::make(g_, ir::Spec{.op = op::reshape, .inputs = {from}, .types = {ir::tensor_type(Dtype::s32, one)}});
        parts.push_back((*made)->result());
        map.push_back(int64_t(d));
      }
      collapsed = map;
      sizes.assign(dims.size(), 1);
      index = parts.size() == 1 ? parts[0] : node(op::concatenate, parts, {{"dimension", rank}});
    }
    return node(op::gather, {x, index},
                {{"offset_dims", window},
                 {"collapsed_slice_dims", collapsed},
                 {"operand_batching_dims", ir::Ints{}},
                 {"start_indices_batching_dims", ir::Ints{}},
                 {"start_index_map", map},
                 {"index_vector_dim", rank},
                 {"slice_sizes", sizes},
                 {"indices_are_sorted", false}});
  }

  std::mt19937 random_;
  ir::Graph g_;
  std::vector<ir::Value> values_;
};

}  // namespace

TEST_CASE("random graphs, compiled, give their reference values") {
  for (uint32_t seed = 1; seed <= 400; ++seed) {
    CAPTURE(seed);
    const ir::Graph graph = Maker(seed).graph(3 + int(seed % 30));
    CAPTURE(ir::text(graph));
    const Compiled ran = run_both(graph, compile_native(graph, kVerifiedPlan), seed);
    for (size_t i = 0; i < ran.want.size(); ++i) REQUIRE(error_of(ran.got[i], ran.want[i], 0x1p-23) <= 512);
  }
}

}  // namespace trine::compile
