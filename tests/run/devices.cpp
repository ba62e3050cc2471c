// Devices, memory, buffers, queues: what they hold, in which order they run, and how errors travel.
#include <atomic>
#include <cstring>
#include <thread>

#include "arch/instances/instance.h"
#include "run/devices/client.h"
#include "run/devices/transfer.h"
#include "run/drivers/native/native.h"
#include "tests/testing.h"

namespace trine::run {

static std::unique_ptr<Client> client_of(std::string_view name, int64_t lnc = 1) {
  auto instance = arch::find_instance(name);
  REQUIRE(instance);
  auto client = Client::make({.instance = std::make_shared<arch::Instance>(**instance), .lnc = lnc});
  REQUIRE(client);
  return *std::move(client);
}

static std::unique_ptr<Buffer> put(Device& device, std::vector<float> values) {
  auto made = from_host(device, {values.data(), Dtype::f32, {int64_t(values.size())}, {}});
  REQUIRE(made);
  return *std::move(made);
}

static std::vector<float> get(const Buffer& buffer) {
  std::vector<float> out(size_t(element_count(buffer.dims())));
  auto done = to_host(buffer, out.data()).wait();
  REQUIRE_MESSAGE(done, done.error().text());
  return out;
}

using Run = std::function<Result<void>(std::span<const TensorView>, std::span<const TensorView>)>;

// A plan of one step: f32[n] to f32[n].
static std::shared_ptr<arch::HostPlan> plan_of(int64_t n, Run run, double flops = 0) {
  auto plan = std::make_shared<arch::HostPlan>();
  plan->slots = {{.kind = arch::SlotKind::input, .dims = {n}}, {.kind = arch::SlotKind::output, .dims = {n}}};
  plan->inputs = {0};
  plan->outputs = {1};
  plan->steps = {{.what = arch::CallStep{"test", std::move(run)}, .in = {0}, .out = {1}}};
  plan->flops = flops;
  return plan;
}

static Result<void> add_one(std::span<const TensorView> in, std::span<const TensorView> out) {
  for (int64_t i = 0; i < in[0].elements(); ++i) out[0].as<float>()[i] = in[0].as<float>()[i] + 1;
  return {};
}

static constexpr double kSlow = 1e12;  // flops: never run in the caller's thread

static std::shared_ptr<NativeProgram> program_of(Client& client, std::shared_ptr<arch::HostPlan> plan) {
  auto made = NativeProgram::make(client, "test", std::move(plan), {client.devices()[0]}, {});
  REQUIRE(made);
  return *made;
}

static Result<std::unique_ptr<Buffer>> run_one(NativeProgram& program, Buffer& argument) {
  Buffer* const list[] = {&argument};
  const std::span<Buffer* const> lists[] = {list};
  auto launched = program.launch(lists);
  if (!launched) return Error(launched.error());
  return std::move(launched->outputs[0][0]);
}

TEST_CASE("the host's memory beside a device's own") {
  const auto client = client_of("trn1.2xlarge");
  Device& device = *client->devices()[0];
  constexpr int64_t kPastHbm = int64_t{20} << 30;
  CHECK(!device.memory().check_room(kPastHbm, "a test"));
  CHECK(device.memory(MemoryKind::pinned_host).check_room(kPastHbm, "a test"));
  auto made = NativeProgram::make(*client, "test", plan_of(3, add_one), {&device}, {}, {MemoryKind::pinned_host});
  REQUIRE(made);
  const auto x = put(device, {1, 2, 3});
  const auto y = run_one(**made, *x);
  REQUIRE(y);
  CHECK((*y)->kind() == MemoryKind::pinned_host);
  CHECK(device.memory(MemoryKind::pinned_host).stats().in_use_bytes == 12);
  CHECK(device.memory().stats().in_use_bytes == 12);
  const auto back = to_device(**y, device);
  REQUIRE(back);
  CHECK(get(**back) == std::vector<float>{2, 3, 4});
  CHECK(device.memory().stats().in_use_bytes == 24);
}

TEST_CASE("a short program runs at once, or after what the device does; its call's lists may be gone by then") {
  const auto client = client_of("trn1.2xlarge");
  Device& device = *client->devices()[0];
  const auto program = program_of(*client, plan_of(3, add_one));
  const auto x = put(device, {1, 2, 3});
  const auto at_once = run_one(*program, *x);
  REQUIRE(at_once);
  CHECK((*at_once)->ready().is_plain());
  REQUIRE(device.queue().begin_inline());
  std::vector<std::unique_ptr<Buffer>> later;
  for (int i = 0; i < 4; ++i) {
    auto made = run_one(*program, i == 0 ? *x : *later.back());
    REQUIRE(made);
    CHECK(!(*made)->ready().is_ready());
    later.push_back(*std::move(made));
  }
  device.queue().end_inline();
  CHECK(get(*later[3]) == std::vector<float>{5, 6, 7});
}

TEST_CASE("work in a caller's thread holds the queue up, and who waits for it is told at its end") {
  Queue queue;
  std::atomic<int> ran = 0;
  queue.add([&] { ++ran; });  // its thread is there
  queue.drain();
  REQUIRE(queue.begin_inline());
  CHECK(!queue.begin_inline());
  std::thread waits([&] {
    queue.drain();
    CHECK(ran == 1);
    queue.add([&] { ++ran; });
    queue.drain();
    CHECK(ran == 2);
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  CHECK(ran == 1);
  queue.end_inline();
  waits.join();
  REQUIRE(queue.begin_inline());
  queue.add([&] { ++ran; });
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  CHECK(ran == 2);
  queue.end_inline();
  queue.drain();
  CHECK(ran == 3);
}

TEST_CASE("a future calls back at once or later, with its error") {
  Future ready;
  bool called = false;
  ready.on_ready([&](const Error* e) { called = e == nullptr; });
  CHECK(called);
  Promise promise;
  std::string error_text;
  promise.future().on_ready([&](const Error* e) { error_text = e->message; });
  CHECK(!promise.future().is_ready());
  std::thread other([&] { promise.fail(fail(Code::io, "broken")); });
  CHECK(!promise.future().wait());
  other.join();
  CHECK(error_text == "broken");
  CHECK(promise.future().error()->code == Code::io);
}

TEST_CASE("devices follow the instance and its logical cores") {
  CHECK(client_of("trn1.32xlarge")->devices().size() == 32);
  auto client = client_of("trn2.48xlarge", 2);
  CHECK(client->devices().size() == 64);
  const Device& last = *client->devices()[63];
  CHECK(last.kind() == "NC_v3");
  CHECK(last.info().chip == 15);
  CHECK(last.info().coordinates == std::vector<int64_t>{3, 3});
  CHECK(last.memory().stats().limit_bytes == (int64_t{24} << 30));
}

TEST_CASE("memory is counted, bounded and given back") {
  auto memory = Memory::make("test", 1000);
  auto a = memory->allocate({.dtype = Dtype::f32, .dims = {100}});
  REQUIRE(a);
  CHECK(reinterpret_cast<uintptr_t>((*a)->data()) % 64 == 0);
  CHECK(memory->stats().in_use_bytes == 400);
  auto b = memory->allocate({.dtype = Dtype::f32, .dims = {200}});
  REQUIRE(!b);
  CHECK(b.error().code == Code::out_of_memory);
  CHECK(b.error().message ==
        "out of memory on test: f32[200] needs 800 B, 600 B of 1.00 kB are free; the largest in use:\n"
        "  400 B  f32[100] input");
  *a = nullptr;
  CHECK(memory->stats().in_use_bytes == 0);
  CHECK(memory->stats().peak_bytes == 400);
  CHECK(!memory->allocate({.dtype = Dtype::f32, .dims = {int64_t{1} << 40, int64_t{1} << 40}}));
}

TEST_CASE("programs run in order, inline or queued") {
  auto client = client_of("trn1.2xlarge");
  Device& device = *client->devices()[0];
  auto quick = program_of(*client, plan_of(3, add_one)), slow = program_of(*client, plan_of(3, add_one, kSlow));
  auto x = put(device, {1, 2, 3});
  for (int i = 0; i < 50; ++i) {
    auto next = run_one(i % 3 ? *quick : *slow, *x);
    REQUIRE(next);
    x = *std::move(next);
  }
  CHECK(get(*x) == std::vector<float>{51, 52, 53});
  device.queue().drain();
  CHECK(device.counters().executions == 50);
}

TEST_CASE("an error reaches the outputs and what is made of them") {
  auto client = client_of("trn1.2xlarge");
  Device& device = *client->devices()[0];
  auto bad =
      program_of(*client, plan_of(3, [](auto, auto) -> Result<void> { return fail(Code::invalid, "no"); }, kSlow));
  auto good = program_of(*client, plan_of(3, add_one, kSlow));
  auto x = put(device, {1, 2, 3});
  auto failed = run_one(*bad, *x);
  REQUIRE(failed);
  auto after = run_one(*good, **failed);
  REQUIRE(after);
  auto other = run_one(*good, *x);
  REQUIRE(other);
  CHECK((*after)->ready().wait().error().message == "no");
  CHECK(get(**other) == std::vector<float>{2, 3, 4});
  device.queue().drain();
  CHECK(device.counters().failures == 2);
}

TEST_CASE("arguments are checked by number, type and place") {
  auto client = client_of("trn1.2xlarge");
  auto program = program_of(*client, plan_of(3, add_one));
  auto four = put(*client->devices()[0], {1, 2, 3, 4});
  CHECK(run_one(*program, *four).error().message == "argument 0 of test is f32[4], expected f32[3]");
  auto elsewhere = put(*client->devices()[1], {1, 2, 3});
  CHECK(!run_one(*program, *elsewhere));
  auto deleted = put(*client->devices()[0], {1, 2, 3});
  deleted->remove();
  CHECK(run_one(*program, *deleted).error().message == "Buffer has been deleted: the array f32[3]");
}

TEST_CASE("a donated input gives its memory to the output, unless somebody outside holds it") {
  auto client = client_of("trn1.2xlarge");
  Device& device = *client->devices()[0];
  auto plan = plan_of(3, add_one, kSlow);
  plan->donations = {0};
  plan->in_place = {0};
  auto program = program_of(*client, plan);
  auto x = put(device, {1, 2, 3});
  const void* bytes = (*x->use())->data();
  auto y = run_one(*program, *x);
  REQUIRE(y);
  CHECK(x->is_deleted());
  CHECK((*(*y)->use())->data() == bytes);
  CHECK(run_one(*program, *x).error().message ==
        "Buffer has been deleted or donated: a program took over the array f32[3]");
  REQUIRE((*y)->hold_external());
  auto z = run_one(*program, **y);
  REQUIRE(z);
  CHECK((*(*z)->use())->data() != bytes);
  CHECK(get(**z) == std::vector<float>{3, 4, 5});
  (*y)->release_external();
}

TEST_CASE("many threads, two devices, copies between them") {
  auto client = client_of("trn1.2xlarge");
  std::vector<std::thread> threads;
  std::atomic<int> right = 0;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      Device& here = *client->devices()[size_t(t % 2)];
      auto made = NativeProgram::make(*client, "test", plan_of(3, add_one, t < 2 ? kSlow : 0), {&here}, {});
      for (int i = 0; i < 50; ++i) {
        auto x = put(*client->devices()[0], {1, 2, 3});
        auto moved = to_device(*x, here);
        auto y = run_one(**made, **moved);
        auto back = to_device(**y, *client->devices()[1]);
        y->reset();
        right += get(**back) == std::vector<float>{2, 3, 4};
      }
    });
  for (std::thread& t : threads) t.join();
  CHECK(right == 200);
}

TEST_CASE("copies follow strides") {
  const std::vector<int16_t> host = {1, 2, 3, 4, 5, 6};
  auto client = client_of("trn1.2xlarge");
  const int64_t strides[] = {2, 6};  // the transpose of [2, 3]
  auto x = from_host(*client->devices()[0], {host.data(), Dtype::s16, {3, 2}, strides});
  REQUIRE(x);
  std::vector<int16_t> dense(6), back(6);
  REQUIRE(to_host(**x, dense.data()).wait());
  CHECK(dense == std::vector<int16_t>{1, 4, 2, 5, 3, 6});
  REQUIRE(to_host(**x, back.data(), strides).wait());
  CHECK(back == host);
  CHECK(!to_host_part(**x, back.data(), 8, 6).wait());
}

}  // namespace trine::run
