// Steps of many ranks: by hand, explicit ranks beside classes of them, schedules of pipelines, and what cannot go on.
#include "sim/cluster/step.h"

#include "sim/cluster/pipeline.h"
#include "tests/testing.h"

using namespace trine;
using namespace trine::sim;

namespace {

Piece work(double ns, double dma = 0, std::vector<int32_t> after = {}) {
  return {.what = 0, .lane = 0, .ns = ns, .uses = {dma, 0, 0, 0}, .after = std::move(after)};
}
Piece collective(int32_t lane, double ns, double dma = 0, std::vector<int32_t> after = {}) {
  return {.what = 1, .lane = lane, .ns = ns, .uses = {dma, 0, 0, 0}, .group = 0, .after = std::move(after)};
}

StepTime timed(const Job& job) {
  const auto t = time_step(job);
  REQUIRE_MESSAGE(t.has_value(), t.error().text());
  for (const RankTime& r : t->ranks) {
    double sum = 0;
    for (const auto& [part, ns] : r.parts) sum += ns;
    CHECK(sum == doctest::Approx(t->ns).epsilon(1e-9));  // of every rank: it adds up
  }
  return *t;
}

// Two stages whose batches take unequal times, a blocking sum over the tensor axis, and a sum over the copies that runs
// beside the next piece and shares the DMA engines with it.
Pipeline two_stages(int64_t batches, int64_t chunks = 1) {
  Pipeline p{.names = {"forward", "backward", "tensor sum", "copies sum", "optimiser", "send"}, .batches = batches};
  for (int s = 0; s < 2; ++s) {
    Stage stage;
    for (int64_t c = 0; c < chunks; ++c) {
      const double more = 1 + 0.25 * s + 0.125 * static_cast<double>(c);
      stage.forward.push_back({{{.what = 0, .ns = 1000.5 * more, .uses = {0.6, 0, 0, 0}}},
                               {{.what = 2, .ns = 130, .uses = {0.4, 0.9, 0, 0}, .group = 0}}});
      stage.backward.push_back(
          {{{.what = 1, .ns = 2100.25 * more, .uses = {0.7, 0, 0, 0}}},
           {{.what = 3, .lane = 1, .ns = 900, .uses = {0.8, 0.5, 0, 0}, .group = 1, .after = {0}}}});
    }
    stage.end = {{{.what = 4, .ns = 333, .uses = {1, 0, 0, 0}}, true}};
    p.stages.push_back(std::move(stage));
  }
  p.send = {.what = 5, .ns = 77, .uses = {0.1, 0.3, 0, 0}};
  return p;
}

}  // namespace

TEST_CASE("by hand: what runs beside the engines is hidden, what is waited for is not") {
  Job job{.names = {"work", "gather"}, .groups = {{0}}};
  job.ranks = {{{work(100), collective(1, 300, 0, {0}), work(50), work(10, 0, {1})}}};
  const StepTime t = timed(job);
  CHECK(t.ns == doctest::Approx(410));
  CHECK(t.ranks[0].sum(Spent::compute) == doctest::Approx(160));
  CHECK(t.ranks[0].sum(Spent::collective) == doctest::Approx(250));
  CHECK(t.ranks[0].hidden_ns() == doctest::Approx(50));
}

TEST_CASE("by hand: DMA engines go by packets, and nobody is given more than it asks for") {
  Job job{.names = {"work", "gather"}, .groups = {{0}}, .packet_bytes_compute = 1, .packet_bytes_collective = 3};
  // Both ask for all: a quarter and three quarters until the gather has ended at 400, then the rest of the work.
  job.ranks = {{{work(300, 1), collective(1, 300, 1)}}};
  CHECK(timed(job).ns == doctest::Approx(400 + 200));
  // The gather asks for half and has it; the work has the other half.
  job.ranks = {{{work(300, 1), collective(1, 300, 0.5)}}};
  const StepTime t = timed(job);
  CHECK(t.ns == doctest::Approx(300 + 150));
  CHECK(t.ranks[0].sum(Spent::slowed) == doctest::Approx(150));
  job.ranks = {{{work(300, 0.4), collective(1, 300, 0.6)}}};
  CHECK(timed(job).ns == doctest::Approx(300));
}

TEST_CASE("a collective begins with its last member, and the others wait for that one") {
  Job job{.names = {"work", "sum"}, .groups = {{0, 1}}};
  job.ranks = {{{work(100), collective(0, 20)}}, {{work(170), collective(0, 20), work(5)}}};
  const StepTime t = timed(job);
  CHECK(t.ns == doctest::Approx(195));
  CHECK(t.ranks[0].parts.at({Spent::waits, 1, 1}) == doctest::Approx(70));
  CHECK(t.ranks[0].parts.at({Spent::waits, -1, 1}) == doctest::Approx(5));
  CHECK(t.ranks[1].sum(Spent::waits) == 0);
}

TEST_CASE("explicit ranks and their classes take the same time to the nanosecond") {
  for (const Grid grid : {Grid{2, 1}, Grid{1, 2}, Grid{2, 2}, Grid{3, 4}})
    for (const int64_t chunks : {1, 2}) {
      const Pipeline pipeline = two_stages(6, chunks);
      const Job all = *expand(pipeline, grid), one = *expand(pipeline);
      CHECK(all.ranks.size() == static_cast<size_t>(2 * grid.data * grid.tensor));
      const Folded folded = fold(all);
      CHECK(folded.job.ranks.size() == 2);
      CHECK(folded.job.ranks[0].count == grid.data * grid.tensor);
      const StepTime explicit_time = timed(all), classes = timed(folded.job), symmetric = timed(one);
      CHECK(std::abs(explicit_time.ns - classes.ns) < 1);
      CHECK(std::abs(explicit_time.ns - symmetric.ns) < 1);
      for (size_t r = 0; r < all.ranks.size(); ++r) {
        const RankTime& c = classes.ranks[static_cast<size_t>(folded.class_of[r])];
        for (const Spent spent : {Spent::compute, Spent::slowed, Spent::collective, Spent::waits})
          CHECK(std::abs(explicit_time.ranks[r].sum(spent) - c.sum(spent)) < 1);
      }
    }
}

TEST_CASE("ranks that only send to each other in a ring are one class; one that is slower makes two kinds of others") {
  const auto ring = [](double slow) {
    Job job{.names = {"work", "send"}};
    for (int32_t r = 0; r < 4; ++r) {
      job.groups.push_back({r, (r + 1) % 4});
      Rank rank{{work(r == 2 ? slow : 100)}};
      rank.pieces.push_back({.what = 1, .lane = 1, .ns = 10, .group = r, .role = 0, .after = {0}});
      rank.pieces.push_back({.what = 1, .lane = 2, .ns = 10, .group = (r + 3) % 4, .role = 1});
      rank.pieces.push_back(work(100, 0, {2}));
      job.ranks.push_back(std::move(rank));
    }
    return job;
  };
  CHECK(fold(ring(100)).job.ranks.size() == 1);
  CHECK(fold(ring(150)).job.ranks.size() == 4);  // the slow one, who hears of it first, second and third
  for (const double slow : {100.0, 150.0})
    CHECK(timed(ring(slow)).ns == doctest::Approx(timed(fold(ring(slow)).job).ns));
}

TEST_CASE("a pipeline's bubble is that of its schedule") {
  for (const int64_t stages : {1, 2, 4})
    for (const int64_t chunks : {1, 2, 4}) {
      if (stages == 1 && chunks > 1) continue;
      const int64_t batches = 4 * stages;
      Pipeline p{.names = {"forward", "backward", "send"}, .batches = batches};
      const double f = 120.0 / static_cast<double>(chunks), b = 240.0 / static_cast<double>(chunks);
      for (int64_t s = 0; s < stages; ++s) {
        Stage stage;
        for (int64_t c = 0; c < chunks; ++c) {
          stage.forward.push_back({{{.what = 0, .ns = f}}});
          stage.backward.push_back({{{.what = 1, .ns = b}}});
        }
        p.stages.push_back(stage);
      }
      p.send.what = 2;
      const StepTime t = timed(*expand(p));
      CHECK(t.ns == doctest::Approx(static_cast<double>(batches) * 360 + static_cast<double>(stages - 1) * (f + b)));
    }
}

TEST_CASE("engines that wait for what they send take longer, and never for ever") {
  for (const int64_t stages : {2, 4})
    for (const int64_t chunks : {1, 2}) {
      Pipeline p{.names = {"forward", "backward", "send"}, .batches = 2 * stages};
      for (int64_t s = 0; s < stages; ++s) {
        Stage stage;
        stage.forward.assign(static_cast<size_t>(chunks), {{{.what = 0, .ns = 100}}});
        stage.backward.assign(static_cast<size_t>(chunks), {{{.what = 1, .ns = 200}}});
        p.stages.push_back(stage);
      }
      p.send = {.what = 2, .ns = 7};
      const double free = timed(*expand(p)).ns;
      p.sends_block = true;
      CHECK(timed(*expand(p)).ns > free);
    }
}

TEST_CASE("any number of batches costs what a few do, and the time is that of all of them") {
  for (const int64_t chunks : {1, 2})
    for (const int64_t batches : {2, 8, 16, 50, 64}) {
      const Pipeline p = two_stages(batches, chunks);
      const StepTime all = timed(*expand(p));
      const auto few = time_pipeline(p);
      REQUIRE(few.has_value());
      CHECK(std::abs(few->ns - all.ns) < 2);
      double sum = 0;
      for (const auto& [part, ns] : few->ranks[0].parts) sum += ns;
      CHECK(sum == doctest::Approx(few->ns).epsilon(1e-9));
      CHECK(few->ranks[1].sum(Spent::compute) == doctest::Approx(all.ranks[1].sum(Spent::compute)).epsilon(1e-6));
    }
  Pipeline many = two_stages(1);
  many.batches = 1'000'000'000;
  CHECK(time_pipeline(many)->ns > 1e12);
}

TEST_CASE("a stage keeps what its schedule has in flight") {
  CHECK(in_flight_max(passes(4, 1, 8, 0)) == 4);
  CHECK(in_flight_max(passes(4, 1, 8, 3)) == 1);
  CHECK(in_flight_max(passes(4, 1, 2, 0)) == 2);
  CHECK(in_flight_max(passes(4, 2, 8, 0)) == 2 * 3 + 4 + 1);
  CHECK(in_flight_max(passes(1, 1, 64, 0)) == 1);
}

TEST_CASE("what cannot go on says who waits for what") {
  Job job{.names = {"work", "sum"}, .groups = {{0, 1}, {0, 1}}};
  Piece other = collective(0, 10);
  other.group = 1;
  job.ranks = {{{collective(0, 10), other}}, {{other, collective(0, 10)}}};
  const auto crossed = time_step(job);
  REQUIRE(!crossed.has_value());
  CHECK(crossed.error().message.find("rank 0 is at its piece 0 (sum)") != std::string::npos);
  job.ranks = {{{collective(0, 10), collective(0, 10)}}, {{collective(0, 10)}}};
  const auto uneven = time_step(job);
  REQUIRE(!uneven.has_value());
  CHECK(uneven.error().message.find("1 times, rank 0 2 times") != std::string::npos);
  Pipeline p = two_stages(5, 2);
  CHECK(time_pipeline(p).error().message.find("a multiple of the 2 stages") != std::string::npos);
}
