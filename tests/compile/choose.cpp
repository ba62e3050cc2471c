// Units with several variants: the one taken is the fastest of those timed, or the first where no other
// is faster by more than timing apart can tell.
#include "compile/device/choose/choose.h"

#include <doctest/doctest.h>

#include <thread>

#include "base/text.h"
#include "compile/aot/artifact.h"
#include "compile/device/device.h"
#include "compile/device/record.h"
#include "ir/text.h"
#include "run/drivers/exact/exact.h"
#include "run/drivers/timed/timed.h"
#include "tests/compile/verify_each.h"

namespace trine::compile {

struct ChooseCase {
  const char* chip;
  int64_t rows, depth, columns;
  bool chained;  // a second multiply reads the first one's product
};
static const ChooseCase kCases[] = {
    {"trn1", 1024, 768, 3072, false}, {"trn2", 1024, 768, 3072, false}, {"trn1", 512, 512, 512, false},
    {"trn2", 1, 4096, 1792, false},   {"trn1", 16, 4096, 512, true},    {"trn2", 1024, 4096, 1024, false},
    {"trn2", 256, 1024, 1024, true},  {"trn1", 128, 768, 3072, true},
};

static const DeviceOptions kOptions{.weights = {false, true, true}, .timer = run::time_among_others};

static ir::Graph graph_of(const ChooseCase& c) {
  const std::string dims = "{lhs_batch = [], lhs_contract = [1], rhs_batch = [], rhs_contract = [0]}";
  const auto type = [](int64_t a, int64_t b) { return cat("bf16[", a, ",", b, "]"); };
  std::string text = cat("graph \"g\" (%0: ", type(c.rows, c.depth), ", %1: ", type(c.depth, c.columns),
                         ", %2: ", type(c.columns, c.depth), ") {\n  %3 = dot_general %0, %1 ", dims, " : ",
                         type(c.rows, c.columns), "\n");
  if (c.chained)
    append_text(text, cat("  %4 = dot_general %3, %2 ", dims, " : ", type(c.rows, c.depth), "\n  return %4 }"));
  else
    append_text(text, "  return %3 }");
  auto graph = ir::parse_graph(text, "g");
  REQUIRE_MESSAGE(graph, graph.error().text());
  return *std::move(graph);
}

static std::string bytes_of(const ChooseCase& c) {
  auto made = compile_device(graph_of(c), **arch::find_chip(c.chip), kOptions, kVerifiedProgram);
  REQUIRE(made);
  return artifact_bytes(*made);
}

TEST_CASE("the way taken is the fastest, and no slower than the plain one") {
  for (const ChooseCase& c : kCases) {
    CAPTURE(cat(c.chip, " ", c.rows, " ", c.depth, " ", c.columns));
    std::vector<device::Chosen> chosen;
    DeviceObserver observer = kVerifiedProgram;
    observer.chosen = &chosen;
    REQUIRE(compile_device(graph_of(c), **arch::find_chip(c.chip), kOptions, observer));
    for (const device::Chosen& unit : chosen) {
      CAPTURE(unit.text());
      const int64_t taken = unit.comparison.fs[unit.comparison.best];
      CHECK(taken > 0);
      CHECK(taken <= unit.comparison.fs[0]);
      for (int64_t fs : unit.comparison.fs)
        if (fs >= 0) CHECK(double(taken) * 0.98 <= double(fs));
    }
  }
}

TEST_CASE("a choice is made where there is one, and not always the plain one") {
  size_t units = 0, others = 0;
  for (const ChooseCase& c : kCases) {
    std::vector<device::Chosen> chosen;
    DeviceObserver observer = kVerifiedProgram;
    observer.chosen = &chosen;
    REQUIRE(compile_device(graph_of(c), **arch::find_chip(c.chip), kOptions, observer));
    units += chosen.size();
    for (const device::Chosen& unit : chosen) others += unit.comparison.best != 0;
  }
  CHECK(units >= 6);
  CHECK(others >= 1);
}

// As if every instruction took a microsecond.
static Result<int64_t> by_length(const arch::Program& program, const arch::Chip&) {
  return program.instruction_count() * 1'000'000'000;
}

TEST_CASE("the timer handed in decides; without one every unit is written the first way") {
  const auto compiled = [](const ChooseCase& c, device::Timer timer, std::vector<device::Chosen>& chosen) {
    DeviceObserver observer = kVerifiedProgram;
    observer.chosen = &chosen;
    DeviceOptions options = kOptions;
    options.timer = timer;
    REQUIRE(compile_device(graph_of(c), **arch::find_chip(c.chip), options, observer));
  };
  int differ = 0;
  for (const ChooseCase& c : kCases) {
    CAPTURE(cat(c.chip, " ", c.rows, " ", c.depth, " ", c.columns));
    std::vector<device::Chosen> none, shortest, quickest;
    compiled(c, nullptr, none);
    CHECK(none.empty());
    compiled(c, by_length, shortest);
    compiled(c, run::time_among_others, quickest);
    for (size_t i = 0; i < shortest.size(); ++i) differ += shortest[i].comparison.best != quickest[i].comparison.best;
    for (const device::Chosen& unit : shortest) {
      CAPTURE(unit.text());
      for (int64_t length : unit.comparison.fs)
        if (length >= 0) CHECK(double(unit.comparison.fs[unit.comparison.best]) * 0.98 <= double(length));
    }
  }
  CHECK(differ >= 1);
}

TEST_CASE("the same program whatever was compiled before, and on any thread") {
  const ChooseCase& c = kCases[0];
  const std::string first = bytes_of(c);
  for (const ChooseCase& other : kCases) bytes_of(other);
  std::vector<std::string> found(4);
  std::vector<std::thread> threads;
  for (std::string& to : found) threads.emplace_back([&] { to = bytes_of(c); });
  for (std::thread& t : threads) t.join();
  for (const std::string& bytes : found) CHECK(bytes == first);
}

TEST_CASE("a recorder that is full says so once, and grows no further") {
  device::Recorder rec("", **arch::find_chip("trn1"), 4);
  for (int i = 0; i < 100; ++i) {
    const device::View tile = rec.sbuf(Dtype::f32, 128, 8);
    rec.emit("memset", {{"dst", tile}}, {{"value", 0.0}});
  }
  REQUIRE(rec.error());
  CHECK(rec.error()->message == "more than 4 instructions in one program");
  CHECK(rec.insn_count() == 4);
  CHECK(rec.kernel().program().tensors.size() == 5);
}

TEST_CASE("a unit too long to be timed takes the first way, or says where it stands") {
  const ChooseCase huge{"trn2", 1 << 20, 1 << 15, 1 << 18, false};
  auto made = compile_device(graph_of(huge), **arch::find_chip(huge.chip), kOptions, kVerifiedProgram);
  REQUIRE(!made);
  CHECK(made.error().message == "more than 5,000,000 instructions in one program");
}

TEST_CASE("how many columns a loop takes at once is chosen, where it has more than one block of them") {
  const auto variants = [](int64_t columns) {
    auto graph = ir::parse_graph(cat("graph \"g\" (%0: f32[128,", columns, "]) {\n  %1 = exponential %0 : f32[128,",
                                     columns, "]\n  return %1 }"),
                                 "g");
    REQUIRE_MESSAGE(graph, graph.error().text());
    std::vector<device::Chosen> chosen;
    DeviceObserver observer = kVerifiedProgram;
    observer.chosen = &chosen;
    REQUIRE(compile_device(*graph, **arch::find_chip("trn2"), kOptions, observer));
    return chosen;
  };
  CHECK(variants(1024).empty());
  const auto chosen = variants(8192);
  REQUIRE(chosen.size() == 1);
  CHECK(chosen[0].variants.size() == 4);
  CHECK(chosen[0].taken().columns < 4096);  // the first are stored while the last are loaded
}

// A timer for which nothing counts but that products of parts of the depth are summed in SBUF.
static Result<int64_t> prefers_sums(const arch::Program& program, const arch::Chip&) {
  for (const arch::Stream& stream : program.streams)
    for (const arch::Insn& insn : stream.insns)
      if (arch::row_by_opcode(insn.opcode)->row->name == "tensor_tensor") return 1'000'000'000'000'000;
  return 2'000'000'000'000'000;
}

TEST_CASE("a product whose depth is in parts, and its columns too, has the plain one's values") {
  arch::Chip chip = **arch::find_chip("trn2");
  chip.sbuf.bytes_per_partition = 64 << 10;
  const int64_t rows = 600, depth = 2048, columns = 1600;
  auto graph =
      ir::parse_graph(cat("graph \"g\" (%0: f32[", depth, ",", rows, "], %1: f32[", depth, ",", columns,
                          "]) {\n  %2 = dot_general %0, %1 {lhs_batch = [], lhs_contract = [0], rhs_batch = [], "
                          "rhs_contract = [0]} : f32[",
                          rows, ",", columns, "]\n  return %2 }"),
                      "g");
  REQUIRE_MESSAGE(graph, graph.error().text());
  std::vector<float> left(size_t(rows * depth)), right(size_t(depth * columns));
  for (size_t i = 0; i < left.size(); ++i) left[i] = float(i % 7) - 3;
  for (size_t i = 0; i < right.size(); ++i) right[i] = float(i % 5) - 2;
  std::vector<std::vector<std::byte>> found;
  for (device::Timer timer : {device::Timer(nullptr), device::Timer(prefers_sums)}) {
    auto made = compile_device(*graph, chip, {.timer = timer}, kVerifiedProgram);
    REQUIRE_MESSAGE(made, made.error().text());
    CHECK((*prefers_sums(made->program, chip) == 1'000'000'000'000'000) == (timer != nullptr));
    auto ran = run::run_exact(made->program, chip,
                              {{"arg0", std::as_bytes(std::span(left))}, {"arg1", std::as_bytes(std::span(right))}});
    REQUIRE_MESSAGE(ran, ran.error().text());
    CHECK(ran->findings.empty());
    found.push_back(std::move(ran->outputs[0].bytes));
  }
  CHECK(found[0] == found[1]);
}

}  // namespace trine::compile
