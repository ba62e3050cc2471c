// Loops inside loops: a loop that its own loop runs again begins anew, with what it is given this time.
#include "compile/host/native.h"

#include "arch/plan/text.h"
#include "tests/compile/testing.h"

namespace trine::compile {

TEST_CASE("a loop inside a loop: no turn, one, many, with a matrix that is another one each time") {
  check_plan("products of as many turns as the loop around has had", R"((%0: f32[20,20], %1: f32[20,20]) {
  %2 = constant {value = s32[] x00000000} : s32[]
  %3 = constant {value = s32[] x07000000} : s32[]
  %4 = constant {value = s32[] x01000000} : s32[]
  %5 = constant {value = f32[20,20] all x0000003f} : f32[20,20]
  %40 = while %2, %0, %1, %0 (%6: s32[], %7: f32[20,20], %8: f32[20,20], %9: f32[20,20]) {
    %10 = compare %6, %3 {direction = "LT"} : bool[]
    return %10
  } (%11: s32[], %12: f32[20,20], %13: f32[20,20], %14: f32[20,20]) {
    %30 = while %2, %12, %14 (%15: s32[], %16: f32[20,20], %17: f32[20,20]) {
      %18 = compare %15, %11 {direction = "LT"} : bool[]
      return %18
    } (%19: s32[], %20: f32[20,20], %21: f32[20,20]) {
      %22 = dot_general %20, %13 {lhs_batch = [], lhs_contract = [1], rhs_batch = [], rhs_contract = [0]} : f32[20,20]
      %23 = tanh %22 : f32[20,20]
      %24 = add %19, %4 : s32[]
      return %24, %21, %23
    } : s32[], f32[20,20], f32[20,20]
    %31 = multiply %13, %5 : f32[20,20]
    %32 = subtract %31, %30#1 : f32[20,20]
    %33 = add %11, %4 : s32[]
    return %33, %30#1, %32, %30#2
  } : s32[], f32[20,20], f32[20,20], f32[20,20]
  return %40#0, %40#1, %40#2, %40#3 })",
             1, 4096);
}

TEST_CASE("what no iteration changes is computed before the loop, but for views and what is larger than its sources") {
  auto parsed = ir::parse_graph(R"(graph "descent" (%0: f32[16,8], %1: f32[16], %2: f32[8]) {
  %3 = constant {value = s32[] x00000000} : s32[]
  %4 = constant {value = s32[] x05000000} : s32[]
  %5 = constant {value = s32[] x01000000} : s32[]
  %30 = while %3, %0, %1, %2, %2 (%6: s32[], %7: f32[16,8], %8: f32[16], %9: f32[8], %31: f32[8]) {
    %10 = compare %6, %4 {direction = "LT"} : bool[]
    return %10
  } (%11: s32[], %12: f32[16,8], %13: f32[16], %14: f32[8], %15: f32[8]) {
    %16 = transpose %12 {permutation = [1, 0]} : f32[8,16]
    %17 = tanh %16 : f32[8,16]
    %18 = dot_general %12, %14 {lhs_batch = [], lhs_contract = [1], rhs_batch = [], rhs_contract = [0]} : f32[16]
    %19 = dot_general %17, %18 {lhs_batch = [], lhs_contract = [1], rhs_batch = [], rhs_contract = [0]} : f32[8]
    %20 = broadcast_in_dim %15 {broadcast_dimensions = [1]} : f32[4,8]
    %21 = broadcast_in_dim %19 {broadcast_dimensions = [1]} : f32[4,8]
    %22 = multiply %20, %21 : f32[4,8]
    %23 = constant {value = f32[] x00000000} : f32[]
    %24 = reduce %22, %23 {dimensions = [0], kind = "add"} : f32[8]
    %25 = tanh %24 : f32[8]
    %26 = add %11, %5 : s32[]
    return %26, %12, %13, %25, %15
  } : s32[], f32[16,8], f32[16], f32[8], f32[8]
  return %30#3, %30#1 })",
                                "descent");
  REQUIRE_MESSAGE(parsed, parsed.error().text());
  const Compiled ran = run_both(*parsed, compile_native(*parsed), 7);
  for (size_t i = 0; i < ran.want.size(); ++i) CHECK(error_of(ran.got[i], ran.want[i], 0x1p-23) <= 4096);
  const auto* loop = std::get_if<arch::WhileStep>(&ran.plan->steps[1].what);
  REQUIRE(loop);
  const std::string body = arch::text(*loop->body);
  CHECK(body.find("f32[8,16]") != std::string::npos);
  CHECK(body.find("f32[4,8]") == std::string::npos);
  size_t tanhs = 0;
  for (size_t at = 0; (at = body.find("tanh", at)) != std::string::npos; ++at) ++tanhs;
  CHECK(tanhs == 1);
}

TEST_CASE("few products are a loop, in rows and columns and batches") {
  const auto plan = check_plan("small", R"((%0: f32[2,3,4], %1: f32[2,5,4]) {
  %2 = dot_general %0, %1 {lhs_batch = [0], lhs_contract = [2], rhs_batch = [0], rhs_contract = [2]} : f32[2,3,5]
  return %2 })",
                               1, 64);
  CHECK(std::holds_alternative<arch::LoopStep>(plan->steps[0].what));
}

}  // namespace trine::compile
