// Pooling as a loop over windows, against the reference: kinds, dtypes, padding of either sign, strides and dilations.
#include "compile/host/pool.h"

#include "base/text.h"
#include "tests/compile/testing.h"

namespace trine::compile {

TEST_CASE("windows reduced in a loop") {
  struct Case {
    const char *name, *in, *out, *attrs;
    size_t steps;
  };
  const Case kPools[] = {
      {"images, padded", "[2,9,8,5]", "[2,5,4,5]",
       "padding = [0, 0, 1, 1, 0, 1, 0, 0], window_dimensions = [1, 3, 3, 1], window_strides = [1, 2, 2, 1], "
       "window_dilations = [1, 1, 1, 1], base_dilations = [1, 1, 1, 1]",
       2},
      {"as they are", "[2,9,70]", "[2,7,70]",
       "padding = [0, 0, 0, 0, 0, 0], window_dimensions = [1, 3, 1], window_strides = [1, 1, 1], "
       "window_dilations = [1, 1, 1], base_dilations = [1, 1, 1]",
       1},
      {"apart, less than given", "[30,4]", "[10,3]",
       "padding = [-1, 2, 0, -1], window_dimensions = [4, 1], window_strides = [2, 1], window_dilations = [3, 1], "
       "base_dilations = [1, 1]",
       2},
  };
  for (const Case& c : kPools) {
    for (const char* dtype : {"f32", "f64", "s32", "u8"}) {
      for (const char* kind : {"add", "multiply", "maximum", "minimum"}) {
        const std::string in = cat(dtype, c.in), out = cat(dtype, c.out);
        auto plan = check_plan(cat(c.name, " ", dtype, " ", kind),
                               cat("(%0: ", in, ", %1: ", dtype, "[]) {\n  %2 = reduce_window %0, %1 {", c.attrs,
                                   ", kind = \"", kind, "\"} : ", out, "\n  return %2 }"),
                               c.steps, 64);
        CHECK(std::holds_alternative<arch::LoopStep>(plan->steps.back().what));
      }
    }
  }
}

}  // namespace trine::compile
