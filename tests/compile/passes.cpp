// The tables of passes: their order, and what a pipeline does with a pass that fails, is refused or is stopped after.
#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "arch/asm/kernel.h"
#include "arch/chips/chip.h"
#include "base/text.h"
#include "compile/device/pipeline.h"
#include "compile/graph/pipeline.h"
#include "compile/host/native.h"
#include "compile/pass/all.h"
#include "compile/pass/run_pass.h"
#include "compile/stream/streams.h"
#include "ir/text.h"
#include "tests/testing.h"

namespace trine::compile {

TEST_CASE("a pass needs only what passes before it leave, on the pipelines to the host and to the device") {
  const auto rows = all_passes();
  for (const auto& pipelines : {std::span<const std::string_view>(kHostPipelines), {kDevicePipelines}}) {
    const auto ordered = check_pass_order(rows, pipelines);
    CHECK_MESSAGE(ordered, ordered.error().text());
  }
}

TEST_CASE("an order that does not hold is refused with the pass and what it lacks") {
  auto rows = all_passes();
  const auto row = [&](std::string_view name) {
    return std::find_if(rows.begin(), rows.end(), [&](const PassRow& r) { return r.name == name; });
  };
  std::iter_swap(row("allocate"), row("dependences"));
  const auto ordered = check_pass_order(rows, kDevicePipelines);
  REQUIRE(!ordered);
  CHECK(ordered.error().message == "pass dependences needs `addresses`, which no pass before it leaves");
}

TEST_CASE("every pass has a name of its own, a form and a line of help") {
  std::set<std::string_view> names;
  for (const PassRow& row : all_passes()) {
    CAPTURE(row.name);
    CHECK(names.insert(row.name).second);
    CHECK(!row.form.empty());
    CHECK(!row.help.empty());
    CHECK(row.help.size() <= 110);
    CHECK(std::all_of(row.name.begin(), row.name.end(), [](char c) { return (c >= 'a' && c <= 'z') || c == '-'; }));
  }
  CHECK(check_pass_name("simplify"));
  CHECK(check_pass_name("simplfy").error().message.starts_with("no pass is named simplfy; near: simplify"));
}

// A pipeline over numbers: what it does with its rows is all that is asked.
struct Count {
  int value = 0, given = -1;
  std::vector<std::string> ran = {};
};

static Result<void> add_one(Count& c) {
  c.ran.push_back("add");
  c.given = c.value++;
  return {};
}
static Result<void> refuse_odd(Count& c) {
  c.ran.push_back("refuse");
  if (c.value % 2) return fail(Code::out_of_memory, "odd");
  return {};
}

static constexpr PassForm<Count> kCount{
    "count",
    [](const Count& c) { return std::vector<PassSize>{{"ones", c.value}}; },
    [](const Count& c) { return std::string(size_t(c.value), '1'); },
    [](const Count& c) {
      return c.value > 2 ? Result<void>(fail(Code::invalid, "too many", "here:1")) : Result<void>();
    },
};
static constexpr Pass<Count> kCounting[] = {
    {.name = "add", .run = add_one, .form = &kCount, .help = "adds one", .is_stage = true},
    {.name = "never", .run = add_one, .form = &kCount, .applies = [](const Count&) { return false; }},
    {.name = "refuse", .run = refuse_odd, .form = &kCount},
};

TEST_CASE("a pass that fails ends the pipeline, unless the state can be taken back") {
  Count plain{.value = 0};
  const Pipeline<Count> ends{"count", kCounting};
  CHECK(run_passes(ends, plain).error().message == "odd");
  const Pipeline<Count> retreats{"count", kCounting, [](Count& c, std::string_view failed) -> std::string_view {
                                   CHECK(failed == "refuse");
                                   if (c.given < 0) return {};
                                   c.value = std::exchange(c.given, -1);
                                   return "add";
                                 }};
  Count taken_back{.value = 0};
  CHECK(run_passes(retreats, taken_back));
  CHECK(taken_back.ran == std::vector<std::string>{"add", "refuse", "refuse"});
  CHECK(taken_back.value == 0);
}

TEST_CASE("an observer sees the passes that apply, or the stages alone, and stops the pipeline") {
  const Pipeline<Count> pipeline{"count", kCounting};
  std::vector<std::string> seen;
  PassObserver observer;
  observer.after = [&](const PassReport& r, const PassObserver::Text& text) {
    seen.push_back(cat(r.pipeline, " ", r.pass, ": ", r.summary(), " ", text()));
    return true;
  };
  Count all{.value = 1};
  CHECK(run_passes(pipeline, all, observer));
  CHECK(seen == std::vector<std::string>{"count add: 2 ones 11", "count refuse: 2 ones 11"});
  CHECK(observer.sees_all());
  observer.stages_only = true;
  CHECK(!observer.sees_all());
  seen.clear();
  Count stages{.value = 1};
  CHECK(run_passes(pipeline, stages, observer));
  CHECK(seen == std::vector<std::string>{"count add: 2 ones 11"});
  observer.after = [](const PassReport&, const PassObserver::Text&) { return false; };
  Count stopped{.value = 1};
  const auto done = run_passes(pipeline, stopped, observer);
  CHECK(done.error().code == Code::cancelled);
  CHECK(done.error().message == "stopped after add");
  CHECK(stopped.ran == std::vector<std::string>{"add"});
}

TEST_CASE("what a pass leaves that is not well formed is refused with the pass and the line") {
  const Pipeline<Count> pipeline{"count", kCounting};
  Count many{.value = 3};
  const auto done = run_passes(pipeline, many, {.verify_each = true});
  CHECK(done.error().text() == "here:1: after pass add: too many");
  CHECK(done.error().code == Code::internal);
  Count unverified{.value = 3};
  CHECK(run_passes(pipeline, unverified));
}

static const arch::Chip& trn2() { return **arch::find_chip("trn2"); }

TEST_CASE("passes by name: a pass of a pipeline takes up what one before left, and nothing else") {
  const std::string graph = "graph \"g\" (%0: f32[4,8]) {\n  %1 = negate %0 : f32[4,8]\n  return %1\n}\n";
  const auto run = [&](std::string_view text, std::vector<std::string_view> passes) {
    return run_named_passes(text, "t", passes, trn2(), {});
  };
  CHECK(*run(graph, {"simplify"}) == graph);
  CHECK(*run(graph, {"decompose", "fuse"}) == "f32[4,8] = negate\n");
  CHECK(run(graph, {"fuse", "lower"})->starts_with("kernel g\nchip trn2\n"));
  CHECK(run(graph, {"allocate"}).error().message == "pass allocate works on a kernel; it has none here");
  CHECK(run(graph, {"fuse-host", "lower"}).error().message == "pass lower works on a graph; it has none here");
  CHECK(run("graph \"g\" (%0: f32[4]) {\n  %1 = negate %0 : f32[5]\n  return %1\n}\n", {"simplify"})
            .error()
            .message.starts_with("the input is not well formed: "));
}

TEST_CASE("a recorded kernel's text reads back to the same text") {
  const std::string text =
      "kernel copy\nchip trn2\n"
      "tensor a hbm f32[128,64] input\ntensor b hbm f32[128,64] output\n"
      "tensor t sbuf f32[128,64]\ntensor u sbuf f32[128,64] at 0:512\n"
      "  dma_copy dst=t src=a | own queue\n"
      "  loop 4\n"
      "    tensor_copy dst=u src=t | on vector | in order\n"
      "  end_loop\n"
      "  dma_copy dst=b src=u | on sync | after 0 2\n";
  const auto kernel = arch::assemble_kernel(text, "t", trn2());
  REQUIRE_MESSAGE(kernel, kernel.error().text());
  CHECK(arch::disassemble(*kernel, false) == text);
  CHECK(arch::assemble_kernel("kernel k\n  nop\n", "t", trn2()).error().text() == "t:2: no instruction is named `nop`");
  CHECK(arch::assemble_kernel("kernel k\n  loop 2 | on moon\n", "t", trn2()).error().text() ==
        "t:2: no engine is named `moon`");
  CHECK(arch::assemble_kernel("kernel k\ntensor a sbuf f32[4,4]\n\n  memset dst=b value=0\n", "t", trn2())
            .error()
            .where == "t:4");
}

}  // namespace trine::compile
