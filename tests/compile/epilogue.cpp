// Loops that go along with a multiply's tiles, and loops that must not.
#include "compile/host/epilogue.h"

#include "tests/compile/testing.h"

namespace trine::compile {

struct EpilogueCase {
  const char* name;
  size_t steps;
  bool fused;  // the first step has an epilogue
  const char* text;
  double ulps = 256;
};

static const char* const kDot = "{lhs_batch = [], lhs_contract = [1], rhs_batch = [], rhs_contract = [0]}";

static const EpilogueCase kEpilogues[] = {
    {"bias, tanh and residual", 1, true, R"((%0: f32[70,33], %1: f32[33,50], %2: f32[50], %3: f32[70,50]) {
  %4 = dot_general %0, %1 DOT : f32[70,50]
  %5 = broadcast_in_dim %2 {broadcast_dimensions = [1]} : f32[70,50]
  %6 = add %4, %5 : f32[70,50]
  %7 = tanh %6 : f32[70,50]
  %8 = add %7, %3 : f32[70,50]
  return %8 })"},
    {"of one row", 1, true, R"((%0: f32[1,33], %1: f32[33,200], %2: f32[200]) {
  %3 = dot_general %0, %1 DOT : f32[1,200]
  %4 = reshape %3 : f32[200]
  %5 = multiply %4, %2 : f32[200]
  return %5 })"},
    {"rows under other dims", 1, true, R"((%0: f32[24,33], %1: f32[33,20], %2: f32[2,3,4,20]) {
  %3 = dot_general %0, %1 DOT : f32[24,20]
  %4 = reshape %3 : f32[2,3,4,20]
  %5 = multiply %4, %2 : f32[2,3,4,20]
  return %5 })"},
    {"a scale that depends on the row", 1, true, R"((%0: f32[24,33], %1: f32[33,20], %2: f32[24]) {
  %3 = dot_general %0, %1 DOT : f32[24,20]
  %4 = broadcast_in_dim %2 {broadcast_dimensions = [0]} : f32[24,20]
  %5 = divide %3, %4 : f32[24,20]
  return %5 })",
     100000},
    {"the product is wanted too", 1, true, R"((%0: f32[24,33], %1: f32[33,20]) {
  %2 = dot_general %0, %1 DOT : f32[24,20]
  %3 = logistic %2 : f32[24,20]
  return %2, %3 })"},
    {"a view of the product is wanted too", 1, true, R"((%0: f32[24,33], %1: f32[33,20]) {
  %2 = dot_general %0, %1 DOT : f32[24,20]
  %3 = reshape %2 : f32[2,12,20]
  %4 = logistic %3 : f32[2,12,20]
  return %3, %4 })"},
    {"of many small products", 1, true, R"((%0: f32[70,3,20], %1: f32[70,20,9], %2: f32[70,3,9]) {
  %3 = dot_general %0, %1 {lhs_batch = [0], lhs_contract = [2], rhs_batch = [0], rhs_contract = [1]} : f32[70,3,9]
  %4 = subtract %2, %3 : f32[70,3,9]
  return %3, %4 })"},
    {"of many vectors and matrices", 1, true, R"((%0: f32[70,13,23], %1: f32[70,23], %2: f32[70,13]) {
  %3 = dot_general %0, %1 {lhs_batch = [0], lhs_contract = [2], rhs_batch = [0], rhs_contract = [1]} : f32[70,13]
  %4 = subtract %2, %3 : f32[70,13]
  return %4 })"},
    {"of the last of two products", 2, false, R"((%0: f32[24,33], %1: f32[33,20], %2: f32[33,20]) {
  %3 = dot_general %0, %1 DOT : f32[24,20]
  %4 = dot_general %0, %2 DOT : f32[24,20]
  %5 = logistic %3 : f32[24,20]
  %6 = multiply %5, %4 : f32[24,20]
  return %6 })"},
    {"rounded at memory alone", 1, true, R"((%0: bf16[24,33], %1: bf16[33,20], %2: bf16[20]) {
  %3 = dot_general %0, %1 DOT : bf16[24,20]
  %4 = broadcast_in_dim %2 {broadcast_dimensions = [1]} : bf16[24,20]
  %5 = add %3, %4 : bf16[24,20]
  %6 = convert %5 : f32[24,20]
  return %6 })",
     500000},
    {"a transposed result", 1, true, R"((%0: f32[24,33], %1: f32[33,20]) {
  %2 = dot_general %0, %1 DOT : f32[24,20]
  %3 = transpose %2 {permutation = [1, 0]} : f32[20,24]
  %4 = negate %3 : f32[20,24]
  return %4 })"},
    {"positions", 1, true, R"((%0: f32[24,33], %1: f32[33,20]) {
  %2 = dot_general %0, %1 DOT : f32[24,20]
  %3 = iota {iota_dimension = 1} : f32[24,20]
  %4 = iota {iota_dimension = 0} : f32[24,20]
  %5 = multiply %3, %2 : f32[24,20]
  %6 = add %5, %4 : f32[24,20]
  return %6 })"},
    {"a batch", 1, true, R"((%0: f32[3,5,24,8], %1: f32[3,5,8,20], %2: f32[3,5,24,20]) {
  %3 = dot_general %0, %1 {lhs_batch = [0, 1], lhs_contract = [3], rhs_batch = [0, 1], rhs_contract = [2]} : f32[3,5,24,20]
  %4 = add %3, %2 : f32[3,5,24,20]
  return %4 })"},
    {"a batch of two dims apart", 1, true, R"((%0: f32[5,3,24,8], %1: f32[3,5,8,20], %2: f32[3,5,24,20]) {
  %3 = dot_general %0, %1 {lhs_batch = [1, 0], lhs_contract = [3], rhs_batch = [0, 1], rhs_contract = [2]} : f32[3,5,24,20]
  %4 = add %3, %2 : f32[3,5,24,20]
  return %4 })"},
    {"the product twice, once turned", 2, false, R"((%0: f32[20,33], %1: f32[33,20]) {
  %2 = dot_general %0, %1 DOT : f32[20,20]
  %3 = transpose %2 {permutation = [1, 0]} : f32[20,20]
  %4 = add %2, %3 : f32[20,20]
  return %4 })"},
    {"rows that do not go along", 2, false, R"((%0: f32[24,33], %1: f32[33,20], %2: f32[4,20]) {
  %3 = dot_general %0, %1 DOT : f32[24,20]
  %4 = reshape %3 : f32[4,6,20]
  %5 = broadcast_in_dim %2 {broadcast_dimensions = [0, 2]} : f32[4,6,20]
  %6 = add %4, %5 : f32[4,6,20]
  return %6 })"},
    {"part of the product: the rest is not computed", 1, true, R"((%0: f32[24,33], %1: f32[33,20]) {
  %2 = dot_general %0, %1 DOT : f32[24,20]
  %3 = slice %2 {limit_indices = [20, 20], start_indices = [0, 0], strides = [1, 1]} : f32[20,20]
  %4 = negate %3 : f32[20,20]
  return %4 })"},
    {"one row of the last dims", 1, true, R"((%0: f32[3,24,33], %1: f32[33,20], %2: f32[3,20]) {
  %3 = dot_general %0, %1 {lhs_batch = [], lhs_contract = [2], rhs_batch = [], rhs_contract = [0]} : f32[3,24,20]
  %4 = slice %3 {limit_indices = [3, 24, 18], start_indices = [0, 23, 2], strides = [1, 1, 1]} : f32[3,1,16]
  %5 = negate %4 : f32[3,1,16]
  return %5 })"},
    {"every other row", 1, true, R"((%0: f32[24,33], %1: f32[33,20]) {
  %2 = dot_general %0, %1 DOT : f32[24,20]
  %3 = slice %2 {limit_indices = [24, 20], start_indices = [1, 0], strides = [2, 1]} : f32[12,20]
  %4 = negate %3 : f32[12,20]
  return %4 })"},
    {"rows backwards", 2, false, R"((%0: f32[24,33], %1: f32[33,20]) {
  %2 = dot_general %0, %1 DOT : f32[24,20]
  %3 = reverse %2 {dimensions = [0]} : f32[24,20]
  %4 = negate %3 : f32[24,20]
  return %4 })"},
    {"a multiply that waits for the loop's other operand", 3, false, R"((%0: f32[20,33], %1: f32[33,20]) {
  %2 = dot_general %0, %1 DOT : f32[20,20]
  %3 = dot_general %2, %2 DOT : f32[20,20]
  %4 = constant {value = f32[] x00000000} : f32[]
  %5 = reduce %3, %4 {dimensions = [0, 1], kind = "add"} : f32[]
  %6 = broadcast_in_dim %5 {broadcast_dimensions = []} : f32[20,20]
  %7 = add %2, %6 : f32[20,20]
  return %7 })",
     100000},
    {"a matrix by a vector", 1, true, R"((%0: f32[24,33], %1: f32[33], %2: f32[24]) {
  %3 = dot_general %0, %1 {lhs_batch = [], lhs_contract = [1], rhs_batch = [], rhs_contract = [0]} : f32[24]
  %4 = add %3, %2 : f32[24]
  return %4 })"},
    {"whole numbers", 2, false, R"((%0: s32[24,33], %1: s32[33,20]) {
  %2 = dot_general %0, %1 DOT : s32[24,20]
  %3 = negate %2 : s32[24,20]
  return %3 })"},
    {"a convolution, channels last", 1, true, R"((%0: f32[2,9,7,4], %1: f32[3,2,4,6], %2: f32[6], %3: f32[2,7,6,6]) {
  %4 = convolution %0, %1 {input_batch = 0, input_feature = 3, input_spatial = [1, 2], kernel_input_feature = 2, kernel_output_feature = 3, kernel_spatial = [0, 1], output_batch = 0, output_feature = 3, output_spatial = [1, 2], padding = [0, 0, 0, 0], window_strides = [1, 1]} : f32[2,7,6,6]
  %5 = broadcast_in_dim %2 {broadcast_dimensions = [3]} : f32[2,7,6,6]
  %6 = add %4, %5 : f32[2,7,6,6]
  %7 = multiply %6, %3 : f32[2,7,6,6]
  return %7 })"},
    {"a convolution by groups, one channel each", 1, true, R"((%0: f32[2,9,7,6], %1: f32[3,2,1,6], %2: f32[6]) {
  %4 = convolution %0, %1 {feature_group_count = 6, input_batch = 0, input_feature = 3, input_spatial = [1, 2], kernel_input_feature = 2, kernel_output_feature = 3, kernel_spatial = [0, 1], output_batch = 0, output_feature = 3, output_spatial = [1, 2], padding = [0, 0, 0, 0], window_strides = [2, 1]} : f32[2,4,6,6]
  %5 = broadcast_in_dim %2 {broadcast_dimensions = [3]} : f32[2,4,6,6]
  %6 = add %4, %5 : f32[2,4,6,6]
  return %6 })"},
    {"a convolution with channels first", 2, false, R"((%0: f32[2,4,9,7], %1: f32[3,2,4,6]) {
  %4 = convolution %0, %1 {input_batch = 0, input_feature = 1, input_spatial = [2, 3], kernel_input_feature = 2, kernel_output_feature = 3, kernel_spatial = [0, 1], output_batch = 0, output_feature = 1, output_spatial = [2, 3], padding = [0, 0, 0, 0], window_strides = [1, 1]} : f32[2,6,7,6]
  %5 = tanh %4 : f32[2,6,7,6]
  return %5 })"},
};

static bool has_epilogue(const arch::Step& step) {
  if (const auto* gemm = std::get_if<arch::GemmStep>(&step.what)) return gemm->epilogue.program != nullptr;
  if (const auto* conv = std::get_if<arch::ConvStep>(&step.what)) return conv->epilogue.program != nullptr;
  return false;
}

TEST_CASE("loops become epilogues of multiplies") {
  for (const EpilogueCase& c : kEpilogues) {
    CAPTURE(std::string(c.name));
    std::string text = c.text;
    for (size_t at = 0; (at = text.find("DOT", at)) != std::string::npos;) text.replace(at, 3, kDot);
    const auto plan = check_plan(c.name, text, c.steps, c.ulps);
    CHECK(has_epilogue(plan->steps[0]) == c.fused);
  }
}

TEST_CASE("a product that is read transposed is made so") {
  const auto plan = check_plan("a weight's gradient", R"((%0: f32[33,24], %1: f32[33,20], %2: f32[20,24]) {
  %3 = dot_general %0, %1 {lhs_batch = [], lhs_contract = [0], rhs_batch = [], rhs_contract = [0]} : f32[24,20]
  %4 = transpose %3 {permutation = [1, 0]} : f32[20,24]
  %5 = add %2, %4 : f32[20,24]
  return %5 })",
                               1, 256);
  const auto& gemm = std::get<arch::GemmStep>(plan->steps[0].what);
  CHECK(gemm.m == 20);
  REQUIRE(gemm.epilogue.program);
  for (const arch::LoopOperand& o : gemm.epilogue.program->operands) CHECK(o.strides == std::vector<int64_t>{24, 1});
}

TEST_CASE("of a vector and a matrix the matrix is the one to pack") {
  for (bool first : {false, true}) {
    const auto plan = check_plan("matvec",
                                 first ? R"((%0: f32[24,33], %1: f32[33]) {
  %2 = dot_general %0, %1 {lhs_batch = [], lhs_contract = [1], rhs_batch = [], rhs_contract = [0]} : f32[24]
  return %2 })"
                                       : R"((%0: f32[33], %1: f32[33,24]) {
  %2 = dot_general %0, %1 {lhs_batch = [], lhs_contract = [0], rhs_batch = [], rhs_contract = [0]} : f32[24]
  return %2 })",
                                 1, 256);
    CHECK(std::get<arch::GemmStep>(plan->steps[0].what).m == 1);
    CHECK(plan->steps[0].in[1] == plan->inputs[first ? 0 : 1]);
  }
}

TEST_CASE("a part of a product costs as much as the part") {
  const auto plan = check_plan("last row", R"((%0: f32[24,33], %1: f32[33,20]) {
  %2 = dot_general %0, %1 {lhs_batch = [], lhs_contract = [1], rhs_batch = [], rhs_contract = [0]} : f32[24,20]
  %3 = slice %2 {limit_indices = [24, 20], start_indices = [23, 0], strides = [1, 1]} : f32[1,20]
  return %3 })",
                               1, 256);
  CHECK(plan->flops == 2.0 * 33 * 20);
}

TEST_CASE("an epilogue may write over what it reads at the same elements") {
  const auto plan = check_plan("residual", R"((%0: f32[24,33], %1: f32[33,20], %2: f32[24,20]) {
  %3 = exponential %2 : f32[24,20]
  %4 = dot_general %0, %1 {lhs_batch = [], lhs_contract = [1], rhs_batch = [], rhs_contract = [0]} : f32[24,20]
  %5 = add %3, %4 : f32[24,20]
  %6 = multiply %3, %5 : f32[24,20]
  return %6 })",
                               1, 256);
  CHECK(plan->arena_bytes == 0);
  CHECK(plan->in_place == std::vector<int>{2});
}

}  // namespace trine::compile
