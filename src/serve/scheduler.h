// Decides what each step computes: batches, pages, admission, eviction, preemption, fair shares.
// It knows lengths and hashes, never values or durations, so the same code serves on the host's clock and on the
// chip's. Invariants: a step never lacks a page; the same calls in the same order give the same decisions.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <span>

#include "base/result.h"
#include "serve/page_pool.h"
#include "serve/prefix_cache.h"
#include "serve/sequence.h"

namespace trine::serve {

struct SchedulerOptions {
  int32_t pages = 1024;
  int32_t running_most = 64;  // sequences
  int32_t chunk = 512;        // tokens of prompts in a step without decoding
  int32_t mixed_chunk = 12;   // beside decoding: so few that a token waits less than three times as long for them
  int32_t context = 2048;     // tokens of a sequence
  bool prefix_cache = true;
  bool part_pages = true;  // a page that begins alike is copied; false: only whole pages are taken from the cache
  bool mixed = true;       // prompts beside decoding in one step; false: a step is one or the other
};

// Tokens [start, start + count) of a sequence.
struct StepRow {
  Sequence* sequence;
  int32_t start, count;
  bool samples;  // its last token is the sequence's last
};

struct StepPlan {
  std::vector<StepRow> rows;
  int32_t prompt_tokens = 0, decode_rows = 0;
  int64_t prompt_context = 0;  // tokens seen by the last of each prompt chunk, added up
  int64_t decode_context = 0;  // tokens of decoding sequences, added up
  int32_t prompt_rows = 0;
  std::vector<std::pair<int32_t, int32_t>> copies;  // pages (from, to) to copy before the step, in this order
};

class Scheduler {
 public:
  explicit Scheduler(const SchedulerOptions& options);

  const SchedulerOptions& options() const { return options_; }
  Result<void> fits(int32_t prompt, int32_t most) const;  // could it ever run?
  void add(Sequence* sequence);                           // waits from now on
  void finish(Sequence* sequence, Reason reason);         // its pages go; waiting ones leave the queue
  // The next step; sequences past their deadline are finished first (`expired`). Empty rows: nothing to do.
  StepPlan plan(double now, std::vector<Sequence*>* expired = nullptr);
  void computed(const StepRow& row, int32_t stay);  // the row's first `stay` tokens are in pages
  void append(Sequence* sequence, int32_t token);   // one more token is known

  // For a clock that knows durations: how many steps alike this plan may be made at once, and making them.
  int32_t repeats(const StepPlan& plan) const;
  bool repeat(const StepPlan& plan, int32_t steps);  // false: nothing changed, pages lack

  int32_t running() const { return int32_t(running_.size()); }
  int32_t waiting() const { return waiting_; }
  int64_t preemptions() const { return preemptions_; }
  int64_t prefix_queries() const { return prefix_queries_; }
  int64_t prefix_hits() const { return prefix_hits_; }
  int32_t pages_used() const { return pool_.total() - pool_.free() - cache_.evictable(); }
  PagePool& pool() { return pool_; }
  PrefixCache& cache() { return cache_; }
  const std::vector<Sequence*>& running_sequences() const { return running_; }
  int32_t take_page();  // evicting what is cached where none is free; -1: all are held

 private:
  struct Queue {
    std::map<int32_t, std::deque<Sequence*>> by_key;
  };

  bool grow(Sequence* sequence, int32_t tokens);  // pages for so many
  bool make_room(Sequence* for_whom, int32_t tokens);
  void preempt(Sequence* victim);
  Sequence* victim(const Sequence* for_whom) const;
  Sequence* next_waiting();
  void leave_queue(Sequence* sequence);
  bool admits(const Sequence& candidate) const;
  void match_prefix(Sequence* sequence);
  void match_part(Sequence* sequence, uint64_t before);
  void keep_tail(Sequence* sequence);
  void release(Sequence* sequence);
  void expire(double now, std::vector<Sequence*>* expired);
  void plan_decode(StepPlan& plan);
  void plan_prompts(StepPlan& plan, double now);
  bool plan_prompt(StepPlan& plan, Sequence* sequence, int32_t& budget);
  int32_t worst_pages(const Sequence& s) const;

  SchedulerOptions options_;
  PagePool pool_;
  PrefixCache cache_;
  std::vector<Sequence*> running_;                   // in order of admission
  std::map<int32_t, Queue, std::greater<>> queues_;  // by priority
  std::map<int32_t, double> served_;                 // tokens of each key
  std::multimap<double, Sequence*> deadlines_;
  int32_t waiting_ = 0;
  uint64_t order_ = 0;
  int64_t worst_ = 0;  // pages of all running ones at their longest
  int64_t preemptions_ = 0, prefix_queries_ = 0, prefix_hits_ = 0;
};

}  // namespace trine::serve
