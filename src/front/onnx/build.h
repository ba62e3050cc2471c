// Nodes of the graph as ONNX thinks of them: operands broadcast, scalars written where they are needed, and what is
// known already computed at once. Not the lowerings (rows_*.cpp); they are written in these words.
// Invariant: a value made of constants alone is a constant where it is small, and can be known where it is not.
#pragma once

#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/text.h"
#include "ir/graph.h"
#include "ops/build.h"

namespace trine::front::onnx {

using ir::Attrs;
using ir::Ints;
using ir::Value;
using ops::Values;
using Made = Result<Value>;

inline const Dims& dims(const Value& v) { return v.type().dims; }
inline Dtype dtype(const Value& v) { return v.type().dtype; }
inline int rank(const Value& v) { return v.type().rank(); }
inline bool is_float(Dtype d) { return kDtypes[size_t(d)].kind == DtypeKind::floating; }
inline bool is_float(const Value& v) { return is_float(dtype(v)); }
Ints count_up(int64_t from, int64_t to);  // from, ..., to - 1

// The words of ops/build.h, and these; what is made of constants is folded.
class Build : public ops::Words<Build, Made> {
 public:
  ir::Graph graph;
  uint32_t where = 0;  // of the node being read

  Made op(ir::OpId op, Values inputs, Attrs attrs = {}, std::vector<ir::Type> types = {});
  Result<const ir::Node*> node(ir::Spec spec);  // not folded

  Value constant(Tensor tensor) { return graph.constant(std::move(tensor), where); }
  Value integers(const Ints& values);  // s64[n]
  Value integer(int64_t value);        // s64[]
  // The tensor a value is bound to be whatever the inputs are; null where it depends on them, or is too large.
  const Tensor* known(const Value& value);
  // The same as integers, of any shape.
  Result<Ints> known_integers(const Value& value);

  Made unary(ir::OpId op, Value x) { return this->op(op, {x}); }
  Made binary(ir::OpId op, Value a, Value b);                  // broadcast, of one dtype
  Made with_number(ir::OpId op, Value a, double b);            // a op b
  Made compare(Value a, Value b, std::string_view direction);  // broadcast
  Made compare_number(Value a, double b, std::string_view direction);
  Made select(Value pred, Value a, Value b);  // broadcast
  Made clamp(Value x, double low, double high);

  using Words::broadcast;
  Made broadcast(Value x, const Dims& dims);  // trailing dims line up
  using Words::pad;
  Made pad(Value x, double value, const Ints& low, const Ints& high);
  Made reduce(Value x, std::string_view kind, const Ints& axes, bool keep);
  Made mean(Value x, const Ints& axes, bool keep);
  // Rows of x along an axis: x[:axis] + indices' dims + x[axis + 1:]; indices are not negative.
  Made take(Value x, int axis, Value indices);
  Made dot(Value a, Value b, Ints a_batch, Ints b_batch, Ints a_contract, Ints b_contract, Dtype result);
  // Floats narrower than f32 as f32, for sums that should not be rounded at each step.
  Made widen(Value x);

  Result<Dims> broadcast_dims(const Dims& a, const Dims& b) const;

 private:
  Made fold(const ir::Node& node);

  std::unordered_set<const ir::Node*> fixed_;  // nodes made of constants alone
  std::unordered_map<const ir::Node*, Tensor> known_;
};

}  // namespace trine::front::onnx
