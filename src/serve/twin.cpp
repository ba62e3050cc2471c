// The twin's copies, its router and its clock.
#include "serve/twin.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <memory>
#include <queue>

#include "base/text.h"

namespace trine::serve {

namespace {

// Durations by their logarithm, 1 % apart: percentiles without holding them.
class Histogram {
 public:
  void add(double seconds, int64_t count) {
    const int at = seconds <= kLeast ? 0 : std::min(kBins - 1, int(std::log(seconds / kLeast) / kStep));
    bins_[size_t(at)] += count, count_ += count, sum_ += seconds * double(count);
  }
  Spread spread() const { return {at(0.5), at(0.95), at(0.99), count_ ? sum_ / double(count_) : 0}; }

 private:
  static constexpr double kLeast = 1e-6, kStep = 0.00995;
  static constexpr int kBins = 2400;  // up to 2e4 s

  double at(double share) const {
    int64_t left = int64_t(std::ceil(share * double(count_)));
    for (int i = 0; i < kBins; ++i)
      if ((left -= bins_[size_t(i)]) <= 0 && count_) return kLeast * std::exp((i + 0.5) * kStep);
    return 0;
  }

  std::vector<int64_t> bins_ = std::vector<int64_t>(size_t(kBins), 0);
  int64_t count_ = 0;
  double sum_ = 0;
};

Spread spread_of(std::vector<float>& all) {
  Spread s;
  if (all.empty()) return s;
  double sum = 0;
  for (const float v : all) sum += double(v);
  const auto at = [&](double share) {
    const size_t i = std::min(all.size() - 1, size_t(std::ceil(share * double(all.size()))) - 1);
    std::nth_element(all.begin(), all.begin() + std::ptrdiff_t(i), all.end());
    return double(all[i]);
  };
  return {at(0.5), at(0.95), at(0.99), sum / double(all.size())};
}

enum class Does : uint8_t { both, prompts, writes };

struct Moving {  // keys and values on their way to a copy that writes
  double at;
  Sequence* sequence;
  bool operator<(const Moving& other) const {
    return at > other.at || (at == other.at && sequence->id > other.sequence->id);
  }
};

class Twin;

// One copy of the model: a scheduler and a clock of its own.
struct Copy {
  Copy(const TwinOptions& o, Does does_) : scheduler(o.scheduler), does(does_) {}

  Scheduler scheduler;
  Does does;
  double time = 0, from = 0, until = std::numeric_limits<double>::infinity(), idle_since = 0;
  uint64_t decisions = 0;

  int32_t load() const { return scheduler.running() + scheduler.waiting(); }
};

class Twin {
 public:
  Twin(std::span<const TwinRequest> trace, const TwinOptions& o) : trace_(trace), o_(o) {
    ttft_.reserve(trace.size()), e2e_.reserve(trace.size()), queue_.reserve(trace.size());
    const int32_t copies = std::max(1, o.copies);
    for (int32_t i = 0; i < copies; ++i)
      copies_.push_back(std::make_unique<Copy>(o, o.prompt_copies == 0  ? Does::both
                                                  : i < o.prompt_copies ? Does::prompts
                                                                        : Does::writes));
  }

  TwinResult run() {
    double last = 0;
    for (size_t i = 0; i < trace_.size(); ++i) {
      const TwinRequest& r = trace_[i];
      to(r.arrival);
      arrive(i);
      last = r.arrival;
    }
    to(std::numeric_limits<double>::infinity());
    return summed(last);
  }

 private:
  Sequence* made(size_t i) {
    Sequence* s;
    if (free_.empty()) {
      pool_.emplace_back();
      s = &pool_.back();
    } else {
      s = free_.back();
      free_.pop_back();
      std::vector<int32_t> pages = std::move(s->pages);
      std::vector<uint64_t> hashes = std::move(s->hashes);
      pages.clear(), hashes.clear();
      *s = Sequence{};
      s->pages = std::move(pages), s->hashes = std::move(hashes);
    }
    const TwinRequest& r = trace_[i];
    s->id = int64_t(i) + 1, s->prompt = s->length = r.prompt, s->most = r.output, s->key = r.key,
    s->priority = r.priority;
    s->arrived = r.arrival;
    s->root = 1;
    if (r.prefix)
      for (int32_t p = 0; p < std::min(r.prefix_tokens, r.prompt) / kPageTokens; ++p) {
        const int32_t words[3] = {int32_t(r.prefix), int32_t(r.prefix >> 32), p};
        s->hashes.push_back(page_hash(p ? s->hashes.back() : s->root, words));
      }
    return s;
  }

  Copy* least_loaded(bool writes) {
    Copy* best = nullptr;
    for (auto& c : copies_)
      if (c->from <= now_ && c->until > now_ && (c->does == Does::both || (c->does == Does::writes) == writes))
        if (!best || c->load() < best->load()) best = c.get();
    return best;
  }

  void arrive(size_t i) {
    ++result_.requests;
    Copy* to = least_loaded(false);
    const TwinRequest& r = trace_[i];
    if (!to || !to->scheduler.fits(r.prompt, r.output)) {
      ++result_.rejected;
      return;
    }
    Sequence* s = made(i);
    if (o_.affinity && copies_.size() > 1 && !s->hashes.empty())
      for (auto& c : copies_)
        if (c->from <= now_ && c->until > now_ && c->does != Does::writes &&
            c->scheduler.cache().has(s->hashes.back()) && c->load() <= to->load() + 8)
          to = c.get();
    if (to->does == Does::prompts) s->most = 1;
    to->scheduler.add(s);
    scale();
  }

  // A copy more where many wait for each; the last one goes where it had nothing to do for long.
  void scale() {
    if (o_.copies_most <= 0) return;
    int32_t here = 0, waiting = 0;
    for (auto& c : copies_)
      if (c->until > now_) ++here, waiting += c->scheduler.waiting();
    if (waiting > o_.scale_up * here && here < o_.copies_most) {
      for (auto& c : copies_)
        if (c->from > now_) return;  // one is on its way
      copies_.push_back(std::make_unique<Copy>(o_, Does::both));
      copies_.back()->from = copies_.back()->time = copies_.back()->idle_since = now_ + o_.cold_start;
      return;
    }
    if (here > std::max(1, o_.copies))
      for (size_t i = copies_.size(); i-- > 0;)
        if (Copy& c = *copies_[i];
            c.until > now_ && c.from <= now_ && c.load() == 0 && now_ - c.idle_since > o_.scale_down_idle) {
          c.until = now_;
          return;
        }
  }

  // All copies up to a time: steps that begin before it are made.
  void to(double time) {
    while (true) {
      const double until = moving_.empty() ? time : std::min(time, moving_.top().at);
      for (auto& c : copies_) advance(*c, until);
      if (moving_.empty() || moving_.top().at > time) break;
      now_ = std::max(now_, moving_.top().at);
      Sequence* s = moving_.top().sequence;
      moving_.pop();
      Copy* c = least_loaded(true);
      c->time = std::max(c->time, now_);
      s->state = State::waiting;
      c->scheduler.add(s);
    }
    if (std::isfinite(time)) now_ = time;
  }

  void advance(Copy& c, double until) {
    while (c.time < until && c.from < until) {
      const StepPlan plan = c.scheduler.plan(c.time);
      if (plan.rows.empty()) {
        if (std::isfinite(until)) c.time = until;
        return;
      }
      if (o_.hash) hash(c, plan);
      make_step(c, plan, until);
      c.idle_since = c.time;
    }
  }

  void hash(Copy& c, const StepPlan& plan) {
    for (const StepRow& r : plan.rows) {
      const int32_t words[3] = {int32_t(r.sequence->id), r.start, r.count};
      c.decisions = page_hash(c.decisions, words);
    }
    const int32_t end[1] = {-1};
    c.decisions = page_hash(c.decisions, end);
  }

  void count(const Copy& c, const StepCost& cost, const StepPlan& plan) {
    const double seconds = cost.seconds();
    result_.busy += seconds, result_.prompt_busy += cost.prompt, result_.decode_busy += cost.decode,
        result_.launch_busy += cost.launch;
    ++result_.steps;
    if (plan.decode_rows) itl_.add(seconds, plan.decode_rows);
    if (c.scheduler.waiting()) {
      result_.waited += seconds;
      (c.scheduler.running() >= o_.scheduler.running_most ? result_.slots_full : result_.pages_full) += seconds;
    }
  }

  void make_step(Copy& c, StepPlan plan, double until) {
    const int32_t most = o_.jump ? c.scheduler.repeats(plan) : 1;
    int32_t steps = 0;
    do {
      const StepCost cost = cost_of(o_.cost, plan);
      c.time += cost.seconds();
      count(c, cost, plan);
      plan.decode_context += plan.decode_rows;
      ++steps;
    } while (steps < most && c.time < until);
    if (most > 1) {
      c.scheduler.repeat(plan, steps);
      for (const StepRow& r : plan.rows) ended(c, r.sequence);
      return;
    }
    for (const StepRow& r : plan.rows) {
      Sequence* s = r.sequence;
      c.scheduler.computed(r, r.count);
      result_.prompt_tokens += r.start < s->prompt && s->length == s->prompt ? r.count : 0;
      if (!r.samples) continue;
      c.scheduler.append(s, 0);
      if (s->first_token < 0) s->first_token = c.time;
      ended(c, s);
    }
  }

  void ended(Copy& c, Sequence* s) {
    if (s->length - s->prompt < s->most) return;
    c.scheduler.finish(s, Reason::length);
    const TwinRequest& r = trace_[size_t(s->id) - 1];
    if (c.does == Does::prompts && r.output > 1) {
      // The other copy reads nothing: it has the keys and values of all tokens but the last.
      const double seconds = o_.cost.transfer_seconds_per_token * s->prompt;
      result_.transfer += seconds;
      s->most = r.output, s->imported = s->prompt, s->computed = 0;
      moving_.push({c.time + seconds, s});
      return;
    }
    s->ended = c.time;
    const double ttft = s->first_token - s->arrived, e2e = s->ended - s->arrived;
    const double itl = r.output > 1 ? (s->ended - s->first_token) / (r.output - 1) : 0;
    ttft_.push_back(float(ttft)), e2e_.push_back(float(e2e)), queue_.push_back(float(s->first_run - s->arrived));
    result_.tokens += r.output;
    result_.good += (o_.slo_ttft <= 0 || ttft <= o_.slo_ttft) && (o_.slo_itl <= 0 || itl <= o_.slo_itl) &&
                    (o_.slo_e2e <= 0 || e2e <= o_.slo_e2e);
    last_ = std::max(last_, c.time);
    free_.push_back(s);
  }

  TwinResult summed(double last_arrival) {
    const double first = trace_.empty() ? 0 : trace_[0].arrival, end = std::max(last_, last_arrival);
    result_.seconds = end - first;
    for (auto& c : copies_) {
      result_.copy_seconds +=
          std::max(0.0, std::min(c->until, end) - std::max(first, c->from > first ? c->from - o_.cold_start : first));
      result_.preemptions += c->scheduler.preemptions();
      result_.prefix_hits += c->scheduler.prefix_hits(), result_.prefix_queries += c->scheduler.prefix_queries();
      result_.decisions = copies_.size() == 1 ? c->decisions : result_.decisions ^ c->decisions;
    }
    result_.copies_peak = int32_t(copies_.size());
    result_.joules =
        result_.busy * o_.cost.watts + std::max(0.0, result_.copy_seconds - result_.busy) * o_.cost.idle_watts;
    result_.usd = result_.copy_seconds * o_.cost.dollars_per_hour / 3600;
    result_.ttft = spread_of(ttft_), result_.e2e = spread_of(e2e_), result_.queue = spread_of(queue_);
    result_.itl = itl_.spread();
    return result_;
  }

  std::span<const TwinRequest> trace_;
  const TwinOptions& o_;
  std::vector<std::unique_ptr<Copy>> copies_;
  std::deque<Sequence> pool_;
  std::vector<Sequence*> free_;
  std::priority_queue<Moving> moving_;
  std::vector<float> ttft_, e2e_, queue_;
  Histogram itl_;
  TwinResult result_;
  double now_ = 0, last_ = 0;
};

}  // namespace

Result<TwinResult> run_twin(std::span<const TwinRequest> trace, const TwinOptions& o) {
  TRY(o.cost.check());
  if (o.copies < 1 || o.copies > 100000 || o.prompt_copies < 0 || (o.prompt_copies && o.prompt_copies >= o.copies))
    return fail(Code::invalid, cat(o.copies, " copies of which ", o.prompt_copies, " read prompts"));
  if (o.prompt_copies && o.copies_most) return fail(Code::unsupported, "autoscaling of copies that read prompts apart");
  for (size_t i = 0; i < trace.size(); ++i) {
    const TwinRequest& r = trace[i];
    if (r.prompt < 1 || r.output < 1 || !std::isfinite(r.arrival) || (i && r.arrival < trace[i - 1].arrival))
      return fail(Code::invalid,
                  cat("request ", i, " arrives at ", r.arrival, " s with ", r.prompt, " tokens and wants ", r.output));
  }
  return Twin(trace, o).run();
}

}  // namespace trine::serve
