// What other threads ask of the engine, and the loop that answers.
#include "serve/engine.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstring>
#include <future>

#include "base/text.h"
#include "serve/active.h"

namespace trine::serve {

namespace {

double host_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

Result<void> check(const Request& r, int32_t vocab) {
  for (const int32_t t : r.prompt)
    if (t < 0 || t >= vocab) return fail(Code::invalid, cat("token ", t, " in a prompt; the vocabulary has ", vocab));
  if (r.n < 1 || r.best_of < r.n || r.best_of > 128)
    return fail(Code::invalid, cat("n ", r.n, " and best_of ", r.best_of));
  const Sampling& s = r.sampling;
  for (const float v : {s.temperature, s.top_p, s.min_p, s.presence, s.frequency, s.repetition})
    if (!std::isfinite(v)) return fail(Code::invalid, "a sampling setting that is no number");
  if (s.temperature < 0 || s.top_p <= 0 || s.top_p > 1 || s.min_p < 0 || s.min_p > 1 || s.repetition <= 0)
    return fail(Code::invalid,
                cat("temperature ", s.temperature, ", top_p ", s.top_p, ", min_p ", s.min_p, ", repetition_penalty ",
                    s.repetition, ": expected at least 0, within (0, 1], within [0, 1], above 0"));
  return {};
}

// One of the same name may come with other weights.
std::string label_of(const std::string& name, const run::Adapter& adapter) {
  uint64_t h = std::bit_cast<uint32_t>(adapter.scale);
  const auto add = [&](const host::PackedMatrix& m) {
    for (int64_t at = 0; at + 8 <= m.bytes(); at += 8) {
      uint64_t word;
      std::memcpy(&word, m.tile(0) + at, 8);
      h = (h ^ word) * 0xbf58476d1ce4e5b9ull, h ^= h >> 31;
    }
  };
  for (const auto& [layer, low] : adapter.layers) h ^= root_hash(layer), add(low.a), add(low.b);
  return cat(name, "#", h);
}

}  // namespace

Engine::Engine(run::Decoder decoder, run::KvMemory kv, EngineOptions options, std::unique_ptr<run::Decoder> draft,
               run::KvMemory draft_kv)
    : decoder_(std::move(decoder)),
      kv_(std::move(kv)),
      options_(std::move(options)),
      draft_(std::move(draft)),
      draft_kv_(std::move(draft_kv)),
      scheduler_(options_.scheduler),
      log_(options_.about, options_.device),
      draft_log_(options_.draft_about, options_.device) {
  started_ = host_seconds();
  stats_.weight_bytes = decoder_.weight_bytes();
  thread_ = std::thread([this] { loop(); });
}

Result<std::unique_ptr<Engine>> Engine::make(run::Decoder decoder, EngineOptions options,
                                             std::unique_ptr<run::Decoder> draft) {
  SchedulerOptions& s = options.scheduler;
  if (s.pages < 1 || s.running_most < 1 || s.chunk < 1 || s.mixed_chunk < 1)
    return fail(Code::invalid, cat("an engine with ", s.pages, " pages, ", s.running_most, " sequences and chunks of ",
                                   s.chunk, " tokens"));
  s.context = std::min(s.context, decoder.shape().context);
  // Of a state there is only the one after a page's last token; and a chip's server takes whole pages.
  s.part_pages = s.part_pages && !decoder.shape().keeps_state() && !options.chip_clock && !(options.pace > 0);
  if (options.cost) TRY(options.cost.check());
  if (options.draft_cost) TRY(options.draft_cost.check());
  if ((options.drafts > 0 || draft) && (decoder.shape().keeps_state() || (draft && draft->shape().keeps_state())))
    return fail(Code::unsupported,
                "guessed tokens with a model that keeps states: one that was guessed wrong stays in them");
  const bool paced = options.pace > 0;
  if (paced && (!options.cost || options.drafts > 0 || draft || !(options.answer_tokens >= 1)))
    return fail(Code::invalid, "an engine without weights takes a table of times, and no guesses");
  if (paced)
    for (const int32_t t : options.stand_in)
      if (t < 0 || t >= decoder.shape().vocab)
        return fail(Code::invalid, cat("token ", t, " among those that stand in"));
  run::KvMemory kv = TRY(run::KvMemory::make(s.pages, paced ? 1 : decoder.shape().page_bytes()));
  run::KvMemory draft_kv;
  if (draft) {
    if (draft->shape().vocab != decoder.shape().vocab || draft->shape().context < s.context)
      return fail(Code::invalid,
                  cat("a draft with ", draft->shape().vocab, " tokens and a context of ", draft->shape().context,
                      "; the model has ", decoder.shape().vocab, " and ", s.context));
    if (options.drafts <= 0) options.drafts = 4;
    draft_kv = TRY(run::KvMemory::make(s.pages, draft->shape().page_bytes()));
  }
  return std::unique_ptr<Engine>(
      new Engine(std::move(decoder), std::move(kv), std::move(options), std::move(draft), std::move(draft_kv)));
}

Engine::~Engine() { stop(); }

void Engine::stop() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  asked_.notify_all(), answered_.notify_all();
  if (thread_.joinable()) thread_.join();
}

double Engine::now() const { return options_.chip_clock ? chip_ : host_seconds() - started_; }

Result<std::unique_ptr<Engine::Active>> Engine::checked(Request request) {
  request.best_of = std::max(request.best_of, request.n);
  TRY(check(request, decoder_.shape().vocab));
  if (request.embed || request.max_tokens == 0) request.best_of = request.n = 1;
  if (request.embed) request.max_tokens = 0;
  TRY(scheduler_.fits(int32_t(request.prompt.size()), request.max_tokens));
  auto a = std::make_unique<Active>();
  a->request = std::move(request);
  a->host_arrived = host_seconds();
  std::lock_guard lock(mutex_);
  if (stop_) return fail(Code::cancelled, "the engine has stopped");
  if (!a->request.adapter.empty()) {
    const auto found = adapters_.find(a->request.adapter);
    if (found == adapters_.end()) return fail(Code::not_found, cat("no adapter ", a->request.adapter));
    a->adapter = found->second;
  }
  a->id = next_id_++;
  return a;
}

Result<int64_t> Engine::add(Request request) {
  auto active = std::make_shared<std::unique_ptr<Active>>(TRY(checked(std::move(request))));
  const int64_t id = (*active)->id;
  std::lock_guard lock(mutex_);
  asks_.push_back([this, active] { begin(std::move(*active)); });
  asked_.notify_one();
  return id;
}

Result<std::vector<int64_t>> Engine::replay(std::vector<Request> requests) {
  if (!options_.chip_clock) return fail(Code::invalid, "a trace is replayed on the chip's clock");
  auto all = std::make_shared<std::vector<std::unique_ptr<Active>>>();
  std::vector<int64_t> ids;
  double last = 0;
  for (Request& r : requests) {
    if (!(r.at_s >= last))
      return fail(Code::invalid, cat("a request that arrives at ", r.at_s, " s after one at ", last, " s"));
    last = r.at_s;
    all->push_back(TRY(checked(std::move(r))));
    ids.push_back(all->back()->id);
  }
  std::lock_guard lock(mutex_);
  asks_.push_back([this, all] {
    for (auto& a : *all) coming_.push_back(std::move(a));
  });
  asked_.notify_one();
  return ids;
}

void Engine::cancel(int64_t id) {
  std::lock_guard lock(mutex_);
  asks_.push_back([this, id] {
    const auto found = active_.find(id);
    if (found == active_.end()) return;
    for (const auto& c : found->second->choices)
      if (c->ended == Reason::none) finish(*c, Reason::cancelled);
  });
  asked_.notify_one();
}

void Engine::mask(int64_t id, int32_t choice, std::vector<uint8_t> bits) {
  std::lock_guard lock(mutex_);
  asks_.push_back([this, id, choice, bits = std::move(bits)]() mutable { mask_came(id, choice, std::move(bits)); });
  asked_.notify_one();
}

std::vector<Event> Engine::wait(double timeout_s) {
  std::unique_lock lock(mutex_);
  const double most = std::clamp(timeout_s, 0.0, 3600.0);
  answered_.wait_for(lock, std::chrono::duration<double>(most), [&] { return !events_.empty() || stop_; });
  std::vector<Event> out(std::make_move_iterator(events_.begin()), std::make_move_iterator(events_.end()));
  events_.clear();
  return out;
}

void Engine::on_thread(const std::function<void()>& work) {
  std::promise<void> done;
  {
    std::lock_guard lock(mutex_);
    if (stop_) return;
    asks_.push_back([&] {
      work();
      done.set_value();
    });
  }
  asked_.notify_one();
  done.get_future().wait();
}

Result<void> Engine::load_adapter(std::string name, run::Adapter adapter) {
  if (options_.pace > 0) return fail(Code::unsupported, "an adapter, where there are no weights");
  TRY(decoder_.check(adapter));
  if (name.empty() || name.size() > 256)
    return fail(Code::invalid, "an adapter without a name, or with one past 256 letters");
  adapter.label = label_of(name, adapter);
  auto made = std::make_shared<const run::Adapter>(std::move(adapter));
  std::lock_guard lock(mutex_);
  if (adapters_.contains(name))
    return fail(Code::invalid, cat("an adapter ", name, " is loaded already; drop it first"));
  adapters_[std::move(name)] = std::move(made);
  return {};
}

Result<void> Engine::drop_adapter(const std::string& name) {
  std::lock_guard lock(mutex_);
  if (!adapters_.erase(name)) return fail(Code::not_found, cat("no adapter ", name));
  return {};  // requests that use it keep it to their end
}

Result<SavedSession> Engine::save_session(const std::string& name) {
  Result<SavedSession> out = fail(Code::not_found, cat("no session ", name));
  const PageStore store(options_.page_store, options_.model_id);
  on_thread([&] {
    const auto found = sessions_.find(name);
    if (found == sessions_.end()) return;
    const Session& s = found->second;
    SavedSession saved{s.adapter, s.tokens, {}};
    for (size_t p = 0; p < s.hashes.size(); ++p) {
      const std::string file = store.name(s.hashes[p]);
      if (!options_.page_store.empty() && !store.has(file)) {
        const int32_t page = scheduler_.cache().page_of(s.hashes[p]);
        if (page < 0) break;  // it gave way; what follows is computed again
        if (auto ok = store.write(file, std::span(s.tokens).subspan(p * kPageTokens, kPageTokens), kv_.page(page));
            !ok) {
          out = ok.error();
          return;
        }
      }
      saved.pages.push_back(file);
    }
    out = std::move(saved);
  });
  return out;
}

Result<int32_t> Engine::restore_session(const std::string& name, const SavedSession& saved) {
  Result<int32_t> out = fail(Code::cancelled, "the engine has stopped");
  for (const int32_t t : saved.tokens)
    if (t < 0 || t >= decoder_.shape().vocab) return fail(Code::invalid, cat("token ", t, " in a saved session"));
  const PageStore store(options_.page_store, options_.model_id);
  on_thread([&] {
    Session s{saved.adapter, saved.tokens, {}};
    const size_t full = std::min(saved.pages.size(), saved.tokens.size() / kPageTokens);
    uint64_t before = root_hash(saved.adapter);
    for (size_t p = 0; p < full; ++p) {
      const auto own = std::span(s.tokens).subspan(p * kPageTokens, kPageTokens);
      const uint64_t hash = page_hash(before, own);
      if (!scheduler_.cache().has(hash)) {
        const int32_t page = scheduler_.take_page();
        if (page < 0) break;
        if (!store.read(store.name(hash), own, kv_.page(page))) {
          scheduler_.pool().release(page);
          break;
        }
        scheduler_.cache().put(before, hash, page, own);
        scheduler_.cache().release(page);
      }
      s.hashes.push_back(hash);
      before = hash;
    }
    out = int32_t(s.hashes.size()) * kPageTokens;
    sessions_[name] = std::move(s);
  });
  return out;
}

void Engine::drop_session(const std::string& name) {
  on_thread([&] { sessions_.erase(name); });
}

Stats Engine::stats() {
  Stats s;
  const auto count = [&] {
    stats_.running = scheduler_.running(), stats_.waiting = scheduler_.waiting();
    stats_.pages_total = scheduler_.pool().total(), stats_.pages_used = scheduler_.pages_used();
    stats_.pages_cached = scheduler_.cache().evictable();
    stats_.prefix_queries = scheduler_.prefix_queries(), stats_.prefix_hits = scheduler_.prefix_hits();
    stats_.preemptions = scheduler_.preemptions();
    stats_.sessions = int32_t(sessions_.size());
    int64_t pages = 0;
    for (const auto& [name, session] : sessions_)
      for (const uint64_t hash : session.hashes) pages += scheduler_.cache().has(hash);
    stats_.session_bytes = pages * kv_.page_bytes();
    stats_.chip_s = options_.pace > 0 ? busy_ : chip_;
    s = stats_;
  };
  std::promise<void> done;
  {
    std::lock_guard lock(mutex_);
    if (stop_) return s;
    looks_.push_back([&] { count(), done.set_value(); });
  }
  asked_.notify_one();
  done.get_future().wait();
  return s;
}

void Engine::look() {
  for (auto& one : looks_) one();
  looks_.clear();
}

void Engine::flush() {
  for (const int64_t id : done_) active_.erase(id);
  done_.clear();
  if (telling_.empty()) return;
  {
    std::lock_guard lock(mutex_);
    for (Event& e : telling_) events_.push_back(std::move(e));
  }
  telling_.clear();
  answered_.notify_all();
}

bool Engine::take_asks() {
  std::deque<std::function<void()>> asks;
  {
    std::unique_lock lock(mutex_);
    const bool idle = scheduler_.running() == 0 && scheduler_.waiting() == 0 && coming_.empty();
    // Sequences that only wait for masks leave nothing to compute: an ask will come.
    const bool held = !idle && coming_.empty() && std::all_of(active_.begin(), active_.end(), [](const auto& a) {
      return std::all_of(a.second->choices.begin(), a.second->choices.end(),
                         [](const auto& c) { return c->sequence.held; });
    });
    const auto asked = [&] { return stop_ || !asks_.empty() || !looks_.empty(); };
    if (idle) asked_.wait(lock, asked);
    if (held) asked_.wait_for(lock, std::chrono::milliseconds(20), asked);
    asks.swap(asks_);
    if (stop_ && asks.empty()) return false;
  }
  for (auto& ask : asks) ask();
  flush();
  std::lock_guard lock(mutex_);
  look();
  return !stop_;
}

void Engine::loop() {
  while (take_asks()) {
    step();
    flush();
  }
  std::deque<std::function<void()>> left;
  {
    std::lock_guard lock(mutex_);
    look();
    left.swap(asks_);
  }
  for (auto& ask : left) ask();  // who waits for an answer gets it
}

}  // namespace trine::serve
