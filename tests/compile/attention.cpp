// Attention is found in graphs as JAX writes them, and gives what the graph gives; what only looks like it is left
// alone.
#include "compile/graph/attention.h"

#include <map>

#include "base/text.h"
#include "tests/compile/testing.h"

namespace trine::compile {

namespace {

// The graph of one attention: q[b,q,g,h,d], k and v[b,k,g,d], as einsum and softmax of JAX lower them.
struct Written {
  int64_t batch = 2, queries = 5, keys = 7, groups = 3, shared = 2, dim = 8;
  std::string dtype = "f32";
  std::string scale = "x0000003f";  // 0.5
  std::string mask = "";            // lines that make %mask from %scaled; {S}: the type of the scores
  std::string params = "";          // more parameters
  std::string after = "";           // instead of giving %result
};

std::string replaced(std::string text, const std::string& what, const std::string& by) {
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += by.size())
    text.replace(at, what.size(), by);
  return text;
}

// Names become numbers in the order they appear, as the text form wants them.
std::string numbered(const std::string& text) {
  std::map<std::string, int> names;
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    out += text[i];
    if (text[i] != '%') continue;
    size_t end = i + 1;
    while (end < text.size() && (std::isalnum(uint8_t(text[end])) || text[end] == '_')) ++end;
    out += std::to_string(names.emplace(text.substr(i + 1, end - i - 1), int(names.size())).first->second);
    i = end - 1;
  }
  return out;
}

std::string text_of(const Written& w) {
  std::string t = R"((%q: {D}[{b},{q},{g},{h},{d}], %k: {D}[{b},{k},{g},{d}], %v: {D}[{b},{k},{g},{d}]{params}) {
  %dot = dot_general %k, %q {lhs_batch = [0, 2], lhs_contract = [3], rhs_batch = [0, 2], rhs_contract = [4]} : {D}[{b},{g},{k},{q},{h}]
  %turned = transpose %dot {permutation = [0, 1, 4, 3, 2]} : {D}[{b},{g},{h},{q},{k}]
  %wide = convert %turned : {S}
  %scale = constant {value = f32[] {scale}} : f32[]
  %scales = broadcast_in_dim %scale {broadcast_dimensions = []} : {S}
  %scaled = multiply %wide, %scales : {S}
{mask}
  %least = constant {value = f32[] x000080ff} : f32[]
  %most = reduce %mask, %least {dimensions = [4], kind = "maximum"} : f32[{b},{g},{h},{q}]
  %leasts = broadcast_in_dim %least {broadcast_dimensions = []} : f32[{b},{g},{h},{q}]
  %mosts = maximum %leasts, %most : f32[{b},{g},{h},{q}]
  %most1 = broadcast_in_dim %mosts {broadcast_dimensions = [0, 1, 2, 3]} : f32[{b},{g},{h},{q},1]
  %most2 = broadcast_in_dim %most1 {broadcast_dimensions = [0, 1, 2, 3, 4]} : {S}
  %less = subtract %mask, %most2 : {S}
  %exp = exponential %less : {S}
  %zero = constant {value = f32[] x00000000} : f32[]
  %sum = reduce %exp, %zero {dimensions = [4], kind = "add"} : f32[{b},{g},{h},{q}]
  %sums = broadcast_in_dim %sum {broadcast_dimensions = [0, 1, 2, 3]} : {S}
  %weights = divide %exp, %sums : {S}
  %narrow = convert %weights : {D}[{b},{g},{h},{q},{k}]
  %out = dot_general %v, %narrow {lhs_batch = [0, 2], lhs_contract = [1], rhs_batch = [0, 1], rhs_contract = [4]} : {D}[{b},{g},{d},{h},{q}]
  %result = transpose %out {permutation = [0, 4, 1, 3, 2]} : {D}[{b},{q},{g},{h},{d}]
{after} })";
  t = replaced(t, "{mask}", w.mask.empty() ? "  %mask = negate %scaled : {S}" : w.mask);
  if (w.mask.empty()) t = replaced(replaced(t, "  %mask = negate %scaled : {S}\n", ""), "%mask", "%scaled");
  t = replaced(t, "{after}", w.after.empty() ? "  return %result" : w.after);
  t = replaced(replaced(replaced(t, "{params}", w.params), "{scale}", w.scale), "{S}", "f32[{b},{g},{h},{q},{k}]");
  for (auto [name, size] : {std::pair{"{b}", w.batch},
                            {"{q}", w.queries},
                            {"{g}", w.groups},
                            {"{h}", w.shared},
                            {"{k}", w.keys},
                            {"{d}", w.dim}})
    t = replaced(t, name, std::to_string(size));
  // A conversion to the same dtype is none.
  t = replaced(t, "{D}", w.dtype);
  return numbered(t);
}

const arch::AttentionStep* attention_of(const arch::HostPlan& plan) {
  for (const arch::Step& step : plan.steps)
    if (const auto* a = std::get_if<arch::AttentionStep>(&step.what)) return a;
  return nullptr;
}

// k <= q + offset, elsewhere -1e9.
std::string causal(int64_t offset) {
  return cat(R"(  %i = iota {iota_dimension = 0} : s32[{q}]
  %by = constant {value = s32[{q}] all x)",
             offset < 16 ? "0" : "", offset == 0 ? "0" : std::to_string(offset), R"(000000} : s32[{q}]
  %places = add %i, %by : s32[{q}]
  %at = broadcast_in_dim %places {broadcast_dimensions = [0]} : s32[{q},{k}]
  %j = iota {iota_dimension = 1} : s32[{q},{k}]
  %seen1 = compare %j, %at {direction = "LE"} : bool[{q},{k}]
  %seen = broadcast_in_dim %seen1 {broadcast_dimensions = [3, 4]} : bool[{b},{g},{h},{q},{k}]
  %low = constant {value = f32[] x286b6ece} : f32[]
  %lows = broadcast_in_dim %low {broadcast_dimensions = []} : {S}
  %mask = select %seen, %scaled, %lows : {S})");
}

const char* const kMasked = R"(  %seen = broadcast_in_dim %m {broadcast_dimensions = [0, 4]} : bool[{b},{g},{h},{q},{k}]
  %low = constant {value = f32[] x286b6ece} : f32[]
  %lows = broadcast_in_dim %low {broadcast_dimensions = []} : {S}
  %mask = select %seen, %scaled, %lows : {S})";

}  // namespace

TEST_CASE("attention: heads, groups and sizes of one") {
  for (const Written& w : {Written{}, Written{.shared = 1}, Written{.groups = 1}, Written{.batch = 1, .queries = 1},
                           Written{.batch = 1, .groups = 1, .shared = 1},
                           Written{.queries = 40, .keys = 300, .dim = 16}, Written{.shared = 4, .dim = 1}}) {
    const auto plan = check_plan("attention", text_of(w), 1, 64);
    const arch::AttentionStep* a = attention_of(*plan);
    REQUIRE(a);
    CHECK(a->scale == 0.5f);
    CHECK(!a->causal);
    CHECK(!a->has_bias);
    CHECK(a->batch * a->heads * a->queries == w.batch * w.groups * w.shared * w.queries);
  }
}

TEST_CASE("attention: narrow floats") {
  const auto plan = check_plan("bf16", text_of({.dtype = "bf16"}), 1, 200000);
  CHECK(attention_of(*plan));
}

TEST_CASE("attention: a mask by position takes no memory") {
  for (int64_t offset : {0, 2}) {
    const auto plan = check_plan("causal", text_of({.mask = causal(offset)}), 1, 64);
    const arch::AttentionStep* a = attention_of(*plan);
    REQUIRE(a);
    CHECK(a->causal);
    CHECK(a->causal_offset == offset);
    CHECK(!a->has_bias);
  }
  // One query: the keys after it are not read.
  const auto plan = check_plan("one", text_of({.queries = 1, .mask = causal(3)}), 1, 64);
  REQUIRE(attention_of(*plan));
  CHECK(!attention_of(*plan)->causal);
  CHECK(attention_of(*plan)->keys == 4);
}

TEST_CASE("attention: masks and biases in memory") {
  const auto masked = check_plan("mask", text_of({.mask = kMasked, .params = ", %m: bool[{b},{k}]"}), 1, 64);
  REQUIRE(attention_of(*masked));
  CHECK(attention_of(*masked)->has_bias);
  CHECK(attention_of(*masked)->masked == -1e9f);
  const auto biased =
      check_plan("bias",
                 text_of({.mask = R"(  %b5 = broadcast_in_dim %m {broadcast_dimensions = [0, 3, 4]} : {S}
  %mask = add %b5, %scaled : {S})",
                          .params = ", %m: f32[{b},{q},{k}]"}),
                 1, 64);
  CHECK(attention_of(*biased));
  // A bias of each head of keys: copied, so that heads are evenly apart.
  const auto copied = check_plan("bias by head",
                                 text_of({.mask = R"(  %b5 = broadcast_in_dim %m {broadcast_dimensions = [1, 4]} : {S}
  %mask = add %scaled, %b5 : {S})",
                                          .params = ", %m: f32[{g},{k}]"}),
                                 2, 64);
  CHECK(attention_of(*copied));
  // By position and in memory at once.
  std::string both = causal(0);
  both = replaced(both, "%mask = select %seen,",
                  "%other = broadcast_in_dim %m {broadcast_dimensions = [0, 4]} : "
                  "bool[{b},{g},{h},{q},{k}]\n  %all = and %seen, %other : "
                  "bool[{b},{g},{h},{q},{k}]\n  %mask = select %all,");
  const auto plan = check_plan("both", text_of({.mask = both, .params = ", %m: bool[{b},{k}]"}), 1, 1e9);
  REQUIRE(attention_of(*plan));
  CHECK(attention_of(*plan)->causal);
  CHECK(attention_of(*plan)->has_bias);
  // A window: the other half of the mask is a value that nothing but the attention needs.
  std::string window = causal(0);
  window = replaced(window, "%mask = select %seen,",
                    "%not = not %m : bool[{b},{k}]\n  %other = broadcast_in_dim %not {broadcast_dimensions = [0, 4]} : "
                    "bool[{b},{g},{h},{q},{k}]\n  %all = and %seen, %other : "
                    "bool[{b},{g},{h},{q},{k}]\n  %view = reshape %all : bool[{b},{g},{h},{q},{k}]\n"
                    "  %mask = select %view,");
  const auto seen = check_plan("window", text_of({.mask = window, .params = ", %m: bool[{b},{k}]"}), 2, 1e9);
  REQUIRE(attention_of(*seen));
  CHECK(attention_of(*seen)->causal);
}

TEST_CASE("attention: a cache that is updated for it alone is not copied") {
  Written w{.queries = 1, .shared = 2, .params = ", %ck: f32[{b},{k},{g},{d}], %cv: f32[{b},{k},{g},{d}], %at: s32[]"};
  for (bool given : {false, true}) {
    std::string t = text_of(w);
    // The keys and values given are one position, written into a cache at %at.
    t = replaced(t, "%1: f32[2,7,3,8], %2: f32[2,7,3,8]", "%1: f32[2,1,3,8], %2: f32[2,1,3,8]");
    t = replaced(t, "%6 = dot_general %1,", R"(%90 = constant {value = s32[] x00000000} : s32[]
  %91 = dynamic_update_slice %3, %1, %90, %5, %90, %90 : f32[2,7,3,8]
  %92 = dynamic_update_slice %4, %2, %90, %5, %90, %90 : f32[2,7,3,8]
  %6 = dot_general %91,)");
    t = replaced(t, "dot_general %2,", "dot_general %92,");
    if (given) t = replaced(t, "return ", "return %91, ");
    const auto plan = check_plan("cache", t, given ? 2 : 1, 64);
    REQUIRE(attention_of(*plan));
    CHECK(attention_of(*plan)->k_patch.count == (given ? 0 : 1));
    CHECK(attention_of(*plan)->v_patch.count == 1);
  }
}

TEST_CASE("attention: what is not one, or is looked into") {
  const char* const scale_last = R"(  %b5 = broadcast_in_dim %m {broadcast_dimensions = [0, 3, 4]} : {S}
  %sum5 = add %b5, %scaled : {S}
  %mask = multiply %sum5, %scales : {S})";
  CHECK(!attention_of(
      *check_plan("scaled bias", text_of({.mask = scale_last, .params = ", %m: f32[{b},{q},{k}]"}), 4, 64)));
  CHECK(!attention_of(*check_plan("soft cap", text_of({.mask = "  %mask = tanh %scaled : {S}"}), 4, 64)));
  CHECK(!attention_of(*check_plan("weights wanted", text_of({.after = "  return %result, %weights"}), 4, 64)));
  CHECK(!attention_of(*check_plan("one key", text_of({.batch = 1, .keys = 1}), 4, 64)));
  // Rows that see nothing are averages, not nothing.
  const auto none =
      check_plan("before the first", text_of({.mask = replaced(causal(1), "add %i", "subtract %i")}), 2, 64);
  REQUIRE(attention_of(*none));
  CHECK(!attention_of(*none)->causal);
  // Scores that are masked with a small number still count.
  const auto small = check_plan("small", text_of({.mask = replaced(causal(0), "x286b6ece", "x0000803f")}), 2, 64);
  REQUIRE(attention_of(*small));
  CHECK(!attention_of(*small)->causal);
}

}  // namespace trine::compile
