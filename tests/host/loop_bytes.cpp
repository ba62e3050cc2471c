// Programs of bytes and truths alone, which machine code computes 32 to a vector: against the reference, bit for bit.
#include "base/number/random.h"
#include "host/loops/nest.h"
#include "host/vector/bytes.h"
#include "tests/host/loop_case.h"
#include "tests/testing.h"

using namespace trine;
using namespace trine::arch;

namespace {

constexpr Dtype kTypes[] = {Dtype::u8, Dtype::s8, Dtype::boolean};

class Writer {
 public:
  Writer(uint32_t seed, int64_t rows, int64_t columns) : seed_(seed), rows_(rows), columns_(columns) {
    t_.dim(rows);
    t_.dim(columns);
  }

  // Some inputs are one number for each row or for all; rows of others lie further apart than they are long.
  LoopProgram write() {
    for (int i = 0; i < 5; ++i) values_.push_back(t_.load(input()));
    values_.push_back(t_.constant(Dtype::u8, 200));
    values_.push_back(t_.constant(Dtype::s8, -3));
    for (int i = 0; i < 16; ++i) values_.push_back(next());
    for (int i = 0; i < 3; ++i) {
      const LoopValue v = values_[values_.size() - 1 - up_to(6)];
      t_.store(t_.output(t_.type_of(v), rows_ * (columns_ + i), {columns_ + i, 1}), v);
    }
    return t_.take();
  }

 private:
  uint32_t up_to(uint32_t n) { return random_at(seed_, count_++) % n; }
  LoopValue any() { return values_[up_to(uint32_t(values_.size()))]; }
  LoopValue any(Dtype type) {
    const LoopValue v = any();
    return t_.type_of(v) == type ? v : t_.convert(v, type);
  }

  uint32_t input() {
    const Dtype type = kTypes[up_to(3)];
    const auto apart = int64_t(up_to(3));
    switch (up_to(6)) {
      case 0:
        return t_.input(type, rows_, {1, 0});
      case 1:
        return t_.input(type, 1, {0, 0});
      default:
        return t_.input(type, rows_ * (columns_ + apart), {columns_ + apart, 1});
    }
  }

  LoopValue next() {
    const LoopValue a = any();
    const Dtype type = t_.type_of(a);
    const bool is_truth = type == Dtype::boolean;
    switch (up_to(7)) {
      case 0:
        return t_.binary(LoopOp(int(LoopOp::eq) + int(up_to(6))), a, any(type));
      case 1:
        return t_.ternary(LoopOp::select, any(Dtype::boolean), a, any(type));
      case 2:
        return t_.convert(a, kTypes[up_to(3)]);
      case 3:
        return t_.binary(up_to(2) ? LoopOp::max : LoopOp::min, a, any(type));
      case 4:
        return t_.binary(LoopOp(int(LoopOp::bit_and) + int(up_to(3))), a, any(type));
      case 5: {
        constexpr LoopOp kOps[] = {LoopOp::neg, LoopOp::abs, LoopOp::sign, LoopOp::bit_not};
        return t_.unary(is_truth ? LoopOp::bit_not : kOps[up_to(4)], a);
      }
      default:
        if (is_truth) return t_.unary(LoopOp::bit_not, a);
        if (up_to(4) == 0) return t_.ternary(LoopOp::clamp, any(type), a, any(type));
        return t_.binary(up_to(2) ? LoopOp::add : LoopOp::sub, a, any(type));
    }
  }

  LoopBuilder t_;
  uint32_t seed_, count_ = 0;
  int64_t rows_, columns_;
  std::vector<LoopValue> values_ = {};
};

}  // namespace

TEST_CASE("programs of bytes: every executor gives the reference's bits") {
  const int64_t sizes[] = {1, 3, 31, 32, 33, 63, 64, 100, 128, 257, 600};
  int of_bytes = 0;
  for (uint32_t seed = 0; seed < 600; ++seed) {
    const LoopProgram p = Writer(seed, 1 + seed % 4, sizes[seed % 11]).write();
    of_bytes += host::is_of_bytes(host::make_nest(p));
    for (const host::LoopOptions& build : test::kBuilds) {
      const std::string found = test::check_program(p, seed, build);
      if (!found.empty())
        FAIL("seed " << seed << " machine code " << build.machine_code << ": " << found << "\n" << text(p));
    }
  }
  CHECK(of_bytes > 300);
}

TEST_CASE("bytes beside other types, and products of bytes, stay in lanes of 32 bits") {
  LoopBuilder bytes, wide, product;
  for (LoopBuilder* t : {&bytes, &wide, &product}) {
    t->dim(100);
    const LoopValue a = t->load(t->input(Dtype::u8, 100, {1}));
    const LoopValue b = t == &product ? t->binary(LoopOp::mul, a, a) : t->binary(LoopOp::add, a, a);
    const LoopValue c = t == &wide ? t->convert(b, Dtype::s32) : b;
    t->store(t->output(t->type_of(c), 100, {1}), c);
  }
  CHECK(host::is_of_bytes(host::make_nest(bytes.program())));
  CHECK(!host::is_of_bytes(host::make_nest(wide.program())));
  CHECK(!host::is_of_bytes(host::make_nest(product.program())));
}
