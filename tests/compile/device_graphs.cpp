// A few dozen small graphs, at least one for each thing that the device compiler's graph passes know; see
// device_graphs.h. Sizes are the least at which a pass takes them.
#include "tests/compile/device_graphs.h"

#include <cmath>

#include "tests/compile/graph_writer.h"

namespace trine::compile {

namespace {

using Graphs = std::vector<DeviceGraph>;
using W = GraphWriter;

// --- attention and its gradient ---

enum class Hides { nothing, later, mask, bias };

// softmax(q kᵀ / 4) v of [batch, heads, (heads that share keys,) positions, 16], with the gradients of q, k and v.
std::string attention(std::string_view dtype, Hides hides, bool shared) {
  W w;
  const std::string lead = shared ? "2,2,2," : "2,2,", own(dtype);
  const auto rows = [&](std::string_view last) { return cat("[", lead, last, "]"); };
  const std::string q = w.in(cat(own, rows("40,16"))), k = w.in(cat(own, "[2,2,48,16]")),
                    v = w.in(cat(own, "[2,2,48,16]")), g = w.in(cat(own, rows("40,16")));
  const std::string scores = cat("f32", rows("40,48")), each = cat("f32", rows("40"));
  const std::string indices = shared ? "0, 1, 2, 3" : "0, 1, 2", last = shared ? "4" : "3", row = shared ? "3" : "2";
  const auto dot = [&](const std::string& a, const std::string& b, std::string_view ac, std::string_view bc,
                       const std::string& type) {
    return w.op("dot_general", {a, b}, type,
                cat("{lhs_batch = [0, 1], rhs_batch = [0, 1], lhs_contract = [", ac, "], rhs_contract = [", bc, "]}"));
  };
  const std::string scale = w.spread(w.number(Dtype::f32, 0.25), scores);
  std::string s = w.op("multiply", {dot(q, k, last, "3", scores), scale}, scores), mask;
  if (hides == Hides::later) {
    const std::string square = "s32[40,48]";
    const std::string seen =
        w.op("compare",
             {w.op("iota", {}, square, "{iota_dimension = 1}"),
              w.op("add", {w.op("iota", {}, square, "{iota_dimension = 0}"), w.spread(w.number(Dtype::s32, 8), square)},
                   square)},
             "bool[40,48]", "{direction = \"LE\"}");
    mask = w.spread(seen, cat("bool", rows("40,48")), shared ? "3, 4" : "2, 3");
  }
  if (hides == Hides::mask)  // by keys of a batch: those of 0 are few among numbers from 0 to 5
    mask = w.spread(w.in("bool[2,48]"), cat("bool", rows("40,48")), shared ? "0, 4" : "0, 3");
  if (hides == Hides::bias)
    s = w.op("add", {s, w.spread(w.in("f32[40,48]"), scores, shared ? "3, 4" : "2, 3")}, scores);
  if (!mask.empty()) s = w.op("select", {mask, s, w.spread(w.number(Dtype::f32, -1e30), scores)}, scores);
  const std::string top = w.reduce(s, "maximum", last, each, Dtype::f32, -HUGE_VAL);
  const std::string raised =
      w.op("exponential", {w.op("subtract", {s, w.spread(top, scores, indices)}, scores)}, scores);
  const std::string sum = w.spread(w.reduce(raised, "add", last, each), scores, indices);
  const std::string p = w.op("divide", {raised, sum}, scores), out = dot(p, v, last, "2", cat(own, rows("40,16")));
  const std::string dp = dot(g, v, last, "3", scores);
  const std::string mean = w.reduce(w.op("multiply", {p, dp}, scores), "add", last, each);
  std::string ds = w.op("multiply", {p, w.op("subtract", {dp, w.spread(mean, scores, indices)}, scores)}, scores);
  if (!mask.empty()) ds = w.op("select", {mask, ds, w.spread(w.number(Dtype::f32, 0), scores)}, scores);
  ds = w.op("multiply", {ds, scale}, scores);
  const std::string both = shared ? "2, 3" : "2";
  return w.text({out, dot(ds, k, last, "2", cat(own, rows("40,16"))), dot(ds, q, both, both, cat(own, "[2,2,48,16]")),
                 dot(p, g, both, both, cat(own, "[2,2,48,16]"))});
}

void add_attention(Graphs& all) {
  all.push_back({"attention and its gradient", attention("f32", Hides::nothing, false)});
  all.push_back({"of narrow floats", attention("bf16", Hides::nothing, false), 2e-2});
  all.push_back({"where later keys are hidden", attention("f32", Hides::later, false)});
  all.push_back({"behind a mask in memory", attention("f32", Hides::mask, false)});
  all.push_back({"with a bias", attention("f32", Hides::bias, false)});
  all.push_back({"of heads that share keys", attention("f32", Hides::later, true)});
}

// --- gather, scatter and slices at computed indices ---

std::string one(std::string_view op, std::initializer_list<std::string_view> types, std::string_view type,
                std::string_view rest = {}) {
  W w;
  W::Names inputs;
  for (std::string_view t : types) inputs.push_back(w.in(t));
  return w.text({w.op(op, inputs, type, rest)});
}

std::string gather(std::string_view window, std::string_view collapsed, std::string_view batch, std::string_view map,
                   int vector, std::string_view sizes) {
  return cat("{collapsed_slice_dims = [", collapsed, "], index_vector_dim = ", vector, ", offset_dims = [", window,
             "], operand_batching_dims = [", batch, "], slice_sizes = [", sizes, "], start_index_map = [", map,
             "], start_indices_batching_dims = [", batch, "]}");
}
std::string scatter(std::string_view window, std::string_view inserted, std::string_view map, std::string_view kind,
                    std::string_view more = "") {
  return cat("{index_vector_dim = 1, inserted_window_dims = [", inserted, "], kind = \"", kind,
             "\", scatter_dims_to_operand_dims = [", map, "]", more, ", update_window_dims = [", window, "]}");
}

// Places from -3 to 7 of random numbers from 0 to 5: of 5 rows some are outside.
std::string around(W& w, std::string_view type) {
  const std::string x = w.in(type), two = w.spread(w.number(Dtype::s32, 2), type),
                    three = w.spread(w.number(Dtype::s32, 3), type);
  return w.op("subtract", {w.op("multiply", {x, two}, type), three}, type);
}
std::string gather_around(std::string_view x, std::string_view indices, std::string_view type, std::string_view how) {
  W w;
  const std::string from = w.in(x);
  return w.text({w.op("gather", {from, around(w, indices)}, type, how)});
}
std::string scatter_around(std::string_view x, std::string_view indices, std::string_view updates,
                           std::string_view how) {
  W w;
  const std::string into = w.in(x), from = w.in(updates);
  return w.text({w.op("scatter", {into, around(w, indices), from}, x, how)});
}

std::string picked() {
  W w;
  const std::string x = w.in("f32[70,5]"), at = around(w, "s32[70,1,1]");
  const std::string top = w.reduce(x, "maximum", "1", "f32[70]", Dtype::f32, -HUGE_VAL);
  const std::string e =
      w.op("exponential", {w.op("subtract", {x, w.spread(top, "f32[70,5]", "0")}, "f32[70,5]")}, "f32[70,5]");
  return w.text(
      {w.op("gather", {e, at}, "f32[70,1]", gather("", "1", "0", "1", 2, "1, 1")), w.reduce(e, "add", "1", "f32[70]")});
}
std::string gathered_and_widened() {
  W w;
  const std::string x = w.op("convert", {w.in("bf16[60,32]")}, "f32[60,32]");
  return w.text({w.op("gather", {x, around(w, "s32[5]")}, "f32[5,32]", gather("1", "0", "", "0", 1, "1, 32"))});
}
std::string counted() {  // a histogram
  W w;
  const std::string into = w.spread(w.number(Dtype::s32, 0), "s32[6]"), at = around(w, "s32[90]"),
                    ones = w.spread(w.number(Dtype::s32, 1), "s32[90]");
  return w.text({w.op("scatter", {into, at, ones}, "s32[6]", scatter("", "0", "0", "add"))});
}
std::string in_a_loop() {
  W w;
  const std::string x = w.in("f32[6,32]"), many = w.in("s32[]"), zero = w.number(Dtype::s32, 0),
                    step = w.number(Dtype::s32, 1), none = w.spread(w.number(Dtype::f32, 0), "f32[1,32]");
  const std::string regions = cat("(%90: s32[], %91: f32[1,32]) {\n    %92 = compare %90, ", many,
                                  " {direction = \"LT\"} : bool[]\n    return %92\n  } (%93: s32[], %94: f32[1,32]) {\n"
                                  "    %95 = dynamic_slice ",
                                  x, ", %93, ", zero,
                                  " {slice_sizes = [1, 32]} : f32[1,32]\n    %96 = add %94, %95 : f32[1,32]\n"
                                  "    %97 = add %93, ",
                                  step, " : s32[]\n    return %97, %96\n  }");
  const std::string loop = w.op("while", {zero, none}, "s32[], f32[1,32]", regions);
  return w.text({cat(loop, "#0"), cat(loop, "#1")});
}

void add_indices(Graphs& all) {
  all.push_back(
      {"rows of a table", gather_around("f32[5,32]", "s32[9]", "f32[9,32]", gather("1", "0", "", "0", 1, "1, 32"))});
  all.push_back({"elements of rows",
                 gather_around("f32[6,5]", "s32[6,300]", "f32[6,300]", gather("", "1", "0", "1", 2, "1, 1"))});
  all.push_back(
      {"elements of one row", gather_around("f32[5]", "s32[1536]", "f32[1536]", gather("", "0", "", "0", 1, "1"))});
  all.push_back({"blocks at two places",
                 gather_around("bf16[7,9]", "s32[4,2]", "bf16[4,3,2]", gather("1, 2", "", "", "0, 1", 1, "3, 2"))});
  all.push_back({"a window of each batch",
                 gather_around("s32[6,5,3]", "s32[6,2]", "s32[6,2,3]", gather("2", "1", "0", "1", 2, "1, 1, 3"))});
  all.push_back({"one element of rows that are reduced", picked()});
  all.push_back({"rows before they are widened", gathered_and_widened()});
  all.push_back({"a slice at a place",
                 one("dynamic_slice", {"f32[7,9]", "s32[]", "s32[]"}, "f32[4,9]", "{slice_sizes = [4, 9]}")});
  all.push_back({"a slice at an unsigned place",
                 one("dynamic_slice", {"f32[7,9]", "u32[]", "u32[]"}, "f32[4,3]", "{slice_sizes = [4, 3]}")});
  all.push_back(
      {"an update at a place", one("dynamic_update_slice", {"bf16[7,9]", "bf16[4,3]", "s32[]", "s32[]"}, "bf16[7,9]")});
  all.push_back({"a loop of slices", in_a_loop()});
  all.push_back({"rows added where indices meet",
                 scatter_around("f32[5,32]", "s32[40]", "f32[40,32]", scatter("1", "0", "0", "add"))});
  all.push_back({"rows added apart", scatter_around("f32[5,32]", "s32[1]", "f32[1,32]",
                                                    scatter("1", "0", "0", "add", ", unique_indices = true"))});
  all.push_back({"rows set", scatter_around("bf16[5,32]", "s32[40]", "bf16[40,32]", scatter("1", "0", "0", "set"))});
  all.push_back(
      {"blocks set", scatter_around("f32[7,9]", "s32[4,2]", "f32[4,2,3]", scatter("1, 2", "", "0, 1", "set"))});
  all.push_back(
      {"the largest of integers", scatter_around("s32[6]", "s32[30]", "s32[30]", scatter("", "0", "0", "maximum"))});
  all.push_back(
      {"products of floats", scatter_around("f32[6]", "s32[30]", "f32[30]", scatter("", "0", "0", "multiply"))});
  all.push_back({"a histogram", counted()});
}

// --- windows, and what runs along rows ---

std::string windows(std::string_view x, std::string_view kind, double init, Dtype dtype, std::string_view how,
                    std::string_view to = "") {
  W w;
  const std::string in = w.in(x);
  return w.text({w.op("reduce_window", {in, w.number(dtype, init)}, to.empty() ? x : to,
                      cat("{", "kind = \"", kind, "\", ", how, "}"))});
}
std::string counts() {  // of flags so far
  W w;
  const std::string x = w.op("convert", {w.in("bool[3,50]")}, "s32[3,50]");
  return w.text({w.op("reduce_window", {x, w.number(Dtype::s32, 0)}, "s32[3,50]",
                      "{kind = \"add\", padding = [0, 0, 49, 0], window_dimensions = [1, 50]}")});
}
std::string unpooled() {
  W w;
  const std::string x = w.in("f32[2,8,9,3]"), g = w.in("f32[2,4,5,3]");
  return w.text({w.op("select_and_scatter", {x, g, w.number(Dtype::f32, 0)}, "f32[2,8,9,3]",
                      "{padding = [0, 0, 0, 1, 1, 1, 0, 0], scatter_kind = \"add\", select_kind = \"GE\", "
                      "window_dimensions = [1, 3, 3, 1], window_strides = [1, 2, 2, 1]}")});
}

void add_windows(Graphs& all) {
  all.push_back({"a running sum",
                 windows("f32[4,40]", "add", 0, Dtype::f32, "padding = [0, 0, 39, 0], window_dimensions = [1, 40]")});
  all.push_back({"of columns, from the end",
                 windows("bf16[40,6]", "add", 0, Dtype::bf16, "padding = [0, 39, 0, 0], window_dimensions = [40, 1]"),
                 1e-1});
  all.push_back(
      {"a running product from another number",
       windows("f32[4,16]", "multiply", 3, Dtype::f32, "padding = [0, 0, 15, 0], window_dimensions = [1, 16]")});
  all.push_back({"the largest so far", windows("f32[4,40]", "maximum", -HUGE_VAL, Dtype::f32,
                                               "padding = [0, 0, 39, 0], window_dimensions = [1, 40]")});
  all.push_back(
      {"a running sum of a long row",
       windows("f32[2,16384]", "add", 0, Dtype::f32, "padding = [0, 0, 0, 16383], window_dimensions = [1, 16384]"),
       1e-4});
  all.push_back({"flags counted", counts()});
  all.push_back(
      {"the largest of windows",
       windows("f32[2,8,9,3]", "maximum", -HUGE_VAL, Dtype::f32,
               "padding = [0, 0, 0, 1, 1, 1, 0, 0], window_dimensions = [1, 3, 3, 1], window_strides = [1, 2, 2, 1]",
               "f32[2,4,5,3]")});
  all.push_back({"sums of windows that slide",
                 windows("f32[2,30]", "add", 1, Dtype::f32, "window_dimensions = [1, 11]", "f32[2,20]")});
  all.push_back(
      {"sums of windows with holes",
       windows("s32[2,30]", "add", 0, Dtype::s32,
               "base_dilations = [1, 2], window_dilations = [1, 3], window_dimensions = [1, 4]", "s32[2,50]")});
  all.push_back({"the gradient of pooling", unpooled()});
}

// --- the largest, and order ---

std::string arg_max(std::string_view dtype, int64_t rows, int64_t n, bool is_max) {
  W w;
  const std::string type = cat(dtype, "[", rows, ",", n, "]"), one(cat(dtype, "[]"));
  const std::string x = w.in(type), at = w.op("iota", {}, cat("s32[", rows, ",", n, "]"), "{iota_dimension = 1}");
  const Dtype d = dtype == "f32" ? Dtype::f32 : Dtype::bf16;
  const std::string worst = w.number(d, is_max ? -HUGE_VAL : HUGE_VAL), zero = w.number(Dtype::s32, 0);
  const std::string region =
      cat("{dimensions = [1]} (%90: ", one, ", %91: s32[], %92: ", one,
          ", %93: s32[]) {\n    %94 = compare %90, %92 {direction = \"", is_max ? "GT" : "LT",
          "\"} : bool[]\n    %95 = compare %90, %90 {direction = \"NE\"} : bool[]\n    %96 = or %94, %95 : bool[]\n"
          "    %97 = compare %90, %92 {direction = \"EQ\"} : bool[]\n    %98 = compare %91, %93 {direction = \"LT\"} : "
          "bool[]\n"
          "    %99 = and %97, %98 : bool[]\n    %100 = or %96, %99 : bool[]\n    %101 = select %96, %90, %92 : ",
          one, "\n    %102 = select %100, %91, %93 : s32[]\n    return %101, %102\n  }");
  const std::string found = w.op("reduce", {x, at, worst, zero}, cat(dtype, "[", rows, "], s32[", rows, "]"), region);
  return w.text({cat(found, "#0"), cat(found, "#1")});
}
// Some elements are NaN: the square roots of what is negative.
std::string top(std::string_view op, std::string_view type, std::string_view types, std::string_view how,
                bool has_nan) {
  W w;
  std::string x = w.in(type);
  if (has_nan) x = w.op("sqrt", {x}, type);
  const std::string found = w.op(op, {x}, types, how);
  return w.text({cat(found, "#0"), cat(found, "#1")});
}
std::string sorted(std::string_view dims, int dim, bool up, bool with_indices) {
  W w;
  W::Names in = {w.in(cat("f32", dims))};
  if (with_indices) in.push_back(w.op("iota", {}, cat("s32", dims), cat("{iota_dimension = ", dim, "}")));
  const std::string s = w.op("sort", in, with_indices ? cat("f32", dims, ", s32", dims) : cat("f32", dims),
                             cat("{compare_type = \"TOTALORDER\", dimension = ", dim, ", direction = \"",
                                 up ? "LT" : "GT", "\", is_stable = true}"));
  return with_indices ? w.text({cat(s, "#0"), cat(s, "#1")}) : w.text({s});
}
// By a region, in which NaN is before nothing and zeros are alike.
std::string sorted_by_region(std::string_view type, bool up) {
  W w;
  const std::string x = w.in(type);
  return w.text({w.op("sort", {x}, type,
                      cat("{dimension = 1, is_stable = true} (%90: f32[], %91: f32[]) {\n    %92 = compare %90, %91 "
                          "{direction = \"",
                          up ? "LT" : "GT", "\"} : bool[]\n    return %92\n  }"))});
}

void add_order(Graphs& all) {
  all.push_back({"where the largest is", arg_max("f32", 3, 1000, true)});
  all.push_back({"where the least of narrow floats is", arg_max("bf16", 40, 70, false)});
  all.push_back({"where the largest of a short row is", arg_max("f32", 3, 10, true)});
  all.push_back(
      {"the largest few of a long row", top("top_k", "f32[2,20000]", "f32[2,5], s32[2,5]", "{k = 5}", false)});
  all.push_back({"the largest few of a row", top("top_k", "f32[3,40]", "f32[3,12], s32[3,12]", "{k = 12}", false)});
  all.push_back({"rows in order", sorted("[3,9]", 1, true, false)});
  all.push_back({"columns in order, with their places", sorted("[9,3]", 0, false, true)});
  all.push_back({"many rows in order", sorted_by_region("f32[64,64]", true)});
  all.push_back({"many rows downwards", sorted_by_region("f32[64,64]", false)});
}

// --- multiplies and convolutions ---

std::string convolution(std::string_view more = "") {
  return cat(
      "{input_batch = 0, input_feature = 1, input_spatial = [2, 3], kernel_input_feature = 1, "
      "kernel_output_feature = 0, kernel_spatial = [2, 3], output_batch = 0, output_feature = 1, "
      "output_spatial = [2, 3]",
      more, "}");
}
// Two convolutions with what is between them, then a sum over pixels.
std::string images() {
  W w;
  const std::string x = w.in("f32[8,16,12,12]"), a = w.in("f32[16,16,3,3]"), b = w.in("f32[16,16,1,1]"),
                    bias = w.in("f32[16]");
  const std::string type = "f32[8,16,12,12]";
  const std::string y = w.op("convolution", {x, a}, type, convolution(", padding = [1, 1, 1, 1]"));
  const std::string z = w.op(
      "maximum", {w.op("add", {y, w.spread(bias, type, "1")}, type), w.spread(w.number(Dtype::f32, 0), type)}, type);
  const std::string out = w.op("convolution", {z, b}, type, convolution());
  return w.text({w.reduce(out, "add", "2, 3", "f32[8,16]")});
}
std::string dot(std::string_view a, std::string_view b, std::string_view type, std::string_view how) {
  return one("dot_general", {a, b}, type, how);
}
std::string batch_norm(bool trains) {
  W w;
  const std::string x = w.in("f32[4,6,5]"), scale = w.in("f32[6]"), offset = w.in("f32[6]"), mean = w.in("f32[6]"),
                    var = w.op("exponential", {w.in("f32[6]")}, "f32[6]");
  const std::string how = "{epsilon = real 0.001, feature_index = 1}";
  if (!trains) return w.text({w.op("batch_norm_inference", {x, scale, offset, mean, var}, "f32[4,6,5]", how)});
  const std::string out = w.op("batch_norm_training", {x, scale, offset}, "f32[4,6,5], f32[6], f32[6]", how);
  const std::string back = w.op("batch_norm_grad", {x, scale, cat(out, "#1"), cat(out, "#2"), w.in("f32[4,6,5]")},
                                "f32[4,6,5], f32[6], f32[6]", how);
  return w.text({cat(out, "#0"), cat(out, "#1"), cat(out, "#2"), cat(back, "#0"), cat(back, "#1"), cat(back, "#2")});
}

void add_multiplies(Graphs& all) {
  const auto conv = [&](std::string_view name, std::string_view x, std::string_view k, std::string_view out,
                        std::string_view how) {
    all.push_back({std::string(name), one("convolution", {x, k}, out, how), 1e-4});
  };
  conv("a padded convolution", "f32[2,3,8,9]", "f32[4,3,3,3]", "f32[2,4,8,9]", convolution(", padding = [1, 1, 1, 1]"));
  conv("patches", "f32[2,3,8,12]", "f32[4,3,4,4]", "f32[2,4,2,3]", convolution(", window_strides = [4, 4]"));
  conv("a convolution with holes", "f32[2,16,8,9]", "f32[4,16,3,2]", "f32[2,4,8,13]",
       convolution(", lhs_dilation = [1, 2], padding = [2, 2, -1, 0], rhs_dilation = [2, 3]"));
  conv("every channel by itself", "bf16[2,8,8,9]", "bf16[16,1,3,3]", "bf16[2,16,6,7]",
       convolution(", feature_group_count = 8"));
  conv("groups of channels", "f32[2,8,8,9]", "f32[16,4,3,3]", "f32[2,16,6,7]",
       convolution(", feature_group_count = 2"));
  conv("a stride of two over few channels", "f32[2,3,16,16]", "f32[8,3,7,7]", "f32[2,8,8,8]",
       convolution(", padding = [3, 3, 3, 3], window_strides = [2, 2]"));
  conv("a convolution of rows", "f32[2,16,30]", "f32[8,16,3]", "f32[2,8,28]",
       "{input_batch = 0, input_feature = 1, input_spatial = [2], kernel_input_feature = 1, kernel_output_feature = 0, "
       "kernel_spatial = [2], output_batch = 0, output_feature = 1, output_spatial = [2]}");
  conv("the gradient of a kernel", "f32[4,16,12,12]", "f32[4,16,10,10]", "f32[16,16,3,3]",
       "{input_batch = 1, input_feature = 0, input_spatial = [2, 3], kernel_input_feature = 0, kernel_output_feature = "
       "1, "
       "kernel_spatial = [2, 3], output_batch = 0, output_feature = 1, output_spatial = [2, 3]}");
  conv("volumes", "f32[1,4,6,7,8]", "f32[5,4,3,3,3]", "f32[1,5,4,5,6]",
       "{input_batch = 0, input_feature = 1, input_spatial = [2, 3, 4], kernel_input_feature = 1, "
       "kernel_output_feature = 0, "
       "kernel_spatial = [2, 3, 4], output_batch = 0, output_feature = 1, output_spatial = [2, 3, 4]}");
  all.push_back({"images that do not fit on chip", images(), 1e-3, 1 << 10});
  all.push_back({"a long vector by another",
                 dot("f32[16384]", "f32[16384]", "f32[]", "{lhs_contract = [0], rhs_contract = [0]}"), 1e-4});
  all.push_back({"an outer product", dot("f32[7]", "f32[9]", "f32[7,9]", "{}")});
  all.push_back({"a few numbers of many batches",
                 dot("f32[80,4]", "f32[80,4,9]", "f32[80,9]",
                     "{lhs_batch = [0], lhs_contract = [1], rhs_batch = [0], rhs_contract = [1]}")});
  all.push_back(
      {"integers multiplied", dot("s8[7,30]", "s8[30,5]", "s32[7,5]", "{lhs_contract = [1], rhs_contract = [0]}")});
  all.push_back(
      {"a sum over nothing", dot("f32[7,0]", "f32[0,5]", "f32[7,5]", "{lhs_contract = [1], rhs_contract = [0]}")});
  all.push_back({"batch norm in training", batch_norm(true), 1e-4});
  all.push_back({"batch norm in inference", batch_norm(false), 1e-4});
}

// --- rows ---

std::string softmax(std::string_view type, std::string_view rows) {
  W w;
  const std::string x = w.in(type), top = w.reduce(x, "maximum", "1", rows, Dtype::f32, -HUGE_VAL);
  const std::string e = w.op("exponential", {w.op("subtract", {x, w.spread(top, type, "0")}, type)}, type);
  const std::string p = w.op("divide", {e, w.spread(w.reduce(e, "add", "1", rows), type, "0")}, type);
  const std::string at = w.op("iota", {}, type, "{iota_dimension = 1}");
  return w.text({p, w.reduce(w.op("multiply", {p, at}, type), "add", "1", rows)});
}
// Sequences of 100 positions: a multiply with what follows it, and the mean of its rows.
std::string sequences() {
  W w;
  const std::string x = w.in("f32[3,100,64]"), weights = w.in("f32[64,32]"), bias = w.in("f32[32]"),
                    type = "f32[3,100,32]";
  const std::string y = w.op("dot_general", {x, weights}, type, "{lhs_contract = [2], rhs_contract = [0]}");
  const std::string z = w.op("tanh", {w.op("add", {y, w.spread(bias, type, "2")}, type)}, type);
  const std::string mean = w.reduce(z, "add", "2", "f32[3,100]");
  return w.text({w.op("subtract", {z, w.spread(mean, type, "0, 1")}, type)});
}
std::string list() {
  W w;
  const std::string type = "f32[32768]", x = w.in(type), y = w.in(type);
  return w.text({w.op("add", {w.op("multiply", {x, w.spread(w.number(Dtype::f32, 0.5), type)}, type), y}, type)});
}
std::string reduced(std::string_view type, std::string_view kind, std::string_view dims, std::string_view to,
                    Dtype dtype, double init) {
  W w;
  const std::string x = w.in(type);
  return w.text({w.reduce(x, kind, dims, to, dtype, init)});
}

void add_rows(Graphs& all) {
  all.push_back({"softmax over a vocabulary", softmax("f32[4,32768]", "f32[4]"), 1e-4});
  all.push_back({"sequences of an odd length", sequences(), 1e-4});
  all.push_back({"a list of numbers", list()});
  const auto reduce = [&](std::string_view name, std::string_view type, std::string_view kind, std::string_view dims,
                          std::string_view to, Dtype dtype, double init) {
    all.push_back({std::string(name), reduced(type, kind, dims, to, dtype, init), dtype == Dtype::bf16 ? 2e-2 : 1e-4});
  };
  reduce("a sum of all", "f32[64,300]", "add", "0, 1", "f32[]", Dtype::f32, 1);
  reduce("a sum of major dims", "f32[70,200]", "add", "0", "f32[200]", Dtype::f32, 0);
  reduce("of narrow floats", "bf16[70,200]", "add", "0", "bf16[200]", Dtype::bf16, 0);
  reduce("a sum of few rows", "f32[5,256]", "add", "0", "f32[256]", Dtype::f32, 2);
  reduce("pixels and channels", "f32[40,20,4]", "add", "0, 2", "f32[20]", Dtype::f32, 0);
  reduce("the largest of major dims", "f32[600,16]", "maximum", "0", "f32[16]", Dtype::f32, -HUGE_VAL);
  reduce("a product", "f32[3,20]", "multiply", "1", "f32[3]", Dtype::f32, 1);
  reduce("a sum of integers", "s32[3,20]", "add", "1", "s32[3]", Dtype::s32, 7);
  reduce("bits of integers", "s32[3,21]", "xor", "1", "s32[3]", Dtype::s32, 0);
}

// --- elements ---

std::string functions(std::string_view dtype) {
  W w;
  const std::string type = cat(dtype, "[6,40]"), x = w.in(type), u = w.op("logistic", {x}, type),
                    e = w.op("exponential", {x}, type);
  W::Names out;
  for (const char* f :
       {"sine", "cosine", "tan", "tanh", "sinh", "cosh", "asinh", "atan", "erf", "erfc", "exponential_minus_one",
        "cbrt", "round_nearest_afz", "round_nearest_even", "floor", "ceil", "sign", "square"})
    out.push_back(w.op(f, {x}, type));
  for (const char* f : {"asin", "acos", "atanh", "erf_inv", "log_plus_one"}) out.push_back(w.op(f, {u}, type));
  for (const char* f : {"log", "sqrt", "rsqrt", "lgamma", "digamma"}) out.push_back(w.op(f, {e}, type));
  out.push_back(w.op(
      "acosh", {w.op("add", {e, w.spread(w.number(dtype == "f32" ? Dtype::f32 : Dtype::bf16, 1), type)}, type)}, type));
  out.push_back(w.op("atan2", {x, u}, type));
  out.push_back(w.op("power", {e, x}, type));
  out.push_back(w.op("remainder", {x, u}, type));
  return w.text(out);
}
std::string flags() {
  W w;
  const std::string type = "f32[6,40]", to = "bool[6,40]",
                    x = w.op("divide", {w.in(type), w.op("floor", {w.in(type)}, type)}, type), y = w.in(type);
  W::Names out;
  for (const char* f : {"is_finite", "is_inf", "is_pos_inf", "is_neg_inf"}) out.push_back(w.op(f, {x}, to));
  for (const char* d : {"EQ", "NE", "LT", "LE", "GT", "GE"}) {
    out.push_back(w.op("compare", {x, y}, to, cat("{compare_type = \"TOTALORDER\", direction = \"", d, "\"}")));
    out.push_back(w.op("compare", {x, y}, to, cat("{direction = \"", d, "\"}")));
  }
  out.push_back(w.op("reduce_precision", {y}, type, "{exponent_bits = 5, mantissa_bits = 10}"));
  return w.text(out);
}
// x: from -300 to 700 or so; unsigned ones wrap.
std::string integers(std::string_view dtype, Dtype d) {
  W w;
  const std::string type = cat(dtype, "[6,40]"), a = w.in(type), b = w.in(type);
  const auto number = [&](double v) { return w.spread(w.number(d, v), type); };
  const std::string x =
      w.op("subtract",
           {w.op("multiply", {w.op("multiply", {a, a}, type), w.op("add", {b, number(23)}, type)}, type), number(100)},
           type);
  const std::string y = w.op("add", {b, number(1)}, type);
  W::Names out;
  for (const char* f : {"add", "subtract", "multiply", "divide", "remainder", "maximum", "and", "or", "xor",
                        "shift_left", "shift_right_logical", "shift_right_arithmetic"})
    out.push_back(w.op(f, {x, y}, type));
  for (const char* f : {"not", "popcnt", "count_leading_zeros"}) out.push_back(w.op(f, {x}, type));
  out.push_back(w.op("divide", {x, number(7)}, type));
  out.push_back(w.op("remainder", {x, number(7)}, type));
  out.push_back(w.op("divide", {x, number(8)}, type));
  return w.text(out);
}
// As front-ends write x // 7: the quotient, less one where signs differ and something is left.
std::string downwards() {
  W w;
  const std::string type = "s32[6,40]", flag = "bool[6,40]", a = w.in(type),
                    x = w.op("subtract",
                             {w.op("multiply", {a, w.spread(w.number(Dtype::s32, 9), type)}, type),
                              w.spread(w.number(Dtype::s32, 20), type)},
                             type);
  const std::string d = w.spread(w.number(Dtype::s32, 7), type), zero = w.spread(w.number(Dtype::s32, 0), type);
  const std::string q = w.op("divide", {x, d}, type), rest = w.op("remainder", {x, d}, type);
  const std::string signs =
      w.op("compare", {w.op("sign", {x}, type), w.op("sign", {d}, type)}, flag, "{direction = \"NE\"}");
  const std::string left = w.op("compare", {rest, zero}, flag, "{direction = \"NE\"}");
  const std::string less = w.op("subtract", {q, w.spread(w.number(Dtype::s32, 1), type)}, type);
  return w.text({w.op("select", {w.op("and", {signs, left}, flag), less, q}, type)});
}
// As quantisation writes it.
std::string rounded() {
  W w;
  const std::string type = "f32[6,40]", x = w.in(type),
                    big = w.op("multiply", {x, w.spread(w.number(Dtype::f32, 100), type)}, type);
  const std::string whole = w.op("round_nearest_even", {big}, type);
  const std::string clamped = w.op("clamp", {w.number(Dtype::f32, -128), whole, w.number(Dtype::f32, 127)}, type);
  return w.text({w.op("convert", {clamped}, "s8[6,40]"), w.op("convert", {whole}, "s32[6,40]"),
                 w.op("convert", {big}, "s32[6,40]"), w.op("convert", {w.op("floor", {big}, type)}, "s16[6,40]")});
}
std::string random(std::string_view how) {
  W w;
  const std::string state = w.op("convert", {w.in("u32[2]")}, "u64[2]");
  const std::string made =
      w.op("rng_bit_generator", {state}, "u64[2], u32[5,6]", cat("{rng_algorithm = \"", how, "\"}"));
  return w.text({cat(made, "#1")});
}

void add_elements(Graphs& all) {
  all.push_back({"functions", functions("f32"), 1e-3});
  all.push_back({"functions of narrow floats", functions("bf16"), 5e-2});
  all.push_back({"flags", flags()});
  all.push_back({"signed integers", integers("s32", Dtype::s32)});
  all.push_back({"unsigned integers", integers("u32", Dtype::u32)});
  all.push_back({"bytes", integers("s8", Dtype::s8)});
  all.push_back({"unsigned words of 16 bits", integers("u16", Dtype::u16)});
  all.push_back({"division downwards", downwards()});
  all.push_back({"floats rounded to integers", rounded()});
  all.push_back({"random bits", random("THREE_FRY")});
  all.push_back({"other random bits", random("PHILOX")});
  all.push_back({"padding of both signs",
                 one("pad", {"f32[5,6]", "f32[]"}, "f32[7,10]",
                     "{edge_padding_high = [3, -2], edge_padding_low = [-1, 1], interior_padding = [0, 1]}")});
}

}  // namespace

std::vector<DeviceGraph> device_graphs() {
  Graphs all;
  add_attention(all);
  add_indices(all);
  add_windows(all);
  add_order(all);
  add_multiplies(all);
  add_rows(all);
  add_elements(all);
  return all;
}

}  // namespace trine::compile
