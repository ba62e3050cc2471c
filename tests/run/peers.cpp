// Processes of one job, here as clients of one process: what they send arrives, collectives go across them, and a peer
// that is gone, fails or runs something else is an error.
#include "run/devices/peers.h"

#include <cstring>
#include <thread>

#include "arch/instances/instance.h"
#include "run/devices/client.h"
#include "run/devices/transfer.h"
#include "run/drivers/native/native.h"
#include "tests/testing.h"

namespace trine::run {

namespace {

class SharedBoard : public Board {
 public:
  Result<void> put(const std::string& key, const std::string& text) override {
    std::lock_guard lock(mutex_);
    texts_[key] = text;
    changed_.notify_all();
    return {};
  }
  Result<std::string> get(const std::string& key, int) override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return texts_.count(key) > 0; });
    return texts_[key];
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string> texts_;
};

std::vector<std::unique_ptr<Peers>> connect_all(int count) {
  SharedBoard board;
  std::vector<std::unique_ptr<Peers>> out(static_cast<size_t>(count));
  std::vector<std::thread> threads;
  for (int p = 0; p < count; ++p)
    threads.emplace_back([&, p] { out[size_t(p)] = *Peers::connect(board, p, count, std::string(1, char('a' + p))); });
  for (std::thread& t : threads) t.join();
  return out;
}

std::unique_ptr<Client> client_of(std::unique_ptr<Peers> peers, std::vector<int> owners) {
  ClientOptions options{.instance = std::make_shared<arch::Instance>(**arch::find_instance("trn1.32xlarge"))};
  for (size_t i = 0; i < owners.size(); ++i) options.visible.push_back(int(i));
  options.owners = std::move(owners);
  options.peers = std::move(peers);
  auto made = Client::make(std::move(options));
  REQUIRE(made);
  return *std::move(made);
}

// f32[n] summed over all participants, after a call that may fail.
std::shared_ptr<arch::HostPlan> sum_plan(int64_t n, bool fails = false) {
  auto plan = std::make_shared<arch::HostPlan>();
  plan->slots = {{.kind = arch::SlotKind::input, .dims = {n}}, {.kind = arch::SlotKind::output, .dims = {n}}};
  plan->inputs = {0};
  plan->outputs = {1};
  if (fails)
    plan->steps.push_back(
        {.what = arch::CallStep{"test", [](auto, auto) -> Result<void> { return fail(Code::invalid, "no luck"); }}});
  plan->steps.push_back(
      {.what =
           arch::CollectiveStep{
               .kind = arch::CollectiveKind::all_reduce, .reduction = "add", .channel = 1, .is_global = true},
       .in = {0},
       .out = {1}});
  return plan;
}

struct Job {
  std::unique_ptr<Client> client;

  // One run over all devices; this process's first result, or the error.
  Result<float> run(const std::string& name, std::shared_ptr<arch::HostPlan> plan) {
    const auto all = client->devices();
    auto program =
        TRY(NativeProgram::make(*client, name, std::move(plan), {all.begin(), all.end()}, {1, int64_t(all.size())}));
    std::vector<std::unique_ptr<Buffer>> buffers;
    std::vector<Buffer*> pointers;
    for (const size_t p : program->here()) {
      const float value[] = {float(p + 1), 0};
      buffers.push_back(TRY(from_host(*all[p], {value, Dtype::f32, {2}, {}})));
      pointers.push_back(buffers.back().get());
    }
    std::vector<std::span<Buffer* const>> arguments;
    for (Buffer*& b : pointers) arguments.push_back({&b, 1});
    auto launched = TRY(program->launch(arguments));
    float out[2] = {};
    TRY(to_host(*launched.outputs[0][0], out).wait());
    return out[0];
  }
};

}  // namespace

TEST_CASE("peers know about each other, and what one sends the other receives") {
  auto all = connect_all(3);
  CHECK(all[2]->about() == std::vector<std::string>{"a", "b", "c"});
  const Launch launch{7, all[0]->next_launch(7)};
  const RendezvousKey point{1, 2, 3, 4};
  const std::string text = "hello";
  const std::span<const std::byte> parts[] = {std::as_bytes(std::span(text))};
  REQUIRE(all[0]->send(2, launch, point, parts));
  auto got = all[2]->receive(0, launch, point, [] { return false; });
  REQUIRE(got);
  CHECK(std::string(reinterpret_cast<const char*>(got->bytes.data()), got->size) == "hello");
  auto over = all[2]->receive(0, launch, point, [] { return true; });
  CHECK(over.error().code == Code::cancelled);
  all[0]->give_up(launch, "tired");
  auto tired = all[2]->receive(1, launch, point, [] { return false; });
  CHECK(tired.error().message == "process 0: tired");
  all[1] = nullptr;
  auto gone = all[2]->receive(1, {8, 1}, point, [] { return false; });
  CHECK(gone.error().message == "process 1 is gone: it has ended");
}

TEST_CASE("a program runs on the devices of two processes") {
  auto peers = connect_all(2);
  Job jobs[2];
  for (size_t p = 0; p < 2; ++p) jobs[p].client = client_of(std::move(peers[p]), {0, 0, 0, 1});
  CHECK(jobs[1].client->devices()[0]->memory().stats().limit_bytes == 0);
  // Of each round: the name and plan of both sides, and what each says.
  auto both = [&](auto first, auto second) {
    Result<float> out[2] = {0.F, 0.F};
    std::thread other([&] { out[1] = second(); });
    out[0] = first();
    other.join();
    return std::pair{out[0], out[1]};
  };
  for (int round = 0; round < 20; ++round) {
    auto [a, b] = both([&] { return jobs[0].run("f", sum_plan(2)); }, [&] { return jobs[1].run("f", sum_plan(2)); });
    REQUIRE(a);
    REQUIRE(b);
    CHECK(*a == 10);
    CHECK(*b == 10);
  }
  auto [failed, heard] =
      both([&] { return jobs[0].run("f", sum_plan(2, true)); }, [&] { return jobs[1].run("f", sum_plan(2)); });
  CHECK(failed.error().message.find("no luck") != std::string::npos);
  CHECK(heard.error().message.find("process 0: ") != std::string::npos);
  auto [f, g] = both([&] { return jobs[0].run("f", sum_plan(2)); }, [&] { return jobs[1].run("g", sum_plan(2)); });
  CHECK(f.error().message.find("process") != std::string::npos);
  CHECK(!g);
  auto [again, too] =
      both([&] { return jobs[0].run("f", sum_plan(2)); }, [&] { return jobs[1].run("f", sum_plan(2)); });
  REQUIRE(again);
  CHECK(*too == 10);
  jobs[1].client = nullptr;
  auto alone = jobs[0].run("f", sum_plan(2));
  CHECK(alone.error().message.find("process 1 is gone") != std::string::npos);
}

}  // namespace trine::run
