// Random loop programs: exact ones on every executor against the reference, all others machine code against the
// interpreter, bit for bit. A failure prints its seed and the program.
#include <algorithm>

#include "base/number/random.h"
#include "base/text.h"
#include "tests/host/loop_case.h"
#include "tests/testing.h"

using namespace trine;
using namespace trine::arch;

namespace {

class Writer {
 public:
  Writer(uint32_t seed, bool exact) : seed_(seed), exact_(exact) {}

  LoopProgram write() {
    int dims = int(1 + up_to(3));
    for (int d = 0; d < dims; ++d) {
      constexpr int64_t kSizes[] = {1, 2, 3, 5, 7, 8, 9, 16, 17, 31, 33, 40, 100, 300};
      inner_.push_back(up_to(3) == 0);
      sizes_.push_back(dims == 1 ? kSizes[up_to(14)] * 3 : kSizes[up_to(dims == 2 ? 14 : 9)]);
      t_.dim(sizes_.back(), inner_.back());
    }
    std::vector<uint32_t> inputs;
    for (uint32_t i = 0; i < 1 + up_to(4); ++i) inputs.push_back(input());
    int stages = int(1 + up_to(3));
    for (int s = 0; s < stages; ++s) stage(inputs, s == stages - 1);
    return t_.take();
  }

 private:
  uint32_t up_to(uint32_t n) { return random_at(seed_, count_++) % n; }

  Dtype dtype() {
    constexpr Dtype kSome[] = {Dtype::f32, Dtype::f32,      Dtype::f32, Dtype::f32, Dtype::bf16, Dtype::f16,
                               Dtype::s32, Dtype::f8e4m3fn, Dtype::u8,  Dtype::s8,  Dtype::u32,  Dtype::boolean,
                               Dtype::s16, Dtype::u16,      Dtype::s4,  Dtype::f64, Dtype::s64};
    return kSome[up_to(wide_ ? 17 : 15)];
  }

  // Row-major over the given dims in some order, some of them reversed.
  std::vector<int64_t> strides(std::vector<size_t> over, int64_t& elements, int64_t& offset, bool shuffles) {
    std::vector<int64_t> out(sizes_.size(), 0);
    for (size_t i = over.size(); shuffles && i > 1; --i) std::swap(over[i - 1], over[up_to(uint32_t(i))]);
    elements = 1;
    offset = 0;
    if (up_to(8) == 0) elements = 2;  // every second element
    for (size_t d : over) {
      out[d] = elements;
      elements *= sizes_[d];
    }
    for (size_t d : over) {
      if (up_to(10) != 0) continue;
      offset += out[d] * (sizes_[d] - 1);
      out[d] = -out[d];
    }
    return out;
  }

  uint32_t input() {
    std::vector<size_t> over;
    for (size_t d = sizes_.size(); d-- > 0;) {
      if (up_to(4) != 0) over.push_back(d);
    }
    int64_t elements, offset;
    auto s = strides(over, elements, offset, up_to(4) == 0);
    bool once = std::none_of(over.begin(), over.end(), [&](size_t d) { return inner_[d]; });
    room_.push_back(up_to(3) == 0 ? int64_t(up_to(40)) : -1);
    uint32_t operand = t_.input(dtype(), elements + std::max<int64_t>(room_.back(), 0), s, offset);
    for_once_.resize(operand + 1, false);
    for_once_[operand] = once;
    return operand;
  }

  void store(LoopValue v, bool once) {
    std::vector<size_t> over;
    for (size_t d = sizes_.size(); d-- > 0;) {
      if (!once || !inner_[d]) over.push_back(d);
    }
    int64_t elements, offset;
    auto s = strides(over, elements, offset, up_to(6) == 0);
    Dtype d = t_.type_of(v);
    if (d == Dtype::f32) d = std::array{Dtype::f32, Dtype::f32, Dtype::bf16, Dtype::f16, Dtype::f8e5m2}[up_to(5)];
    t_.store(t_.output(d, elements, s, offset), v);
  }

  void stage(const std::vector<uint32_t>& inputs, bool last) {
    const bool once = up_to(4) == 0;
    once ? t_.once() : t_.each();
    std::vector<LoopValue> own = rows_, fresh;
    if (!once) own.insert(own.end(), elements_.begin(), elements_.end());
    for (uint32_t o : inputs) {
      if ((!once || for_once_[o]) && up_to(3) != 0) own.push_back(t_.load(o));
    }
    for (uint32_t o : inputs)
      if ((!once || for_once_[o]) && room_[o] >= 0) own.push_back(t_.pick(o, pick(own, Dtype::s32), room_[o]));
    if (up_to(3) == 0) {
      uint32_t d = up_to(uint32_t(sizes_.size()));
      if (!once || !inner_[d]) own.push_back(t_.iota(up_to(2) ? Dtype::s32 : Dtype::f32, d));
    }
    own.push_back(t_.constant(Dtype::f32, double(up_to(64)) / 8 - 4));
    const size_t before = rows_.size() + (once ? 0 : elements_.size());
    for (uint32_t k = 0; k < 2 + up_to(14); ++k) own.push_back(value(own));
    for (uint32_t k = 0; k < up_to(3); ++k)
      store(own[own.size() - 1 - up_to(uint32_t(std::min<size_t>(own.size(), 4)))], once);
    if (last) store(own.back(), once);
    auto& packed_forms = once ? rows_ : elements_;
    for (size_t k = before; k < own.size(); ++k) {
      if (up_to(2)) packed_forms.push_back(own[k]);
    }
    if (once) return;
    for (uint32_t k = 0; k < up_to(3); ++k) {
      LoopValue x = own[up_to(uint32_t(own.size()))];
      LoopOp op = LoopOp(int(LoopOp::reduce_sum) + int(up_to(7)));
      if (!takes(op, t_.type_of(x)) || (exact_ && is_floating(t_.type_of(x)) && op <= LoopOp::reduce_prod)) continue;
      fresh.push_back(t_.unary(op, x));
    }
    rows_.insert(rows_.end(), fresh.begin(), fresh.end());
  }

  static bool takes(LoopOp op, Dtype d) {
    int one = is_floating(d) ? 1 : is_integer(d) ? 2 : 4;
    return (int(row(op).types) & one) != 0;
  }
  static bool is_exact(LoopOp op) {
    return !(op >= LoopOp::rsqrt && op <= LoopOp::digamma) && op != LoopOp::pow && op != LoopOp::atan2;
  }

  LoopValue pick(const std::vector<LoopValue>& from, Dtype type) {
    std::vector<LoopValue> fit;
    for (LoopValue v : from) {
      if (t_.type_of(v) == type) fit.push_back(v);
    }
    return fit.empty() ? t_.constant(type, double(up_to(5))) : fit[up_to(uint32_t(fit.size()))];
  }

  LoopValue value(const std::vector<LoopValue>& from) {
    LoopValue a = from[from.size() - 1 - up_to(uint32_t(std::min<size_t>(from.size(), 6)))];
    Dtype type = t_.type_of(a);
    for (;;) {
      LoopOp op = LoopOp(int(LoopOp::add) + int(up_to(uint32_t(LoopOp::reduce_sum) - uint32_t(LoopOp::add))));
      if (up_to(3) == 0) op = LoopOp(int(LoopOp::add) + int(up_to(4)));
      const LoopOpRow& r = row(op);
      if (op == LoopOp::convert) return t_.convert(a, loop_value_type(dtype()));
      if (op == LoopOp::round_to && is_floating(type)) return t_.round_to(a, up_to(2) ? Dtype::bf16 : Dtype::f8e4m3fn);
      if (op == LoopOp::reduce_precision && is_floating(type)) return t_.reduce_precision(a, 5, 7);
      if (op >= LoopOp::convert || !takes(op, type) || (exact_ && is_floating(type) && !is_exact(op))) continue;
      if (op == LoopOp::digamma || op == LoopOp::lgamma) continue;
      if (r.inputs == 1) return t_.unary(op, a);
      LoopValue b = pick(from, type);
      if (r.inputs == 2) return up_to(2) ? t_.binary(op, a, b) : t_.binary(op, b, a);
      if (op == LoopOp::select) return t_.ternary(op, pick(from, Dtype::boolean), a, b);
      return t_.ternary(op, pick(from, type), a, b);
    }
  }

  LoopBuilder t_;
  uint32_t seed_, count_ = 0;
  bool exact_, wide_ = up_to(8) == 0;
  std::vector<int64_t> sizes_ = {};
  std::vector<bool> inner_ = {}, for_once_ = {};
  std::vector<int64_t> room_ = {};  // per input: how far it reaches beyond its walk, for picks; -1: none picks
  std::vector<LoopValue> rows_ = {}, elements_ = {};
};

}  // namespace

TEST_CASE("exact random programs: every executor gives the reference's bits") {
  for (uint32_t seed = 0; seed < 1000; ++seed) {
    LoopProgram p = Writer(seed, true).write();
    for (const host::LoopOptions& build : test::kBuilds) {
      std::string found = test::check_program(p, seed, build, 0, 0, seed % 2 == 0);
      if (!found.empty())
        FAIL("seed " << seed << " machine code " << build.machine_code << ": " << found << "\n" << text(p));
    }
  }
}

TEST_CASE("random programs: machine code gives the interpreter's bits") {
  for (uint32_t seed = 0; seed < 1000; ++seed) {
    LoopProgram p = Writer(seed + 100000, false).write();
    auto slow = host::prepare(p, {simd_best(), false});
    REQUIRE_MESSAGE(slow, slow.error().message);
    const test::LoopBuffers given = test::random_buffers(p, seed, seed % 3 == 0);
    test::LoopBuffers a = given;
    host::run(*slow, a.pointers());
    for (bool bf16 : {false, has_avx512_bf16()}) {
      auto fast = host::prepare(p, {simd_best(), true, bf16});
      REQUIRE(fast);
      test::LoopBuffers b = given;
      host::run(*fast, b.pointers());
      std::string found = test::difference(p, b, a);
      if (!found.empty()) FAIL("seed " << seed << " bf16 " << bf16 << ": " << found << "\n" << text(p));
    }
  }
}
