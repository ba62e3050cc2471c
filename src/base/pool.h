// The process's thread pool: parallel_for() over chunks handed out as threads become free.
// Not a task graph and not for blocking work. The calling thread always takes part and returns when all chunks are
// done. Invariant: calls from inside a chunk run inline, so the number of running threads never exceeds callers +
// workers.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <type_traits>
#include <vector>

namespace trine {

class ThreadPool {
 public:
  using Chunk = void (*)(void* ctx, int64_t begin, int64_t end);

  explicit ThreadPool(int threads);  // callers count as one: threads - 1 workers start at the first parallel run
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return threads_; }
  // `run_chunk` over [0, count) in chunks of at least `grain` (the last may be shorter). What it throws, the caller
  // gets.
  void run(int64_t count, int64_t grain, Chunk run_chunk, void* ctx);

  static ThreadPool& process();  // TRINE_THREADS threads, or as many as the process may run on; made at first use
  static ThreadPool& current();  // what parallel_for uses: the innermost Use, or process()

  // While it lives, parallel_for on this thread uses `pool`.
  class Use {
   public:
    explicit Use(ThreadPool& pool);
    ~Use();
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

   private:
    ThreadPool* outer_;
  };

 private:
  struct Job;

  void start_workers();
  void run_tasks();
  Job* take();            // with mutex_ held: an open job with chunks left, joined; or null
  void leave(Job& job);   // a worker is done with it
  void finish(Job& job);  // closes the caller's own job and waits for its helpers
  bool spin_for_job(uint32_t seen) const;

  const int threads_;
  std::once_flag started_;
  std::vector<std::thread> workers_;
  std::mutex mutex_;
  std::condition_variable wake_;
  Job* open_ = nullptr;               // doubly linked, guarded by mutex_
  int sleeping_ = 0;                  // guarded by mutex_
  std::atomic<uint32_t> posted_ = 0;  // changes when a job is opened or the pool stops
  std::atomic<bool> stop_ = false;
};

int pool_threads();      // threads a parallel_for here could use: 1 inside a chunk
int affinity_threads();  // processors this process may run on

// fn(begin, end) over [0, count). Results must not depend on how the range is cut.
template <class F>
void parallel_for(int64_t count, int64_t grain, F&& fn) {
  ThreadPool::current().run(
      count, grain,
      [](void* ctx, int64_t begin, int64_t end) { (*static_cast<std::remove_reference_t<F>*>(ctx))(begin, end); },
      const_cast<void*>(static_cast<const void*>(std::addressof(fn))));
}

}  // namespace trine
