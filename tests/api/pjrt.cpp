// The PJRT table called directly: no slot is null, what is not there names itself, options are read from any bytes.
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "api/numerics.h"
#include "api/pjrt/calls.h"
#include "tests/testing.h"

namespace trine::api::pjrt {

static std::string message_of(ErrorHandle* error) {
  ErrorMessageArgs args = {};
  args.error = error;
  error_message(&args);
  std::string text(args.message, args.message_size);
  ErrorDestroyArgs destroy = {};
  destroy.error = error;
  error_destroy(&destroy);
  return text;
}

TEST_CASE("every slot answers") {
  const Api& table = *api();
  CHECK(table.struct_size == sizeof(Api));
  CHECK(table.pjrt_api_version.minor_version == 90);
  for (Slot slot : table.slots) CHECK(bool(slot != nullptr));
  constexpr size_t kFulfillAliasBuffer = 116;
  auto call = reinterpret_cast<ErrorHandle* (*)(Args*)>(table.slots[kFulfillAliasBuffer]);
  Args args = {};
  CHECK(message_of(call(&args)) == "PJRT_Client_FulfillAliasBuffer is not implemented by the neuron plugin");
}

TEST_CASE("events of what is done are one event, which the caller may destroy but not set") {
  Event* const done = make_event({});
  CHECK(make_event({}) == done);
  EventIsReadyArgs ready = {};
  ready.event = done;
  event_is_ready(&ready);
  CHECK(ready.is_ready);
  int calls = 0;
  EventOnReadyArgs on_ready = {};
  on_ready.event = done;
  on_ready.user_arg = &calls;
  on_ready.callback = [](ErrorHandle* error, void* counter) { *static_cast<int*>(counter) += error ? 100 : 1; };
  event_on_ready(&on_ready);
  EventDestroyArgs destroy = {};
  destroy.event = done;
  event_destroy(&destroy);
  event_on_ready(&on_ready);
  CHECK(calls == 2);
  EventSetArgs set = {};
  set.event = done;
  CHECK(message_of(event_set(&set)) == "this event is not one the caller may set, or is set already");
}

TEST_CASE("compile options: counts and the device assignment") {
  // build options (3): replicas (4) = 2, partitions (5) = 2, assignment (9): 2 x 2, columns {4, 6} and {5, 7}
  const std::string assignment =
      std::string("\x08\x02\x10\x02") + "\x1a\x04\x0a\x02\x04\x06" + "\x1a\x04\x0a\x02\x05\x07";
  const std::string build = std::string("\x20\x02\x28\x02\x4a") + char(assignment.size()) + assignment;
  const std::string bytes = std::string("\x1a") + char(build.size()) + build;
  auto options = parse_compile_options(bytes);
  REQUIRE(options);
  CHECK(options->compile.replicas == 2);
  CHECK(options->compile.partitions == 2);
  CHECK(options->devices == std::vector<int64_t>{4, 5, 6, 7});
  for (size_t cut = 1; cut < bytes.size(); ++cut) CHECK(!parse_compile_options(std::string_view(bytes).substr(0, cut)));
  CHECK(parse_compile_options("")->compile.replicas == 1);
}

TEST_CASE("a saved executable that is damaged is refused") {
  const std::string text =
      "module @jit_f { func.func public @main(%a: tensor<2xf32>) -> tensor<2xf32> {\n"
      "  %0 = stablehlo.add %a, %a : tensor<2xf32>\n  return %0 : tensor<2xf32>\n} }";
  auto made = compile(text, {});
  REQUIRE_MESSAGE(made, made.error().text());
  CHECK((*made)->name() == "jit_f");
  const std::string bytes = save(**made, "extra");
  auto loaded = load(bytes);
  REQUIRE_MESSAGE(loaded, loaded.error().text());
  CHECK(loaded->extra == "extra");
  CHECK(loaded->executable->fingerprint == (*made)->fingerprint);
  for (size_t cut = 0; cut < bytes.size(); cut += 7) CHECK(!load(std::string_view(bytes).substr(0, cut)));
  for (size_t at = 0; at < bytes.size(); ++at) {
    std::string flipped = bytes;
    flipped[at] ^= 1;
    CAPTURE(at);
    CHECK(!load(flipped));
  }
}

TEST_CASE("programs are compiled, saved and loaded on many threads at once") {
  std::atomic<int> good = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 64; ++i)
    threads.emplace_back([&good, i] {
      const std::string n = std::to_string(i + 1);
      auto made = compile("module @f" + n + " { func.func public @main(%a: tensor<" + n + "xf32>) -> tensor<" + n +
                              "xf32> {\n  %0 = stablehlo.add %a, %a : tensor<" + n +
                              "xf32>\n  %1 = stablehlo.tanh %0 : tensor<" + n + "xf32>\n  return %1 : tensor<" + n +
                              "xf32>\n} }",
                          {});
      auto loaded = made ? load(save(**made, n)) : Result<Loaded>(made.error());
      good += loaded && loaded->executable->name() == "f" + n && loaded->executable->input(0).dims[0] == i + 1;
    });
  for (std::thread& t : threads) t.join();
  CHECK(good == 64);
}

TEST_CASE("numerics: flags as a command line has them") {
  compile::Numerics n;
  REQUIRE(set_numerics_by_flags(n, " --model-type transformer  --auto-cast=all --auto-cast-type fp16 -O2"));
  CHECK(numerics_text(n) == "--auto-cast all --auto-cast-type fp16");
  compile::Numerics again;
  REQUIRE(set_numerics_by_flags(again, numerics_text(n)));
  CHECK(again == n);
  CHECK(set_numerics_by_flags(n, "--auto-cast").error().text() == "--auto-cast needs a value");
  CHECK(!set_numerics_by_flags(n, "--auto-cast-type f33"));
  CHECK(!set_numerics(n, "optlevel", "2"));
  CHECK(numerics_text({}).empty());
}

}  // namespace trine::api::pjrt
