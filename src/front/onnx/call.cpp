// What a node says about itself, asked for by the lowerings.
#include "front/onnx/call.h"

#include <algorithm>
#include <cmath>

#include "base/number/scalar.h"
#include "base/text.h"
#include "front/onnx/maker.h"

namespace trine::front::onnx {

// An attribute that refers to one of the call around it is that one.
const AttributeProto* Call::find(std::string_view name) const {
  for (const AttributeProto& a : node.attributes)
    if (a.name == name) return a.refers.empty() ? &a : maker.outer_attribute(a.refers);
  return nullptr;
}

const AttributeProto* Call::find_of(std::string_view name, AttributeKind kind) {
  const AttributeProto* a = find(name);
  if (a == nullptr || a->kind == int64_t(kind)) return a;
  attribute_error =
      fail(Code::invalid, cat("attribute `", name, "` is of kind ", a->kind, "; expected ", int64_t(kind)));
  return nullptr;
}

int64_t Call::integer(std::string_view name, int64_t otherwise) {
  const AttributeProto* a = find_of(name, AttributeKind::integer);
  return a != nullptr ? a->integer : otherwise;
}

double Call::real(std::string_view name, double otherwise) {
  const AttributeProto* a = find_of(name, AttributeKind::real);
  return a != nullptr ? double(a->real) : otherwise;
}

std::string_view Call::text(std::string_view name, std::string_view otherwise) {
  const AttributeProto* a = find_of(name, AttributeKind::text);
  return a != nullptr ? a->text : otherwise;
}

Ints Call::ints(std::string_view name) {
  const AttributeProto* a = find_of(name, AttributeKind::integers);
  return a != nullptr ? a->integers : Ints{};
}

std::vector<float> Call::reals(std::string_view name) {
  const AttributeProto* a = find_of(name, AttributeKind::reals);
  return a != nullptr ? a->reals : std::vector<float>{};
}

std::vector<std::string_view> Call::texts(std::string_view name) {
  const AttributeProto* a = find_of(name, AttributeKind::texts);
  return a != nullptr ? a->texts : std::vector<std::string_view>{};
}

const GraphProto* Call::graph(std::string_view name) {
  const AttributeProto* a = find_of(name, AttributeKind::graph);
  return a != nullptr && a->graphs.size() == 1 ? &a->graphs[0] : nullptr;
}

Result<int> Call::axis(int64_t axis, int rank, std::string_view what) const {
  if (axis < -rank || axis >= rank)
    return fail(Code::invalid, cat(what, " ", axis, " is out of range for ", rank, " dims"));
  return int(axis < 0 ? axis + rank : axis);
}

Result<Ints> Call::axes(Ints axes, int rank) const {
  for (int64_t& a : axes) a = TRY(axis(a, rank));
  std::sort(axes.begin(), axes.end());
  if (std::adjacent_find(axes.begin(), axes.end()) != axes.end()) return fail(Code::invalid, "an axis is named twice");
  return axes;
}

Result<Ints> Call::need_ints(size_t i, std::string_view what) {
  if (!has(i)) return fail(Code::invalid, cat("input ", i, " (", what, ") is absent"));
  auto out = b.known_integers(in[i]);
  if (!out)
    return fail(out.error().code, cat("input ", i, " (", what, ", `", node.inputs[i], "`) ", out.error().message));
  return out;
}

Result<double> Call::need_number(size_t i, std::string_view what) {
  if (!has(i)) return fail(Code::invalid, cat("input ", i, " (", what, ") is absent"));
  const Tensor* t = b.known(in[i]);
  if (t == nullptr)
    return fail(Code::unsupported, cat("input ", i, " (", what, ", `", node.inputs[i],
                                       "`) depends on the model's inputs; expected a constant"));
  if (element_count(t->dims) != 1 || kDtypes[size_t(t->dtype)].kind == DtypeKind::complex)
    return fail(Code::invalid,
                cat("input ", i, " (", what, ") is ", shape_text(t->dtype, t->dims), "; expected one number"));
  return number(*t);
}

const std::string& Call::file() const { return maker.file(); }

}  // namespace trine::front::onnx
