// Gathers and scatters as one step of windows: every form of dimension numbers, kind and dtype; indices out of bounds.
#include "compile/host/windows.h"

#include "base/text.h"
#include "tests/compile/testing.h"

namespace trine::compile {

// Random indices are 0 to 5: an operand of five rows has some out of bounds.
static const std::string kRows =
    "{offset_dims = [1], collapsed_slice_dims = [0], operand_batching_dims = [], start_indices_batching_dims = [], "
    "start_index_map = [0], index_vector_dim = 1, slice_sizes = [1, N], indices_are_sorted = false}";
static const std::string kScatterRows =
    "{update_window_dims = [1], inserted_window_dims = [0], input_batching_dims = [], "
    "scatter_indices_batching_dims = [], scatter_dims_to_operand_dims = [0], index_vector_dim = 1, "
    "indices_are_sorted = false, unique_indices = false, kind = \"KIND\"}";

static std::string with(std::string text, std::string_view name, std::string_view value) {
  for (size_t at; (at = text.find(name)) != std::string::npos;) text.replace(at, name.size(), value);
  return text;
}

static void check_window_step(const std::string& name, const std::string& text, double ulps = 0) {
  auto plan = check_plan(name, text, 1, ulps);
  CHECK(std::holds_alternative<arch::WindowStep>(plan->steps[0].what));
}

TEST_CASE("rows of a table, few and many, by indices of every width") {
  for (const char* index : {"s32", "s64", "u8", "u32"}) {
    for (int64_t rows : {3, 700}) {
      for (int64_t columns : {2, 3, 130}) {
        check_window_step(cat(index, " ", rows, "x", columns),
                          with(cat("(%0: f32[5,N], %1: ", index, "[", rows, ",1]) {\n  %2 = gather %0, %1 ", kRows,
                                   " : f32[", rows, ",N]\n  return %2 }"),
                               "N", cat(columns)));
      }
    }
  }
}

TEST_CASE("rows combined into a table: kinds and dtypes, each in its own order") {
  for (const char* dtype : {"f32", "f64", "bf16", "s32", "u8", "s4"}) {
    for (const char* kind : {"set", "add", "multiply", "maximum", "minimum"}) {
      for (const char* columns : {"1", "7", "600"}) {
        std::string text = cat("(%0: T[5,N], %1: s32[130,1], %2: T[130,N]) {\n  %3 = scatter %0, %1, %2 ", kScatterRows,
                               " : T[5,N]\n  return %3 }");
        text = with(with(with(text, "KIND", kind), "T[", cat(dtype, "[")), "N", columns);
        check_window_step(cat(dtype, " ", kind, " ", columns), text, std::string_view(kind) == "multiply" ? 8 : 0);
      }
    }
  }
}

TEST_CASE("many single elements, shared out by their place") {
  check_window_step("elements",
                    cat("(%0: f32[6], %1: s32[40000,1], %2: f32[40000]) {\n  %3 = scatter %0, %1, %2 ",
                        with(with(kScatterRows, "KIND", "add"), "update_window_dims = [1]", "update_window_dims = []"),
                        " : f32[6]\n  return %3 }"));
}

TEST_CASE("windows of two dims, batching dims, and windows that meet") {
  check_window_step("a batch of its own indices", R"((%0: f32[3,5,4], %1: s32[3,2,1]) {
  %2 = gather %0, %1 {offset_dims = [2], collapsed_slice_dims = [1], operand_batching_dims = [0], start_indices_batching_dims = [0], start_index_map = [1], index_vector_dim = 2, slice_sizes = [1, 1, 4], indices_are_sorted = false} : f32[3,2,4]
  return %2 })");
  // Side by side lie elements of different windows: a loop picks them one by one.
  check_plan("boxes at two indices, windows first", R"((%0: s32[6,7,2], %1: s32[2,9]) {
  %2 = gather %0, %1 {offset_dims = [0, 1, 2], collapsed_slice_dims = [], operand_batching_dims = [], start_indices_batching_dims = [], start_index_map = [1, 0], index_vector_dim = 0, slice_sizes = [2, 3, 2], indices_are_sorted = false} : s32[2,3,2,9]
  return %2 })",
             1, 0);
  check_window_step("boxes that meet", R"((%0: f32[6,7], %1: s32[9,2], %2: f32[9,2,3]) {
  %3 = scatter %0, %1, %2 {update_window_dims = [1, 2], inserted_window_dims = [], input_batching_dims = [], scatter_indices_batching_dims = [], scatter_dims_to_operand_dims = [0, 1], index_vector_dim = 1, indices_are_sorted = false, unique_indices = false, kind = "add"} : f32[6,7]
  return %3 })");
  check_window_step("no windows", R"((%0: f32[6,7], %1: s32[0,1]) {
  %2 = gather %0, %1 {offset_dims = [1], collapsed_slice_dims = [0], operand_batching_dims = [], start_indices_batching_dims = [], start_index_map = [0], index_vector_dim = 1, slice_sizes = [1, 7], indices_are_sorted = false} : f32[0,7]
  return %2 })");
}

TEST_CASE("a table without rows takes none") {
  check_window_step("no room", with(with(cat("(%0: f32[0,N], %1: s32[9,1], %2: f32[9,N]) {\n  %3 = scatter %0, %1, %2 ",
                                             kScatterRows, " : f32[0,N]\n  return %3 }"),
                                         "KIND", "add"),
                                    "N", "7"));
}

TEST_CASE("indices far out of bounds") {
  check_plan(
      "far",
      cat("(%0: f32[5,7], %1: s64[9,1], %2: f32[9,7]) {\n  %3 = constant {value = s64[] xffffffffffffff7f} : "
          "s64[]\n",
          "  %4 = broadcast_in_dim %3 {broadcast_dimensions = []} : s64[9,1]\n  %5 = subtract %4, %1 : s64[9,1]\n",
          "  %6 = scatter %0, %5, %2 ", with(kScatterRows, "KIND", "add"), " : f32[5,7]\n  return %6 }"),
      2, 0);
}

TEST_CASE("rows of one table combined into another are never written down") {
  for (const char* kind : {"set", "add"}) {
    for (const char* columns : {"64", "300"}) {
      for (const char* second : {"%0", "%1"}) {  // the table itself, too
        const std::string rows = with(kRows, "N", columns), into = with(kScatterRows, "KIND", kind);
        auto plan = check_plan(
            cat(kind, " ", columns, second),
            with(cat("(%0: f32[5,N], %1: f32[5,N], %2: s32[700,1], %3: s32[700,1]) {\n  %4 = gather ", second, ", %2 ",
                     rows, " : f32[700,N]\n  %5 = scatter %0, %3, %4 ", into, " : f32[5,N]\n  return %5 }"),
                 "N", columns),
            1, 0);
        CHECK(std::get<arch::WindowStep>(plan->steps[0].what).updates);
        CHECK(plan->arena_bytes == 0);
      }
    }
  }
}

TEST_CASE("a table that nothing else reads is combined into in place") {
  auto plan = check_plan("in place",
                         cat("(%0: f32[5,40], %1: s32[9,1], %2: f32[9,40]) {\n  %4 = exponential %0 : f32[5,40]\n"
                             "  %3 = scatter %4, %1, %2 ",
                             with(kScatterRows, "KIND", "add"), " : f32[5,40]\n  return %3 }"),
                         2, 64);
  CHECK(plan->arena_bytes == 0);
}

}  // namespace trine::compile
