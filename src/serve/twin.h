// The discrete-event twin: the scheduler under a trace, with steps that take what the chip's timer says, without
// values. A fleet of copies behind a router; prompts may have copies of their own; copies come and go by load.
// Deterministic. Invariant: making equal decode steps at once (`jump`) gives the same times as making them one by one.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "serve/cost.h"
#include "serve/scheduler.h"

namespace trine::serve {

struct TwinRequest {
  double arrival = 0;  // s
  int32_t prompt = 1, output = 1;
  uint64_t prefix = 0;  // what the first `prefix_tokens` are shared by; 0: none
  int32_t prefix_tokens = 0;
  int32_t key = 0, priority = 0;
};

struct TwinOptions {
  SchedulerOptions scheduler;
  CostTable cost;
  int32_t copies = 1;                             // of the model
  int32_t prompt_copies = 0;                      // of these, that only read prompts; the others only write
  int32_t copies_most = 0;                        // with autoscaling; 0: none
  double cold_start = 120;                        // s until a new copy serves
  double scale_up = 8;                            // waiting sequences of each copy from which on one is added
  double scale_down_idle = 60;                    // s without work after which one goes
  double slo_ttft = 0, slo_itl = 0, slo_e2e = 0;  // s; 0: none. itl: a request's mean
  bool affinity = true;  // requests go where their prefix is, while that copy is not much fuller
  bool jump = true;
  bool hash = false;  // of every decision
};

struct Spread {
  double p50 = 0, p95 = 0, p99 = 0, mean = 0;
};

struct TwinResult {
  int64_t requests = 0, rejected = 0, good = 0, prompt_tokens = 0, tokens = 0, steps = 0, preemptions = 0,
          prefix_hits = 0, prefix_queries = 0;
  double seconds = 0;                                                  // from the first arrival to the last token
  double busy = 0, prompt_busy = 0, decode_busy = 0, launch_busy = 0;  // of all copies together
  double copy_seconds = 0;                                             // that copies were rented
  double slots_full = 0, pages_full = 0, waited = 0;  // seconds in which some waited: for a place, for pages, for both
  double transfer = 0;                                // of keys and values
  double joules = 0, usd = 0;
  int32_t copies_peak = 0;
  Spread ttft, itl, e2e, queue;
  uint64_t decisions = 0;
};

Result<TwinResult> run_twin(std::span<const TwinRequest> trace, const TwinOptions& options);

}  // namespace trine::serve
