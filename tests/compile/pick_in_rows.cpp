// One element of each row: found by a sum of the row where its rows are reduced, by a gather where they are not.
#include "arch/chips/chip.h"

#include "base/text.h"
#include "ir/rewrite.h"
#include "tests/compile/testing.h"

namespace trine::compile::device {

ir::Graph pick_in_rows(ir::Graph graph, const arch::Chip& chip);  // compile/device/passes/pick_in_rows.cpp

static const std::string kOfRows =
    " {offset_dims = [], collapsed_slice_dims = [1], operand_batching_dims = [0], start_indices_batching_dims = [0], "
    "start_index_map = [1], index_vector_dim = 2, slice_sizes = [1, 1], indices_are_sorted = false}";
static const std::string kOfOne =
    " {offset_dims = [0], collapsed_slice_dims = [2], operand_batching_dims = [1], start_indices_batching_dims = [0], "
    "start_index_map = [2], index_vector_dim = 2, slice_sizes = [1, 1, 1], indices_are_sorted = false}";
static const std::string kLeast = "  %8 = constant {value = f32[] x000080ff} : f32[]\n";
static const std::string kLargest = kLeast + "  %9 = reduce %0, %8 {dimensions = [1], kind = \"maximum\"} : f32[70]\n";

struct Case {
  const char* name;
  std::string text;
  bool is_picked;
};

static const Case kCases[] = {
    {"rows that are reduced",
     cat("(%0: f32[70,5], %1: s32[70,1,1]) {\n", kLargest, "  %2 = gather %0, %1", kOfRows,
         " : f32[70,1]\n  return %2, %9 }"),
     true},
    {"rows that nobody reduces",
     cat("(%0: f32[70,5], %1: s32[70,1,1]) {\n  %2 = gather %0, %1", kOfRows, " : f32[70,1]\n  return %2 }"), false},
    {"few rows",
     cat("(%0: f32[7,5], %1: s32[7,1,1]) {\n", kLeast,
         "  %9 = reduce %0, %8 {dimensions = [1], kind = \"maximum\"} : f32[7]\n  %2 = gather %0, %1", kOfRows,
         " : f32[7,1]\n  return %2, %9 }"),
     false},
    {"two of each row",
     cat("(%0: f32[70,5], %1: s32[70,2,1]) {\n", kLargest, "  %2 = gather %0, %1", kOfRows,
         " : f32[70,2]\n  return %2, %9 }"),
     false},
    {"what is made of them and of one number for each row",
     cat("(%0: f32[70,5], %1: s32[70,1,1]) {\n", kLargest,
         "  %3 = broadcast_in_dim %9 {broadcast_dimensions = [0]} : f32[70,5]\n  %4 = subtract %0, %3 : f32[70,5]\n  "
         "%5 = "
         "exponential %4 : f32[70,5]\n  %2 = gather %5, %1",
         kOfRows, " : f32[70,1]\n  return %2 }"),
     true},
    {"what is made of them and of another",
     cat("(%0: f32[70,5], %1: s32[70,1,1], %3: f32[70,5]) {\n", kLargest,
         "  %4 = subtract %0, %3 : f32[70,5]\n  %2 = "
         "gather %4, %1",
         kOfRows, " : f32[70,1]\n  return %2, %9 }"),
     false},
    {"a batch of one, seen with other dims",
     cat("(%0: f32[70,5], %1: s32[70,1,1]) {\n", kLargest, "  %3 = reshape %0 : f32[1,70,5]\n  %2 = gather %3, %1",
         kOfOne, " : f32[1,70,1]\n  return %2, %9 }"),
     true},
};

// Random indices are 0 to 5: some are out of bounds.
TEST_CASE("one element of each row") {
  for (const Case& c : kCases) {
    CAPTURE(std::string(c.name));
    auto graph = ir::parse_graph("graph \"g\" " + c.text, "t");
    REQUIRE_MESSAGE(graph, graph.error().text());
    REQUIRE(ir::verify(*graph));
    std::mt19937 random(5);
    std::vector<Tensor> args;
    for (const ir::Value& p : graph->params) args.push_back(random_tensor(p.type(), random));
    const ir::Graph picked = pick_in_rows(ir::copy(*graph), **arch::find_chip("trn2"));
    REQUIRE(ir::verify(picked));
    CHECK((ir::text(picked).find("gather") == std::string::npos) == c.is_picked);
    const auto want = ops::evaluate(*graph, args), got = ops::evaluate(picked, args);
    REQUIRE_MESSAGE(got, got.error().text());
    for (size_t i = 0; i < want->size(); ++i) CHECK(error_of((*got)[i], (*want)[i], 0x1p-23) == 0);
  }
}

}  // namespace trine::compile::device
