// Elements that a loop wants in another order than memory's: transposed in blocks, backwards, with gaps, interleaved.
// Values by index arithmetic, on a chip of so little SBUF that nothing stays there as a whole; times against a loop
// that reads as many bytes in order.
#include "compile/device/memory/load_transposed.h"

#include <doctest/doctest.h>

#include <cstring>
#include <limits>

#include "base/text.h"
#include "compile/device/device.h"
#include "ir/text.h"
#include "run/drivers/exact/exact.h"
#include "run/drivers/timed/timed.h"
#include "tests/compile/verify_each.h"

namespace trine::compile {

struct OrderCase {
  std::string name, dims, op, made;
  int64_t (*from)(int64_t i);  // the element of the input that element i of the result is twice
};
static const OrderCase kOrders[] = {
    {"turned", "[1100,700]", "transpose %0 {permutation = [1, 0]}", "[700,1100]",
     [](int64_t i) { return i % 1100 * 700 + i / 1100; }},
    {"channels first", "[2,20,24,96]", "transpose %0 {permutation = [0, 3, 1, 2]}", "[2,96,20,24]",
     [](int64_t i) { return i / 46080 * 46080 + i % 480 * 96 + i / 480 % 96; }},
    {"heads first", "[4,96,8,16]", "transpose %0 {permutation = [0, 2, 1, 3]}", "[4,8,96,16]",
     [](int64_t i) { return i / 12288 * 12288 + i / 16 % 96 * 128 + i / 1536 % 8 * 16 + i % 16; }},
    {"minor dims exchanged", "[128,30,20]", "transpose %0 {permutation = [0, 2, 1]}", "[128,20,30]",
     [](int64_t i) { return i / 600 * 600 + i % 30 * 20 + i / 30 % 20; }},
    {"crossed, the same for all", "[20,30]", "broadcast_in_dim %0 {broadcast_dimensions = [2, 1]}", "[128,30,20]",
     [](int64_t i) { return i % 20 * 30 + i / 20 % 30; }},
    {"backwards", "[200,300]", "reverse %0 {dimensions = [1]}", "[200,300]",
     [](int64_t i) { return i / 300 * 300 + 299 - i % 300; }},
    {"all backwards", "[200,300]", "reverse %0 {dimensions = [0, 1]}", "[200,300]",
     [](int64_t i) { return 59999 - i; }},
    {"every third", "[200,300]", "slice %0 {start_indices = [0, 1], limit_indices = [200, 300], strides = [1, 3]}",
     "[200,100]", [](int64_t i) { return i / 100 * 300 + i % 100 * 3 + 1; }},
    {"pairs", "[130,37,1]", "concatenate %0, %0 {dimension = 2}", "[130,37,2]", [](int64_t i) { return i / 2; }},
    {"three and one", "[1031,3]", "concatenate %0, %0 {dimension = 1}", "[1031,6]",
     [](int64_t i) { return i / 6 * 3 + i % 3; }},
};

static ir::Graph graph_of(const OrderCase& c, std::string_view dtype) {
  auto graph = ir::parse_graph(cat("graph \"g\" (%0: ", dtype, c.dims, ") {\n  %1 = ", c.op, " : ", dtype, c.made,
                                   "\n  %2 = add %1, %1 : ", dtype, c.made, "\n  return %2 }"),
                               "g");
  REQUIRE_MESSAGE(graph, graph.error().text());
  return *std::move(graph);
}

template <class T>
static void check_order(const OrderCase& c, std::string_view dtype, const arch::Chip& chip) {
  const ir::Graph graph = graph_of(c, dtype);
  auto made = compile_device(graph, chip, {.timer = run::time_among_others}, kVerifiedProgram);
  REQUIRE_MESSAGE(made, made.error().text());
  std::vector<T> given(size_t(graph.params[0].type().elements()));
  for (size_t i = 0; i < given.size(); ++i) given[i] = T(i % (sizeof(T) == 1 ? 127 : 1 << 23));
  if constexpr (std::is_same_v<T, float>)  // stays where it is
    given[given.size() / 3] = std::numeric_limits<float>::infinity();
  auto ran = run::run_exact(made->program, chip, {{"arg0", std::as_bytes(std::span(given))}});
  REQUIRE_MESSAGE(ran, ran.error().text());
  CHECK(ran->findings.empty());
  std::vector<T> wanted(size_t(graph.results[0].type().elements())), got(wanted.size());
  for (size_t i = 0; i < wanted.size(); ++i) wanted[i] = T(given[size_t(c.from(int64_t(i)))] * 2);
  REQUIRE(ran->outputs[0].bytes.size() == got.size() * sizeof(T));
  std::memcpy(got.data(), ran->outputs[0].bytes.data(), ran->outputs[0].bytes.size());
  CHECK(got == wanted);
}

TEST_CASE("elements in another order than memory's") {
  for (const char* name : {"trn1", "trn2"}) {
    arch::Chip chip = **arch::find_chip(name);
    for (int64_t room : {chip.sbuf.bytes_per_partition, int64_t{32} << 10})
      for (const OrderCase& c : kOrders) {
        CAPTURE(cat(name, " ", room, " ", c.name));
        chip.sbuf.bytes_per_partition = room;
        check_order<float>(c, "f32", chip);
        check_order<int32_t>(c, "s32", chip);
        check_order<uint8_t>(c, "u8", chip);
      }
  }
}

TEST_CASE("another order costs little more than the bytes") {
  const arch::Chip& chip = **arch::find_chip("trn1");
  const auto time = [&](const std::string& op) {
    const OrderCase c{"", "[2048,2048]", op, "[2048,2048]", nullptr};
    auto made = compile_device(graph_of(c, "f32"), chip, {.timer = run::time_among_others}, kVerifiedProgram);
    REQUIRE_MESSAGE(made, made.error().text());
    return double(*run::time_among_others(made->program, chip));
  };
  const double in_order = time("negate %0");
  CHECK(time("transpose %0 {permutation = [1, 0]}") < 1.25 * in_order);
  CHECK(time("reverse %0 {dimensions = [1]}") < 1.25 * in_order);
}

}  // namespace trine::compile
