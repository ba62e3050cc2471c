// Ranks that share memory, here threads and processes: the bits of the chips' schedule, every move, messages by tag,
// and one named error on every rank when one of them ends, is late or does something else.
#include <sys/wait.h>
#include <unistd.h>

#include <condition_variable>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <functional>
#include <future>
#include <set>
#include <thread>

#include "arch/instances/instance.h"
#include "base/file.h"
#include "base/number/random.h"
#include "base/text.h"
#include "run/devices/collective.h"
#include "run/transport/rank_group.h"
#include "tests/testing.h"

namespace trine::run {

namespace {

using namespace std::chrono_literals;

std::shared_ptr<const arch::Instance> instance(const std::string& name) {
  return std::make_shared<arch::Instance>(**arch::find_instance(name));
}

class ThreadBoard : public Board {
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

// Ranks one after the other on `hosts` hosts, all of them this one.
RankGroupOptions options(int rank, int ranks, int hosts = 1) {
  RankGroupOptions out{.rank = rank,
                       .numbers = {},
                       .timeout = 20s,
                       .instance = instance("trn1.32xlarge"),
                       .host = cat("host ", rank * hosts / ranks),
                       .address = "127.0.0.1"};
  for (int r = 0; r < ranks; ++r) out.numbers.push_back(r);
  return out;
}

// `body` on a thread for each rank of one group.
void on_ranks(int ranks, const std::function<void(RankGroup&)>& body, int hosts = 1) {
  ThreadBoard board;
  std::vector<std::thread> threads;
  for (int r = 0; r < ranks; ++r)
    threads.emplace_back([&, r] {
      auto group = RankGroup::make(board, options(r, ranks, hosts));
      REQUIRE(group);
      body(**group);
    });
  for (auto& t : threads) t.join();
}

// On a rank's own thread, where a failed REQUIRE would end the whole run without a word.
void ok(const Result<void>& result) { CHECK_MESSAGE(result, (result ? std::string() : result.error().message)); }

Bytes bytes_of(const Tensor& t) { return {t.data.get(), t.bytes()}; }

Tensor random_tensor(Dtype dtype, int64_t elements, uint64_t seed) {
  Tensor out = Tensor::make(dtype, {elements});
  dispatch_element(dtype, [&](auto element) {
    using E = decltype(element);
    for (int64_t i = 0; i < elements; ++i) {
      const int64_t v = int64_t((seed * 2654435761u + uint64_t(i) * 40503u) % 1999) - 999;
      if constexpr (E::kIsFloating)
        out.view().as<typename E::Storage>()[i] =
            E::store(double(v) / 70 * (E::kBits > 8 && (i + int64_t(seed)) % 3 == 0 ? 1000 : 1));  // without NaN
      else if constexpr (!E::kIsComplex)
        out.view().as<typename E::Storage>()[i] = E::store(typename E::Wide(v));
    }
    return 0;
  });
  return out;
}

Operation all_reduce(const Tensor& t, Fold how = Fold::add) {
  return {.op = CollectiveOp::all_reduce,
          .dtype = t.dtype,
          .combine = {.how = how},
          .in = {bytes_of(t)},
          .out = {bytes_of(t)},
          .dims = t.dims,
          .line = "train.py:7",
          .timeout = 20s};
}

}  // namespace

TEST_CASE("sums of processes have the bits of the machine's own collective") {
  for (const auto& [ranks, hosts] : std::vector<std::pair<int, int>>{{1, 1}, {2, 1}, {3, 1}, {8, 1}, {3, 2}, {8, 2}})
    for (const Dtype dtype : {Dtype::f32, Dtype::bf16, Dtype::s64, Dtype::f8e4m3fn})
      for (const int64_t elements : {1, 1000, 70'001, 1'300'000}) {
        CAPTURE(ranks);
        CAPTURE(hosts);
        CAPTURE(elements);
        CAPTURE(int(dtype));
        std::vector<Tensor> in, expected;
        std::vector<TensorView> in_views, out_views;
        for (int r = 0; r < ranks; ++r) in.push_back(random_tensor(dtype, elements, uint64_t(r) + 1));
        for (int r = 0; r < ranks; ++r) expected.push_back(Tensor::make(dtype, {elements}));
        for (int r = 0; r < ranks; ++r)
          in_views.push_back(in[size_t(r)].view()), out_views.push_back(expected[size_t(r)].view());
        std::vector<Member> members;
        for (int r = 0; r < ranks; ++r) members.push_back({r, {&in_views[size_t(r)], 1}, {&out_views[size_t(r)], 1}});
        const auto trn1 = instance("trn1.32xlarge");
        const comm::Cluster cluster{.instance = trn1.get()};
        SumOrders orders(cluster);
        REQUIRE(run_collective({.kind = arch::CollectiveKind::all_reduce, .reduction = "add"}, members,
                               {&orders, comm::first_ranks(cluster, ranks)}));
        const auto sum = [&](RankGroup& group) { ok(group.run(all_reduce(in[size_t(group.rank())]))); };
        on_ranks(ranks, sum, hosts);
        for (int r = 0; r < ranks; ++r) CHECK(in[size_t(r)] == expected[size_t(r)]);
      }
}

TEST_CASE("reduce, reduce_scatter, mean and scaled sums among processes") {
  constexpr int kRanks = 3;
  const auto body = [](RankGroup& group) {
    const int me = group.rank();
    Tensor t = Tensor::make(Dtype::f32, {2});
    t.view().as<float>()[0] = float(me), t.view().as<float>()[1] = 6;
    Operation mean = all_reduce(t);
    mean.combine.divisor = kRanks;
    ok(group.run(mean));
    CHECK(t.view().as<float>()[0] == 1);
    CHECK(t.view().as<float>()[1] == 6);
    Operation scaled = all_reduce(t);
    scaled.combine.scale = 0.5;
    ok(group.run(scaled));
    CHECK(t.view().as<float>()[1] == 9);
    Tensor root = Tensor::make(Dtype::s64, {1});
    *root.view().as<int64_t>() = me + 1;
    Operation reduce = all_reduce(root, Fold::multiply);
    reduce.op = CollectiveOp::reduce, reduce.root = 1;
    ok(group.run(reduce));
    CHECK(*root.view().as<int64_t>() == (me == 1 ? 6 : me + 1));
    Tensor all = Tensor::make(Dtype::s32, {6}), part = Tensor::make(Dtype::s32, {me == 0 ? 3 : me == 1 ? 1 : 2});
    for (int i = 0; i < 6; ++i) all.view().as<int32_t>()[i] = i;
    Operation scatter = all_reduce(all);
    scatter.op = CollectiveOp::reduce_scatter, scatter.to = {12, 4, 8}, scatter.out = {bytes_of(part)};
    ok(group.run(scatter));
    CHECK(*part.view().as<int32_t>() == 3 * (me == 0 ? 0 : me == 1 ? 3 : 4));
  };
  for (const int hosts : {1, 2}) on_ranks(kRanks, body, hosts);
}

TEST_CASE("moves among processes, uneven and of several windows") {
  constexpr int kRanks = 3;
  for (const int64_t unit : {1, 500'000}) {
    const auto body = [&](RankGroup& group) {
      const int me = group.rank();
      // Rank r brings (r + 1) units for rank 0, (r + 2) for rank 1, …, all with its number in them.
      Operation op{.op = CollectiveOp::all_to_all, .timeout = 20s};
      int64_t bring = 0, take = 0;
      for (int r = 0; r < kRanks; ++r) {
        op.to.push_back((me + r + 1) * unit), op.from.push_back((me + r + 1) * unit);
        bring += op.to.back(), take += op.from.back();
      }
      const Tensor in = Tensor::make(Dtype::u8, {bring}), out = Tensor::make(Dtype::u8, {take});
      std::memset(in.data.get(), me + 1, size_t(bring));
      op.in = {bytes_of(in)}, op.out = {bytes_of(out)};
      ok(group.run(op));
      int64_t at = 0;
      for (int r = 0; r < kRanks; ++r) {
        CHECK(out.view().as<uint8_t>()[at] == r + 1);
        at += op.from[size_t(r)];
        CHECK(out.view().as<uint8_t>()[at - 1] == r + 1);
      }
      Operation sent{.op = CollectiveOp::broadcast, .root = 2, .timeout = 20s};
      const Tensor t = Tensor::make(Dtype::u8, {5 * unit});
      std::memset(t.data.get(), me, size_t(5 * unit));
      sent.to.assign(kRanks, me == 2 ? 5 * unit : 0), sent.from = {0, 0, 5 * unit};
      if (me == 2) sent.in = {bytes_of(t)};
      sent.out = {bytes_of(t)};
      ok(group.run(sent));
      CHECK(t.view().as<uint8_t>()[5 * unit - 1] == 2);
    };
    for (const int hosts : {1, 2}) on_ranks(kRanks, body, hosts);
  }
}

TEST_CASE("messages match by rank and tag, whatever their size and order") {
  const auto body = [](RankGroup& group) {
    const int other = 1 - group.rank();
    std::vector<Tensor> out, in;
    std::vector<std::future<int>> done;
    for (const int64_t size : {3, 1'000'000}) {
      out.push_back(random_tensor(Dtype::u8, size, uint64_t(size)));
      in.push_back(Tensor::make(Dtype::u8, {size}));
    }
    const auto finish = [&] {
      auto promise = std::make_shared<std::promise<int>>();
      done.push_back(promise->get_future());
      return [promise](const Result<void>& result, int from) { promise->set_value(result ? from : -100); };
    };
    const auto deadline = Clock::now() + 20s;
    for (uint64_t tag : {0, 1}) group.mailbox().send({other, tag, {bytes_of(out[tag])}, "", deadline, finish()});
    for (uint64_t tag : {1, 0})
      group.mailbox().receive({tag ? other : kAnyRank, tag, {bytes_of(in[tag])}, "", deadline, finish()});
    for (auto& d : done) CHECK(d.get() == other);
    CHECK(in[0] == out[0]);
    CHECK(in[1] == out[1]);
  };
  for (const int hosts : {1, 2}) on_ranks(2, body, hosts);
}

TEST_CASE("ranks that do different things all get the same error with their lines") {
  for (const int hosts : {1, 3}) {
    std::mutex mutex;
    std::set<std::string> errors;
    const auto body = [&](RankGroup& group) {
      const Tensor t = Tensor::make(Dtype::f32, {group.rank() == 1 ? 5 : 4});
      Operation op = all_reduce(t);
      op.line = group.rank() == 1 ? "train.py:9" : "train.py:7";
      const auto result = group.run(op);
      REQUIRE(!result);
      std::lock_guard lock(mutex);
      errors.insert(result.error().message);
    };
    on_ranks(3, body, hosts);
    REQUIRE(errors.size() == 1);
    CHECK(errors.begin()->find("rank 1: all_reduce 1, add of f32[5] (train.py:9)") != std::string::npos);
    CHECK(errors.begin()->find("ranks 0, 2: all_reduce 1, add of f32[4] (train.py:7)") != std::string::npos);
  }
}

TEST_CASE("a rank on another host that does not answer in time is named") {
  const auto body = [](RankGroup& group) {
    const Tensor t = Tensor::make(Dtype::f32, {4});
    Operation op = all_reduce(t);
    op.timeout = group.rank() == 1 ? 300ms : 100ms;
    if (group.rank() == 1) std::this_thread::sleep_for(600ms);
    const auto result = group.run(op);
    REQUIRE(!result);
    CHECK(result.error().message.find("rank 1 did not answer in time") == 0);
    CHECK(result.error().message.find("all_reduce 1, add of f32[4] (train.py:7)") != std::string::npos);
  };
  on_ranks(3, body, 3);
}

TEST_CASE("a rank that does not come in time ends the group by its name") {
  on_ranks(2, [](RankGroup& group) {
    const Tensor t = Tensor::make(Dtype::f32, {4});
    Operation op = all_reduce(t);
    ok(group.run(op));
    if (group.rank() == 1) {
      std::this_thread::sleep_for(600ms);
      const auto late = group.run(op);
      REQUIRE(!late);
      return;
    }
    op.timeout = 100ms;
    const auto result = group.run(op);
    REQUIRE(!result);
    const std::string& text = result.error().message;
    CHECK(text.find("rank 1 did not come in time, a timeout of 100 ms") == 0);
    CHECK(text.find("rank 1: finished all_reduce 1") != std::string::npos);
    CHECK(text.find("rank 0: waiting in all_reduce 2") != std::string::npos);
  });
}

namespace {

class FileBoard : public Board {
 public:
  explicit FileBoard(std::filesystem::path folder) : folder_(std::move(folder)) {}
  Result<void> put(const std::string& key, const std::string& text) override {
    std::filesystem::create_directories((folder_ / key).parent_path());
    TRY(write_file((folder_ / (key + ".new")).string(), text));
    std::filesystem::rename(folder_ / (key + ".new"), folder_ / key);
    return {};
  }
  Result<std::string> get(const std::string& key, int timeout_ms) override {
    for (int waited = 0; !std::filesystem::exists(folder_ / key); ++waited) {
      if (waited > timeout_ms) return fail(Code::io, cat("no ", key));
      usleep(1000);
    }
    return read_file((folder_ / key).string());
  }

 private:
  std::filesystem::path folder_;
};

// A rank that sums until something ends it: 0 when the error names rank `victim`.
int sum_until_broken(const std::filesystem::path& folder, int rank, int ranks, int hosts, int victim) {
  FileBoard board(folder);
  auto group = RankGroup::make(board, options(rank, ranks, hosts));
  if (!group || !board.put(cat("ready", rank), "")) return 2;
  const Tensor t = Tensor::make(Dtype::f32, {1000});
  for (;;) {
    const auto result = (*group)->run(all_reduce(t));
    if (result) continue;
    const bool names = result.error().message.find(cat("rank ", victim, " has ended")) == 0;
    if (!names) std::fprintf(stderr, "%s\n", result.error().message.c_str());
    return names ? 0 : 3;
  }
}

}  // namespace

// What it leaves behind is the kernel's to take away: memory without a name, locks and sockets of its own.
TEST_CASE("a rank killed at any moment is named on every other one") {
  const auto folder = std::filesystem::temp_directory_path() / cat("trine_transport_", int64_t{getpid()});
  uint64_t random = 12345;
  for (int run = 0; run < 100; ++run) {
    random = random * 6364136223846793005u + 1442695040888963407u;
    std::filesystem::create_directories(folder);
    constexpr int kRanks = 4;
    const int victim = int(random >> 33) % kRanks;
    std::vector<pid_t> children;
    for (int r = 0; r < kRanks; ++r) {
      children.push_back(fork());
      if (children.back() == 0) _exit(sum_until_broken(folder, r, kRanks, run % 4 == 3 ? 2 : 1, victim));
    }
    for (int r = 0; r < kRanks; ++r)
      while (!std::filesystem::exists(folder / cat("ready", r))) usleep(500);
    usleep(useconds_t(random >> 40) % 20'000);
    kill(children[size_t(victim)], SIGKILL);
    for (int r = 0; r < kRanks; ++r) {
      int status = 0;
      REQUIRE(waitpid(children[size_t(r)], &status, 0) > 0);
      if (r != victim) CHECK(WEXITSTATUS(status) == 0);
    }
    std::filesystem::remove_all(folder);
  }
}

}  // namespace trine::run
