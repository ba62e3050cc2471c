// Pulls each root's value at the loop's own index; a value at an index is computed once per program.
// What does not depend on the reduced dims is computed once per row; stages follow from what waits for which reduction.
#include "compile/host/loop_emit.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>
#include <optional>

#include "base/number/scalar.h"
#include "base/text.h"
#include "compile/graph/complex_parts.h"
#include "compile/graph/index_map.h"
#include "compile/graph/loop_ops.h"
#include "compile/host/join.h"
#include "compile/thresholds.h"
#include "ir/constant.h"
#include "ir/op_ids.h"
#include "ops/identity.h"
#include "ops/internal.h"
#include "ops/layout/slices.h"

namespace trine::compile {

using arch::LoopInsn;
using arch::LoopOp;
using arch::LoopStage;
using arch::LoopValue;

namespace {

// An instruction before its stage is known.
struct Draft {
  LoopInsn insn;
  bool by_row = false;  // once per row
  bool reduces = false;
  int stage = 0;  // even: per element, odd: per row
};

struct TermLess {
  bool operator()(const IndexTerm& a, const IndexTerm& b) const {
    return std::tie(a.dim, a.scale, a.offset) < std::tie(b.dim, b.scale, b.offset);
  }
};
struct KeyLess {
  bool operator()(const std::pair<ir::Value, IndexMap>& a, const std::pair<ir::Value, IndexMap>& b) const {
    if (a.first != b.first)
      return std::tie(a.first.node->id, a.first.index) < std::tie(b.first.node->id, b.first.index);
    return std::lexicographical_compare(a.second.begin(), a.second.end(), b.second.begin(), b.second.end(), TermLess{});
  }
};

// Part of a loop's space.
struct Box {
  Dims begin, size;
};

class Emitter {
 public:
  Emitter(const Unit& unit, const Box& box) : unit_(unit), box_(box) {}

  // Where a join's parts meet inside the box, if that is why there is no program for it.
  const std::optional<Cut>& cut() const { return cut_; }

  Result<LoopCode> all() {
    arch::LoopProgram& p = code_.program;
    for (size_t d = 0; d < unit_.space.size(); ++d) p.dims.push_back({box_.size[d], bool(unit_.inner[d])});
    struct Stored {
      LoopValue value;
      const ir::Node* root;
      Part part;
    };
    std::vector<Stored> stores;
    for (const ir::Node* root : unit_.roots) {
      const IndexMap map = root_map(*root);
      if (!is_complex_pair(*root)) {
        stores.push_back({TRY(value(root->result(), map)), root, Part::whole});
        continue;
      }
      if (const auto from = moved_whole(*root, map)) {
        const uint32_t at =
            operand(from->first, walk_of(from->second, from->first.type().dims, unit_.space.size()), false, Part::bits);
        stores.push_back({push_op(LoopOp::load, Dtype::s64, {}, false, at), root, Part::bits});
        continue;
      }
      stores.push_back({TRY(value(root->inputs[0], map)), root, Part::real});
      stores.push_back({TRY(value(root->inputs[1], map)), root, Part::imag});
    }
    code_.inputs = p.operands.size();
    for (auto [v, root, part] : stores) {
      v = before_rounding(v, root->types[0].dtype);
      const bool by_row = (drafts_[v].by_row || drafts_[v].reduces) && this->by_row(root_map(*root));
      const Walk walk = walk_of(root_map(*root), root->types[0].dims, unit_.space.size());
      const uint32_t at = operand(root->result(), walk, true, part);
      push({.op = LoopOp::store, .type = type_of(v), .in = {v, arch::kNoValue, arch::kNoValue}, .at = at}, by_row);
    }
    finish();
    return std::move(code_);
  }

 private:
  // A root has the loop's dims, or, of a row, those that are not reduced.
  IndexMap root_map(const ir::Node& root) const {
    const bool is_whole = root.types[0].dims == unit_.space && !is_row(root);
    IndexMap map;
    for (size_t d = 0; d < unit_.space.size(); ++d)
      if (is_whole || !unit_.inner[d]) map.push_back({int(d), 1, box_.begin[d]});
    return map;
  }
  bool is_row(const ir::Node& root) const { return root.op == op::reduce && unit_.has_reduction(); }

  bool by_row(const IndexMap& map) const {
    if (!unit_.has_reduction()) return false;
    return std::all_of(map.begin(), map.end(),
                       [&](const IndexTerm& t) { return t.dim < 0 || !unit_.inner[size_t(t.dim)]; });
  }
  Dtype type_of(LoopValue v) const { return drafts_[v].insn.type; }

  // A store rounds by itself.
  LoopValue before_rounding(LoopValue v, Dtype stored) const {
    const LoopInsn& n = drafts_[v].insn;
    return n.op == LoopOp::round_to && Dtype(n.at) == stored ? n.in[0] : v;
  }

  LoopValue push(LoopInsn insn, bool row) {
    drafts_.push_back({insn, row});
    return LoopValue(drafts_.size() - 1);
  }
  LoopValue push_op(LoopOp op, Dtype type, std::initializer_list<LoopValue> in, bool row, uint32_t at = 0,
                    uint64_t bits = 0) {
    LoopInsn insn{.op = op, .type = type, .at = at, .bits = bits};
    std::copy(in.begin(), in.end(), insn.in.begin());
    return push(insn, row);
  }
  // Of a complex number: its two halves, elements of their own, every other one; or its bits, as one.
  enum class Part : uint8_t { whole, real, imag, bits };
  uint32_t operand(const ir::Value& v, const Walk& walk, bool output, Part part = Part::whole) {
    const ir::Type& t = v.type();
    arch::LoopOperand o{t.dtype, output, t.elements(), walk.offset, walk.strides};
    if (part == Part::bits) o.dtype = Dtype::s64;
    if (part == Part::real || part == Part::imag) {
      o = {row(t.dtype).element, output, 2 * o.elements, 2 * o.offset + (part == Part::imag), o.strides};
      for (int64_t& s : o.strides) s *= 2;
    }
    if (output && part == Part::imag) o.beside = int64_t(code_.program.operands.size()) - 1;
    auto& all = code_.program.operands;
    for (size_t i = 0; i < all.size(); ++i)
      if (code_.operands[i] == v && all[i] == o) return uint32_t(i);
    all.push_back(std::move(o));
    code_.operands.push_back(v);
    return uint32_t(all.size() - 1);
  }

  Result<LoopValue> value(const ir::Value& v, const IndexMap& map) {
    // Terms of dims with one element mean nothing: drop them, so that equal reads are one.
    IndexMap tidy = map;
    for (size_t d = 0; d < tidy.size(); ++d)
      if (v.type().dims[d] == 1) tidy[d] = {};
    const std::pair<ir::Value, IndexMap> key{v, std::move(tidy)};
    if (auto found = memo_.find(key); found != memo_.end()) return found->second;
    const LoopValue made = TRY(make(v, key.second));
    memo_.emplace(key, made);
    return made;
  }

  Result<LoopValue> make(const ir::Value& v, const IndexMap& map) {
    const ir::Node& node = *v.node;
    const bool row = by_row(map);
    if (node.op == op::constant) {
      if (auto bits = splat_bits(*node.attrs.tensor("value"))) return constant(node.types[0].dtype, *bits, row);
    }
    if (is_complex_part(node) && unit_.members.count(&node)) {
      const size_t part = node.op == op::imag;
      if (const ir::Node* pair = node.inputs[0].node; is_made_here(*pair)) return value(pair->inputs[part], map);
      const Walk walk = walk_of(map, v.type().dims, unit_.space.size());
      const uint32_t at = operand(node.inputs[0], walk, false, part ? Part::imag : Part::real);
      return push_op(LoopOp::load, v.type().dtype, {}, row, at);
    }
    if (!unit_.members.count(&node)) return loaded(v, map, row);
    if (view_kind(node) != ViewKind::none) return value(node.inputs[0], through_view(node, map));
    if (node.op == op::iota) return iota(node, map, row);
    if (node.op == op::reduce) return reduce(node, map);
    if (node.op == op::gather) return gathered(node, map, row);
    if (is_join(node)) return joined(node, map, row);
    return computed(node, map, row);
  }

  // A pair of the loop's own: no memory has it before the loop is done.
  bool is_made_here(const ir::Node& node) const { return is_complex_pair(node) && unit_.members.count(&node); }

  // Of a pair of 32 bits each: the value in memory that it is element by element, where it is nothing else.
  std::optional<std::pair<ir::Value, IndexMap>> moved_whole(const ir::Node& pair, const IndexMap& map) const {
    if (pair.types[0].dtype != Dtype::c64) return std::nullopt;
    std::pair<ir::Value, IndexMap> from[2];
    for (size_t k : {0, 1}) {
      ir::Value v = pair.inputs[k];
      IndexMap at = map;
      for (; unit_.members.count(v.node) && view_kind(*v.node) != ViewKind::none; v = v.node->inputs[0])
        at = through_view(*v.node, at);
      if (!unit_.members.count(v.node) || !is_complex_part(*v.node) || (v.node->op == op::imag) != (k == 1) ||
          is_made_here(*v.node->inputs[0].node))
        return std::nullopt;
      from[k] = {v.node->inputs[0], at};
    }
    return from[0] == from[1] ? std::optional(from[0]) : std::nullopt;
  }

  Result<LoopValue> computed(const ir::Node& node, const IndexMap& map, bool row) {
    std::vector<LoopValue> in;
    for (const ir::Value& v : node.inputs) {
      // The scalar predicate of select and bounds of clamp are for every element.
      const bool scalar = v.type().dims.empty() && !map.empty();
      in.push_back(TRY(value(v, scalar ? IndexMap{} : map)));
    }
    const Dtype result = node.types[0].dtype, type = arch::loop_value_type(result);
    if (node.op == op::convert) {
      if (node.attrs.flag(ops::kNearest) && is_floating(type_of(in[0])))
        in[0] = push_op(LoopOp::round_even, type_of(in[0]), {in[0]}, row);
      return converted(in[0], result, row);
    }
    if (node.op == op::compare) {
      if (node.attrs.text("compare_type") == "TOTALORDER")
        for (LoopValue& v : in) v = in_total_order(v, row);
      return push_op(loop_compare(node.attrs.text("direction")), Dtype::boolean, {in[0], in[1]}, row);
    }
    if (node.op == op::reduce_precision)
      return push_op(
          LoopOp::reduce_precision, type, {in[0]}, row, 0,
          uint64_t(node.attrs.integer("exponent_bits")) << 8 | uint64_t(node.attrs.integer("mantissa_bits")));
    const ops::OnHost& r = *loop_row(node.op);
    const LoopOp op = result == Dtype::boolean && r.logical != LoopOp::count ? r.logical : r.op;
    if (arch::row(op).inputs == 2 && in.size() == 1) in.push_back(in[0]);  // a square
    LoopInsn insn{.op = op, .type = type};
    std::copy(in.begin(), in.end(), insn.in.begin());
    return push(insn, row);
  }

  // An element of the operand's window: where windows begin, each start held inside, is computed here.
  Result<LoopValue> gathered(const ir::Node& node, const IndexMap& map, bool row) {
    const ops::SliceAxes axes = ops::gather_axes(node.attrs);
    const ir::Value &x = node.inputs[0], &starts = node.inputs[1];
    const ir::Ints& sizes = node.attrs.ints("slice_sizes");
    auto holds = [](const ir::Ints& ints, size_t d) {
      return std::find(ints.begin(), ints.end(), int64_t(d)) != ints.end();
    };
    IndexMap from(x.type().dims.size()), at(starts.type().dims.size());
    for (size_t d = 0, w = 0; d < from.size(); ++d)
      if (!holds(axes.collapsed, d) && !holds(axes.operand_batching, d)) from[d] = map[size_t(axes.window[w++])];
    for (size_t d = 0, i = 0; d < map.size(); ++d) {
      if (holds(axes.window, d)) continue;
      i += i == size_t(axes.index_vector_dim);
      at[i++] = map[d];
    }
    for (size_t b = 0; b < axes.operand_batching.size(); ++b)
      from[size_t(axes.operand_batching[b])] = at[size_t(axes.indices_batching[b])];
    const Dims &dims = x.type().dims, strides = row_major_strides(dims);
    std::optional<LoopValue> index;
    int64_t reach = 0;
    for (size_t k = 0; k < axes.index_map.size(); ++k) {
      const size_t d = size_t(axes.index_map[k]);
      const int64_t most = dims[d] - sizes[d];
      if (most == 0) continue;
      if (size_t(axes.index_vector_dim) < at.size()) at[size_t(axes.index_vector_dim)] = {-1, 0, int64_t(k)};
      const LoopValue start = start_of(TRY(value(starts, at)), most, strides[d], by_row(at));
      index = index ? push_op(LoopOp::add, Dtype::s32, {*index, start}, by_row(at)) : start;
      reach += most * strides[d];
    }
    const uint32_t in = operand(x, walk_of(from, dims, unit_.space.size()), false);
    const Dtype type = arch::loop_value_type(x.type().dtype);
    if (!index) return push_op(LoopOp::load, type, {}, row, in);
    return push_op(LoopOp::pick, type, {*index}, row, in, uint64_t(reach));
  }
  // A start as elements of the operand, in 32 bits.
  LoopValue start_of(LoopValue v, int64_t most, int64_t stride, bool row) {
    const Dtype type = type_of(v);
    if (trine::row(type).kind == DtypeKind::signed_int)
      v = push_op(LoopOp::max, type, {v, constant_int(type, 0, row)}, row);
    if (double(most) < trine::row(type).max_finite)
      v = push_op(LoopOp::min, type, {v, constant_int(type, most, row)}, row);
    if (type != Dtype::s32) v = push_op(LoopOp::convert, Dtype::s32, {v}, row);
    return stride == 1 ? v : push_op(LoopOp::mul, Dtype::s32, {v, constant_int(Dtype::s32, stride, row)}, row);
  }
  // An element of one part, where the box has only that; of a few numbers, the part that its index says.
  Result<LoopValue> joined(const ir::Node& node, const IndexMap& map, bool row) {
    Joined at = part_of(node, map, box_.size);
    if (const auto* part = std::get_if<0>(&at)) return value(part->first, part->second);
    if (selects_) return node.op == op::pad ? selected_inside(node, map, row) : selected_part(node, map, row);
    cut_ = std::get<Cut>(at);
    return fail(Code::internal, "a join in a loop is read across its seam");
  }
  // Is it a short row of 32-bit numbers? Then all parts are computed at all indices: cheaper than a loop for each.
  bool selects() const {
    const auto is_plain = [](const ir::Type& t) {
      return !is_complex(t.dtype) && bytes(arch::loop_value_type(t.dtype)) <= 4;
    };
    const int64_t all = element_count(unit_.space);
    const bool is_row = std::find(unit_.space.begin(), unit_.space.end(), all) != unit_.space.end();
    return is_row && all <= thresholds::fuse::kSelectedMax &&
           std::all_of(unit_.members.begin(), unit_.members.end(), [&](const ir::Node* n) {
             return n->op != op::gather && is_plain(n->types[0]) &&
                    std::all_of(n->inputs.begin(), n->inputs.end(),
                                [&](const ir::Value& v) { return is_plain(v.type()); });
           });
  }
  LoopValue affine(const IndexTerm& term, bool row) {
    LoopValue v = push_op(LoopOp::iota, Dtype::s32, {}, row, uint32_t(term.dim));
    if (term.scale != 1) v = push_op(LoopOp::mul, Dtype::s32, {v, constant_int(Dtype::s32, term.scale, row)}, row);
    if (term.offset) v = push_op(LoopOp::add, Dtype::s32, {v, constant_int(Dtype::s32, term.offset, row)}, row);
    return v;
  }
  Result<LoopValue> selected_part(const ir::Node& node, const IndexMap& map, bool row) {
    const auto dim = size_t(node.attrs.integer("dimension"));
    const LoopValue index = affine(map[dim], row);
    IndexMap at = map;
    int64_t begin = node.types[0].dims[dim];
    std::optional<LoopValue> made;
    for (size_t i = node.inputs.size(); i-- > 0;) {
      const int64_t end = begin;
      begin -= node.inputs[i].type().dims[dim];
      at[dim].offset = map[dim].offset - begin;
      const LoopValue part = TRY(value(node.inputs[i], at));
      if (made) {
        const LoopValue is_here = push_op(LoopOp::lt, Dtype::boolean, {index, constant_int(Dtype::s32, end, row)}, row);
        made = push_op(LoopOp::select, type_of(part), {is_here, part, *made}, row);
      } else {
        made = part;
      }
    }
    return *made;
  }
  Result<LoopValue> selected_inside(const ir::Node& node, const IndexMap& map, bool row) {
    const ir::Ints& low = node.attrs.ints("edge_padding_low");
    const Dims& dims = node.inputs[0].type().dims;
    IndexMap at = map;
    std::optional<LoopValue> is_inside;
    for (size_t d = 0; d < map.size(); ++d) {
      at[d].offset -= low[d];
      if (at[d].dim < 0) continue;
      // Below zero is above every size.
      const LoopValue index = push_op(LoopOp::bit_cast, Dtype::u32, {affine(at[d], row)}, row);
      const LoopValue here = push_op(LoopOp::lt, Dtype::boolean, {index, constant_int(Dtype::u32, dims[d], row)}, row);
      is_inside = is_inside ? push_op(LoopOp::bit_and, Dtype::boolean, {*is_inside, here}, row) : here;
    }
    const LoopValue x = TRY(value(node.inputs[0], at)), edge = TRY(value(node.inputs[1], {}));
    return push_op(LoopOp::select, type_of(x), {*is_inside, x, edge}, row);
  }
  // What lies in memory. Parts that are computed at all indices are read beyond their ends: there, any element will do.
  LoopValue loaded(const ir::Value& v, const IndexMap& map, bool row) {
    const Dtype type = arch::loop_value_type(v.type().dtype);
    const Walk walk = walk_of(map, v.type().dims, unit_.space.size());
    int64_t least = walk.offset, most = walk.offset;
    std::optional<size_t> along;
    for (size_t d = 0; d < walk.strides.size(); ++d) {
      const int64_t reach = walk.strides[d] * (box_.size[d] - 1);
      (reach < 0 ? least : most) += reach;
      if (reach != 0) along = d;
    }
    const int64_t last = v.type().elements() - 1;
    if (!selects_ || !along || (least >= 0 && most <= last))
      return push_op(LoopOp::load, type, {}, row, operand(v, walk, false));
    const LoopValue index = affine({int(*along), walk.strides[*along], walk.offset}, row);
    const uint32_t at = operand(v, {0, std::vector<int64_t>(walk.strides.size(), 0)}, false);
    return push_op(LoopOp::pick, type, {index}, row, at, uint64_t(last));
  }

  // Floats in total order are in the order of their bits, those below zero reversed.
  LoopValue in_total_order(LoopValue v, bool row) {
    if (!is_floating(type_of(v))) return v;
    const bool is_wide = type_of(v) == Dtype::f64;
    const Dtype whole = is_wide ? Dtype::s64 : Dtype::s32;
    const LoopValue bits = push_op(LoopOp::bit_cast, whole, {v}, row);
    const LoopValue sign = push_op(LoopOp::shr_arith, whole, {bits, constant_int(whole, is_wide ? 63 : 31, row)}, row);
    const LoopValue flipped =
        push_op(LoopOp::bit_and, whole, {sign, constant_int(whole, is_wide ? INT64_MAX : INT32_MAX, row)}, row);
    return push_op(LoopOp::bit_xor, whole, {bits, flipped}, row);
  }

  Result<LoopValue> converted(LoopValue from, Dtype to, bool row) {
    const Dtype type = arch::loop_value_type(to);
    LoopValue v = from;
    if (type_of(v) != type) v = push_op(LoopOp::convert, type, {v}, row);
    if (type != to) v = push_op(LoopOp::round_to, type, {v}, row, uint32_t(to));
    return v;
  }

  Result<LoopValue> iota(const ir::Node& node, const IndexMap& map, bool row) {
    const IndexTerm& term = map[size_t(node.attrs.integer("iota_dimension"))];
    const Dtype dtype = node.types[0].dtype, type = arch::loop_value_type(dtype);
    const double most = double(std::abs(term.offset)) + double(std::abs(term.scale)) * double(largest_dim());
    const Dtype whole = !is_floating(type) ? type : most < double(INT32_MAX) ? Dtype::s32 : Dtype::s64;
    LoopValue v = constant_int(whole, term.offset, row);
    if (term.dim >= 0) {
      LoopValue i = push_op(LoopOp::iota, whole, {}, row, uint32_t(term.dim));
      if (term.scale != 1) i = push_op(LoopOp::mul, whole, {i, constant_int(whole, term.scale, row)}, row);
      v = term.offset ? push_op(LoopOp::add, whole, {i, v}, row) : i;
    }
    return converted(v, dtype, row);
  }
  int64_t largest_dim() const {
    return unit_.space.empty() ? 1 : *std::max_element(unit_.space.begin(), unit_.space.end());
  }
  LoopValue constant_int(Dtype type, int64_t v, bool row) {
    return push_op(LoopOp::constant, type, {}, row, 0, uint64_t(v));
  }

  // The reduction itself reads every element of a row; what comes of it is a number per row.
  Result<LoopValue> reduce(const ir::Node& node, const IndexMap& map) {
    IndexMap rows = root_map(node);
    for (size_t d = 0; d < rows.size(); ++d)
      if (node.types[0].dims[d] == 1) rows[d] = {};
    if (map != rows) return fail(Code::internal, "a reduction in a loop is used otherwise than row by row");
    const LoopValue in = TRY(value(node.inputs[0], identity_map(int(unit_.space.size()))));
    const Dtype type = arch::loop_value_type(node.types[0].dtype);
    const std::string_view kind = node.attrs.text("kind");
    const LoopValue total = push_op(loop_reduce(kind), type, {in}, false);
    drafts_[total].reduces = true;
    if (is_neutral(node.inputs[1], kind)) return total;
    const LoopValue init = TRY(value(node.inputs[1], {}));
    return push_op(loop_row(ir::op_named(kind))->op, type, {init, total}, true);
  }

  static std::optional<uint64_t> splat_bits(const Tensor& t) {
    const size_t each = size_t(bytes(t.dtype));
    if (each > 8 || !is_splat(t)) return std::nullopt;
    uint64_t bits = 0;
    std::memcpy(&bits, t.data.get(), each);
    return bits;
  }
  LoopValue constant(Dtype dtype, uint64_t stored, bool row) {
    const Dtype type = arch::loop_value_type(dtype);
    uint64_t bits = stored;
    dispatch_element(dtype, [&](auto element) {
      using E = decltype(element);
      if constexpr (E::kIsFloating && E::kDtype != Dtype::f32 && E::kDtype != Dtype::f64) {
        bits = std::bit_cast<uint32_t>(float(E::load(typename E::Storage(stored))));
      } else if constexpr (E::kIsInteger) {
        bits = uint64_t(E::load(typename E::Storage(stored)));
      }
    });
    return push_op(LoopOp::constant, type, {}, row, 0, bits);
  }
  // Does the value change nothing? Then the reduction's own start will do. Products and ends of whole numbers start as
  // the program says.
  static bool is_neutral(const ir::Value& v, std::string_view kind) {
    const Dtype dtype = v.type().dtype;
    if (!is_floating(dtype) && (kind == "multiply" || kind == "maximum" || kind == "minimum")) return false;
    return !is_complex(dtype) && ops::is_identity(v, kind);
  }

  // Stage of each draft: no earlier than what it uses; a reduction's result from the next stage on.
  void set_stages() {
    for (Draft& d : drafts_) {
      int least = d.by_row ? -1 : 0;
      for (LoopValue v : d.insn.in) {
        if (v == arch::kNoValue) continue;
        const Draft& in = drafts_[v];
        least = std::max(least, in.reduces || (in.by_row && !d.by_row) ? in.stage + 1 : in.stage);
      }
      d.stage = (least & 1) == int(d.by_row) ? least : least + 1;
    }
  }
  // Roundings that stores do by themselves may have no other user.
  std::vector<size_t> used() const {
    std::vector<bool> is_used(drafts_.size());
    std::vector<size_t> out;
    for (size_t i = drafts_.size(); i-- > 0;) {
      const LoopInsn& n = drafts_[i].insn;
      if (!is_used[i] && n.op == LoopOp::round_to) continue;
      out.push_back(i);
      for (LoopValue v : n.in)
        if (v != arch::kNoValue) is_used[v] = true;
    }
    std::reverse(out.begin(), out.end());
    return out;
  }
  void finish() {
    set_stages();
    std::vector<size_t> order = used();
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return drafts_[a].stage < drafts_[b].stage; });
    std::vector<LoopValue> renamed(drafts_.size());
    arch::LoopProgram& p = code_.program;
    int stage = INT32_MIN;
    for (size_t i : order) {
      Draft& d = drafts_[i];
      if (d.stage != stage) p.stages.push_back(d.by_row ? LoopStage::once : LoopStage::each);
      stage = d.stage;
      d.insn.stage = uint16_t(p.stages.size() - 1);
      for (LoopValue& v : d.insn.in)
        if (v != arch::kNoValue) v = renamed[v];
      renamed[i] = LoopValue(p.insns.size());
      p.insns.push_back(d.insn);
    }
  }

  const Unit& unit_;
  const Box& box_;
  const bool selects_ = selects();
  std::optional<Cut> cut_;
  LoopCode code_;
  std::vector<Draft> drafts_;
  std::map<std::pair<ir::Value, IndexMap>, LoopValue, KeyLess> memo_;
};

}  // namespace

Result<LoopCode> emit_loop(const Unit& unit) { return Emitter(unit, {Dims(unit.space.size(), 0), unit.space}).all(); }

Result<std::vector<LoopCode>> emit_loops(const Unit& unit) {
  std::vector<LoopCode> codes;
  std::vector<Box> worklist = {{Dims(unit.space.size(), 0), unit.space}};
  while (!worklist.empty()) {
    const Box box = std::move(worklist.back());
    worklist.pop_back();
    Emitter emitter(unit, box);
    auto code = emitter.all();
    if (code) {
      codes.push_back(*std::move(code));
    } else if (const auto& cut = emitter.cut()) {
      Box below = box, above = box;
      below.size[cut->dim] = cut->at;
      above.begin[cut->dim] += cut->at;
      above.size[cut->dim] -= cut->at;
      worklist.push_back(std::move(above));
      worklist.push_back(std::move(below));
    } else {
      return code.error();
    }
  }
  return codes;
}

}  // namespace trine::compile
