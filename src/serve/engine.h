// The engine: requests in, events out. A thread of its own plans a step, runs it, samples, and tells.
// Text, wires and templates are the front's (python/trine/serve). Any thread may call; invariant: the state of
// sequences belongs to the engine's thread, and what others ask reaches it through a queue.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "run/decoder/decoder.h"
#include "serve/cost.h"
#include "serve/sampler.h"
#include "serve/scheduler.h"
#include "serve/session.h"
#include "serve/step_log.h"

namespace trine::serve {

struct Request {
  std::vector<int32_t> prompt;
  int32_t max_tokens = 16, min_tokens = 0, n = 1, best_of = 1, prompt_logprobs = -1, priority = 0;
  Sampling sampling;
  std::vector<int32_t> stop_tokens;
  bool ignore_eos = false, constrained = false, embed = false;
  double deadline_s = 0;  // after arrival; 0: none
  std::string key, adapter, session;
  double at_s = -1;  // when it arrives, on the chip's clock; below zero: now
};

struct Usage {
  int32_t prompt = 0, completion = 0, cached = 0, drafted = 0, accepted = 0;
};
struct Times {
  double queue = 0, ttft = 0, total = 0, per_token = 0;
};

struct Event {
  enum class Kind : uint8_t { token, prompt, mask, finished, embedding, error } kind = Kind::token;
  int64_t id = 0;
  int32_t choice = 0;
  Sampled sampled = {};
  std::vector<Sampled> logprobs = {};
  std::vector<int32_t> tokens = {};
  std::vector<float> values = {};
  Reason reason = Reason::none;
  std::string message = {};
  Usage usage = {};
  Times host = {}, chip = {};
  double host_s = 0, chip_s = 0, joules = 0, usd = 0;
};

struct EngineOptions {
  SchedulerOptions scheduler;
  std::vector<int32_t> eos;
  CostTable cost, draft_cost;
  bool chip_clock = false;  // deadlines and arrival are on the chip's clock
  int32_t drafts = 0;       // tokens guessed by n-grams; 0: none
  int32_t ngram = 3;
  std::string page_store;  // folder of saved pages; empty: sessions are not saved
  bool hash = false;       // of every decision
  uint64_t model_id = 0;   // what keys and values depend on besides tokens
  // Without weights: chip seconds that pass in one of the host's, while steps last what the table says. 0: computed.
  double pace = 0;
  double answer_tokens = 128;     // of an answer that stands in, on average
  std::vector<int32_t> stand_in;  // its tokens, over and over
  std::string about;              // JSON of the model and where it is served, for profiles; empty: steps are not logged
  std::string draft_about;        // likewise of the model that guesses
  int32_t device = 0;             // the first core of this copy, for profiles
};

struct Stats {
  int32_t running = 0, waiting = 0, pages_used = 0, pages_total = 0, pages_cached = 0, sessions = 0;
  int64_t prefix_queries = 0, prefix_hits = 0, prompt_tokens = 0, tokens = 0, steps = 0, preemptions = 0, drafted = 0,
          accepted = 0;
  int64_t session_bytes = 0, weight_bytes = 0, padded = 0;
  double host_s = 0, chip_s = 0, joules = 0, usd = 0;
  uint64_t decisions = 0;
};

class Engine {
 public:
  // draft: a smaller model of the same tokens whose guesses are checked; without one n-grams guess.
  static Result<std::unique_ptr<Engine>> make(run::Decoder decoder, EngineOptions options,
                                              std::unique_ptr<run::Decoder> draft = nullptr);
  ~Engine();

  Result<int64_t> add(Request request);
  // Requests of a trace, in the order of their arrival on the chip's clock, all known before the first step.
  Result<std::vector<int64_t>> replay(std::vector<Request> requests);
  void cancel(int64_t id);
  void mask(int64_t id, int32_t choice, std::vector<uint8_t> bits);
  std::vector<Event> wait(double timeout_s);
  Result<void> load_adapter(std::string name, run::Adapter adapter);
  Result<void> drop_adapter(const std::string& name);
  Result<SavedSession> save_session(const std::string& name);
  Result<int32_t> restore_session(const std::string& name,
                                  const SavedSession& saved);  // tokens that need not be computed
  void drop_session(const std::string& name);
  Stats stats();
  void stop();

 private:
  struct Choice;
  struct Active;

  Engine(run::Decoder decoder, run::KvMemory kv, EngineOptions options, std::unique_ptr<run::Decoder> draft,
         run::KvMemory draft_kv);
  void loop();
  bool take_asks();  // false: to stop
  Result<std::unique_ptr<Active>> checked(Request request);
  void begin(std::unique_ptr<Active> active);
  void arrivals();
  void begin_choice(Active& active, int32_t index);
  void mask_came(int64_t id, int32_t choice, std::vector<uint8_t> bits);
  void step();
  void propose(Choice& c);
  void guess(const StepPlan& plan);
  void run_step(const StepPlan& plan);
  bool spreads(const StepPlan& plan) const;
  void copy_page(int32_t from, int32_t to);
  void deal_costs(const StepPlan& plan, const StepCost& cost);
  void take_row(const StepRow& row, std::span<const float> logits);
  Sampled sample_at(Choice& c, std::span<const float> logits, int32_t position);
  void take_prompt_logprobs(Choice& c, const StepRow& row, std::span<const float> logits);
  void prompt_done(Choice& c);
  void tell_token(Choice& c, const Sampled& s);
  Reason ends(const Choice& c, int32_t token) const;
  void finish(Choice& c, Reason reason);
  void conclude(Active& active);
  void emit(Choice& c, Event event);
  void flush();
  void keep_session(Choice& c);
  double now() const;
  void on_thread(const std::function<void()>& work);  // between two steps; returns when done
  void look();                                        // answers who only looks; the mutex is held

  double chip_at(double host) const;  // with a pace: what the chip's clock shows then
  void pace(double seconds);
  Sampled stand_in(const Choice& c, int32_t position) const;

  run::Decoder decoder_;
  run::KvMemory kv_;
  EngineOptions options_;
  std::unique_ptr<run::Decoder> draft_;  // with pages of its own, numbered as the model's
  run::KvMemory draft_kv_;
  Scheduler scheduler_;
  StepLog log_, draft_log_;
  std::map<int64_t, std::unique_ptr<Active>> active_;
  std::map<std::string, std::shared_ptr<const run::Adapter>> adapters_;
  std::map<std::string, int32_t> keys_;
  std::map<std::string, Session> sessions_;
  std::vector<float> scratch_;
  std::deque<std::unique_ptr<Active>> coming_;  // of a replay
  double chip_ = 0, started_ = 0, busy_ = 0;
  Stats stats_;

  std::mutex mutex_;
  std::condition_variable asked_, answered_;
  std::vector<Event> telling_;  // of this step
  std::vector<int64_t> done_;   // requests that ended in this step
  std::deque<std::function<void()>> asks_, looks_;
  std::deque<Event> events_;
  int64_t next_id_ = 1;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace trine::serve
