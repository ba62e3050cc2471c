// Broken artifacts: each is refused with what was found, what was expected and where; none needs more stack or memory
// than its size allows.
#include <filesystem>
#include <functional>

#include "base/file.h"
#include "base/text.h"
#include "front/stablehlo/graph/graph.h"
#include "front/stablehlo/print/print.h"
#include "front/stablehlo/read.h"
#include "tests/testing.h"

using namespace trine;
using namespace trine::front::stablehlo;

namespace {

const std::filesystem::path kData = std::filesystem::path(TRINE_SOURCE_DIR) / "tests/front/stablehlo/data";

std::string stored(std::string_view name) { return *read_file((kData / name).string()); }

// The error, as one line; "" where there is none.
std::string refusal(std::string bytes) {
  const auto module = read_module(std::move(bytes), "x");
  return module ? "" : module.error().text();
}

std::string repeated(std::string_view text, int n) {
  std::string out;
  for (int i = 0; i < n; ++i) out += text;
  return out;
}

std::string replaced(std::string bytes, std::string_view from, std::string_view to) {
  const size_t at = bytes.find(from);
  CHECK_MESSAGE(at != std::string::npos, from);
  return bytes.replace(at, from.size(), to);
}

}  // namespace

TEST_CASE("an artifact cut short anywhere is refused with its place") {
  for (std::string_view name : {"loops.artifact", "shard_map.artifact", "conv.bytecode", "sharding.bytecode"}) {
    const std::string whole = stored(name);
    for (size_t size = 4; size < whole.size(); ++size) {
      const std::string error = refusal(whole.substr(0, size));
      CHECK_MESSAGE(error.starts_with("x: byte "), cat(name, " cut to ", size, " bytes: ", error));
    }
  }
}

TEST_CASE("a byte changed anywhere is refused with its place, or changes what is read") {
  uint64_t random = 1;
  for (std::string_view name : {"branches.artifact", "pjit.artifact", "ops.bytecode", "reduce.bytecode"}) {
    const std::string whole = stored(name);
    for (size_t at = 0; at < whole.size(); at += 3) {
      std::string changed = whole;
      random = random * 6364136223846793005 + 1442695040888963407;
      changed[at] = char(uint8_t(changed[at]) ^ uint8_t(1 + (random >> 33) % 255));
      auto module = read_module(changed, "x");
      if (module) {
        auto text = print(*module, {.locations = true, .bytes_max = 1 << 20});
        if (text) CHECK_MESSAGE(read_module(*text, "printed").has_value(), cat(name, " changed at ", at));
        const auto graph = to_graph(*module);
        if (!graph) CHECK_FALSE(graph.error().message.empty());
      } else {
        CHECK_FALSE(module.error().message.empty());
        CHECK(module.error().where.starts_with("x"));
      }
    }
  }
}

TEST_CASE("what is wrong with an artifact is said") {
  const std::string good = stored("dot.artifact");
  std::string version = good, kind = good;
  version[4] = char(99 * 2 + 1);
  kind[good.find('\0', 5) + 1] = 0x55;
  CHECK(refusal("ML\xefR") == "x: byte 4: the bytes end where the bytecode's version was expected");
  CHECK(refusal(version) == "x: byte 4: bytecode version 99; this reader knows 1 to 6");
  CHECK(refusal(kind).find("a section of kind 85; the last known is 8") != std::string::npos);
  CHECK(refusal(replaced(good, "dot_general_v2", "dot_general_v9"))
            .find("op vhlo.dot_general_v9 of StableHLO_v1.10.0; this reader knows the ops of 1.6 to 1.17") !=
        std::string::npos);
  CHECK(refusal(replaced(good, "dot_general_v2", "dot_generic_v2")).find("op vhlo.dot_generic_v2") !=
        std::string::npos);
}

TEST_CASE("what is wrong with a text is said") {
  struct Case {
    std::string text, error;
  };
  const std::string open = "module {\n  func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {\n    ",
                    close = "\n  }\n}\n";
  const Case cases[] = {
      {"", "x:1:1: expected a module, found the end"},
      {"hello", "x:1:1: op hello has no short form here; the generic form \"hello\"(...) is read"},
      {open + "%0 = stablehlo.add %x, %y : tensor<2xf32>" + close, "x:3:28: %y is used before it is defined"},
      {open + "%0 = stablehlo.add %x, %x : tensor<3xf32>" + close, "x:3:24: %x is of another type"},
      {open + "%0 = stablehlo.add %x : tensor<2xf32>" + close, "x:3:27: expected ',', found ':'"},
      {open + "%0 = stablehlo.tanh %x : tensor<2xf31>" + close, "x:3:39: expected a type, found 'f31>'"},
      {open + "%0 = stablehlo.constant dense<[1.0]> : tensor<2xf32>" + close,
       "x:3:39: a list of 1 where dimension 0 has 2"},
      {open + "%0:2 = stablehlo.tanh %x : tensor<2xf32>" + close, "x:3:12: stablehlo.tanh has 1 results, 2 are named"},
      {open + "return %x : tensor<2xf32>", "x:3:30: expected an op, found the end"},
      {"#a = [#a]\n\"m.m\"() {k = #a} : () -> ()", "x:1:7: #a contains itself"},
  };
  for (const Case& c : cases) CHECK(refusal(c.text) == c.error);
}

TEST_CASE("depth is bounded") {
  const int deep = 100000;
  auto attr = [](std::string value) { return cat("\"m.m\"() {k = ", value, "} : () -> ()\n"); };
  std::string aliases = "\"m.m\"() {k = #a0} : () -> ()\n";
  for (int i = 0; i < 5000; ++i) append_text(aliases, cat("#a", i, " = [#a", i + 1, "]\n"));
  const std::string texts[] = {
      attr(repeated("[", deep)),
      attr(repeated("{a = ", deep)),
      attr(repeated("tuple<", deep)),
      attr(repeated("() -> ", deep)),
      attr(repeated("loc(callsite(", deep)),
      attr(cat("dense<", repeated("[", deep), "> : tensor<f32>")),
      attr(cat("dense<0> : tensor<", repeated("1x", deep), "f32>")),
      attr(cat("#sdy.sharding<", repeated("<", deep))),
      repeated("\"m.m\"() ({ ", deep),
      repeated("module { ", deep),
      aliases,
  };
  for (const std::string& text : texts) {
    const std::string error = refusal(text);
    CHECK_MESSAGE(!error.empty(), text.substr(0, 60));
    CHECK_MESSAGE(error.starts_with("x:"), error.substr(0, 200));
    CHECK_MESSAGE(error.size() < 400, error.substr(0, 200));
  }
}

TEST_CASE("text that shares its parts does not grow without bound") {
  std::string doubled = "#a0 = [1 : i32]\n";
  for (int i = 1; i < 64; ++i) append_text(doubled, cat("#a", i, " = [#a", i - 1, ", #a", i - 1, "]\n"));
  auto module = read_module(doubled + "\"m.m\"() {k = #a63} : () -> ()\n", "x");
  REQUIRE(module.has_value());
  const auto text = print(*module, {.bytes_max = 1 << 20});
  REQUIRE(!text.has_value());
  CHECK(text.error().message == "the module's text is longer than 1048576 bytes");
}

TEST_CASE("functions that call twice do not grow without bound") {
  std::string text = "module {\n";
  for (int i = 0; i < 64; ++i)
    append_text(text, cat("func.func @", i == 0 ? "main" : cat("f", i), "(%x: tensor<f32>) -> tensor<f32> {\n",
                          "%0 = call @f", i + 1, "(%x) : (tensor<f32>) -> tensor<f32>\n", "%1 = call @f", i + 1,
                          "(%0) : (tensor<f32>) -> tensor<f32>\nreturn %1 : tensor<f32>\n}\n"));
  text +=
      "func.func @f64(%x: tensor<f32>) -> tensor<f32> {\n%0 = stablehlo.tanh %x : tensor<f32>\n"
      "return %0 : tensor<f32>\n}\n}\n";
  auto module = read_module(text, "x");
  REQUIRE(module.has_value());
  const auto graph = to_graph(*module);
  REQUIRE(!graph.has_value());
  CHECK(graph.error().message.find("ops") != std::string::npos);
}
