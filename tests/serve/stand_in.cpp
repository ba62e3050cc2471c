// Steps without weights: the scheduler, times and prices of a real engine, paced; tokens that stand in.
#include <chrono>
#include <cmath>
#include <map>

#include "serve/engine.h"
#include "tests/testing.h"

namespace trine::serve {
namespace {

CostTable table() {
  CostTable t;
  t.prompt = {{128, 512}, {0, 2048}, {0.010, 0.020, 0.030, 0.060}};
  t.decode = {{1, 8}, {512, 2048}, {0.005, 0.008, 0.010, 0.016}};
  t.watts = 100, t.dollars_per_hour = 36;
  return t;
}

std::unique_ptr<Engine> engine(double pace, double answer = 1e9) {
  EngineOptions o;
  o.cost = table(), o.pace = pace, o.answer_tokens = answer, o.stand_in = {10, 11, 12}, o.eos = {2};
  o.scheduler.pages = 64, o.scheduler.running_most = 8, o.scheduler.context = 512, o.scheduler.mixed = false;
  run::DecoderShape s;
  s.vocab = 50, s.context = 512, s.width = 16;
  auto made = Engine::make(run::Decoder::of_shape(std::move(s)), std::move(o));
  REQUIRE(made);
  return *std::move(made);
}

Request request(int32_t prompt, int32_t most, uint64_t seed = 1) {
  Request r;
  for (int32_t i = 0; i < prompt; ++i) r.prompt.push_back(int32_t(uint64_t(i) * seed % 50));
  r.max_tokens = most, r.sampling.seed = seed;
  return r;
}

struct Answers {
  std::map<int64_t, std::vector<int32_t>> tokens;
  std::map<int64_t, Event> ends;
  std::vector<Event> others;
};

Answers collect(Engine& e, size_t count) {
  Answers out;
  for (int rounds = 0; out.ends.size() < count && rounds < 500; ++rounds)
    for (Event& one : e.wait(0.1)) {
      if (one.kind == Event::Kind::token)
        out.tokens[one.id].push_back(one.sampled.token);
      else if (one.kind == Event::Kind::finished)
        out.ends[one.id] = one;
      else
        out.others.push_back(one);
    }
  REQUIRE(out.ends.size() == count);
  return out;
}

}  // namespace

TEST_CASE("a request takes on the chip's clock what the table says, and no less on the host's") {
  auto e = engine(2);
  const auto begun = std::chrono::steady_clock::now();
  const int64_t id = *e->add(request(100, 5));
  const Answers a = collect(*e, 1);
  const double wall = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
  const Event& end = a.ends.at(id);
  CHECK(a.tokens.at(id) == std::vector<int32_t>{10, 11, 12, 10, 11});
  CHECK(end.reason == Reason::length);
  const double busy = 0.010 * (1 + 100.0 / 2048) + 4 * 0.005;  // a prompt of 100 tokens and four steps
  CHECK(end.chip.total - end.chip.queue >= busy * 0.999);      // more where the host was late for a step
  CHECK(wall >= busy / 2);
  CHECK(end.usd == doctest::Approx(busy * 36 / 3600).epsilon(1e-3));
  const Stats s = e->stats();
  CHECK(s.chip_s == doctest::Approx(busy).epsilon(1e-3));
  CHECK(s.weight_bytes == 0);
}

TEST_CASE("who comes together decodes together") {
  auto e = engine(20);
  for (int i = 0; i < 8; ++i) REQUIRE(e->add(request(20, 40, uint64_t(i + 3))));
  collect(*e, 8);
  CHECK(e->stats().steps < 8 + 8 + 60);
}

TEST_CASE("answers end by chance, each by its own seed, and never where told not to") {
  auto e = engine(1000, 20);
  std::vector<int64_t> ids;
  for (int i = 0; i < 40; ++i) ids.push_back(*e->add(request(8, 200, uint64_t(i + 1))));
  Request whole = request(8, 100, 3);
  whole.ignore_eos = true;
  const int64_t on = *e->add(whole);
  const Answers first = collect(*e, 41);
  double sum = 0;
  int stopped = 0;
  for (const int64_t id : ids)
    sum += double(first.tokens.at(id).size()), stopped += first.ends.at(id).reason == Reason::stop;
  CHECK(sum / 40 > 8);
  CHECK(sum / 40 < 40);
  CHECK(stopped >= 38);
  CHECK(first.tokens.at(on).size() == 100);
  const int64_t again = *e->add(request(8, 200, 5));
  CHECK(collect(*e, 1).tokens.at(again) == first.tokens.at(ids[4]));
}

TEST_CASE("a mask is obeyed, statistics are told in the middle of a long step, and the end comes at once") {
  auto e = engine(1000);
  Request r = request(8, 4);
  r.constrained = true;
  const int64_t id = *e->add(r);
  Answers a;
  for (int rounds = 0; a.ends.empty() && rounds < 500; ++rounds)
    for (Event& one : e->wait(0.1)) {
      if (one.kind == Event::Kind::mask) {
        std::vector<uint8_t> bits(7, 0);
        bits[4] = 0x3;  // 32 and 33
        e->mask(id, 0, bits);
      }
      if (one.kind == Event::Kind::token) a.tokens[id].push_back(one.sampled.token);
      if (one.kind == Event::Kind::finished) a.ends[id] = one;
    }
  REQUIRE(a.tokens[id].size() == 4);
  for (const int32_t t : a.tokens[id]) CHECK((t == 32 || t == 33));

  auto slow = engine(0.001);  // a step of a prompt takes ten seconds
  const int64_t waits = *slow->add(request(100, 5));
  while (slow->stats().running == 0) std::this_thread::yield();
  const auto begun = std::chrono::steady_clock::now();
  CHECK(slow->stats().running == 1);
  slow->cancel(waits);
  slow->stop();
  CHECK(std::chrono::steady_clock::now() - begun < std::chrono::seconds(8));
}

TEST_CASE("what stands for values says so by what it is") {
  auto e = engine(1000);
  Request r = request(8, 2);
  r.sampling.logprobs = 3, r.prompt_logprobs = 0;
  const int64_t id = *e->add(r);
  Request embed = request(9, 1);
  embed.embed = true;
  const int64_t other = *e->add(embed);
  const Answers a = collect(*e, 2);
  CHECK(a.ends.at(id).reason == Reason::length);
  CHECK(a.ends.at(other).reason == Reason::stop);
  for (const Event& one : a.others) {
    if (one.kind == Event::Kind::embedding) CHECK(one.values.size() == 16);
    if (one.kind == Event::Kind::prompt && one.id == id) {
      REQUIRE(one.logprobs.size() == 7);
      CHECK(one.logprobs[0].logprob == doctest::Approx(-std::log(50.0)).epsilon(1e-4));  // a model that knows nothing
    }
  }
  CHECK_FALSE(e->load_adapter("mine", {}));
}

}  // namespace trine::serve
