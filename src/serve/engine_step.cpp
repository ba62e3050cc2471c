// One step of the engine: plan, run, sample, tell; and what it costs on both clocks.
#include <algorithm>
#include <chrono>
#include <ranges>

#include "serve/active.h"

namespace trine::serve {

namespace {

double host_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

// Those of a replay whose time has come; where nothing is left to do, the clock goes on to the next.
void Engine::arrivals() {
  if (coming_.empty()) return;
  if (scheduler_.running() == 0 && scheduler_.waiting() == 0) chip_ = std::max(chip_, coming_.front()->request.at_s);
  while (!coming_.empty() && coming_.front()->request.at_s <= chip_) {
    begin(std::move(coming_.front()));
    coming_.pop_front();
  }
}

void Engine::begin(std::unique_ptr<Active> active) {
  Active& a = *active;
  a.arrived = a.request.at_s >= 0 ? a.request.at_s : now();
  a.left = a.request.best_of;
  active_[a.id] = std::move(active);
  begin_choice(a, 0);
}

void Engine::begin_choice(Active& a, int32_t index) {
  auto made = std::make_unique<Choice>();
  Choice& c = *made;
  const Request& r = a.request;
  c.active = &a;
  Sequence& s = c.sequence;
  s.id = a.id, s.choice = index, s.prompt = s.length = int32_t(r.prompt.size()), s.most = r.max_tokens;
  s.priority = r.priority;
  s.key = keys_.try_emplace(r.key, int32_t(keys_.size())).first->second;
  if (r.deadline_s > 0) s.deadline = a.arrived + r.deadline_s;
  s.arrived = a.arrived;
  s.tokens = r.prompt;
  s.tokens.reserve(r.prompt.size() + size_t(r.max_tokens));
  s.root = root_hash(a.adapter ? a.adapter->label : "");
  s.whole = r.prompt_logprobs >= 0 && index == 0;
  if (r.sampling.repetition != 1.0f)
    for (const int32_t t : r.prompt) ++c.seen.prompt[t];
  c.host_arrived = a.host_arrived, c.chip_arrived = index         ? a.choices[0]->chip_arrived
                                                    : r.at_s >= 0 ? r.at_s
                                                                  : chip_at(a.host_arrived);
  c.usage.prompt = s.prompt;
  a.choices.push_back(std::move(made));
  scheduler_.add(&s);
  if (r.constrained) emit(c, {.kind = Event::Kind::mask, .id = a.id, .choice = index});
}

void Engine::emit(Choice& c, Event event) {
  if (c.active->keeps() && (event.kind == Event::Kind::token || event.kind == Event::Kind::finished))
    c.withheld.push_back(std::move(event));
  else
    telling_.push_back(std::move(event));
}

// Guesses what follows by the last place where the last few tokens stood before.
void Engine::propose(Choice& c) {
  c.drafts.clear();
  Sequence& s = c.sequence;
  s.drafts = 0;
  const int32_t most = std::min({options_.drafts, s.prompt + s.most - s.length - 1});
  if (most <= 0 || c.active->request.constrained || s.length - s.computed != 1 || s.length <= s.prompt) return;
  if (draft_) {  // guessed once the step has its pages
    c.drafts.assign(size_t(most), 0);
    s.drafts = most;
    return;
  }
  const auto& t = s.tokens;
  for (int32_t n = options_.ngram; n >= 2; --n) {
    if (s.length < n + 1) continue;
    for (int32_t at = s.length - n - 1; at >= 0; --at) {
      if (!std::equal(t.end() - n, t.end(), t.begin() + at)) continue;
      for (int32_t i = 0; i < most && at + n + i < s.length; ++i) c.drafts.push_back(t[size_t(at + n + i)]);
      s.drafts = int32_t(c.drafts.size());
      return;
    }
  }
}

// The draft model reads what the step reads, and guesses what follows; draws are the model's own, so both often agree.
void Engine::guess(const StepPlan& plan) {
  const size_t vocab = size_t(draft_->shape().vocab);
  int32_t rounds = 0;
  for (const StepRow& row : plan.rows) rounds = std::max(rounds, row.samples ? row.sequence->drafts : 0);
  std::vector<int32_t> last(plan.rows.size());
  for (int32_t i = 0; i <= rounds; ++i) {
    std::vector<run::TokenRun> runs;
    std::vector<size_t> of;
    for (size_t r = 0; r < plan.rows.size(); ++r) {
      Sequence& s = *plan.rows[r].sequence;
      const int32_t drafts = plan.rows[r].samples ? s.drafts : 0;
      if (i > drafts) continue;
      std::span<const int32_t> tokens(&last[r], 1);
      if (i == 0) tokens = std::span(s.tokens).subspan(size_t(plan.rows[r].start), size_t(plan.rows[r].count - drafts));
      const int32_t start = i == 0 ? plan.rows[r].start : s.length - 1 + i;
      runs.push_back({tokens, start, s.pages, nullptr, i < drafts ? run::Wanted::last : run::Wanted::nothing});
      of.push_back(r);
    }
    draft_->step(runs, draft_kv_);
    size_t at = 0;
    for (size_t k = 0; k < runs.size(); ++k) {
      if (runs[k].wanted != run::Wanted::last) continue;
      Sequence& s = *plan.rows[of[k]].sequence;
      Choice& c = *active_.at(s.id)->choices[size_t(s.choice)];
      last[of[k]] = c.drafts[size_t(i)] =
          sample_at(c, draft_->logits().subspan(at++ * vocab, vocab), s.length + i).token;
    }
  }
}

void Engine::step() {
  arrivals();
  if (options_.drafts > 0)
    for (auto& [id, a] : active_)
      for (auto& c : a->choices)
        if (c->ended == Reason::none) propose(*c);
  std::vector<Sequence*> expired;
  const StepPlan plan = scheduler_.plan(now(), &expired);
  for (const Sequence* s : expired) {
    Choice& c = *active_.at(s->id)->choices[size_t(s->choice)];
    finish(c, Reason::deadline);
  }
  if (options_.hash && !plan.rows.empty()) {
    for (const StepRow& r : plan.rows) {
      const int32_t words[3] = {int32_t(r.sequence->id), r.start, r.count};
      stats_.decisions = page_hash(stats_.decisions, words);
    }
    const int32_t end[1] = {-1};
    stats_.decisions = page_hash(stats_.decisions, end);
  }
  if (!plan.rows.empty()) run_step(plan);
}

void Engine::run_step(const StepPlan& plan) {
  const double start = host_seconds();
  const int64_t logged_from = StepLog::begin_ns();
  for (const auto& [from, to] : plan.copies) copy_page(from, to);
  if (draft_) guess(plan);
  chip_ = std::max(chip_, chip_at(start));
  std::vector<run::TokenRun> runs;
  std::vector<Choice*> choices;
  for (const StepRow& row : plan.rows) {
    Sequence& s = *row.sequence;
    Active& a = *active_.at(s.id);
    Choice& c = *a.choices[size_t(s.choice)];
    choices.push_back(&c);
    if (c.host_first_run < 0) c.host_first_run = start, c.chip_first_run = chip_;
    std::span<const int32_t> tokens =
        std::span(s.tokens).subspan(size_t(row.start), size_t(std::min(row.count, s.length - row.start)));
    if (row.samples && s.drafts) {
      c.step_tokens.assign(tokens.begin(), tokens.end());
      c.step_tokens.insert(c.step_tokens.end(), c.drafts.begin(), c.drafts.end());
      tokens = c.step_tokens;
    }
    const bool all =
        (a.request.prompt_logprobs >= 0 && s.choice == 0 && row.start < s.prompt) || (row.samples && s.drafts);
    run::Wanted wanted = all ? run::Wanted::all : row.samples ? run::Wanted::last : run::Wanted::nothing;
    if (a.request.embed) wanted = row.samples ? run::Wanted::state : run::Wanted::nothing;
    runs.push_back({tokens, row.start, s.pages, a.adapter.get(), wanted});
  }
  if (spreads(plan))
    for (size_t i = plan.rows.size() - size_t(plan.prompt_rows); i < plan.rows.size(); ++i)
      plan.rows[i].sequence->in_shares = true;
  StepCost cost = cost_of(options_.cost, plan);
  const StepCost draft = draft_ ? draft_cost_of(options_.draft_cost, plan) : StepCost{};
  cost.draft = draft.seconds();
  if (options_.pace > 0)
    decoder_.blank(runs), pace(cost.seconds());
  else
    decoder_.step(runs, kv_), chip_ += cost.seconds();
  const double host_s = host_seconds() - start;
  log_.add(logged_from, options_.cost, plan, cost);
  if (draft_) draft_log_.add_guesses(logged_from, options_.draft_cost, plan, draft);
  busy_ += cost.seconds();
  deal_costs(plan, cost);
  ++stats_.steps, stats_.host_s += host_s, stats_.prompt_tokens += plan.prompt_tokens;
  const size_t vocab = size_t(decoder_.shape().vocab), width = size_t(decoder_.shape().width);
  size_t at = 0, state = 0;
  for (size_t i = 0; i < runs.size(); ++i) {
    const size_t rows =
        runs[i].wanted == run::Wanted::all ? runs[i].tokens.size() : runs[i].wanted == run::Wanted::last;
    if (runs[i].wanted == run::Wanted::state) {
      Choice& c = *choices[i];
      scheduler_.computed(plan.rows[i], plan.rows[i].count);
      const auto own = decoder_.states().subspan(state * width, width);
      telling_.push_back({.kind = Event::Kind::embedding, .id = c.active->id, .values = {own.begin(), own.end()}});
      ++state;
      prompt_done(c);
      finish(c, Reason::stop);
      continue;
    }
    take_row(plan.rows[i], decoder_.logits().subspan(at * vocab, rows * vocab));
    at += rows;
  }
}

// Whether the step's prompts are in the host's small chunks, which the chip's programs do not have.
bool Engine::spreads(const StepPlan& plan) const {
  return !options_.chip_clock && !(options_.pace > 0) && plan.decode_rows && plan.prompt_tokens;
}

void Engine::copy_page(int32_t from, int32_t to) {
  for (run::KvMemory* memory : {&kv_, draft_ ? &draft_kv_ : nullptr})
    if (memory) std::ranges::copy(memory->page(from), memory->page(to).begin());
}

void Engine::deal_costs(const StepPlan& plan, const StepCost& cost) {
  if (!options_.cost) return;
  const CostTable& t = options_.cost;
  for (const StepRow& row : plan.rows) {
    const Sequence& s = *row.sequence;
    Choice& c = *active_.at(s.id)->choices[size_t(s.choice)];
    const bool prompt = row.start + row.count <= s.prompt || row.count > 1 + s.drafts;
    const double share = prompt && s.in_shares ? share_of(t, row)
                         : prompt ? cost.together ? (cost.prompt - cost.shares) * row.count / cost.together : 0
                         : plan.decode_rows ? cost.decode * row.count / plan.decode_rows
                                            : 0;
    if (prompt && s.in_shares && row.samples) stats_.padded += std::max(0, t.prompt.bucket(s.reads) - s.reads);
    const double seconds = share + cost.launch / double(plan.rows.size()) +
                           cost.draft * row.count / (plan.prompt_tokens + plan.decode_rows);
    c.joules += seconds * t.watts, c.usd += seconds * t.dollars_per_hour / 3600;
  }
  stats_.joules += cost.seconds() * t.watts, stats_.usd += cost.seconds() * t.dollars_per_hour / 3600;
  if (plan.decode_rows) stats_.padded += t.decode.bucket(plan.decode_rows) - plan.decode_rows;
  if (cost.together) stats_.padded += std::max(0, t.prompt.bucket(cost.together) - cost.together);
}

void Engine::take_prompt_logprobs(Choice& c, const StepRow& row, std::span<const float> logits) {
  const size_t vocab = size_t(decoder_.shape().vocab);
  const Request& r = c.active->request;
  if (row.start == 0) c.prompt_logprobs.clear();  // it gave way and begins again
  for (int32_t i = 0; i < row.count; ++i)
    if (const int32_t next = row.start + i + 1; next < c.sequence.prompt)
      c.prompt_logprobs.push_back(
          logprob_of(logits.subspan(size_t(i) * vocab, vocab), r.prompt[size_t(next)], r.prompt_logprobs));
}

Sampled Engine::sample_at(Choice& c, std::span<const float> logits, int32_t position) {
  if (options_.pace > 0) return stand_in(c, position);
  const Request& r = c.active->request;
  Sampling how = r.sampling;
  if (c.active->keeps()) how.logprobs = std::max(how.logprobs, 0);
  if (position - c.sequence.prompt < r.min_tokens) {
    for (const int32_t t : r.stop_tokens) how.bias[t] = -1e9f;
    if (!r.ignore_eos)
      for (const int32_t t : options_.eos) how.bias[t] = -1e9f;
  }
  const double at = draw(r.sampling.seed, uint32_t(c.sequence.choice), uint32_t(position));
  return sample(logits, how, c.seen, c.mask, at, scratch_);
}

Reason Engine::ends(const Choice& c, int32_t token) const {
  const Request& r = c.active->request;
  const auto among = [&](const std::vector<int32_t>& all) {
    return std::find(all.begin(), all.end(), token) != all.end();
  };
  if (among(r.stop_tokens) || (!r.ignore_eos && among(options_.eos))) return Reason::stop;
  return c.sequence.length - c.sequence.prompt >= r.max_tokens ? Reason::length : Reason::none;
}

void Engine::take_row(const StepRow& row, std::span<const float> logits) {
  Sequence& s = *row.sequence;
  Choice& c = *active_.at(s.id)->choices[size_t(s.choice)];
  if (c.ended != Reason::none) return;
  const Request& r = c.active->request;
  const size_t vocab = size_t(decoder_.shape().vocab);
  if (r.prompt_logprobs >= 0 && s.choice == 0 && row.start < s.prompt && s.length == s.prompt) {
    take_prompt_logprobs(c, row, logits);
    if (row.samples) logits = logits.last(vocab);
  }
  if (!row.samples) return scheduler_.computed(row, row.count);
  const bool first = s.length == s.prompt;
  if (r.constrained && !c.mask_came) {
    c.held_logits.assign(logits.begin(), logits.end());
    scheduler_.computed(row, row.count);
    s.held = true;
    if (first) prompt_done(c);
    return;
  }
  if (first && r.max_tokens == 0) {
    scheduler_.computed(row, row.count);
    prompt_done(c);
    return finish(c, Reason::length);
  }
  const size_t drafts = size_t(s.drafts);
  std::vector<Sampled> found;
  Reason reason = Reason::none;
  for (size_t i = 0; i <= drafts && reason == Reason::none; ++i) {
    found.push_back(sample_at(c, logits.subspan(i * vocab, vocab), s.length));
    const int32_t token = found.back().token;
    ++c.seen.output[token];
    scheduler_.append(&s, token);
    reason = ends(c, token);
    if (i < drafts && token != c.drafts[i]) break;
  }
  s.drafts = 0;
  c.usage.drafted += int32_t(drafts), c.usage.accepted += int32_t(found.size()) - 1;
  stats_.drafted += int64_t(drafts), stats_.accepted += int64_t(found.size()) - 1;
  scheduler_.computed(row, row.count - int32_t(drafts) + int32_t(found.size()) - 1);
  if (first) prompt_done(c);
  for (const Sampled& one : found) tell_token(c, one);
  if (reason != Reason::none) finish(c, reason);
}

void Engine::mask_came(int64_t id, int32_t choice, std::vector<uint8_t> bits) {
  const auto found = active_.find(id);
  if (found == active_.end() || choice < 0 || size_t(choice) >= found->second->choices.size()) return;
  Choice& c = *found->second->choices[size_t(choice)];
  if (c.ended != Reason::none) return;
  c.mask = std::move(bits), c.mask_came = true;
  if (!c.sequence.held || c.held_logits.empty()) return;
  c.sequence.held = false;
  const Sampled s = sample_at(c, c.held_logits, c.sequence.length);
  c.held_logits.clear();
  ++c.seen.output[s.token];
  scheduler_.append(&c.sequence, s.token);
  const Reason reason = ends(c, s.token);
  tell_token(c, s);
  if (reason != Reason::none) finish(c, reason);
}

void Engine::prompt_done(Choice& c) {
  Active& a = *c.active;
  c.usage.cached = c.sequence.cached;
  Event e{
      .kind = Event::Kind::prompt, .id = a.id, .choice = c.sequence.choice, .logprobs = std::move(c.prompt_logprobs)};
  e.usage = c.usage;
  if (c.sequence.choice == 0) telling_.push_back(std::move(e));
  if (a.forked) return;
  a.forked = true;
  for (int32_t i = 1; i < a.request.best_of; ++i) begin_choice(a, i);
}

void Engine::tell_token(Choice& c, const Sampled& s) {
  const double host = host_seconds();
  if (c.host_first < 0) c.host_first = host, c.chip_first = chip_;
  ++c.usage.completion, ++stats_.tokens;
  c.logprob += double(s.logprob);
  Event e{.kind = Event::Kind::token, .id = c.active->id, .choice = c.sequence.choice, .sampled = s};
  e.host_s = host - c.host_arrived, e.chip_s = chip_ - c.chip_arrived;
  emit(c, std::move(e));
  c.mask.clear(), c.mask_came = false;
  if (c.active->request.constrained && ends(c, s.token) == Reason::none) {
    Event m{.kind = Event::Kind::mask, .id = c.active->id, .choice = c.sequence.choice};
    m.tokens.assign(c.sequence.tokens.begin() + c.sequence.prompt, c.sequence.tokens.end());
    emit(c, std::move(m));
  }
}

void Engine::keep_session(Choice& c) {
  const Request& r = c.active->request;
  if (r.session.empty() || c.sequence.choice != 0) return;
  Session s{c.active->adapter ? c.active->adapter->label : "", c.sequence.tokens, c.sequence.hashes};
  s.hashes.resize(std::min(s.hashes.size(), size_t(c.sequence.computed / kPageTokens)));
  sessions_[r.session] = std::move(s);
}

void Engine::finish(Choice& c, Reason reason) {
  if (c.ended != Reason::none) return;
  c.ended = reason;
  if (reason == Reason::stop || reason == Reason::length) keep_session(c);
  scheduler_.finish(&c.sequence, reason);
  const double host = host_seconds();
  Event e{.kind = Event::Kind::finished, .id = c.active->id, .choice = c.sequence.choice, .reason = reason};
  e.usage = c.usage;
  const auto times = [&](double arrived, double run, double first, double end) {
    Times t;
    end = std::max(end, arrived);  // with a pace, it may be cancelled before the next step
    t.queue = (run < 0 ? end : run) - arrived, t.ttft = (first < 0 ? end : first) - arrived, t.total = end - arrived;
    t.per_token = c.usage.completion > 1 ? (end - first) / (c.usage.completion - 1) : 0;
    return t;
  };
  e.host = times(c.host_arrived, c.host_first_run, c.host_first, host);
  e.chip = times(c.chip_arrived, c.chip_first_run, c.chip_first, chip_);
  e.host_s = host - c.host_arrived, e.chip_s = chip_ - c.chip_arrived, e.joules = c.joules, e.usd = c.usd;
  emit(c, std::move(e));
  Active& a = *c.active;
  a.left -= 1;
  if (!a.forked && reason != Reason::stop && reason != Reason::length) a.left = 0, a.forked = true;
  if (a.left == 0) conclude(a);
}

// Of best_of choices the n with the largest mean logprob are told, numbered anew.
void Engine::conclude(Active& a) {
  if (a.keeps()) {
    std::vector<Choice*> order;
    for (auto& c : a.choices) order.push_back(c.get());
    std::stable_sort(order.begin(), order.end(), [](const Choice* x, const Choice* y) {
      return x->logprob / std::max(1, x->usage.completion) > y->logprob / std::max(1, y->usage.completion);
    });
    order.resize(std::min(order.size(), size_t(a.request.n)));
    for (size_t i = 0; i < order.size(); ++i)
      for (Event& e : order[i]->withheld) {
        e.choice = int32_t(i);
        if (e.kind == Event::Kind::token && a.request.sampling.logprobs < 0) e.sampled.logprob = 0;
        telling_.push_back(std::move(e));
      }
  }
  done_.push_back(a.id);
}

}  // namespace trine::serve
