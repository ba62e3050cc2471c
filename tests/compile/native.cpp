// Host plans: the plan of a graph gives what the reference evaluator gives, within the dtype's rounding; loops fuse.
#include "compile/host/native.h"

#include "base/text.h"
#include "host/gemm/packed.h"
#include "tests/compile/testing.h"
#include "tests/compile/verify_each.h"

namespace trine::compile {

struct Case {
  const char* name;
  size_t steps;  // of the plan: how well it fused
  double ulps;   // of f32
  const char* text;
};

static const Case kCases[] = {
    {"gelu", 1, 64, R"((%0: f32[8,33], %1: f32[33]) {
  %2 = broadcast_in_dim %1 {broadcast_dimensions = [1]} : f32[8,33]
  %3 = add %0, %2 : f32[8,33]
  %4 = constant {value = f32[] x0000003f} : f32[]
  %5 = broadcast_in_dim %4 {broadcast_dimensions = []} : f32[8,33]
  %6 = multiply %3, %5 : f32[8,33]
  %7 = tanh %6 : f32[8,33]
  %8 = multiply %7, %3 : f32[8,33]
  return %8 })"},
    {"softmax", 1, 64, R"((%0: f32[6,40]) {
  %1 = constant {value = f32[] x000080ff} : f32[]
  %2 = reduce %0, %1 {dimensions = [1], kind = "maximum"} : f32[6]
  %3 = broadcast_in_dim %2 {broadcast_dimensions = [0]} : f32[6,1]
  %4 = broadcast_in_dim %3 {broadcast_dimensions = [0, 1]} : f32[6,40]
  %5 = subtract %0, %4 : f32[6,40]
  %6 = exponential %5 : f32[6,40]
  %7 = constant {value = f32[] x00000000} : f32[]
  %8 = reduce %6, %7 {dimensions = [1], kind = "add"} : f32[6]
  %9 = broadcast_in_dim %8 {broadcast_dimensions = [0]} : f32[6,40]
  %10 = divide %6, %9 : f32[6,40]
  return %10 })"},
    {"layer norm that keeps its deviation", 1, 256, R"((%0: f32[6,40], %1: f32[40]) {
  %2 = constant {value = f32[] x00000000} : f32[]
  %3 = reduce %0, %2 {dimensions = [1], kind = "add"} : f32[6]
  %4 = constant {value = f32[6] all x00002042} : f32[6]
  %5 = divide %3, %4 : f32[6]
  %6 = broadcast_in_dim %5 {broadcast_dimensions = [0]} : f32[6,40]
  %7 = subtract %0, %6 : f32[6,40]
  %8 = multiply %7, %7 : f32[6,40]
  %9 = reduce %8, %2 {dimensions = [1], kind = "add"} : f32[6]
  %10 = divide %9, %4 : f32[6]
  %11 = rsqrt %10 : f32[6]
  %12 = broadcast_in_dim %11 {broadcast_dimensions = [0]} : f32[6,40]
  %13 = multiply %7, %12 : f32[6,40]
  %14 = broadcast_in_dim %1 {broadcast_dimensions = [1]} : f32[6,40]
  %15 = multiply %13, %14 : f32[6,40]
  return %15 })"},
    {"column sums", 1, 64, R"((%0: f32[50,7]) {
  %1 = constant {value = f32[] x0000803f} : f32[]
  %2 = multiply %0, %0 : f32[50,7]
  %3 = reduce %2, %1 {dimensions = [0], kind = "add"} : f32[7]
  return %3 })"},
    {"column means, rounded", 1, 65536, R"((%0: bf16[50,7]) {
  %1 = convert %0 : f32[50,7]
  %2 = constant {value = f32[] x00000000} : f32[]
  %3 = reduce %1, %2 {dimensions = [0], kind = "add"} : f32[7]
  %4 = constant {value = f32[] x0ad7a33c} : f32[]
  %5 = broadcast_in_dim %4 {broadcast_dimensions = []} : f32[7]
  %6 = multiply %3, %5 : f32[7]
  %7 = convert %6 : bf16[7]
  return %7 })"},
    {"a sum of rows that others add to is apart", 2, 64, R"((%0: f32[50,7], %1: f32[50]) {
  %2 = constant {value = f32[] x00000000} : f32[]
  %3 = reduce %0, %2 {dimensions = [1], kind = "add"} : f32[50]
  %4 = add %3, %1 : f32[50]
  return %4 })"},
    {"a value both used and given", 2, 64, R"((%0: f32[5,6]) {
  %1 = exponential %0 : f32[5,6]
  %2 = negate %1 : f32[5,6]
  return %1, %2, %0 })"},
    {"transposed operands of a multiply", 1, 64, R"((%0: f32[7,5], %1: f32[9,7]) {
  %2 = transpose %0 {permutation = [1, 0]} : f32[5,7]
  %3 = dot_general %2, %1 {lhs_batch = [], lhs_contract = [1], rhs_batch = [], rhs_contract = [1]} : f32[5,9]
  return %3 })"},
    {"attention scores", 1, 64, R"((%0: f32[2,6,3,8], %1: f32[2,6,3,8]) {
  %2 = dot_general %0, %1 {lhs_batch = [0, 2], lhs_contract = [3], rhs_batch = [0, 2], rhs_contract = [3]} : f32[2,3,6,6]
  return %2 })"},
    {"depth of two dims", 2, 64, R"((%0: f32[4,3,5], %1: f32[5,6,3]) {
  %2 = dot_general %0, %1 {lhs_batch = [], lhs_contract = [1, 2], rhs_batch = [], rhs_contract = [2, 0]} : f32[4,6]
  return %2 })"},
    {"depth of two dims, complex", 1, 64, R"((%0: c64[4,3,5], %1: c64[5,6,3]) {
  %2 = dot_general %0, %1 {lhs_batch = [], lhs_contract = [1, 2], rhs_batch = [], rhs_contract = [2, 0]} : c64[4,6]
  return %2 })"},
    {"two results of one node in one loop", 2, 0, R"((%0: f32[5,5]) {
  %1 = lu %0 : f32[5,5], s32[5], s32[5]
  %2 = subtract %1#1, %1#2 : s32[5]
  return %2 })"},
    {"rows of a sum, read across too", 2, 64, R"((%0: f32[6,6]) {
  %1 = constant {value = f32[] x00000000} : f32[]
  %2 = reduce %0, %1 {dimensions = [1], kind = "add"} : f32[6]
  %3 = broadcast_in_dim %2 {broadcast_dimensions = [0]} : f32[6,6]
  %4 = subtract %0, %3 : f32[6,6]
  %5 = transpose %4 {permutation = [1, 0]} : f32[6,6]
  %6 = add %4, %5 : f32[6,6]
  return %6 })"},
    {"views both multiplied and computed with", 5, 64, R"((%0: f32[6,9], %1: f32[6,3]) {
  %2 = exponential %0 : f32[6,9]
  %3 = transpose %2 {permutation = [1, 0]} : f32[9,6]
  %4 = dot_general %3, %1 {lhs_batch = [], lhs_contract = [1], rhs_batch = [], rhs_contract = [0]} : f32[9,3]
  %5 = negate %3 : f32[9,6]
  %6 = slice %0 {limit_indices = [6, 7], start_indices = [0, 1], strides = [1, 2]} : f32[6,3]
  %7 = transpose %6 {permutation = [1, 0]} : f32[3,6]
  %8 = dot_general %7, %1 {lhs_batch = [], lhs_contract = [1], rhs_batch = [], rhs_contract = [0]} : f32[3,3]
  %9 = exponential %7 : f32[3,6]
  return %4, %5, %8, %9 })"},
    {"small loops beside each other", 1, 64, R"((%0: f32[8], %1: s32[]) {
  %2 = constant {value = f32[] x00000000} : f32[]
  %3 = reduce %0, %2 {dimensions = [0], kind = "add"} : f32[]
  %4 = tanh %0 : f32[8]
  %5 = negate %1 : s32[]
  %6 = broadcast_in_dim %1 {broadcast_dimensions = []} : s32[8]
  return %3, %4, %5, %6 })"},
    {"bf16 rounds at memory", 1, 70000, R"((%0: bf16[4,16], %1: bf16[16,8]) {
  %2 = dot_general %0, %1 {lhs_batch = [], lhs_contract = [1], rhs_batch = [], rhs_contract = [0]} : bf16[4,8]
  return %2 })"},
    {"a double multiply", 1, 1, R"((%0: f64[4,16], %1: f64[16,8]) {
  %2 = dot_general %0, %1 {lhs_batch = [], lhs_contract = [1], rhs_batch = [], rhs_contract = [0]} : f64[4,8]
  return %2 })"},
    {"count to ten, beside a fixed value", 2, 0, R"((%0: s32[], %1: f32[3]) {
  %2 = constant {value = s32[] x0a000000} : s32[]
  %3 = constant {value = s32[] x01000000} : s32[]
  %12 = while %0, %1, %1 (%4: s32[], %5: f32[3], %6: f32[3]) {
    %7 = compare %4, %2 {direction = "LT"} : bool[]
    return %7
  } (%8: s32[], %9: f32[3], %10: f32[3]) {
    %11 = add %8, %3 : s32[]
    %13 = add %9, %10 : f32[3]
    return %11, %13, %10
  } : s32[], f32[3], f32[3]
  return %12#0, %12#1, %12#2 })"},
    {"a turn of everything: swapped values, one used as it is, a slice, an update, a choice, a sort", 1, 64,
     R"((%0: f32[4], %1: f32[4], %2: f32[7,4], %3: f32[4]) {
  %4 = constant {value = s32[] x00000000} : s32[]
  %5 = constant {value = s32[] x07000000} : s32[]
  %6 = constant {value = s32[] x01000000} : s32[]
  %30 = while %4, %0, %1, %2 (%7: s32[], %8: f32[4], %9: f32[4], %10: f32[7,4]) {
    %11 = compare %7, %5 {direction = "LT"} : bool[]
    return %11
  } (%12: s32[], %13: f32[4], %14: f32[4], %15: f32[7,4]) {
    %16 = dynamic_slice %15, %12, %4 {slice_sizes = [1, 4]} : f32[1,4]
    %17 = reshape %16 : f32[4]
    %18 = multiply %13, %3 : f32[4]
    %19 = add %18, %17 : f32[4]
    %20 = sort %14 {comparator = "", dimension = 0, direction = "LT", is_stable = false} : f32[4]
    %21 = reshape %20 : f32[1,4]
    %22 = dynamic_update_slice %15, %21, %12, %4 : f32[7,4]
    %26 = case %12, %19 (%23: f32[4]) {
      %24 = negate %23 : f32[4]
      return %24
    } (%25: f32[4]) {
      %27 = add %25, %25 : f32[4]
      return %27
    } : f32[4]
    %28 = add %12, %6 : s32[]
    return %28, %14, %26, %22
  } : s32[], f32[4], f32[4], f32[7,4]
  return %30#0, %30#1, %30#2, %30#3 })"},
    {"a loop that fills an array", 1, 0, R"((%0: s32[], %1: s32[6,2]) {
  %2 = constant {value = s32[] x06000000} : s32[]
  %3 = constant {value = s32[] x01000000} : s32[]
  %4 = constant {value = s32[] x00000000} : s32[]
  %12 = while %4, %1 (%5: s32[], %6: s32[6,2]) {
    %7 = compare %5, %2 {direction = "LT"} : bool[]
    return %7
  } (%8: s32[], %9: s32[6,2]) {
    %10 = broadcast_in_dim %8 {broadcast_dimensions = []} : s32[1,2]
    %11 = dynamic_update_slice %9, %10, %8, %4 : s32[6,2]
    %13 = add %8, %3 : s32[]
    return %13, %11
  } : s32[], s32[6,2]
  return %12#1 })"},
    {"one of two", 1, 0, R"((%0: s32[], %1: s32[4]) {
  %6 = case %0, %1 (%2: s32[4]) {
    %3 = negate %2 : s32[4]
    return %3
  } (%4: s32[4]) {
    %5 = add %4, %4 : s32[4]
    return %5
  } : s32[4]
  return %6 })"},
    {"pad, slice, concatenate, reverse", 4, 0, R"((%0: s32[3,4], %1: s32[]) {
  %2 = pad %0, %1 {edge_padding_high = [2, -1], edge_padding_low = [1, -1], interior_padding = [1, 0]} : s32[8,2]
  %3 = slice %0 {limit_indices = [3, 4], start_indices = [0, 1], strides = [1, 2]} : s32[3,2]
  %4 = reverse %3 {dimensions = [0]} : s32[3,2]
  %5 = concatenate %2, %4 {dimension = 0} : s32[11,2]
  %6 = dynamic_slice %5, %1, %1 {slice_sizes = [5, 1]} : s32[5,1]
  return %5, %6 })"},
    {"a mask by position", 1, 0, R"((%0: f32[4,4]) {
  %1 = iota {iota_dimension = 0} : s32[4,4]
  %2 = iota {iota_dimension = 1} : s32[4,4]
  %3 = compare %1, %2 {direction = "GE"} : bool[4,4]
  %4 = constant {value = f32[4,4] all x000000c7} : f32[4,4]
  %5 = select %3, %0, %4 : f32[4,4]
  return %5 })"},
    {"reshapes share memory", 2, 64, R"((%0: f32[4,6]) {
  %1 = exponential %0 : f32[4,6]
  %2 = reshape %1 : f32[2,12]
  %3 = transpose %2 {permutation = [1, 0]} : f32[12,2]
  %4 = negate %3 : f32[12,2]
  return %4, %2 })"},
    {"a reshape that a multiply and a loop read", 3, 64, R"((%0: f32[2,8], %1: f32[8,4]) {
  %2 = broadcast_in_dim %0 {broadcast_dimensions = [0, 2]} : f32[2,1,8]
  %3 = reshape %2 : f32[2,8]
  %4 = dot_general %3, %1 {lhs_batch = [], lhs_contract = [1], rhs_batch = [], rhs_contract = [0]} : f32[2,4]
  %5 = constant {value = f32[] x00000000} : f32[]
  %6 = reduce %4, %5 {dimensions = [0, 1], kind = "add"} : f32[]
  %7 = broadcast_in_dim %6 {broadcast_dimensions = []} : f32[2,2,8]
  %8 = broadcast_in_dim %3 {broadcast_dimensions = [0, 2]} : f32[2,2,8]
  %9 = add %7, %8 : f32[2,2,8]
  return %9 })"},
    {"a view of a view that a multiply and a loop read", 3, 64, R"((%0: f32[8,2], %1: f32[8,4]) {
  %2 = transpose %0 {permutation = [1, 0]} : f32[2,8]
  %3 = slice %2 {limit_indices = [2, 8], start_indices = [0, 0], strides = [1, 2]} : f32[2,4]
  %4 = dot_general %3, %1 {lhs_batch = [], lhs_contract = [1], rhs_batch = [], rhs_contract = [1]} : f32[2,8]
  %5 = constant {value = f32[] x00000000} : f32[]
  %6 = reduce %4, %5 {dimensions = [0, 1], kind = "add"} : f32[]
  %7 = broadcast_in_dim %6 {broadcast_dimensions = []} : f32[2,4]
  %8 = add %7, %3 : f32[2,4]
  return %8 })"},
    {"complex numbers", 2, 64, R"((%0: c64[4], %1: c64[4]) {
  %2 = multiply %0, %1 : c64[4]
  %3 = add %2, %0 : c64[4]
  return %3 })"},
    {"a loop that goes on while what a turn made of complex numbers is large, here and one element on", 1, 64,
     R"((%0: c64[5]) {
  %2 = constant {value = f32[] x0000003f} : f32[]
  %3 = broadcast_in_dim %2 {broadcast_dimensions = []} : f32[5]
  %4 = constant {value = f32[] x00000000} : f32[]
  %40 = while %0, %0 (%10: c64[5], %11: c64[5]) {
    %12 = real %11 : f32[5]
    %13 = imag %11 : f32[5]
    %14 = multiply %12, %13 : f32[5]
    %15 = slice %11 {limit_indices = [5], start_indices = [1], strides = [1]} : c64[4]
    %16 = abs %15 : f32[4]
    %17 = abs %14 : f32[5]
    %18 = reduce %17, %4 {dimensions = [0], kind = "add"} : f32[]
    %19 = reduce %16, %4 {dimensions = [0], kind = "add"} : f32[]
    %20 = add %18, %19 : f32[]
    %21 = compare %20, %2 {direction = "GT"} : bool[]
    return %21
  } (%30: c64[5], %31: c64[5]) {
    %32 = real %30 : f32[5]
    %33 = imag %30 : f32[5]
    %34 = multiply %32, %3 : f32[5]
    %35 = multiply %33, %3 : f32[5]
    %36 = complex %34, %35 : c64[5]
    %37 = negate %33 : f32[5]
    %38 = complex %32, %37 : c64[5]
    return %36, %38
  } : c64[5], c64[5]
  return %40#0, %40#1 })"},
    {"a loop that ends by what a turn takes from outside, a constant and a number", 2, 0, R"((%0: f32[4], %1: s32[]) {
  %2 = constant {value = s32[] x00000000} : s32[]
  %3 = constant {value = s32[] x01000000} : s32[]
  %4 = or %1, %3 : s32[]
  %20 = while %2, %2, %0 (%5: s32[], %6: s32[], %7: f32[4]) {
    %8 = compare %5, %2 {direction = "EQ"} : bool[]
    %9 = compare %6, %2 {direction = "EQ"} : bool[]
    %10 = or %8, %9 : bool[]
    return %10
  } (%11: s32[], %12: s32[], %13: f32[4]) {
    %14 = add %13, %13 : f32[4]
    return %3, %4, %14
  } : s32[], s32[], f32[4]
  return %20#0, %20#1, %20#2 })"},
    {"turned round, beside what is made of it and what sees it under other dims", 2, 0, R"((%0: f32[5,2]) {
  %1 = reverse %0 {dimensions = [0]} : f32[5,2]
  %2 = multiply %1, %1 : f32[5,2]
  %3 = reshape %1 : f32[2,5]
  %4 = transpose %3 {permutation = [1, 0]} : f32[5,2]
  %5 = negate %4 : f32[5,2]
  return %2, %5 })"},
    {"a convolution with everything", 1, 64, R"((%0: f32[2,4,9,7], %1: f32[3,2,2,6]) {
  %2 = convolution %0, %1 {batch_group_count = 1, feature_group_count = 2, input_batch = 0, input_feature = 1, input_spatial = [2, 3], kernel_input_feature = 1, kernel_output_feature = 3, kernel_spatial = [0, 2], lhs_dilation = [2, 1], output_batch = 0, output_feature = 3, output_spatial = [1, 2], padding = [1, 2, 0, 3], rhs_dilation = [1, 2], window_reversal = [1, 0], window_strides = [1, 2]} : f32[2,18,4,6]
  return %2 })"},
    {"a convolution's gradient by batch groups", 1, 64, R"((%0: f32[4,5,5,3], %1: f32[2,2,3,4]) {
  %2 = convolution %0, %1 {batch_group_count = 2, feature_group_count = 1, input_batch = 0, input_feature = 3, input_spatial = [1, 2], kernel_input_feature = 2, kernel_output_feature = 3, kernel_spatial = [0, 1], lhs_dilation = [1, 1], output_batch = 0, output_feature = 1, output_spatial = [2, 3], padding = [0, 0, 1, -1], rhs_dilation = [1, 1], window_reversal = [0, 0], window_strides = [1, 1]} : f32[2,4,4,4]
  return %2 })"},
    {"nothing at all", 1, 0, R"((%0: f32[0,4]) {
  %1 = negate %0 : f32[0,4]
  %2 = constant {value = f32[] x00000000} : f32[]
  %3 = reduce %1, %2 {dimensions = [0], kind = "add"} : f32[4]
  return %3, %1 })"},
};

TEST_CASE("a plan gives what the reference evaluator gives") {
  for (const Case& c : kCases) check_plan(c.name, c.text, c.steps, c.ulps);
}

TEST_CASE("a turn of a loop asks for the next, makes constants itself and has few steps") {
  auto graph = ir::parse_graph(R"(graph "g" (%0: s32[], %1: f32[4]) {
  %2 = constant {value = s32[] x0a000000} : s32[]
  %3 = constant {value = s32[] x01000000} : s32[]
  %4 = constant {value = f32[] x0000003f} : f32[]
  %5 = broadcast_in_dim %4 {broadcast_dimensions = []} : f32[4]
  %13 = while %0, %1 (%6: s32[], %7: f32[4]) {
    %8 = compare %6, %2 {direction = "LT"} : bool[]
    return %8
  } (%9: s32[], %10: f32[4]) {
    %11 = add %9, %3 : s32[]
    %12 = multiply %10, %5 : f32[4]
    return %11, %12
  } : s32[], f32[4]
  return %13#1 })",
                               "t");
  REQUIRE(graph);
  auto plan = plan_native(std::make_shared<ir::Graph>(*std::move(graph)));
  REQUIRE(plan);
  REQUIRE((*plan)->steps.size() == 1);
  const auto* loop = std::get_if<arch::WhileStep>(&(*plan)->steps[0].what);
  REQUIRE(loop);
  CHECK(loop->body->steps.size() == 1);
  CHECK(loop->body->inputs.size() == 2);
  CHECK(loop->body->outputs.size() == 3);
  CHECK(loop->in_place == std::vector<bool>{true, true});
}

TEST_CASE("what is cheap to compute from a large value is computed again, not kept") {
  auto plan = check_plan("tanh", R"((%0: f32[256,40], %1: f32[40,256], %2: f32[256,256]) {
  %3 = dot_general %0, %1 {lhs_batch = [], lhs_contract = [1], rhs_batch = [], rhs_contract = [0]} : f32[256,256]
  %4 = tanh %3 : f32[256,256]
  %5 = constant {value = f32[] x00000000} : f32[]
  %6 = reduce %4, %5 {dimensions = [0], kind = "add"} : f32[256]
  %7 = multiply %4, %2 : f32[256,256]
  return %6, %7 })",
                         2, 1024);
  CHECK(plan->arena_bytes == 256 * 256 * 4);
}

TEST_CASE("a multiply that reads each number once is a loop") {
  auto plan = check_plan("dot", R"((%0: f32[6,40], %1: f32[40,6]) {
  %2 = dot_general %0, %1 {lhs_batch = [0], lhs_contract = [1], rhs_batch = [1], rhs_contract = [0]} : f32[6]
  return %2 })",
                         1, 64);
  CHECK(std::holds_alternative<arch::LoopStep>(plan->steps[0].what));
}

// Rounds of a random generator: each value is used by two later ones, and one loop has no room for all of them.
TEST_CASE("a chain longer than a loop is cut where few values cross") {
  constexpr int kRounds = 200;
  std::string text = "(%0: u32[4096], %1: u32[4096], %2: u32[]) {\n";
  text += "  %3 = broadcast_in_dim %2 {broadcast_dimensions = []} : u32[4096]\n";
  int a = 0, b = 1, next = 4;
  for (int i = 0; i < kRounds; ++i, next += 3) {
    text += cat("  %", next, " = add %", a, ", %", b, " : u32[4096]\n");
    text += cat("  %", next + 1, " = shift_left %", b, ", %3 : u32[4096]\n");
    text += cat("  %", next + 2, " = xor %", next, ", %", next + 1, " : u32[4096]\n");
    a = next, b = next + 2;
  }
  text += cat("  %", next, " = xor %", a, ", %", b, " : u32[4096]\n  return %", next, " }");
  auto graph = ir::parse_graph("graph \"g\" " + text, "t");
  REQUIRE(graph);
  auto plan = plan_native(std::make_shared<ir::Graph>(*std::move(graph)));
  REQUIRE(plan);
  CHECK((*plan)->steps.size() <= 8);
  CHECK((*plan)->arena_bytes <= 4 * 4096 * 4);
}

TEST_CASE("a weight is packed when it is multiplied again, and forgotten with its bytes") {
  auto graph = ir::parse_graph(R"(graph "g" (%0: f32[5,64], %1: f32[64,48]) {
  %2 = dot_general %0, %1 {lhs_batch = [], lhs_contract = [1], rhs_batch = [], rhs_contract = [0]} : f32[5,48]
  return %2 })",
                               "t");
  REQUIRE(graph);
  auto plan = compile_native(*graph, kVerifiedPlan);
  REQUIRE(plan);
  CHECK((*plan)->flops == 2.0 * 5 * 64 * 48);
  CHECK((*plan)->moved_bytes == 4.0 * (5 * 64 + 64 * 48 + 5 * 48));
  auto ready = host::prepare(*plan);
  REQUIRE(ready);
  std::mt19937 random(3);
  const Tensor x = random_tensor(graph->params[0].type(), random), w = random_tensor(graph->params[1].type(), random);
  const int64_t before = host::PackedForms::bytes_in_use();
  {
    host::PackedForms packed_forms;
    host::PackedForms* const beside[] = {nullptr, &packed_forms};
    const void* const inputs[] = {x.data.get(), w.data.get()};
    Tensor results[3];
    for (int run = 0; run < 3; ++run) {
      results[run] = Tensor::make(Dtype::f32, {5, 48});
      void* const outputs[] = {results[run].data.get()};
      REQUIRE(host::execute(**ready, {.inputs = inputs, .outputs = outputs, .packed_forms = beside}));
      CHECK((host::PackedForms::bytes_in_use() > before) == (run > 0));
      CHECK(error_of(results[run], results[0], 0x1p-23) <= 64);
    }
    CHECK(results[1] == results[2]);
  }
  CHECK(host::PackedForms::bytes_in_use() == before);
}

}  // namespace trine::compile
