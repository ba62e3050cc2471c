// The rows of map.h. What an engine lacks is composed of what it has; see each function.
#include "compile/device/loops/map.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "base/text.h"
#include "compile/device/memory/moves.h"
#include "compile/device/memory/store.h"
#include "ir/constant.h"
#include "ir/op_ids.h"
#include "ops/internal.h"
#include "ops/op.h"

namespace trine::compile::device {

namespace {

constexpr double kMaxFloat = std::numeric_limits<float>::max();

// One op being emitted: inputs, shape, and where the result goes.
class Op {
 public:
  Op(Recorder& rec, const ir::Node& node, const std::vector<Val>& in, int partitions, int64_t columns, const View* dst)
      : rec_(rec), node(node), in(in), partitions_(partitions), columns_(columns), dst_(dst) {}

  Dtype type() const { return *device_dtype(node.types[0].dtype); }
  View temp(Dtype dtype = Dtype::f32) { return rec_.sbuf(dtype, partitions_, columns_); }
  View out() { return dst_ ? *dst_ : temp(type()); }
  bool is_int32() const { return type() == Dtype::s32 || type() == Dtype::u32; }

  // A whole tile of the shape; rows and numbers are spread.
  View spread(const Val& v, Dtype dtype) {
    if (v.is_tile() && v.view.dtype == dtype) return v.view;
    const View t = temp(dtype);
    emit_copy(rec_, t, v);
    return t;
  }
  View tile(const Val& v) { return v.is_tile() ? v.view : v.is_row() ? widened(v.view) : spread(v, Dtype::f32); }
  // The same without filling a tile: numbers and rows are walked as if they were one.
  View words(const Val& v, Dtype dtype) {
    if (v.is_row() && v.view.dtype == dtype) return widened(v.view);
    if (!v.is_number()) return spread(v, dtype);
    View one = rec_.constant_row(v.number, dtype);
    one.partitions = partitions_;
    return widened(one);
  }
  // A row walked as if it were a tile.
  View widened(View row) const {
    row.axes = {{0, columns_}};
    return row;
  }
  // One f32 per partition, or a number, as tensor_scalar and activation take them.
  Source per_lane(const Val& v) {
    if (v.is_number()) return v.number;
    if (v.view.dtype == Dtype::f32) return v.view;
    const View t = rec_.sbuf(Dtype::f32, partitions_, 1);
    emit_copy(rec_, t, v);
    return t;
  }

  void activation(const View& to, const View& from, std::string_view act, double scale = 1, double bias = 0) {
    Val v = Val::tile(from);
    v.scale = scale, v.bias = bias;
    emit_activation(rec_, to, v, act);
  }
  void scalar(const View& to, const View& from, std::string_view op, const Source& by, bool reverse = false) {
    rec_.emit("tensor_scalar", {{"dst", to}, {"data", from}, {"operand0", by}},
              {{"op0", op}, {"reverse0", int64_t(reverse)}});
  }
  void tensor(const View& to, const View& a, const View& b, std::string_view op, arch::EngineMask engines = 0) {
    rec_.emit("tensor_tensor", {{"dst", to}, {"data1", a}, {"data2", b}}, {{"op", op}}, engines);
  }

  // to = a op b, whatever kinds they are.
  void binary(const View& to, const Val& a, const Val& b, std::string_view op) {
    if (is_int_math(to, a, b)) return tensor(to, words(a, to.dtype), words(b, to.dtype), op, arch::kGpsimd);
    if (b.is_number() || (b.is_row() && !(a.is_row() && columns_ == 1))) return scalar(to, tile(a), op, per_lane(b));
    if (a.is_number() || (a.is_row() && columns_ != 1)) return scalar(to, tile(b), op, per_lane(a), true);
    const View x = tile(a), y = tile(b);
    const bool psum = rec_.in_psum(to) || rec_.in_psum(x) || rec_.in_psum(y);
    tensor(to, x, y, op, psum || is_integer(to.dtype) ? arch::kVector : 0);
  }
  static bool is_wide_int(const Val& v) {
    return !v.is_number() && (v.view.dtype == Dtype::s32 || v.view.dtype == Dtype::u32);
  }
  bool is_int_math(const View& to, const Val& a, const Val& b) const {
    return (to.dtype == Dtype::s32 || to.dtype == Dtype::u32) && (is_wide_int(a) || a.is_number()) &&
           (is_wide_int(b) || b.is_number());
  }

  // Nearest whole number, ties to even, for any size: beyond 2^23 every float is whole.
  View nearest(const View& x) {
    const View i = temp(Dtype::s32), r = temp(), big = temp(Dtype::u8), a = temp();
    rec_.emit("tensor_copy", {{"dst", i}, {"src", x}}, {}, arch::kVector);
    rec_.emit("tensor_copy", {{"dst", r}, {"src", i}}, {}, arch::kVector);
    activation(a, x, "abs");
    scalar(big, a, "greater_equal", 0x1p23);
    rec_.emit("tensor_copy_predicated", {{"dst", r}, {"src", x}, {"predicate", big}});
    return r;
  }
  View f32(const Val& v) { return spread(v, Dtype::f32); }

  Recorder& rec_;
  const ir::Node& node;
  const std::vector<Val>& in;

 private:
  int partitions_;
  int64_t columns_;
  const View* dst_;
};

using Emit = void (*)(Op&, const View& to);

// --- one function per shape of op ---

void absolute(Op& o, const View& to) {
  if (!is_integer(to.dtype)) return o.activation(to, o.tile(o.in[0]), "abs");
  if (row(to.dtype).kind == DtypeKind::unsigned_int) return emit_copy(o.rec_, to, o.in[0]);
  const View minus = o.temp(to.dtype);
  o.binary(minus, Val::of(0), o.in[0], "subtract");
  o.binary(to, o.in[0], Val::tile(minus), "max");
}
void sign(Op& o, const View& to) {
  if (!is_integer(to.dtype)) return o.activation(to, o.tile(o.in[0]), "sign");
  const View above = o.temp(to.dtype), below = o.temp(to.dtype);
  o.binary(above, o.in[0], Val::of(0), "greater");
  o.binary(below, o.in[0], Val::of(0), "less");
  o.binary(to, Val::tile(above), Val::tile(below), "subtract");
}
void add(Op& o, const View& to) { o.binary(to, o.in[0], o.in[1], "add"); }
void subtract(Op& o, const View& to) { o.binary(to, o.in[0], o.in[1], "subtract"); }
void multiply(Op& o, const View& to) { o.binary(to, o.in[0], o.in[1], "multiply"); }
void maximum(Op& o, const View& to) { o.binary(to, o.in[0], o.in[1], "max"); }
void minimum(Op& o, const View& to) { o.binary(to, o.in[0], o.in[1], "min"); }
void power(Op& o, const View& to) {
  o.tensor(to, o.spread(o.in[0], Dtype::f32), o.spread(o.in[1], Dtype::f32), "power", arch::kGpsimd);
}
void negate(Op& o, const View& to) { o.binary(to, Val::of(0), o.in[0], "subtract"); }

void divide_whole(Op& o, const View& to);
void divide(Op& o, const View& to) {
  if (is_integer(o.node.types[0].dtype)) return divide_whole(o, to);
  if (o.in[1].is_number()) return o.binary(to, o.in[0], Val::of(1 / o.in[1].number), "multiply");
  if (o.in[1].is_row()) {
    const View r = o.rec_.sbuf(Dtype::f32, o.in[1].view.partitions, 1);
    o.rec_.emit("reciprocal", {{"dst", r}, {"data", o.in[1].view}});
    return o.binary(to, o.in[0], Val::row(r), "multiply");
  }
  const View r = o.temp();
  o.activation(r, o.in[1].view, "reciprocal");
  o.binary(to, o.in[0], Val::tile(r), "multiply");
}

// Whole numbers by a power of two; has_map() lets no other through.
void remainder(Op& o, const View& to) { o.scalar(to, o.spread(o.in[0], to.dtype), "bitwise_and", o.in[1].number - 1); }
void divide_whole(Op& o, const View& to) {
  o.scalar(to, o.spread(o.in[0], to.dtype), "right_shift", std::log2(o.in[1].number));
}

void bitwise(Op& o, const View& to, std::string_view op) {
  for (size_t i : {0, 1}) {
    const Val &x = o.in[1 - i], &by = o.in[i];
    if (!by.is_number() || x.is_number()) continue;
    const double all = std::exp2(8 * bytes(to.dtype));
    return o.scalar(to, o.spread(x, to.dtype), op, by.number < 0 ? by.number + all : by.number);
  }
  o.tensor(to, o.words(o.in[0], to.dtype), o.words(o.in[1], to.dtype), op, arch::kVector);
}
void bit_and(Op& o, const View& to) { bitwise(o, to, "bitwise_and"); }
// Bits that were shifted apart add up: a word rotated, which GpSimd combines while Vector shifts the next.
bool wraps_round(const ir::Node& node, const View& to) {
  const ir::Node &up = *node.inputs[0].node, &down = *node.inputs[1].node;
  if (bytes(to.dtype) != 4 || up.op != op::shift_left || down.op != op::shift_right_logical) return false;
  const auto by = [](const ir::Node& shift) { return ir::splat(shift.inputs[1]).value_or(-1); };
  return by(up) > 0 && by(down) > 0 && by(up) + by(down) == 32;
}
void bit_or(Op& o, const View& to) {
  if (wraps_round(o.node, to))
    return o.tensor(to, o.spread(o.in[0], to.dtype), o.spread(o.in[1], to.dtype), "add", arch::kGpsimd);
  bitwise(o, to, "bitwise_or");
}
void bit_xor(Op& o, const View& to) { bitwise(o, to, "bitwise_xor"); }
void bit_not(Op& o, const View& to) {
  const bool logical = o.node.types[0].dtype == Dtype::boolean;
  const double ones = logical ? 1 : double((uint64_t{1} << (8 * bytes(to.dtype))) - 1);
  o.scalar(to, o.spread(o.in[0], to.dtype), "bitwise_xor", ones);
}

void compare(Op& o, const View& to) {
  static constexpr std::pair<std::string_view, std::string_view> kOps[] = {{"EQ", "equal"},         {"NE", "not_equal"},
                                                                           {"GE", "greater_equal"}, {"GT", "greater"},
                                                                           {"LE", "less_equal"},    {"LT", "less"}};
  std::string_view op = "equal";
  for (auto [name, alu] : kOps)
    if (o.node.attrs.text("direction") == name) op = alu;
  const bool wide = Op::is_wide_int(o.in[0]) || Op::is_wide_int(o.in[1]);
  if (!wide) return o.binary(to, o.in[0], o.in[1], op);
  const View exact = o.temp(Dtype::s32);  // Vector compares in f32
  o.binary(exact, o.in[0], o.in[1], op);
  emit_copy(o.rec_, to, o.in[0].is_row() && exact.columns() == 1 ? Val::row(exact) : Val::tile(exact));
}

void select(Op& o, const View& to) {
  const Val& p = o.in[0];
  if (p.is_number()) return emit_copy(o.rec_, to, o.in[p.number ? 1 : 2]);
  emit_copy(o.rec_, to, o.in[2]);
  const View predicate = o.tile(p);
  if (o.in[1].is_number())
    return o.rec_.emit("tensor_copy_predicated", {{"dst", to}, {"src", o.in[1].number}, {"predicate", predicate}});
  o.rec_.emit("tensor_copy_predicated", {{"dst", to}, {"src", o.spread(o.in[1], to.dtype)}, {"predicate", predicate}});
}

void clamp(Op& o, const View& to) {
  const View t = o.temp(to.dtype);
  o.binary(t, o.in[1], o.in[0], "max");
  o.binary(to, Val::tile(t), o.in[2], "min");
}

// Whole numbers towards zero: casts round to nearest, so what went too far comes back by one.
void truncate_to(Op& o, const View& to, const View& x) {
  const View r = o.nearest(x), ar = o.temp(), ax = o.temp(), far = o.temp(), s = o.temp();
  o.activation(ar, r, "abs");
  o.activation(ax, x, "abs");
  o.tensor(far, ar, ax, "greater");
  o.activation(s, x, "sign");
  o.tensor(far, far, s, "multiply");
  o.tensor(to, r, far, "subtract", arch::kVector);
}

void convert(Op& o, const View& to) {
  const Dtype from = o.node.inputs[0].type().dtype, into = o.node.types[0].dtype;
  if (into == Dtype::boolean) return o.binary(to, o.in[0], Val::of(0), "not_equal");
  if (is_integer(into) && !is_integer(from) && from != Dtype::boolean) return truncate_to(o, to, o.f32(o.in[0]));
  emit_copy(o.rec_, to, o.in[0]);
}

void floor(Op& o, const View& to) {
  const View x = o.f32(o.in[0]), r = o.nearest(x), far = o.temp();
  o.tensor(far, r, x, "greater");
  o.tensor(to, r, far, "subtract");
}
void ceil(Op& o, const View& to) {
  const View x = o.f32(o.in[0]), r = o.nearest(x), far = o.temp();
  o.tensor(far, r, x, "less");
  o.tensor(to, r, far, "add");
}
void round_even(Op& o, const View& to) { emit_copy(o.rec_, to, Val::tile(o.nearest(o.f32(o.in[0])))); }

void activate(Op& o, const View& to) { o.activation(to, o.tile(o.in[0]), ops::find_op(o.node.op)->device.activation); }
void log_plus_one(Op& o, const View& to) { o.activation(to, o.tile(o.in[0]), "log", 1, 1); }
void exp_minus_one(Op& o, const View& to) {
  const View t = o.temp();
  o.activation(t, o.tile(o.in[0]), "exp");
  o.scalar(to, t, "subtract", 1.0);
}
void erfc(Op& o, const View& to) {
  const View t = o.temp();
  o.activation(t, o.tile(o.in[0]), "erf");
  o.scalar(to, t, "subtract", 1.0, true);
}
void cbrt(Op& o, const View& to) {
  const View x = o.f32(o.in[0]), a = o.temp(), s = o.temp();
  o.activation(a, x, "abs");
  o.scalar(a, a, "max", 1e-37);
  o.activation(a, a, "log");
  o.activation(a, a, "exp", 1.0 / 3);
  o.activation(s, x, "sign");
  o.tensor(to, a, s, "multiply");
}
void is_finite(Op& o, const View& to) {
  const View a = o.temp();
  o.activation(a, o.tile(o.in[0]), "abs");
  o.scalar(to, a, "less_equal", kMaxFloat);
}

// sin and cos are defined on [-π, π]: multiples of 2π are taken off first, 2π in two parts.
void shifted_sine(Op& o, const View& to, double shift) {
  const View x = o.f32(o.in[0]), k = o.temp(), r = o.temp();
  o.rec_.emit(
      "tensor_scalar",
      {{"dst", k}, {"data", x}, {"operand0", 0.5 / std::numbers::pi}, {"operand1", shift * 0.5 / std::numbers::pi}},
      {{"op0", std::string_view("multiply")}, {"op1", std::string_view("add")}});
  const View whole = o.nearest(k);
  constexpr double kHigh = 6.28125;
  o.scalar(k, whole, "multiply", -kHigh);
  o.tensor(r, x, k, "add");
  o.scalar(k, whole, "multiply", -(2 * std::numbers::pi - kHigh));
  o.tensor(r, r, k, "add");
  if (shift) o.scalar(r, r, "add", shift);
  o.rec_.emit("tensor_scalar", {{"dst", r}, {"data", r}, {"operand0", 3.14159}, {"operand1", -3.14159}},
              {{"op0", std::string_view("min")}, {"op1", std::string_view("max")}});
  o.activation(to, r, "sin");
}
void sine(Op& o, const View& to) { shifted_sine(o, to, 0); }
void cosine(Op& o, const View& to) { shifted_sine(o, to, std::numbers::pi / 2); }

void shift(Op& o, const View& to, std::string_view op) {
  if (o.in[1].is_number()) return o.scalar(to, o.spread(o.in[0], to.dtype), op, o.in[1].number);
  o.tensor(to, o.spread(o.in[0], to.dtype), o.spread(o.in[1], to.dtype), op, arch::kVector);
}
void shift_left(Op& o, const View& to) { shift(o, to, "left_shift"); }
void shift_right(Op& o, const View& to) { shift(o, to, "right_shift"); }

void bit_cast(Op& o, const View& to) {
  View from = o.spread(o.in[0], *device_dtype(o.node.inputs[0].type().dtype));
  from.dtype = to.dtype;
  o.rec_.emit("tensor_copy", {{"dst", to}, {"src", from}}, {}, arch::kVector);
}
void copy(Op& o, const View& to) { emit_copy(o.rec_, to, o.in[0]); }

enum Takes : uint8_t { kFloat = 1, kInt = 2, kBool = 4, kAll = 7 };
struct MapRow {
  ir::OpId op;
  Emit emit;
  uint8_t takes = kFloat;  // of its first input
};

constexpr MapRow kMaps[] = {
    {op::abs, absolute, kFloat | kInt},
    {op::add, add, kFloat | kInt},
    {op::and_, bit_and, kInt | kBool},
    {op::bitcast_convert, bit_cast, kFloat | kInt},
    {op::cbrt, cbrt},
    {op::ceil, ceil},
    {op::clamp, clamp, kFloat | kInt},
    {op::compare, compare, kAll},
    {op::convert, convert, kAll},
    {op::cosine, cosine},
    {op::divide, divide, kFloat | kInt},
    {op::erfc, erfc},
    {op::exponential_minus_one, exp_minus_one},
    {op::floor, floor},
    {op::is_finite, is_finite},
    {op::log_plus_one, log_plus_one},
    {op::maximum, maximum, kAll},
    {op::minimum, minimum, kAll},
    {op::multiply, multiply, kFloat | kInt},
    {op::negate, negate, kFloat | kInt},
    {op::not_, bit_not, kInt | kBool},
    {op::optimization_barrier, copy, kAll},
    {op::or_, bit_or, kInt | kBool},
    {op::power, power},
    {op::remainder, remainder, kInt},
    {op::round_nearest_even, round_even},
    {op::select, select, kAll},
    {op::shift_left, shift_left, kInt},
    {op::shift_right_logical, shift_right, kInt},
    {op::sign, sign, kFloat | kInt},
    {op::sine, sine},
    {op::subtract, subtract, kFloat | kInt},
    {op::xor_, bit_xor, kInt | kBool},
};
static_assert(std::is_sorted(std::begin(kMaps), std::end(kMaps),
                             [](const MapRow& a, const MapRow& b) { return a.op < b.op; }));

constexpr MapRow kActivation = {{}, activate};  // of every op whose device column names one

const MapRow* map_row(ir::OpId op) {
  if (const ops::Op* row = ops::find_op(op); row && !row->device.activation.empty()) return &kActivation;
  const auto* found =
      std::lower_bound(std::begin(kMaps), std::end(kMaps), op, [](const MapRow& r, ir::OpId o) { return r.op < o; });
  return found != std::end(kMaps) && found->op == op ? found : nullptr;
}

}  // namespace

bool has_map(const ir::Node& node, std::string* why) {
  const auto no = [&](std::string reason) {
    if (why) *why = std::move(reason);
    return false;
  };
  const MapRow* const row = map_row(node.op);
  if (!row) return no(cat("no engine computes ", node.op));
  if (std::string foreign = move_obstacle(node); !foreign.empty()) return no(std::move(foreign));
  const Dtype d = node.inputs[node.op == op::select ? 1 : 0].type().dtype;
  const uint8_t kind = d == Dtype::boolean ? kBool : is_integer(d) ? kInt : kFloat;
  if (!(row->takes & kind)) return no(cat(node.op, " of ", shape_text(d, {}), " has no instruction"));
  if (kind == kInt && (node.op == op::divide || node.op == op::remainder)) {
    const double by = ir::splat(node.inputs[1]).value_or(0);
    const bool whole = by >= 1 && std::exp2(std::round(std::log2(by))) == by;
    if (!whole || d == Dtype::s32 || d == Dtype::s16 || d == Dtype::s8)
      return no(cat(node.op, " of whole numbers is on the chip by powers of two of unsigned ones alone"));
  }
  if (node.op == op::compare && node.attrs.text("compare_type") == "TOTALORDER") return no("compares in total order");
  if (node.op == op::bitcast_convert && bytes(d) != bytes(node.types[0].dtype)) return no("changes the element size");
  return true;
}

static Source f32_row(Recorder& rec, const View& v) {
  if (v.dtype == Dtype::f32) return v;
  const View t = rec.sbuf(Dtype::f32, v.partitions, 1);
  rec.emit("tensor_copy", {{"dst", t}, {"src", v}}, {}, arch::kVector);
  return t;
}

Source row_math(Recorder& rec, const Source& a, const Source& b, std::string_view op) {
  if (a.is_number() && b.is_number())
    return op == "multiply" ? a.number * b.number : op == "add" ? a.number + b.number : a.number - b.number;
  const double neutral = op == "multiply" ? 1.0 : 0.0;
  if (b.is_number() && b.number == neutral) return a;
  if (a.is_number() && a.number == neutral && op != "subtract") return b;
  const View& shape = a.is_number() ? b.view : a.view;
  const View t = rec.sbuf(Dtype::f32, shape.partitions, 1, "row");
  if (b.is_number() || a.is_number())
    rec.emit("tensor_scalar", {{"dst", t}, {"data", shape}, {"operand0", a.is_number() ? a : b}},
             {{"op0", op}, {"reverse0", int64_t(a.is_number())}}, arch::kVector);
  else
    rec.emit("tensor_tensor", {{"dst", t}, {"data1", a.view}, {"data2", b.view}}, {{"op", op}}, arch::kVector);
  return t;
}

std::optional<Val> pend(Recorder& rec, const ir::Node& node, const std::vector<Val>& in) {
  const bool real = !is_integer(node.types[0].dtype) && node.types[0].dtype != Dtype::boolean;
  if (!real || in.empty() || in.size() > 2) return std::nullopt;
  const auto is_float = [](const Val& v) { return v.is_number() || !is_integer(v.view.dtype); };
  if (node.op == op::negate && in[0].is_tile() && is_float(in[0])) {
    Val v = in[0];
    v.set_scale(row_math(rec, v.scale, -1.0, "multiply"));
    if (v.shifted) v.bias = row_math(rec, v.bias, -1.0, "multiply");
    return v;
  }
  if (in.size() != 2 || !is_float(in[0]) || !is_float(in[1]) || in[0].is_tile() == in[1].is_tile()) return std::nullopt;
  const bool left = in[0].is_tile();  // where the tile is
  const Val &tile = in[left ? 0 : 1], &other = in[left ? 1 : 0];
  Source by = other.is_number() ? Source(other.number) : f32_row(rec, other.view);
  Val v = tile;
  if (node.op == op::divide && left) {
    if (by.is_number()) {
      by = 1 / by.number;
    } else {
      const View r = rec.sbuf(Dtype::f32, by.view.partitions, 1, "row");
      rec.emit("reciprocal", {{"dst", r}, {"data", by.view}});
      by = r;
    }
  }
  if (node.op == op::multiply || (node.op == op::divide && left)) {
    v.set_scale(row_math(rec, v.scale, by, "multiply"));
    if (v.shifted) v.bias = row_math(rec, v.bias, by, "multiply");
    return v;
  }
  if (node.op == op::add || (node.op == op::subtract && left)) {
    v.set_bias(row_math(rec, v.bias, by, node.op.name()));
    return v;
  }
  if (node.op == op::subtract) {  // by - tile
    v.set_scale(row_math(rec, v.scale, -1.0, "multiply"));
    v.set_bias(v.shifted ? row_math(rec, by, v.bias, "subtract") : by);
    return v;
  }
  return std::nullopt;
}

std::string_view activation_of(const ir::Node& node) {
  if (const ops::Op* row = ops::find_op(node.op); row && !row->device.activation.empty()) return row->device.activation;
  if (node.op == op::multiply && node.inputs[0] == node.inputs[1] && !is_integer(node.types[0].dtype)) return "square";
  return {};
}

void emit_activation(Recorder& rec, const View& dst, const Val& value, std::string_view act, const View* sum) {
  Source bias = value.bias;
  if (bias.is_number() && bias.number != 0) {  // older cores take no constant here
    bias = rec.constant_row(bias.number);
    bias.view.partitions = value.view.partitions;
  }
  if (sum && bias.is_number())
    return rec.emit("activation_reduce",
                    {{"dst", dst}, {"data", value.view}, {"scale", value.scale}, {"reduce_res", *sum}}, {{"op", act}});
  if (sum)
    return rec.emit("activation_reduce",
                    {{"dst", dst}, {"data", value.view}, {"bias", bias}, {"scale", value.scale}, {"reduce_res", *sum}},
                    {{"op", act}});
  if (bias.is_number())
    return rec.emit("activation", {{"dst", dst}, {"data", value.view}, {"scale", value.scale}}, {{"op", act}});
  rec.emit("activation", {{"dst", dst}, {"data", value.view}, {"bias", bias}, {"scale", value.scale}}, {{"op", act}});
}

Val settle(Recorder& rec, const Val& value, const View* dst) {
  if (!value.is_pending() && !dst) return value;
  Val out = value;
  out.scaled = out.shifted = false;
  out.scale = 1.0, out.bias = 0.0;
  out.view = dst ? *dst : rec.sbuf(value.view.dtype, value.view.partitions, value.view.columns());
  emit_copy(rec, out.view, value);
  return out;
}

void emit_copy(Recorder& rec, const View& dst, const Val& value) {
  if (value.is_pending()) {
    if (rec.scalar_is_free()) return emit_activation(rec, dst, value, "copy");
    if (!value.shifted)
      return rec.emit("tensor_scalar", {{"dst", dst}, {"data", value.view}, {"operand0", value.scale}},
                      {{"op0", std::string_view("multiply")}}, arch::kVector);
    if (!value.scaled)
      return rec.emit("tensor_scalar", {{"dst", dst}, {"data", value.view}, {"operand0", value.bias}},
                      {{"op0", std::string_view("add")}}, arch::kVector);
    return rec.emit("tensor_scalar",
                    {{"dst", dst}, {"data", value.view}, {"operand0", value.scale}, {"operand1", value.bias}},
                    {{"op0", std::string_view("multiply")}, {"op1", std::string_view("add")}}, arch::kVector);
  }
  if (value.is_number()) return rec.emit("memset", {{"dst", dst}}, {{"value", value.number}});
  View src = value.view;
  if (value.is_row() && dst.columns() != 1) src.axes = {{0, dst.columns()}};
  // The Scalar engine copies through f32 on older cores, which whole numbers beyond 2^24 do not survive.
  const bool exact = is_integer(src.dtype) || is_integer(dst.dtype);
  if (!exact && rec.scalar_is_free())
    return rec.emit("activation", {{"dst", dst}, {"data", src}}, {{"op", std::string_view("copy")}});
  rec.emit("tensor_copy", {{"dst", dst}, {"src", src}}, {}, arch::kVector);
}

// (x · scale) op y or (x + bias) op y of two tiles in one go; false where it is not that, or no gain.
static bool emit_both(Recorder& rec, ir::OpId op, const std::vector<Val>& in, const View& to) {
  if (in.size() != 2 || !in[0].is_tile() || !in[1].is_tile()) return false;
  if ((op != op::add && op != op::subtract && op != op::multiply) || is_integer(to.dtype)) return false;
  for (size_t i : {0, 1}) {
    const Val &x = in[i], y = in[1 - i];
    if (x.scaled == x.shifted || is_integer(x.view.dtype) || is_integer(y.view.dtype)) continue;
    if (rec.in_psum(x.view) && rec.in_psum(y.view) && !y.is_pending()) continue;
    if (op == op::multiply && x.scaled && x.scale.is_number() && x.scale.number > 0 && !y.is_pending() &&
        x.view == y.view && rec.scalar_is_free()) {
      Val root = Val::tile(x.view);
      root.set_scale(std::sqrt(x.scale.number));
      emit_activation(rec, to, root, "square");
      return true;
    }
    // Later cores have modes for 16-bit values that make two instructions the shorter way.
    const bool narrow = bytes(to.dtype) == 2 && bytes(x.view.dtype) == 2 && bytes(y.view.dtype) == 2;
    if (narrow && rec.chip().vector.fast_factor > 1) continue;
    // Scalar and GpSimd do it in two where Vector is the busiest.
    if (rec.scalar_is_free() && rec.gpsimd_is_free() && !rec.in_psum(to) && !rec.in_psum(y.view)) return false;
    const Val other = settle(rec, y);
    rec.emit("scalar_tensor_tensor",
             {{"dst", to}, {"data", x.view}, {"operand0", x.scaled ? x.scale : x.bias}, {"operand1", other.view}},
             {{"op0", x.scaled ? std::string_view("multiply") : std::string_view("add")},
              {"op1", op.name()},
              {"reverse1", int64_t(op == op::subtract && i == 1)}});
    return true;
  }
  return false;
}

// x · scale + bias + y of two tiles: the bias is left for whoever reads the sum. Nothing where it is not that.
static std::optional<Val> emit_sum(Recorder& rec, ir::OpId op, const std::vector<Val>& in) {
  if (op != op::add || !in[0].is_tile() || !in[1].is_tile()) return std::nullopt;
  for (size_t i : {0, 1}) {
    const Val &x = in[i], &y = in[1 - i];
    if (!x.scaled || !x.shifted || y.is_pending() || is_integer(x.view.dtype) || is_integer(y.view.dtype)) continue;
    if (rec.in_psum(x.view) && rec.in_psum(y.view)) continue;
    Val sum = Val::tile(rec.sbuf(Dtype::f32, x.view.partitions, x.view.columns()));
    rec.emit("scalar_tensor_tensor", {{"dst", sum.view}, {"data", x.view}, {"operand0", x.scale}, {"operand1", y.view}},
             {{"op0", std::string_view("multiply")}, {"op1", std::string_view("add")}});
    sum.set_bias(x.bias);
    return sum;
  }
  return std::nullopt;
}

// max(x · scale + bias, 0) in one go; false where it is not that.
static bool emit_relu(Recorder& rec, const std::vector<Val>& in, const View& to) {
  if (is_integer(to.dtype)) return false;
  for (size_t i : {0, 1}) {
    const Val &x = in[i], &y = in[1 - i];
    if (!x.is_tile() || !x.is_pending() || !y.is_number() || y.number != 0) continue;
    if ((x.scaled && x.shifted) || rec.scalar_is_free())
      emit_activation(rec, to, x, "relu");
    else
      rec.emit("tensor_scalar",
               {{"dst", to}, {"data", x.view}, {"operand0", x.scaled ? x.scale : x.bias}, {"operand1", 0.0}},
               {{"op0", std::string_view(x.scaled ? "multiply" : "add")}, {"op1", std::string_view("max")}},
               arch::kVector);
    return true;
  }
  return false;
}

// x / y of two tiles: what is pending on y goes into its reciprocal, what is on x into the product.
static void emit_quotient(Recorder& rec, const std::vector<Val>& in, const View& to) {
  const bool takes_bias = rec.chip().has(arch::Feature::scalar_bias_immediate);
  const Val y = in[1].shifted && !takes_bias ? settle(rec, in[1]) : in[1];
  const View r = rec.sbuf(Dtype::f32, to.partitions, to.columns());
  emit_activation(rec, r, y, "reciprocal");
  // Where GpSimd multiplies besides Vector, it takes plain tiles.
  const Val x = rec.chip().has(arch::Feature::shared_ports) ? in[0] : settle(rec, in[0]);
  if (emit_both(rec, op::multiply, {x, Val::tile(r)}, to)) return;
  const View left = settle(rec, x).view;
  rec.emit("tensor_tensor", {{"dst", to}, {"data1", left}, {"data2", r}}, {{"op", std::string_view("multiply")}},
           rec.in_psum(left) || rec.in_psum(to) ? arch::kVector : 0);
}

Val emit_map(Recorder& rec, const ir::Node& node, const std::vector<Val>& inputs, int partitions, int64_t columns,
             const View* dst) {
  const Dtype dtype = *device_dtype(node.types[0].dtype);
  if (columns > 1 && node.op == op::divide && inputs[0].is_tile() && inputs[1].is_tile() && !is_integer(dtype)) {
    const View to = dst ? *dst : rec.sbuf(dtype, partitions, columns);
    emit_quotient(rec, inputs, to);
    return Val::tile(to);
  }
  if (node.op == op::convert && node.attrs.flag(ops::kNearest)) {
    const View to = dst ? *dst : rec.sbuf(dtype, partitions, columns);
    emit_copy(rec, to, inputs[0]);
    return columns == 1 ? Val::row(to) : Val::tile(to);
  }
  if (columns > 1 && !dst)
    if (auto sum = emit_sum(rec, node.op, inputs)) return *sum;
  if (columns > 1 && dst && emit_both(rec, node.op, inputs, *dst)) return Val::tile(*dst);
  if (columns > 1 && !dst && inputs.size() == 2 && (inputs[0].is_pending() || inputs[1].is_pending())) {
    const View to = rec.sbuf(dtype, partitions, columns);
    if (emit_both(rec, node.op, inputs, to)) return Val::tile(to);
  }
  if (columns > 1 && node.op == op::maximum && (inputs[0].is_pending() || inputs[1].is_pending())) {
    const View to = dst ? *dst : rec.sbuf(dtype, partitions, columns);
    if (emit_relu(rec, inputs, to)) return Val::tile(to);
  }
  std::vector<Val> settled;
  for (const Val& v : inputs) settled.push_back(settle(rec, v));
  Op op(rec, node, settled, partitions, columns, dst);
  const View to = op.out();
  map_row(node.op)->emit(op, to);
  return columns == 1 ? Val::row(to) : Val::tile(to);
}

}  // namespace trine::compile::device
