// Random kernels, scheduled and run, against the same instructions one by one: loads, stores, copies, arithmetic,
// matmuls and reductions over whole tiles, parts and strided parts, with and without room in SBUF.
#include <random>

#include "tests/front/nki_both.h"

namespace trine::front {
namespace {

class Random {
 public:
  Random(const arch::Chip& chip, uint32_t seed) : random_(seed), both_(chip) {
    for (int i = 0; i < 2; ++i) inputs_.push_back(hbm("in", arch::TensorKind::input));
    for (int i = 0; i < 2; ++i) scratch_.push_back(hbm("mid", arch::TensorKind::scratch));
    for (const uint32_t t : scratch_)
      for (int64_t row = 0; row < kRows; row += 128) copy(rows(t, row), rows(inputs_[0], row));
    for (int i = 0; i < 3; ++i) fresh();
  }

  arch::Program run(int steps) {
    for (int i = 0; i < steps; ++i) step();
    const uint32_t out = hbm("out", arch::TensorKind::output);
    for (int64_t row = 0; row < kRows; row += 128) copy(rows(out, row), rows(scratch_[0], row));
    for (const Tile& t : tiles_) {
      const uint32_t o = must_output(t);
      copy(both_.tile({.tensor = o, .partitions = 128, .partition_stride = t.width, .dims = {{1, t.width}}}),
           part(t, 0, t.width, 1));
    }
    return both_.agree();
  }

  const std::vector<std::string>& messages() { return both_.trace().messages(); }

 private:
  static constexpr int64_t kRows = 256, kColumns = 512;
  struct Tile {
    uint32_t tensor = 0;
    int64_t width = 0;
  };

  uint32_t pick(uint32_t n) { return static_cast<uint32_t>(random_() % n); }
  const Tile& any() { return tiles_[pick(static_cast<uint32_t>(tiles_.size()))]; }

  uint32_t hbm(std::string name, arch::TensorKind kind) {
    return both_.tensor({.name = name, .space = arch::Space::hbm, .shape = {kRows, kColumns}, .kind = kind});
  }
  uint32_t must_output(const Tile& t) {
    return both_.tensor(
        {.name = "tile", .space = arch::Space::hbm, .shape = {128, t.width}, .kind = arch::TensorKind::output});
  }
  uint32_t rows(uint32_t t, int64_t row, int64_t column = 0, int64_t width = kColumns) {
    return both_.tile({.tensor = t,
                       .partitions = 128,
                       .offset = row * kColumns + column,
                       .partition_stride = kColumns,
                       .dims = {{1, width}}});
  }
  uint32_t part(const Tile& t, int64_t from, int64_t count, int64_t stride) {
    return both_.tile({.tensor = t.tensor, .partitions = 128, .offset = from, .dims = {{stride, count}}});
  }
  uint32_t whole(const Tile& t) { return part(t, 0, t.width, 1); }
  void copy(uint32_t dst, uint32_t src) {
    both_.emit({.row = "dma_copy", .operands = {{"dst", dst}, {"src", src}}, .file = "kernel.py", .line = 7});
  }

  void fresh() {
    static constexpr int64_t kWidths[] = {16, 64, 128, 512};
    Tile made{0, kWidths[pick(4)]};
    made.tensor = both_.tensor({.name = "x", .shape = {128, made.width}});
    if (tiles_.size() > 12) tiles_.erase(tiles_.begin() + pick(static_cast<uint32_t>(tiles_.size())));
    copy(whole(made), rows(pick(2) ? scratch_[pick(2)] : inputs_[pick(2)], 128 * pick(2), 0, made.width));
    tiles_.push_back(made);
  }

  void store() {
    const Tile t = any();
    copy(rows(scratch_[pick(2)], 128 * pick(2), pick(static_cast<uint32_t>(kColumns - t.width + 1)), t.width),
         whole(t));
  }

  // Two views of one size: neighbours, or every other element.
  void arithmetic() {
    const Tile a = any(), b = any(), d = any();
    const int64_t n = std::min({a.width, b.width, d.width}) / 2;
    const int64_t stride = 1 + pick(2);
    const auto view = [&](const Tile& t) {
      return part(t, stride == 2 ? pick(2) : pick(static_cast<uint32_t>(t.width - n + 1)), n, stride);
    };
    static const char* const kOps[] = {"subtract", "max", "min"};
    const uint32_t to = part(d, 0, n, 1), x = view(a), y = view(b);
    static const char* const kEngines[] = {"", "vector", "gpsimd"};
    both_.emit({.row = "tensor_tensor",
                .engine = kEngines[pick(3)],
                .operands = {{"dst", pick(2) ? to : view(d)}, {"data1", x}, {"data2", y}},
                .attrs = {{"op", kOps[pick(3)]}}});
  }
  void scale() {
    const Tile a = any(), d = any();
    const int64_t n = std::min(a.width, d.width);
    both_.emit({.row = "tensor_scalar",
                .engine = pick(2) ? "" : "vector",
                .operands = {{"dst", part(d, d.width - n, n, 1)},
                             {"data", part(a, 0, n, 1)},
                             {"operand0", both_.immediate(0.5)}},
                .attrs = {{"op0", "multiply"}}});
  }
  void squash() {
    const Tile a = any(), d = any();
    const int64_t n = std::min(a.width, d.width);
    both_.emit({.row = "activation",
                .operands = {{"dst", part(d, 0, n, 1)}, {"data", part(a, 0, n, 1)}},
                .attrs = {{"op", "tanh"}}});
  }
  void reduce() {
    const Tile a = any(), d = any();
    both_.emit({.row = "tensor_reduce",
                .operands = {{"dst", part(d, pick(static_cast<uint32_t>(d.width)), 1, 1)}, {"data", whole(a)}},
                .attrs = {{"op", "max"}}});
  }
  // Whole tiles are filled again, so that versions begin.
  void refill() {
    const Tile t = any();
    copy(whole(t), rows(scratch_[pick(2)], 128 * pick(2), 0, t.width));
  }
  void fill() { both_.emit({.row = "memset", .operands = {{"dst", whole(any())}}, .attrs = {{"value", 0.25}}}); }

  void multiply() {
    const Tile a = any(), b = any(), d = any();
    const int64_t m = std::min<int64_t>(a.width, 128), n = std::min(b.width, d.width);
    const uint32_t acc = both_.tensor({.name = "acc", .space = arch::Space::psum, .shape = {m, n}});
    const auto bank = [&] { return both_.tile({.tensor = acc, .partitions = m, .dims = {{1, n}}}); };
    for (uint32_t k = 0, count = 1 + pick(3); k < count; ++k)
      both_.emit(
          {.row = "nc_matmul",
           .operands = {{"dst", bank()}, {"stationary", part(a, 0, m, 1)}, {"moving", part(b, b.width - n, n, 1)}},
           .attrs = {{"accumulate", k ? "add" : "overwrite"}}});
    const uint32_t to = both_.tile({.tensor = d.tensor, .partitions = m, .dims = {{1, n}}});
    both_.emit({.row = "tensor_scalar",
                .operands = {{"dst", to}, {"data", bank()}, {"operand0", both_.immediate(0.05)}},
                .attrs = {{"op0", "multiply"}}});
  }

  void step() {
    using Action = void (Random::*)();
    static constexpr Action kActions[] = {&Random::fresh,      &Random::fresh,  &Random::store,   &Random::arithmetic,
                                          &Random::arithmetic, &Random::scale,  &Random::squash,  &Random::reduce,
                                          &Random::fill,       &Random::refill, &Random::multiply};
    (this->*kActions[pick(std::size(kActions))])();
  }

  std::mt19937 random_;
  Both both_;
  std::vector<uint32_t> inputs_, scratch_;
  std::vector<Tile> tiles_;
};

}  // namespace

TEST_CASE("random kernels compute what their instructions do one by one") {
  for (const char* chip : {"trn1", "trn2", "trn3"})
    for (uint32_t seed = 0; seed < 12; ++seed) {
      CAPTURE(chip);
      CAPTURE(seed);
      Random(**arch::find_chip(chip), seed).run(80);
    }
}

TEST_CASE("random kernels that do not fit are spilled and compute the same") {
  arch::Chip small = **arch::find_chip("trn2");
  small.sbuf.bytes_per_partition = small.sbuf.reserved_bytes_per_partition + 6 * 1024;
  small.psum.banks = 1;
  bool spilled = false, loaded_again = false;
  for (uint32_t seed = 100; seed < 116; ++seed) {
    CAPTURE(seed);
    Random random(small, seed);
    random.run(80);
    for (const std::string& m : random.messages()) {
      spilled |= m.find("spilled") != std::string::npos;
      loaded_again |= m.find("loaded again") != std::string::npos;
    }
  }
  CHECK(spilled);
  CHECK(loaded_again);
}

TEST_CASE("the same calls give the same program") {
  const arch::Chip& chip = **arch::find_chip("trn2");
  CHECK(arch::disassemble(Random(chip, 5).run(120)) == arch::disassemble(Random(chip, 5).run(120)));
}

}  // namespace trine::front
