// Rows of the random generators. Each lane of Vector has an LFSR before v4 and four XORWOW states after; each lane of
// GpSimd has one XORWOW state from v3 on. States live in Core and last as long as the program.
// estimate: polynomials, seeding, and that an instruction begins with a Vector lane's first state, are ours.
#include <algorithm>
#include <vector>

#include "arch/insns/lanes.h"
#include "arch/insns/vector.h"
#include "base/number/random.h"
#include "base/text.h"

namespace trine::arch {

namespace {

using State = std::array<uint32_t, 24>;
constexpr size_t kWords = 6;  // of one XORWOW state

// XORWOW states of one lane; 0 where it has an LFSR.
size_t states_per_lane(const Call& i) {
  if (i.engine == Engine::gpsimd) return 1;
  return i.chip.has(Feature::xorwow) ? 4 : 0;
}

State& state_of(Core& c, const Call& i, int lane) {
  return (i.engine == Engine::gpsimd ? c.gpsimd_rng : c.vector_rng)[static_cast<size_t>(lane)];
}

void seed_lane(State& state, size_t count, uint64_t seed, uint64_t lane) {
  state.fill(0);
  if (!count) state[0] = Lfsr::seeded(seed, lane).state;
  for (size_t s = 0; s < count; ++s) {
    const Xorwow x = Xorwow::seeded(seed, lane * count + s);
    std::copy(x.words.begin(), x.words.end(), state.begin() + static_cast<int64_t>(s * kWords));
  }
}

// One lane's generator, loaded from its state and put back at the end. A state nobody set is that of seed 0.
class Lane {
 public:
  Lane(Core& c, const Call& i, int lane) : state_(state_of(c, i, lane)), count_(states_per_lane(i)) {
    if (std::all_of(state_.begin(), state_.end(), [](uint32_t w) { return w == 0; }))
      seed_lane(state_, count_, 0, static_cast<uint64_t>(lane));
    lfsr_.state = state_[0];
    for (size_t s = 0; s < count_; ++s) std::copy_n(at(s), kWords, xorwow_[s].words.begin());
  }
  ~Lane() {
    if (!count_) state_[0] = lfsr_.state;
    for (size_t s = 0; s < count_; ++s) std::copy_n(xorwow_[s].words.begin(), kWords, at(s));
  }
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  uint32_t next() { return count_ ? xorwow_[next_++ % count_].next() : lfsr_.next(); }

 private:
  State::iterator at(size_t s) { return state_.begin() + static_cast<int64_t>(s * kWords); }
  State& state_;
  size_t count_, next_ = 0;
  std::array<Xorwow, 4> xorwow_{};
  Lfsr lfsr_;
};

// --- rng ---

void rng(Core& c, const Call& i) {
  const Tile d = i.tile("dst");
  std::vector<uint32_t> words(static_cast<size_t>(d.row_elements));
  c.set_slot("dst");
  for (int p = 0; p < d.partitions; ++p) {
    Lane lane(c, i, d.partition + p);
    for (uint32_t& w : words) w = lane.next();
    c.write_bits(d, p, words.data());
  }
}

// XORWOW gives as many words a cycle as it has states.
Cost random_cycles(const Chip& k, const Call& i) {
  const double words_per_cycle = static_cast<double>(std::max<size_t>(states_per_lane(i), 1));
  return interval(k, i, static_cast<double>(i.tile("dst").row_elements) / words_per_cycle);
}

Result<void> rng_check(const Chip& k, const Call& i) {
  if (i.engine == Engine::gpsimd) TRY(chip_has(k, i, Feature::gpsimd_rng, "the GpSimd engine (use Vector)"));
  const Dtype d = i.tile("dst").dtype;
  if (is_integer(d) && bits(d) >= 8 && bits(d) <= 32) return {};
  return fail(Code::invalid, cat("dst is ", row(d).name, "; rng writes integers of 8, 16 or 32 bits"));
}

// --- rand2 ---

void rand2(Core& c, const Call& i) {
  const Tile d = i.tile("dst");
  const Scalars low = read_scalars(c, i, "min"), high = read_scalars(c, i, "max");
  write_rows(c, d, [&](int p, float* out) {
    const float from = low[static_cast<size_t>(p)], range = high[static_cast<size_t>(p)] - from;
    Lane lane(c, i, d.partition + p);
    for (int64_t e = 0; e < d.row_elements; ++e) out[e] = from + uniform(lane.next()) * range;
  });
}

Result<void> rand2_check(const Chip&, const Call& i) {
  TRY(computable(i));
  TRY(one_per_lane(i, "min", "dst"));
  TRY(one_per_lane(i, "max", "dst"));
  if (i.is_tile("min") || i.is_tile("max") || i.operand("min").immediate < i.operand("max").immediate) return {};
  return fail(Code::invalid, cat("min ", i.operand("min").immediate, " is not below max ", i.operand("max").immediate));
}

// --- state ---

Result<void> state_check(const Chip& k, const Call& i, std::string_view slot) {
  TRY(chip_has(k, i, i.engine == Engine::gpsimd ? Feature::gpsimd_rng : Feature::xorwow,
               cat("a generator state on ", name(i.engine))));
  const Tile t = i.tile(slot);
  const int64_t words = static_cast<int64_t>(states_per_lane(i) * kWords);
  if (t.dtype == Dtype::u32 && t.row_elements == words) return {};
  return fail(Code::invalid, cat(slot, " is ", row(t.dtype).name, " with ", t.row_elements, " elements per partition; ",
                                 name(i.engine), " has ", words, " words of u32 a lane"));
}

void rand_set_state(Core& c, const Call& i) {
  const Tile s = i.tile("src_seeds");
  c.set_slot("src_seeds");
  for (int p = 0; p < s.partitions; ++p) c.read_bits(s, p, state_of(c, i, s.partition + p).data());
}

void rand_get_state(Core& c, const Call& i) {
  const Tile d = i.tile("dst");
  c.set_slot("dst");
  for (int p = 0; p < d.partitions; ++p) {
    const Lane lane(c, i, d.partition + p);  // seeds it when nobody has
    c.write_bits(d, p, state_of(c, i, d.partition + p).data());
  }
}

void set_rng_seed(Core& c, const Call& i) {
  const uint32_t seed = read_all_bits(c, i, "src_seeds")[0];
  for (int lane = 0; lane < c.shape().partitions; ++lane)
    seed_lane(state_of(c, i, lane), states_per_lane(i), seed, static_cast<uint64_t>(lane));
}

Result<void> set_rng_seed_check(const Chip&, const Call& i) {
  const Tile s = i.tile("src_seeds");
  if (s.elements() == 1 && bits(s.dtype) == 32) return {};
  return fail(Code::invalid, cat("src_seeds is ", row(s.dtype).name, "[", s.partitions, ",", s.row_elements,
                                 "]; the seed is one 32-bit value, [1,1]"));
}

Cost state_cycles(const Chip& k, const Call& i) {
  return interval(k, i, static_cast<double>(states_per_lane(i) * kWords));
}

// --- dropout ---

void dropout(Core& c, const Call& i) {
  const Tile d = i.tile("dst");
  const Scalars prob = read_scalars(c, i, "prob");
  std::vector<uint32_t> x = read_all_bits(c, i, "data");
  for (int p = 0; p < d.partitions; ++p) {
    uint32_t* const row = x.data() + p * d.row_elements;
    Lane lane(c, i, d.partition + p);
    for (int64_t e = 0; e < d.row_elements; ++e)
      if (uniform(lane.next()) < prob[static_cast<size_t>(p)]) row[e] = 0;
    c.set_slot("dst");
    c.write_bits(d, p, row);
  }
}

Cost dropout_cycles(const Chip& k, const Call& i) {
  return interval(k, i, static_cast<double>(i.tile("data").row_elements));
}

Result<void> dropout_check(const Chip&, const Call& i) {
  TRY(computable(i));
  TRY(same_shape(i, {"data", "dst"}));
  TRY(one_per_lane(i, "prob", "data"));
  const Dtype a = i.tile("data").dtype, d = i.tile("dst").dtype;
  if (a != d)
    return fail(Code::invalid, cat("data is ", row(a).name, " and dst is ", row(d).name,
                                   "; dropout casts nothing, so give both the same format"));
  if (!i.is_tile("prob")) {
    const double p = i.operand("prob").immediate;
    return p >= 0 && p <= 1 ? Result<void>{} : fail(Code::out_of_range, cat("prob ", p, " is not between 0 and 1"));
  }
  const Dtype p = i.tile("prob").dtype;
  if (is_floating(p) && (p == Dtype::f32 || is_floating(a))) return {};
  return fail(Code::invalid, cat("prob is ", row(p).name, "; it must be f32, or any float where data is a float"));
}

constexpr Row kRows[] = {
    {.name = "rng",
     .opcode = 0x38,
     .engines = kVector | kGpsimd,
     .operands = "dst:w:sbuf|psum",
     .exec = rng,
     .cycles = random_cycles,
     .check = rng_check,
     .nki = {.takes = "dst engine=vector"},
     .summary = "dst = the low bits of 32 random ones an element",
     .source = "estimate: one word a lane and cycle, XORWOW on Vector four (guide v4)",
     .label = "RNG"},
    {.name = "rand2",
     .opcode = 0x39,
     .engines = kVector,
     .needs = Feature::xorwow,
     .operands = "dst:w:sbuf|psum min:r:sbuf|psum|imm max:r:sbuf|psum|imm",
     .exec = rand2,
     .cycles = random_cycles,
     .check = rand2_check,
     .nki = {.takes = "dst min max"},
     .summary = "dst = min + u·(max - min), u uniform in [0, 1) with 24 bits",
     .source = "doc: guide v4, four values a lane and cycle",
     .label = "RAND2"},
    {.name = "rand_set_state",
     .opcode = 0x3a,
     .engines = kVector | kGpsimd,
     .operands = "src_seeds:r:sbuf",
     .exec = rand_set_state,
     .cycles = state_cycles,
     .check = [](const Chip& k, const Call& i) { return state_check(k, i, "src_seeds"); },
     .nki = {.takes = "src_seeds engine=gpsimd"},
     .summary = "each lane's generator state = its row of src_seeds",
     .source = "estimate: one word a lane and cycle",
     .label = "RAND_SET_STATE"},
    {.name = "rand_get_state",
     .opcode = 0x3b,
     .engines = kVector | kGpsimd,
     .operands = "dst:w:sbuf|psum",
     .exec = rand_get_state,
     .cycles = state_cycles,
     .check = [](const Chip& k, const Call& i) { return state_check(k, i, "dst"); },
     .nki = {.takes = "dst engine=gpsimd"},
     .summary = "dst = each lane's generator state",
     .source = "estimate: one word a lane and cycle",
     .label = "RAND_GET_STATE"},
    {.name = "set_rng_seed",
     .opcode = 0x3c,
     .engines = kVector,
     .operands = "src_seeds:r:sbuf|psum",
     .exec = set_rng_seed,
     .cycles = state_cycles,
     .check = set_rng_seed_check,
     .nki = {.takes = "src_seeds"},
     .summary = "seeds the generators of all lanes from one 32-bit value",
     .source = "estimate: MIN_II",
     .label = "SET_RNG_SEED"},
    {.name = "dropout",
     .opcode = 0x3d,
     .engines = kVector,
     .operands = "dst:w:sbuf|psum data:r:sbuf|psum prob:r:sbuf|psum|imm",
     .exec = dropout,
     .cycles = dropout_cycles,
     .check = dropout_check,
     .nki = {.takes = "dst data prob", .old = "data prob", .returns = "data"},
     .summary = "dst = data, each element zero with probability prob",
     .source = "doc: nki.isa 2.26.1, max(MIN_II, N)",
     .label = "DROPOUT"},
};
static_assert(well_formed(kRows));

}  // namespace

std::span<const Row> vector_random_rows() { return kRows; }

}  // namespace trine::arch
