// Jobs live on their callers' stacks, in a list under one mutex; chunks are taken without it.
// Idle workers spin for a bounded time, then sleep, so that a busy neighbour gets the core.
#include "base/pool.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <utility>

#include "base/stop.h"

namespace trine {

namespace {

constexpr int kThreadsMax = 1024;
constexpr int kChunksPerThread = 8;  // a thread that loses its core holds at most 1/8 of its share
constexpr auto kSpin = std::chrono::microseconds(50);

thread_local bool inside_chunk = false;
thread_local ThreadPool* used = nullptr;
std::atomic<ThreadPool*> process_pool = nullptr;
std::mutex process_mutex;

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// True as soon as done() is, false after kSpin.
template <class F>
bool spin_until(F&& done) {
  auto end = std::chrono::steady_clock::now() + kSpin;
  do {
    for (int i = 0; i < 32; ++i) {
      if (done()) return true;
      relax();
    }
  } while (std::chrono::steady_clock::now() < end);
  return false;
}

int threads_wanted() {
  if (const char* text = std::getenv("TRINE_THREADS")) {
    char* end = nullptr;
    long n = std::strtol(text, &end, 10);
    if (end != text && *end == 0 && n >= 1) return int(std::min<long>(n, kThreadsMax));
  }
  return affinity_threads();
}

}  // namespace

struct ThreadPool::Job {
  Chunk run_chunk = nullptr;
  void* ctx = nullptr;
  int64_t count = 0, grain = 1;
  int64_t shares = 1;                 // a chunk is at most 1/shares of what is left
  std::atomic<int64_t> next = 0;      // first index nobody has taken
  std::atomic<int> helpers = 0;       // workers inside; changed with mutex_ held
  std::condition_variable left = {};  // the last helper left
  std::exception_ptr thrown = {};     // by the first chunk that did; nobody begins another. Guarded by thrown_once
  std::once_flag thrown_once = {};
  Job *before = nullptr, *after = nullptr;

  bool has_chunks() const { return next.load(std::memory_order_relaxed) < count; }

  void run_chunks() {
    bool outer = std::exchange(inside_chunk, true);
    int64_t begin = next.load(std::memory_order_relaxed);
    try {
      while (begin < count) {
        int64_t size = std::min(std::max(grain, (count - begin) / shares), count - begin);
        if (!next.compare_exchange_weak(begin, begin + size, std::memory_order_relaxed)) continue;
        stop_point();
        run_chunk(ctx, begin, begin + size);
        begin = next.load(std::memory_order_relaxed);
      }
    } catch (...) {
      std::call_once(thrown_once, [&] { thrown = std::current_exception(); });
      next.store(count, std::memory_order_relaxed);
    }
    inside_chunk = outer;
  }
};

ThreadPool::ThreadPool(int threads) : threads_(std::clamp(threads, 1, kThreadsMax)) {}

ThreadPool::~ThreadPool() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
    posted_.fetch_add(1, std::memory_order_release);
  }
  wake_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::start_workers() {
  std::call_once(started_, [&] {
    for (int i = 1; i < threads_; ++i) {
      try {
        workers_.emplace_back([this] { run_tasks(); });
      } catch (const std::system_error&) {
        break;  // no more threads to be had: fewer helpers, same results
      }
    }
  });
}

void ThreadPool::run(int64_t count, int64_t grain, Chunk run_chunk, void* ctx) {
  if (count <= 0) return;
  grain = std::max<int64_t>(grain, 1);
  if (inside_chunk || threads_ == 1 || count <= grain) return run_chunk(ctx, 0, count);
  start_workers();
  Job job{.run_chunk = run_chunk, .ctx = ctx, .count = count, .grain = grain};
  job.shares = int64_t(threads_) * kChunksPerThread;
  int64_t wanted = std::min<int64_t>((count - 1) / grain, threads_ - 1);
  int64_t asleep = 0;
  {
    std::lock_guard lock(mutex_);
    job.after = open_;
    if (open_) open_->before = &job;
    open_ = &job;
    asleep = sleeping_;
    posted_.fetch_add(1, std::memory_order_release);
  }
  for (int64_t i = std::min(wanted, asleep); i > 0; --i) wake_.notify_one();
  job.run_chunks();
  finish(job);
  if (job.thrown) std::rethrow_exception(job.thrown);
}

void ThreadPool::finish(Job& job) {
  {
    std::lock_guard lock(mutex_);
    (job.before ? job.before->after : open_) = job.after;
    if (job.after) job.after->before = job.before;
    if (job.helpers == 0) return;
  }
  spin_until([&] { return job.helpers.load(std::memory_order_acquire) == 0; });
  // The lock also keeps the job alive until its last helper has let go of it.
  std::unique_lock lock(mutex_);
  job.left.wait(lock, [&] { return job.helpers == 0; });
}

ThreadPool::Job* ThreadPool::take() {
  for (Job* job = open_; job; job = job->after) {
    if (!job->has_chunks()) continue;
    job->helpers.fetch_add(1, std::memory_order_relaxed);
    return job;
  }
  return nullptr;
}

void ThreadPool::leave(Job& job) {
  std::lock_guard lock(mutex_);
  if (job.helpers.fetch_sub(1, std::memory_order_release) == 1) job.left.notify_one();
}

bool ThreadPool::spin_for_job(uint32_t seen) const {
  return spin_until([&] { return posted_.load(std::memory_order_acquire) != seen; });
}

void ThreadPool::run_tasks() {
  while (!stop_) {
    uint32_t seen = posted_.load(std::memory_order_acquire);
    Job* job = nullptr;
    {
      std::lock_guard lock(mutex_);
      job = take();
    }
    if (!job && !spin_for_job(seen)) {
      std::unique_lock lock(mutex_);
      ++sleeping_;
      wake_.wait(lock, [&] { return stop_ || (job = take()); });
      --sleeping_;
    }
    if (!job) continue;
    job->run_chunks();
    leave(*job);
  }
}

ThreadPool& ThreadPool::process() {
  if (ThreadPool* pool = process_pool.load(std::memory_order_acquire)) return *pool;
  std::lock_guard lock(process_mutex);
  if (ThreadPool* pool = process_pool.load(std::memory_order_acquire)) return *pool;
  // A forked child has none of the workers: it leaves the old pool alone and makes its own.
  static const int at_fork = pthread_atfork([] { process_mutex.lock(); }, [] { process_mutex.unlock(); },
                                            [] {
                                              process_pool = nullptr;
                                              inside_chunk = false;
                                              process_mutex.unlock();
                                            });
  (void)at_fork;
  // Never destroyed: workers may outlive static objects.
  auto* pool = new ThreadPool(threads_wanted());
  process_pool.store(pool, std::memory_order_release);
  return *pool;
}

ThreadPool& ThreadPool::current() { return used ? *used : process(); }

ThreadPool::Use::Use(ThreadPool& pool) : outer_(std::exchange(used, &pool)) {}
ThreadPool::Use::~Use() { used = outer_; }

int pool_threads() { return inside_chunk ? 1 : ThreadPool::current().threads(); }

int affinity_threads() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0) return CPU_COUNT(&set);
  return int(std::max(1u, std::thread::hardware_concurrency()));
}

}  // namespace trine
