// The thread pool: every index once, from many callers at once, nested, with any number of threads, after a fork.
#include "base/pool.h"

#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <numeric>
#include <set>

#include "tests/testing.h"

using namespace trine;

namespace {

// How often each index of [0, count) was visited.
std::vector<int> visits(int64_t count, int64_t grain) {
  std::vector<int> out(size_t(std::max<int64_t>(count, 0)));
  parallel_for(count, grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) ++out[size_t(i)];
  });
  return out;
}

}  // namespace

TEST_CASE("parallel_for visits each index once") {
  for (int threads : {1, 2, 3, 8, 33}) {
    ThreadPool pool(threads);
    ThreadPool::Use use(pool);
    for (int64_t count : {-1, 0, 1, 2, 7, 64, 1000, 100001}) {
      for (int64_t grain : {0, 1, 3, 64, 1 << 20}) {
        CAPTURE(threads);
        CAPTURE(count);
        CAPTURE(grain);
        CHECK(visits(count, grain) == std::vector<int>(size_t(std::max<int64_t>(count, 0)), 1));
      }
    }
  }
}

TEST_CASE("chunks are at least the grain, but for the last") {
  ThreadPool pool(4);
  ThreadPool::Use use(pool);
  std::atomic<int> shorter = 0;
  parallel_for(1003, 10, [&](int64_t begin, int64_t end) { shorter += end - begin < 10; });
  CHECK(shorter <= 1);
}

TEST_CASE("nested calls run inline on the same thread") {
  ThreadPool pool(4);
  ThreadPool::Use use(pool);
  CHECK(pool_threads() == 4);
  std::atomic<int64_t> sum = 0;
  std::atomic<int> strangers = 0;
  parallel_for(50, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      strangers += pool_threads() != 1;
      auto self = std::this_thread::get_id();
      parallel_for(20, 1, [&](int64_t b, int64_t e) {
        strangers += std::this_thread::get_id() != self;
        for (int64_t j = b; j < e; ++j) sum += j;
      });
    }
  });
  CHECK(sum == 50 * 190);
  CHECK(strangers == 0);
}

TEST_CASE("a lone chunk leaves the pool to the calls inside it") {
  ThreadPool pool(3);
  ThreadPool::Use use(pool);
  parallel_for(1, 1, [&](int64_t, int64_t) { CHECK(pool_threads() == 3); });
}

TEST_CASE("more than one thread takes part in a long run") {
  ThreadPool pool(4);
  ThreadPool::Use use(pool);
  std::mutex mutex;
  std::set<std::thread::id> seen;
  parallel_for(64, 1, [&](int64_t, int64_t) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    std::lock_guard lock(mutex);
    seen.insert(std::this_thread::get_id());
  });
  CHECK(seen.size() > 1);
}

TEST_CASE("a thousand callers at once") {
  ThreadPool pool(4);
  std::atomic<int> wrong = 0;
  std::vector<std::thread> callers;
  for (int c = 0; c < 1000; ++c) {
    callers.emplace_back([&, c] {
      ThreadPool::Use use(pool);
      for (int round = 0; round < 3; ++round) {
        wrong += visits(100 + c, 7) != std::vector<int>(size_t(100 + c), 1);
      }
    });
  }
  for (auto& t : callers) t.join();
  CHECK(wrong == 0);
}

TEST_CASE("workers that went to sleep are woken") {
  ThreadPool pool(3);
  ThreadPool::Use use(pool);
  for (int i = 0; i < 20; ++i) {
    CHECK(visits(1000, 1) == std::vector<int>(1000, 1));
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

TEST_CASE("a forked child has a pool of its own") {
  CHECK(visits(1000, 1) == std::vector<int>(1000, 1));
  pid_t child = fork();
  if (child == 0) _exit(visits(1000, 1) == std::vector<int>(1000, 1) ? 0 : 1);
  int status = -1;
  waitpid(child, &status, 0);
  CHECK(status == 0);
}
