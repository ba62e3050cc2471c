// Each rule of simplify applies where it should and leaves alone what it must.
#include "compile/graph/simplify.h"

#include <cstring>
#include <random>
#include <tuple>

#include "tests/compile/testing.h"

namespace trine::compile {

struct Case {
  const char *rule, *before, *after;
};

static const Case kCases[] = {
    {"fold constants", "() { %0 = constant {value = s32[] x02000000} : s32[] %1 = add %0, %0 : s32[] return %1 }",
     "() {\n  %0 = constant {value = s32[] x04000000} : s32[]\n  return %0\n}\n"},
    {"reshape of reshape", "(%0: f32[6]) { %1 = reshape %0 : f32[2,3] %2 = reshape %1 : f32[6] return %2 }",
     "(%0: f32[6]) {\n  return %0\n}\n"},
    {"broadcast of broadcast",
     "(%0: f32[3]) { %1 = broadcast_in_dim %0 {broadcast_dimensions = [1]} : f32[1,3] %2 = broadcast_in_dim %1 "
     "{broadcast_dimensions = [0, 2]} : f32[4,2,3] return %2 }",
     "(%0: f32[3]) {\n  %1 = broadcast_in_dim %0 {broadcast_dimensions = [2]} : f32[4,2,3]\n  return %1\n}\n"},
    {"transpose of transpose",
     "(%0: f32[2,3,4]) { %1 = transpose %0 {permutation = [2, 0, 1]} : f32[4,2,3] %2 = transpose %1 {permutation = "
     "[1, 2, 0]} : f32[2,3,4] return %2 }",
     "(%0: f32[2,3,4]) {\n  return %0\n}\n"},
    {"slice at a known place",
     "(%0: f32[9]) { %1 = constant {value = s32[] x08000000} : s32[] %2 = dynamic_slice %0, %1 {slice_sizes = [4]} : "
     "f32[4] return %2 }",
     "(%0: f32[9]) {\n  %1 = slice %0 {limit_indices = [9], start_indices = [5], strides = [1]} : f32[4]\n  return "
     "%1\n}\n"},
    {"case of a known index",
     "(%0: f32[2]) { %1 = constant {value = s32[] x07000000} : s32[] %2 = case %1, %0 (%3: f32[2]) { return %3 } "
     "(%4: f32[2]) { %5 = negate %4 : f32[2] return %5 } : f32[2] return %2 }",
     "(%0: f32[2]) {\n  %1 = negate %0 : f32[2]\n  return %1\n}\n"},
    {"multiply by one",
     "(%0: f32[2]) { %1 = constant {value = f32[] x0000803f} : f32[] %2 = broadcast_in_dim %1 {broadcast_dimensions = "
     "[]} : f32[2] %3 = multiply %2, %0 : f32[2] return %3 }",
     "(%0: f32[2]) {\n  return %0\n}\n"},
    {"",
     "(%0: f32[2]) { %1 = constant {value = f32[2] x0000000000000000} : f32[2] %2 = add %0, %1 : f32[2] return %2 }",
     "(%0: f32[2]) {\n  %1 = constant {value = f32[2] all x00000000} : f32[2]\n  %2 = add %0, %1 : f32[2]\n  return "
     "%2\n}\n"},
    {"narrow places",
     "() { %0 = iota {iota_dimension = 0} : u64[5000] %1 = constant {value = u64[] x0700000000000000} : u64[] %2 = "
     "broadcast_in_dim %1 {broadcast_dimensions = []} : u64[5000] %3 = multiply %2, %0 : u64[5000] %4 = convert %3 : "
     "u32[5000] return %4 }",
     "() {\n  %0 = constant {value = u32[] x07000000} : u32[]\n  %1 = broadcast_in_dim %0 {broadcast_dimensions = []} "
     ": "
     "u32[5000]\n  %2 = iota {iota_dimension = 0} : u32[5000]\n  %3 = multiply %1, %2 : u32[5000]\n  return %3\n}\n"},
    {"shift places out",
     "() { %0 = iota {iota_dimension = 0} : u64[5000] %1 = constant {value = u64[] x0d00000000000000} : u64[] %2 = "
     "broadcast_in_dim %1 {broadcast_dimensions = []} : u64[5000] %3 = shift_right_logical %0, %2 : u64[5000] return "
     "%3 }",
     "() {\n  %0 = constant {value = u64[] x0000000000000000} : u64[]\n  %1 = broadcast_in_dim %0 "
     "{broadcast_dimensions = []} : u64[5000]\n  return %1\n}\n"},
    {"",
     "() { %0 = iota {iota_dimension = 0} : u64[5000] %1 = constant {value = u64[] x0c00000000000000} : u64[] %2 = "
     "broadcast_in_dim %1 {broadcast_dimensions = []} : u64[5000] %3 = shift_right_logical %0, %2 : u64[5000] return "
     "%3 }",
     "() {\n  %0 = iota {iota_dimension = 0} : u64[5000]\n  %1 = constant {value = u64[] x0c00000000000000} : u64[]\n  "
     "%2 = broadcast_in_dim %1 {broadcast_dimensions = []} : u64[5000]\n  %3 = shift_right_logical %0, %2 : "
     "u64[5000]\n  return %3\n}\n"},
    {"select between truths",
     "(%0: bool[3]) { %1 = constant {value = bool[3] x010101} : bool[3] %2 = constant {value = bool[3] x000000} : "
     "bool[3] %3 = select %0, %1, %2 : bool[3] return %3 }",
     "(%0: bool[3]) {\n  return %0\n}\n"},
    {"select between truths",
     "(%0: bool[3], %1: bool[3]) { %2 = constant {value = bool[3] x000000} : bool[3] %3 = select %0, %1, %2 : bool[3] "
     "return %3 }",
     "(%0: bool[3], %1: bool[3]) {\n  %2 = and %0, %1 : bool[3]\n  return %2\n}\n"},
    {"and with a known truth",
     "(%0: bool[3]) { %1 = constant {value = bool[3] x010101} : bool[3] %2 = and %1, %0 : bool[3] return %2 }",
     "(%0: bool[3]) {\n  return %0\n}\n"},
    {"or with a known truth",
     "(%0: bool[3]) { %1 = constant {value = bool[3] x010101} : bool[3] %2 = or %0, %1 : bool[3] return %2 }",
     "(%0: bool[3]) {\n  %1 = constant {value = bool[3] all x01} : bool[3]\n  return %1\n}\n"},
    {"reduce dims of one element",
     "(%0: f32[1,3]) { %1 = constant {value = f32[] x00000000} : f32[] %2 = reduce %0, %1 {dimensions = [0], kind = "
     "\"add\"} : f32[3] return %2 }",
     "(%0: f32[1,3]) {\n  %1 = reshape %0 : f32[3]\n  return %1\n}\n"},
    {"power of two",
     "(%0: f32[]) { %1 = constant {value = f32[] x00000040} : f32[] %2 = power %0, %1 : f32[] return %2 }",
     "(%0: f32[]) {\n  %1 = multiply %0, %0 : f32[]\n  return %1\n}\n"},
    {"put erfc together",
     "(%0: f32[]) { %1 = abs %0 : f32[] %2 = constant {value = f32[] x0000803f} : f32[] %3 = compare %1, %2 {direction "
     "= \"LT\"} : bool[] %4 = erf %0 : f32[] %5 = subtract %2, %4 : f32[] %6 = erfc %0 : f32[] %7 = select %3, %5, "
     "%6 : f32[] return %7 }",
     "(%0: f32[]) {\n  %1 = erfc %0 : f32[]\n  return %1\n}\n"},
    {"put erfc together",
     "(%0: f32[]) { %1 = abs %0 : f32[] %2 = constant {value = f32[] x0000803f} : f32[] %3 = compare %1, %2 {direction "
     "= \"LT\"} : bool[] %4 = erf %0 : f32[] %5 = add %2, %4 : f32[] %6 = negate %0 : f32[] %7 = erfc %6 : f32[] "
     "%8 = select %3, %5, %7 : f32[] return %8 }",
     "(%0: f32[]) {\n  %1 = negate %0 : f32[]\n  %2 = erfc %1 : f32[]\n  return %2\n}\n"},
    {"",
     "(%0: f32[], %1: f32[]) { %2 = abs %0 : f32[] %3 = constant {value = f32[] x0000803f} : f32[] %4 = compare %2, %3 "
     "{direction = \"LT\"} : bool[] %5 = erfc %1 : f32[] %6 = erfc %0 : f32[] %7 = select %4, %5, %6 : f32[] return %7 "
     "}",
     "(%0: f32[], %1: f32[]) {\n  %2 = abs %0 : f32[]\n  %3 = constant {value = f32[] x0000803f} : f32[]\n  %4 = "
     "compare %2, %3 {direction = \"LT\"} : bool[]\n  %5 = erfc %1 : f32[]\n  %6 = erfc %0 : f32[]\n  %7 = select %4, "
     "%5, %6 : f32[]\n  return %7\n}\n"},
};

// What %2 and the compares of the region are is the caller's.
static std::string first_of(const std::string& init, const std::string& direction) {
  return R"(graph "g" (%0: bool[3,4]) { %1 = iota {iota_dimension = 0} : s32[3,4]
  %2 = constant {value = bool[] )" +
         init + R"(} : bool[] %3 = constant {value = s32[] x00000000} : s32[]
  %15 = reduce %0, %1, %2, %3 {dimensions = [0]} (%4: bool[], %5: s32[], %6: bool[], %7: s32[]) {
    %8 = compare %4, %6 {direction = ")" +
         direction + R"("} : bool[]
    %9 = compare %4, %6 {direction = "EQ"} : bool[]
    %10 = compare %5, %7 {direction = "LT"} : bool[]
    %11 = and %9, %10 : bool[]
    %12 = or %8, %11 : bool[]
    %13 = select %8, %4, %6 : bool[]
    %14 = select %12, %5, %7 : s32[]
    return %13, %14
  } : bool[4], s32[4]
  return %15#0, %15#1 })";
}

TEST_CASE("the place of the first truth, or of the first falsehood, is found by two reductions") {
  for (const auto& [init, direction, is_known] :
       {std::tuple{"x00", "GT", true}, {"x01", "LT", true}, {"x01", "GT", false}, {"x00", "LT", false}}) {
    CAPTURE(std::string(direction));
    auto graph = ir::parse_graph(first_of(init, direction), "t");
    REQUIRE_MESSAGE(graph, graph.error().text());
    ir::Rewritten r = simplify_for_host(*graph);
    CHECK(r.applied["take argmax apart"] == (is_known ? 1 : 0));
    for (uint8_t bits : {0, 1, 5, 6}) {
      Tensor x = Tensor::make(Dtype::boolean, {3, 4});
      for (int i = 0; i < 12; ++i) x.view().as<uint8_t>()[i] = uint8_t(bits >> i / 4 & 1);
      auto want = ops::evaluate(*graph, {{x}}), got = ops::evaluate(r.graph, {{x}});
      REQUIRE(want);
      REQUIRE(got);
      for (size_t i = 0; i < 2; ++i)
        CHECK(std::memcmp((*want)[i].data.get(), (*got)[i].data.get(), (*want)[i].bytes()) == 0);
    }
  }
}

TEST_CASE("a product without a depth is elementwise on the host, where loops have its dtypes") {
  struct Product {
    const char *types, *attrs, *result;
    int applied;
  };
  const Product products[] = {
      {"%0: f32[3,4], %1: f32[5]", "lhs_batch = [], lhs_contract = [], rhs_batch = [], rhs_contract = []", "f32[3,4,5]",
       1},
      {"%0: f32[4,1,3], %1: f32[5,4,1]", "lhs_batch = [0], lhs_contract = [1], rhs_batch = [1], rhs_contract = [2]",
       "f32[4,3,5]", 1},
      {"%0: s8[3,1], %1: s8[1,4]", "lhs_batch = [], lhs_contract = [1], rhs_batch = [], rhs_contract = [0]", "s32[3,4]",
       1},
      {"%0: bf16[3,1], %1: bf16[1,4]", "lhs_batch = [], lhs_contract = [1], rhs_batch = [], rhs_contract = [0]",
       "f32[3,4]", 1},
      {"%0: f32[3,2], %1: f32[2,4]", "lhs_batch = [], lhs_contract = [1], rhs_batch = [], rhs_contract = [0]",
       "f32[3,4]", 0},
      {"%0: bool[3,1], %1: bool[1,4]", "lhs_batch = [], lhs_contract = [1], rhs_batch = [], rhs_contract = [0]",
       "bool[3,4]", 0}};
  for (const Product& p : products) {
    CAPTURE(std::string(p.types));
    const std::string text = std::string("graph \"g\" (") + p.types + ") { %2 = dot_general %0, %1 {" + p.attrs +
                             "} : " + p.result + " return %2 }";
    auto graph = ir::parse_graph(text, "t");
    REQUIRE_MESSAGE(graph, graph.error().text());
    ir::Rewritten r = simplify_for_host(*graph);
    CHECK(r.applied["product without a depth"] == p.applied);
    std::vector<Tensor> in;
    for (const ir::Value& v : graph->params) {
      Tensor x = Tensor::make(v.type().dtype, v.type().dims);
      for (size_t i = 0; i < x.bytes(); ++i)  // numbers of few bits: every format has them exactly
        x.view().as<uint8_t>()[i] = uint8_t(bits(x.dtype) == 8 ? i % 2 : i % 4 == 3 ? 0x40 : 0);
      in.push_back(std::move(x));
    }
    auto want = ops::evaluate(*graph, in), got = ops::evaluate(r.graph, in);
    REQUIRE(want);
    REQUIRE(got);
    CHECK(std::memcmp((*want)[0].data.get(), (*got)[0].data.get(), (*want)[0].bytes()) == 0);
  }
}

TEST_CASE("rules of simplify") {
  for (const Case& c : kCases) {
    CAPTURE(std::string(c.rule));
    auto graph = ir::parse_graph(std::string("graph \"g\" ") + c.before, "t");
    REQUIRE_MESSAGE(graph, graph.error().text());
    ir::Rewritten r = simplify(*graph);
    CHECK(ir::text(r.graph) == std::string("graph \"g\" ") + c.after);
    if (*c.rule) CHECK(r.applied[c.rule] > 0);
  }
}

TEST_CASE("a factor that is a truth chooses, where that is asked for") {
  auto graph = ir::parse_graph(
      "graph \"g\" (%0: f32[2], %1: bool[2]) { %2 = convert %1 : f32[2] %3 = multiply %2, %0 : f32[2] return %3 }",
      "t");
  REQUIRE_MESSAGE(graph, graph.error().text());
  CHECK(ir::text(simplify(*graph).graph).find("multiply") != std::string::npos);
  const std::string chosen = ir::text(choose_by_truths(*graph));
  CHECK(chosen.find("= select %1, %0, ") != std::string::npos);
  CHECK(chosen.find("multiply") == std::string::npos);
}

// Random indices are 0 to 5: some are out of bounds.
static const Case kScatters[] = {
    {"scatter one element of each row", R"((%0: f32[2,3,5], %1: s32[2,3,1,1], %2: f32[2,3,1]) {
  %3 = constant {value = f32[] x00000000} : f32[]
  %4 = broadcast_in_dim %3 {broadcast_dimensions = []} : f32[2,3,5]
  %5 = scatter %4, %1, %2 {update_window_dims = [], inserted_window_dims = [2], input_batching_dims = [0, 1], scatter_indices_batching_dims = [0, 1], scatter_dims_to_operand_dims = [2], index_vector_dim = 3, indices_are_sorted = false, unique_indices = false, kind = "add"} : f32[2,3,5]
  %6 = multiply %5, %0 : f32[2,3,5]
  return %6 })",
     ""},
    {"scatter one element of each row", R"((%0: f32[1,7,5], %1: s32[7,1,1], %2: f32[1,7,1]) {
  %3 = constant {value = f32[] x00000000} : f32[]
  %4 = broadcast_in_dim %3 {broadcast_dimensions = []} : f32[1,7,5]
  %5 = scatter %4, %1, %2 {update_window_dims = [0], inserted_window_dims = [2], input_batching_dims = [1], scatter_indices_batching_dims = [0], scatter_dims_to_operand_dims = [2], index_vector_dim = 2, indices_are_sorted = false, unique_indices = false, kind = "add"} : f32[1,7,5]
  %6 = multiply %5, %0 : f32[1,7,5]
  return %6 })",
     ""},
    {"scatter to a known place", R"((%0: f32[5,6,7], %1: f32[3,4]) {
  %2 = constant {value = s32[2] x0100000002000000} : s32[2]
  %3 = scatter %0, %2, %1 {update_window_dims = [0, 1], inserted_window_dims = [1], input_batching_dims = [], scatter_indices_batching_dims = [], scatter_dims_to_operand_dims = [0, 1], index_vector_dim = 0, indices_are_sorted = true, unique_indices = true, kind = "add"} : f32[5,6,7]
  return %3 })",
     ""},
    {"add what is scattered into zeros", R"((%0: f32[5,3], %1: s32[9,1], %2: f32[9,3]) {
  %3 = constant {value = f32[] x00000000} : f32[]
  %4 = broadcast_in_dim %3 {broadcast_dimensions = []} : f32[5,3]
  %5 = scatter %4, %1, %2 {update_window_dims = [1], inserted_window_dims = [0], input_batching_dims = [], scatter_indices_batching_dims = [], scatter_dims_to_operand_dims = [0], index_vector_dim = 1, indices_are_sorted = false, unique_indices = false, kind = "add"} : f32[5,3]
  %6 = add %5, %0 : f32[5,3]
  return %6 })",
     ""},
};

TEST_CASE("rules on scatters keep the values") {
  for (const Case& c : kScatters) {
    CAPTURE(std::string(c.rule));
    auto graph = ir::parse_graph(std::string("graph \"g\" ") + c.before, "t");
    REQUIRE_MESSAGE(graph, graph.error().text());
    ir::Rewritten r = simplify(*graph);
    CHECK(r.applied[c.rule] == 1);
    CHECK(ir::verify(r.graph, ops::check));
    std::mt19937 random(3);
    std::vector<Tensor> args;
    for (const ir::Value& p : graph->params) args.push_back(random_tensor(p.type(), random));
    auto want = ops::evaluate(*graph, args), got = ops::evaluate(r.graph, args);
    REQUIRE(want);
    REQUIRE(got);
    CHECK(error_of((*got)[0], (*want)[0], 0x1p-23) <= 8);
  }
}

}  // namespace trine::compile
