// rng_bit_generator in words of 32 bits, bit for bit as the op's own meaning: Threefry-2x32 and Philox-4x32 (ops/). The
// 64-bit state must come from words, as JAX has it, and go back to them; see decompose.h.
#include <algorithm>
#include <array>

#include "compile/device/decompose/decompose.h"
#include "compile/device/memory/store.h"
#include "ir/op_ids.h"
#include "ops/build.h"

namespace trine::compile::device {

using ir::Value;

namespace {

constexpr int64_t kCountersMax = int64_t{1} << 30;

// Short ways to write u32 arithmetic of one shape; scalars are spread.
class Words {
 public:
  Words(ops::Make& make, Dims dims) : make_(make), dims_(std::move(dims)) {}
  const Dims& dims() const { return dims_; }
  Value number(uint32_t v) const { return make_.number(Dtype::u32, v, dims_); }
  Value spread(const Value& v) const { return make_.broadcast(v, dims_, {}); }
  Value two(ir::OpId op, const Value& a, const Value& b) const { return make_.op(op, {a, b}); }
  Value add(const Value& a, const Value& b) const { return two(op::add, a, b); }
  Value add(const Value& a, uint32_t b) const { return add(a, number(b)); }
  Value flip(const Value& a, const Value& b) const { return two(op::xor_, a, b); }
  Value down(const Value& a, uint32_t by) const { return two(op::shift_right_logical, a, number(by)); }
  Value low(const Value& a) const { return two(op::and_, a, number(0xffff)); }
  Value rotate(const Value& a, uint32_t by) const {
    return two(op::or_, two(op::shift_left, a, number(by)), down(a, 32 - by));
  }
  Value times(const Value& a, uint32_t b) const { return two(op::multiply, a, number(b)); }
  // The high word of a product, by halves of 16 bits.
  Value times_high(const Value& a, uint32_t b) const {
    const Value a0 = low(a), a1 = down(a, 16);
    const Value middle = add(times(a1, b & 0xffff), down(times(a0, b & 0xffff), 16));
    const Value other = add(times(a0, b >> 16), low(middle));
    return add(times(a1, b >> 16), add(down(middle, 16), down(other, 16)));
  }
  // 1 where the sum wrapped. Words compare as s32 with the highest bit flipped.
  Value carry(const Value& sum, const Value& part) const {
    const auto flipped = [&](const Value& v) { return make_.bits(flip(v, number(0x80000000)), Dtype::s32); };
    return make_.convert(make_.compare(flipped(sum), flipped(part), "LT"), Dtype::u32);
  }

 private:
  ops::Make& make_;
  const Dims dims_;
};

using Pair = std::array<Value, 2>;

Pair plus(const Words& w, const Pair& a, const Value& b) {
  const Value low = w.add(a[0], b);
  return {low, w.add(a[1], w.carry(low, b))};
}

Pair threefry(const Words& w, Pair x, const Pair& key) {
  constexpr uint32_t kRotations[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
  const Value keys[3] = {key[0], key[1], w.flip(w.number(0x1BD11BDA), w.flip(key[0], key[1]))};
  x = {w.add(x[0], keys[0]), w.add(x[1], keys[1])};
  for (uint32_t round = 0; round < 5; ++round) {
    for (uint32_t by : kRotations[round % 2]) {
      x[0] = w.add(x[0], x[1]);
      x[1] = w.flip(w.rotate(x[1], by), x[0]);
    }
    x[0] = w.add(x[0], keys[(round + 1) % 3]);
    x[1] = w.add(w.add(x[1], keys[(round + 2) % 3]), round + 1);
  }
  return x;
}

using Four = std::array<Value, 4>;

Four philox(const Words& w, Four x, Pair key) {
  constexpr uint32_t kA = 0xD2511F53, kB = 0xCD9E8D57;
  for (int round = 0; round < 10; ++round) {
    x = {w.flip(w.flip(w.times_high(x[2], kB), x[1]), key[0]), w.times(x[2], kB),
         w.flip(w.flip(w.times_high(x[0], kA), x[3]), key[1]), w.times(x[0], kA)};
    key = {w.add(key[0], 0x9E3779B9), w.add(key[1], 0xBB67AE85)};
  }
  return x;
}

// ops::Values side by side in a new dim behind `dim`.
Value stacked(ops::Make& make, const ops::Values& parts, size_t dim) {
  ops::Values wide;
  for (const Value& v : parts) {
    Dims dims = v.type().dims;
    dims.insert(dims.begin() + ptrdiff_t(dim), 1);
    wide.push_back(make.reshape(v, dims));
  }
  return make.concat(wide, int64_t(dim));
}

// The dim whose neighbours share a counter, as the op has it: the first even one, else the largest.
size_t shared_dim(const Dims& dims) {
  for (size_t d = 0; d < dims.size(); ++d)
    if (dims[d] % 2 == 0) return d;
  return size_t(std::max_element(dims.begin(), dims.end()) - dims.begin());
}

struct Drawn {
  Value bits;         // u32
  uint32_t used = 0;  // counters
};

Value counted(ops::Make& make, const Dims& dims) {
  int64_t n = 1;
  for (int64_t d : dims) n *= d;
  return make.reshape(make.iota(Dtype::u32, {n}, 0), dims);
}

Pair spread(const Words& w, const Pair& p) { return {w.spread(p[0]), w.spread(p[1])}; }

Drawn draw_threefry(ops::Make& make, const Pair& key, const Pair& counter, const Dims& dims) {
  if (dims.empty()) return {threefry(Words(make, {}), counter, key)[0], 1};
  const size_t shared = shared_dim(dims);
  Dims half = dims;
  half[shared] = (half[shared] + 1) / 2;
  const Words w(make, half);
  const Pair x = threefry(w, plus(w, spread(w, counter), counted(make, half)), spread(w, key));
  Dims whole = half;
  whole[shared] *= 2;
  const Value both = make.reshape(stacked(make, {x[0], x[1]}, shared + 1), whole);
  int64_t used = 1;
  for (int64_t d : half) used *= d;
  return {make.slice_dim(both, shared, 0, dims[shared]), uint32_t(used)};
}

Drawn draw_philox(ops::Make& make, const Pair& key, const Pair& low, const Pair& high, const Dims& dims) {
  int64_t n = 1;
  for (int64_t d : dims) n *= d;
  const int64_t blocks = (n + 3) / 4;
  const Words w(make, {blocks});
  const Pair from = spread(w, low), at = plus(w, from, counted(make, {blocks}));
  const Value wrapped = w.carry(at[1], from[1]);  // the counter's 64 bits did
  const Pair upper = plus(w, spread(w, high), wrapped);
  const Four x = philox(w, {at[0], at[1], upper[0], upper[1]}, spread(w, key));
  const Value flat = make.reshape(stacked(make, {x[0], x[1], x[2], x[3]}, 1), {4 * blocks});
  return {make.reshape(make.slice_dim(flat, 0, 0, n), dims), uint32_t(blocks)};
}

}  // namespace

ir::Replacement random_in_words(ir::Graph& graph, const ir::Node& node) {
  const ir::Node& given = *node.inputs[0].node;
  const ir::Type& wanted = node.types[1];
  if (given.op != op::bitcast_convert || given.inputs[0].type().dtype != Dtype::u32 || bytes(wanted.dtype) != 4 ||
      !device_dtype(wanted.dtype) || wanted.elements() == 0 || wanted.elements() > kCountersMax)
    return {};
  ops::Make make(graph, node.where);
  const Value& state = given.inputs[0];
  const int64_t words = state.type().dims[0];
  const auto pair = [&](int64_t i) -> Pair {
    const auto word = [&](int64_t j) { return make.reshape(make.slice(state, {i, j}, {i + 1, j + 1}), {}); };
    return {word(0), word(1)};
  };
  const Pair key = pair(0), counter = pair(1);
  const Words one(make, {});
  const bool is_threefry = node.attrs.text("rng_algorithm", "DEFAULT") == "THREE_FRY";
  const Pair high = words == 3 ? pair(2) : key;
  const Drawn drawn =
      is_threefry ? draw_threefry(make, key, counter, wanted.dims) : draw_philox(make, key, counter, high, wanted.dims);
  const Pair next = plus(one, counter, one.number(drawn.used));
  ops::Values rows = {stacked(make, {key[0], key[1]}, 0), stacked(make, {next[0], next[1]}, 0)};
  if (words == 3) {
    const Pair upper = plus(one, high, one.carry(next[1], counter[1]));
    rows.push_back(stacked(make, {upper[0], upper[1]}, 0));
  }
  const Value after = make.op(op::bitcast_convert, {stacked(make, rows, 0)}, {}, {node.types[0]});
  return {after, make.bits(drawn.bits, wanted.dtype)};
}

ir::Replacement bits_there_and_back(ir::Graph&, const ir::Node& node) {
  const ir::Node& first = *node.inputs[0].node;
  if (first.op != op::bitcast_convert || !ir::same_tensor(first.inputs[0].type(), node.types[0])) return {};
  return {first.inputs[0]};
}

}  // namespace trine::compile::device
