// Stopping: limits of time, interrupts after work began, and what is thrown inside chunks.
#include "base/stop.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <functional>
#include <thread>
#include <vector>

#include "base/pool.h"
#include "base/tensor.h"
#include "tests/testing.h"

using namespace trine;

namespace {

Result<int> for_ever() {
  for (;;) stop_point();
}

int exit_of(const std::function<bool()>& holds) {  // in a child of its own
  const pid_t child = ::fork();
  if (child == 0) ::_exit(holds() ? 0 : 1);
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

volatile std::sig_atomic_t others = 0;

}  // namespace

TEST_CASE("work past its seconds stops") {
  const auto done = without_throwing([]() -> Result<int> {
    const Work work(0.05, "testing");
    return for_ever();
  });
  REQUIRE(!done);
  CHECK(done.error().code == Code::out_of_range);
  CHECK(done.error().message == "stopped after 0.05 s of testing");
  const Work unlimited;
  for (int i = 0; i < 1000; ++i) stop_point();
}

TEST_CASE("an interrupt stops what had begun, and nothing that begins later") {
  std::thread other([] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    interrupt();
  });
  const auto done = without_throwing([]() -> Result<int> {
    const Work work;
    return for_ever();
  });
  other.join();
  REQUIRE(!done);
  CHECK(done.error().code == Code::cancelled);
  const Work later;
  for (int i = 0; i < 1000; ++i) stop_point();
}

TEST_CASE("SIGINT is an interrupt beside what it was") {
  CHECK(exit_of([] {
          std::signal(SIGINT, [](int) { others = 1; });
          take_interrupts();
          take_interrupts();  // once is enough
          const uint32_t had = interrupts();
          const Work work;
          ::raise(SIGINT);
          const auto done = without_throwing(for_ever);
          return others == 1 && interrupts() == had + 1 && !done && done.error().code == Code::cancelled;
        }) == 0);
}

TEST_CASE("what a chunk throws, its caller gets") {
  for (int threads : {1, 4}) {
    ThreadPool pool(threads);
    const ThreadPool::Use use(pool);
    for (int64_t at : {0, 500, 999}) {
      const auto done = without_throwing([&]() -> Result<void> {
        parallel_for(1000, 1, [&](int64_t begin, int64_t end) {
          if (begin <= at && at < end) throw std::bad_alloc();
        });
        return {};
      });
      REQUIRE(!done);
      CHECK(done.error().code == Code::out_of_memory);
    }
    std::atomic<int64_t> sum = 0;
    parallel_for(1000, 1, [&](int64_t begin, int64_t end) { sum += end - begin; });
    CHECK(sum == 1000);
  }
}

// A sanitizer has more address space for itself than the limit that this sets.
#if defined(__has_feature)
constexpr bool kSanitized = __has_feature(thread_sanitizer) || __has_feature(address_sanitizer);
#else
constexpr bool kSanitized = false;
#endif

TEST_CASE("a tensor that memory does not hold is an error" * doctest::skip(kSanitized)) {
  CHECK(exit_of([] {
          const rlimit few{size_t{1} << 33, size_t{1} << 33};
          ::setrlimit(RLIMIT_AS, &few);
          const auto made =
              without_throwing([]() -> Result<Tensor> { return Tensor::make(Dtype::f32, {int64_t{1} << 34}); });
          return !made && made.error().code == Code::out_of_memory;
        }) == 0);
}
