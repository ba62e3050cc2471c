// Comparison of two modules: both are interned, so that each type and attribute of one has at most one equal in the
// other, and each pair is compared once.
#include <vector>

#include "base/text.h"
#include "front/stablehlo/module.h"
#include "front/stablehlo/print/print.h"

namespace trine::front::stablehlo {

namespace {

class Comparison {
 public:
  Comparison(const Module& a, const Module& b, bool locations)
      : a_(a),
        b_(b),
        locations_(locations),
        types_(a.type_count(), TypeId::none),
        attrs_(a.attr_count(), AttrId::none) {}

  std::string op(const Op& x, const Op& y);

 private:
  bool same(TypeId x, TypeId y);
  bool same(AttrId x, AttrId y);
  bool same_type(const Type& x, const Type& y);
  bool same_attr(const Attr& x, const Attr& y);
  template <class Id>
  bool all_same(const std::vector<Id>& x, const std::vector<Id>& y) {
    if (x.size() != y.size()) return false;
    for (size_t i = 0; i < x.size(); ++i)
      if (!same(x[i], y[i])) return false;
    return true;
  }
  std::string attrs(const Op& x, const Op& y);
  std::string block(const Block& x, const Block& y);

  const Module& a_;
  const Module& b_;
  bool locations_;
  std::vector<TypeId> types_;  // of a, the equal of b once found
  std::vector<AttrId> attrs_;
};

bool Comparison::same(TypeId x, TypeId y) {
  if (x == TypeId::none || y == TypeId::none) return x == y;
  TypeId& known = types_[size_t(x)];
  if (known != TypeId::none) return known == y;
  if (!same_type(a_.type(x), b_.type(y))) return false;
  types_[size_t(x)] = y;
  return true;
}

bool Comparison::same(AttrId x, AttrId y) {
  if (x == AttrId::none || y == AttrId::none) return x == y;
  AttrId& known = attrs_[size_t(x)];
  if (known != AttrId::none) return known == y;
  if (!same_attr(a_.attr(x), b_.attr(y))) return false;
  attrs_[size_t(x)] = y;
  return true;
}

bool Comparison::same_type(const Type& x, const Type& y) {
  if (x.kind != y.kind || x.scalar != y.scalar || x.shape != y.shape || x.text != y.text) return false;
  if (x.quantization.has_value() != y.quantization.has_value()) return false;
  if (x.quantization) {
    const Quantization &p = *x.quantization, &q = *y.quantization;
    if (!same(p.storage, q.storage) || !same(p.expressed, q.expressed) || p.flags != q.flags || p.axis != q.axis ||
        p.scales != q.scales || p.zero_points != q.zero_points || p.min != q.min || p.max != q.max)
      return false;
  }
  return same(x.element, y.element) && same(x.encoding, y.encoding) && all_same(x.inputs, y.inputs) &&
         all_same(x.results, y.results);
}

bool Comparison::same_attr(const Attr& x, const Attr& y) {
  return x.kind == y.kind && x.bits == y.bits && x.name == y.name && x.text == y.text && x.keys == y.keys &&
         same(x.type, y.type) && all_same(x.elements, y.elements);
}

std::string Comparison::attrs(const Op& x, const Op& y) {
  for (size_t i = 0; i < x.attrs.size() && i < y.attrs.size(); ++i) {
    if (x.attrs[i].name != y.attrs[i].name) return cat("attributes ", x.attrs[i].name, " and ", y.attrs[i].name);
    if (!same(x.attrs[i].value, y.attrs[i].value))
      return cat("attribute ", x.attrs[i].name, ": ", attr_text(a_, x.attrs[i].value), " and ",
                 attr_text(b_, y.attrs[i].value));
  }
  if (x.attrs.size() != y.attrs.size()) return cat(x.attrs.size(), " and ", y.attrs.size(), " attributes");
  return {};
}

std::string Comparison::block(const Block& x, const Block& y) {
  if (x.first_argument != y.first_argument || x.arguments != y.arguments) return "the arguments of a block";
  for (uint32_t i = 0; i < x.arguments; ++i)
    if (!same(a_.type_of(x.argument(i)), b_.type_of(y.argument(i)))) return cat("the type of argument ", i);
  if (locations_ && !all_same(x.locations, y.locations)) return "the locations of arguments";
  if (x.ops.size() != y.ops.size()) return cat("blocks of ", x.ops.size(), " and ", y.ops.size(), " ops");
  for (size_t i = 0; i < x.ops.size(); ++i)
    if (std::string found = op(x.ops[i], y.ops[i]); !found.empty()) return cat("op ", i, " ", found);
  return {};
}

std::string Comparison::op(const Op& x, const Op& y) {
  if (x.name != y.name) return cat(x.name, " and ", y.name);
  const std::string at = cat(x.name, ": ");
  if (x.operands != y.operands) return at + "operands";
  if (x.first_result != y.first_result || x.results != y.results) return at + "results";
  for (uint32_t i = 0; i < x.results; ++i)
    if (!same(a_.type_of(x.result(i)), b_.type_of(y.result(i))))
      return cat(at, "type of result ", i, ": ", type_text(a_, a_.type_of(x.result(i))), " and ",
                 type_text(b_, b_.type_of(y.result(i))));
  if (std::string found = attrs(x, y); !found.empty()) return at + found;
  if (x.successors != y.successors) return at + "successors";
  if (locations_ && !same(x.location, y.location)) return at + "locations";
  if (x.regions.size() != y.regions.size()) return cat(at, x.regions.size(), " and ", y.regions.size(), " regions");
  for (size_t r = 0; r < x.regions.size(); ++r) {
    const std::vector<Block>&p = x.regions[r].blocks, &q = y.regions[r].blocks;
    if (p.size() != q.size()) return cat(at, p.size(), " and ", q.size(), " blocks");
    for (size_t i = 0; i < p.size(); ++i)
      if (std::string found = block(p[i], q[i]); !found.empty()) return at + found;
  }
  return {};
}

}  // namespace

std::string difference(const Module& a, const Module& b, bool locations) {
  return Comparison(a, b, locations).op(a.top, b.top);
}

}  // namespace trine::front::stablehlo
