// Gathers inside loops: elements at computed indices, in one step with what is made of them; rows are copied apart.
#include "compile/host/windows.h"

#include "base/text.h"
#include "tests/compile/testing.h"

namespace trine::compile {

namespace {

std::string gather_of(std::string_view window, std::string_view collapsed, std::string_view map, int vectors,
                      std::string_view sizes) {
  return cat(" {offset_dims = [", window, "], collapsed_slice_dims = [", collapsed,
             "], operand_batching_dims = [], start_indices_batching_dims = [], start_index_map = [", map,
             "], index_vector_dim = ", vectors, ", slice_sizes = [", sizes, "], indices_are_sorted = false}");
}

// Indices from -6 to 9 of what random_tensor() gives, 0 to 5: some lie below, some beyond.
constexpr const char* kSpread = R"(
  %20 = constant {value = s32[] x03000000} : s32[]
  %21 = broadcast_in_dim %20 {broadcast_dimensions = []} : s32[40]
  %22 = multiply %1, %21 : s32[40]
  %23 = constant {value = s32[] xfaffffff} : s32[]
  %24 = broadcast_in_dim %23 {broadcast_dimensions = []} : s32[40]
  %25 = add %22, %24 : s32[40]
)";

}  // namespace

TEST_CASE("a gather of elements is part of the loop around it") {
  check_plan("a table",
             cat("(%0: f32[7], %1: s32[40], %2: f32[40]) {", kSpread, "%3 = gather %0, %25",
                 gather_of("", "0", "0", 1, "1"), " : f32[40]\n  %4 = multiply %3, %2 : f32[40]\n  return %4 }"),
             1, 0);
  check_plan("a sum of elements of a matrix, by two indices each",
             cat("(%0: f32[5,6], %1: s32[40]) {", kSpread,
                 "%30 = negate %25 : s32[40]\n  %31 = reshape %25 : s32[40,1]\n  %32 = reshape %30 : s32[40,1]\n"
                 "  %33 = concatenate %31, %32 {dimension = 1} : s32[40,2]\n  %3 = gather %0, %33",
                 gather_of("", "0, 1", "0, 1", 1, "1, 1"),
                 " : f32[40]\n  %4 = constant {value = f32[] x00000000} : f32[]\n"
                 "  %5 = reduce %3, %4 {dimensions = [0], kind = \"add\"} : f32[]\n  return %5 }"),
             1, 64);
  check_plan("columns of what was made before, and that itself",
             cat("(%0: f32[5,6], %1: s32[40]) {", kSpread, "%2 = exponential %0 : f32[5,6]\n  %3 = gather %2, %25",
                 gather_of("0", "1", "1", 1, "5, 1"), " : f32[5,40]\n  %4 = negate %3 : f32[5,40]\n  return %4, %2 }"),
             2, 64);
  check_plan("rows stay windows",
             cat("(%0: f32[9,16], %1: s32[40]) {", kSpread, "%3 = gather %0, %25", gather_of("1", "0", "0", 1, "1, 16"),
                 " : f32[40,16]\n  %4 = negate %3 : f32[40,16]\n  return %4 }"),
             3, 0);
}

TEST_CASE("what a gather reads is not written over by its own loop") {
  // The index of each element is made of it: the result has the operand's dims, and could lie where it lies.
  check_plan("an operand that is also the index",
             cat("(%0: s32[40], %1: s32[40]) {", kSpread, "%2 = add %25, %0 : s32[40]\n  %3 = gather %2, %2",
                 gather_of("", "0", "0", 1, "1"), " : s32[40]\n  return %3 }"),
             2, 0);
}

TEST_CASE("a multiply that is gathered from is done whole, before") {
  check_plan("products at places",
             cat("(%0: f32[20,30], %1: s32[40], %2: f32[30,40]) {", kSpread,
                 "%3 = dot_general %0, %2 {lhs_batch = [], lhs_contract = [1], rhs_batch = [], rhs_contract = [0]} : "
                 "f32[20,40]\n  %4 = gather %3, %25",
                 gather_of("0", "1", "1", 1, "20, 1"), " : f32[20,40]\n  %5 = add %4, %3 : f32[20,40]\n  return %5 }"),
             2, 64);
}

}  // namespace trine::compile
