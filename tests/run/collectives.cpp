// Collectives: values of every kind against their definition, groups after StableHLO's rules, and no way to hang.
#include <algorithm>
#include <cmath>
#include <thread>

#include "run/devices/collective.h"
#include "run/devices/rendezvous.h"
#include "tests/testing.h"

namespace trine::run {

using arch::CollectiveKind;
using arch::CollectiveStep;

// Each participant's inputs [participant, 0, 1, ...] of the given dims, and zeroed outputs.
struct Party {
  std::vector<Tensor> in, out;
  std::vector<TensorView> in_views, out_views;
  std::vector<Member> members;

  Party(int64_t count, Dims in_dims, Dims out_dims, Dtype dtype = Dtype::f32) {
    for (int64_t p = 0; p < count; ++p) {
      in.push_back(Tensor::make(dtype, in_dims));
      out.push_back(Tensor::make(dtype, out_dims));
      if (dtype == Dtype::f32)
        for (int64_t i = 0; i < in.back().view().elements(); ++i) in.back().view().as<float>()[i] = float(100 * p + i);
    }
    for (int64_t p = 0; p < count; ++p) {
      in_views.push_back(in[size_t(p)].view());
      out_views.push_back(out[size_t(p)].view());
    }
    for (int64_t p = 0; p < count; ++p) members.push_back({p, {&in_views[size_t(p)], 1}, {&out_views[size_t(p)], 1}});
  }
  std::vector<float> result(size_t p) const {
    const float* data = out[p].view().as<float>();
    return {data, data + out[p].view().elements()};
  }
};

TEST_CASE("all_reduce") {
  Party party(3, {2}, {2});
  REQUIRE(run_collective({.kind = CollectiveKind::all_reduce, .reduction = "add"}, party.members));
  CHECK(party.result(0) == std::vector<float>{300, 303});
  CHECK(party.result(2) == std::vector<float>{300, 303});
  REQUIRE(run_collective({.kind = CollectiveKind::all_reduce, .reduction = "maximum"}, party.members));
  CHECK(party.result(1) == std::vector<float>{200, 201});
  CHECK(!run_collective({.kind = CollectiveKind::all_reduce, .reduction = "median"}, party.members));
}

TEST_CASE("sums of bf16 are rounded once") {
  Party party(3, {1}, {1}, Dtype::bf16);
  // 256 + 1 + 1: adding in bf16 would lose both ones.
  for (size_t p = 0; p < 3; ++p) *party.in[p].view().as<uint16_t>() = p == 0 ? 0x4380 : 0x3f80;
  REQUIRE(run_collective({.kind = CollectiveKind::all_reduce, .reduction = "add"}, party.members));
  CHECK(*party.out[0].view().as<uint16_t>() == 0x4381);  // 258
}

// f32 sums whose order shows: what a schedule adds first differs from what members in order would.
TEST_CASE("sums run in the order of the schedule, the same on every member") {
  const arch::Instance& trn1 = **arch::find_instance("trn1.32xlarge");
  const comm::Cluster cluster{&trn1, 1, 1};
  SumOrders orders(cluster);
  struct Row {
    CollectiveKind kind;
    int64_t members, elements, dim;
  };
  static constexpr Row kRows[] = {
      {CollectiveKind::all_reduce, 2, 7, 0},           {CollectiveKind::all_reduce, 8, 1, 0},
      {CollectiveKind::all_reduce, 8, 100'000, 0},     {CollectiveKind::all_reduce, 32, 300'001, 0},
      {CollectiveKind::all_reduce, 6, 300'001, 0},     {CollectiveKind::reduce_scatter, 8, 4096, 0},
      {CollectiveKind::reduce_scatter, 8, 4096, 1},    {CollectiveKind::reduce_scatter, 6, 600'000, 0},
      {CollectiveKind::reduce_scatter, 6, 600'000, 1},
  };
  for (const Row& row : kRows) {
    const bool scatter = row.kind == CollectiveKind::reduce_scatter;
    const int64_t n = row.members, outer = scatter ? row.elements / n / n * n : row.elements, inner = scatter ? n : 1;
    Dims in{outer, inner}, out = in;
    if (scatter) out[size_t(row.dim)] /= n;
    Party party(n, in, out);
    for (int64_t p = 0; p < n; ++p)
      for (int64_t e = 0; e < outer * inner; ++e)
        party.in[size_t(p)].view().as<float>()[e] = float((p * 7919 + e * 104729) % 1000) * 0.1f + float(p == 3) * 1e6f;
    const CollectiveStep step{.kind = row.kind, .reduction = "add", .dim = row.dim};
    const Sums sums{&orders, comm::first_ranks(cluster, n)};
    REQUIRE(run_collective(step, party.members, sums));
    const auto first = party.result(0);
    const auto order = orders.find(scatter ? comm::Collective::reduce_scatter : comm::Collective::all_reduce,
                                   sums.places, outer * inner * 4);
    INFO(n << " members, " << row.elements << " elements, " << order->parts() << " parts");
    double worst = 0;
    for (int64_t m = 0; m < n; ++m) {
      const auto got = party.result(size_t(m));
      if (!scatter) CHECK(got == first);
      for (int64_t o = 0; o < int64_t(got.size()); o += 1 + int64_t(got.size()) / 50) {
        const int64_t r = o / out[1], c = o % out[1];
        const int64_t e =
            (r + (scatter && row.dim == 0 ? m * out[0] : 0)) * inner + c + (scatter && row.dim == 1 ? m : 0);
        double exact = 0;
        for (int64_t p = 0; p < n; ++p) exact += double(party.in[size_t(p)].view().as<float>()[e]);
        worst = std::max(worst, std::abs(double(got[size_t(o)]) - exact) / exact);
      }
    }
    CHECK(worst < 1e-6);
    REQUIRE(run_collective(step, party.members, sums));
    CHECK(party.result(0) == first);  // and again
  }
}

TEST_CASE("an order's sums are over few buffers and use every member once") {
  const comm::Cluster cluster{*arch::find_instance("trn1.32xlarge"), 1, 1};
  for (const comm::Algorithm how : {comm::Algorithm::single_step, comm::Algorithm::mesh, comm::Algorithm::rdh,
                                    comm::Algorithm::ring, comm::Algorithm::kangaring}) {
    const SumOrder order =
        sum_order_of(*comm::make_schedule(cluster, comm::first_ranks(cluster, 32), {.bytes = 1024, .algorithm = how}));
    CHECK(order.buffers <= 16);
    for (const SumOrder::Piece& piece : order.pieces) {
      std::vector<int64_t> buffers(size_t(order.buffers), 0);  // a bit for each member inside
      const auto value = [&](int32_t t) { return t >= 0 ? int64_t{1} << t : buffers[size_t(~t)]; };
      for (const SumOrder::Sum& sum : piece.sums) {
        int64_t all = 0;
        for (const int32_t t : sum.terms) {
          CHECK((all & value(t)) == 0);
          all |= value(t);
        }
        buffers[size_t(sum.to)] = all;
      }
      CHECK(value(piece.result) == 0xffffffff);
    }
  }
}

TEST_CASE("reduce_scatter, all_gather, all_to_all along inner and outer dimensions") {
  Party scatter(2, {2, 4}, {2, 2});
  REQUIRE(run_collective({.kind = CollectiveKind::reduce_scatter, .reduction = "add", .dim = 1}, scatter.members));
  CHECK(scatter.result(0) == std::vector<float>{100, 102, 108, 110});
  CHECK(scatter.result(1) == std::vector<float>{104, 106, 112, 114});
  Party gather(2, {2, 1}, {2, 2});
  REQUIRE(run_collective({.kind = CollectiveKind::all_gather, .dim = 1}, gather.members));
  CHECK(gather.result(1) == std::vector<float>{0, 100, 1, 101});
  Party swap(2, {2, 2}, {1, 4});
  REQUIRE(
      run_collective({.kind = CollectiveKind::all_to_all, .dim = 0, .other_dim = 1, .split_count = 2}, swap.members));
  CHECK(swap.result(0) == std::vector<float>{0, 1, 100, 101});
  CHECK(swap.result(1) == std::vector<float>{2, 3, 102, 103});
}

TEST_CASE("permute and broadcast") {
  Party party(3, {1}, {1});
  REQUIRE(run_collective({.kind = CollectiveKind::permute, .pairs = {{0, 2}, {2, 1}}}, party.members));
  CHECK(party.result(0) == std::vector<float>{0});
  CHECK(party.result(1) == std::vector<float>{200});
  CHECK(party.result(2) == std::vector<float>{0});
  REQUIRE(run_collective({.kind = CollectiveKind::broadcast}, party.members));
  CHECK(party.result(2) == std::vector<float>{0});
}

TEST_CASE("sizes that do not fit the members are an error") {
  Party party(3, {2, 4}, {2, 2});
  CHECK(!run_collective({.kind = CollectiveKind::reduce_scatter, .reduction = "add", .dim = 1}, party.members));
  CHECK(!run_collective({.kind = CollectiveKind::all_gather, .dim = 7}, party.members));
}

TEST_CASE("groups count replicas, partitions or everything") {
  const Assignment assignment{2, 2};
  const auto members = [&](CollectiveStep step, int64_t p) { return group_of(step, assignment, p)->participants; };
  using Ids = std::vector<int64_t>;
  CHECK(members({.groups = {{0, 1}}}, 1) == Ids{1, 3});
  CHECK(members({.groups = {{0}, {1}}, .channel = 1}, 1) == Ids{0, 1});
  CHECK(members({.groups = {{0, 3}, {1, 2}}, .channel = 1, .is_global = true}, 2) == Ids{1, 2});
  CHECK(members({.kind = CollectiveKind::all_to_all, .groups = {{1, 0}}, .channel = 1}, 2) == Ids{3, 2});
  CHECK(members({}, 3) == Ids{1, 3});
  CHECK(!group_of({.groups = {{0}}}, assignment, 3));
  CHECK(!group_of({.groups = {{1, 7}}}, assignment, 3));
}

// Runs `body` for each participant on a thread of its own, with two permits for all.
template <class Body>
static std::vector<Result<void>> run_all(int64_t count, Body body) {
  Permits permits(2);
  Rendezvous rendezvous({1, count}, &permits);
  std::vector<Result<void>> outcomes(static_cast<size_t>(count));
  std::vector<std::thread> threads;
  for (int64_t p = 0; p < count; ++p)
    threads.emplace_back([&, p] {
      permits.take();
      outcomes[size_t(p)] = body(rendezvous, p);
      rendezvous.leave(p, outcomes[size_t(p)]);
      permits.give();
    });
  for (std::thread& t : threads) t.join();
  return outcomes;
}

TEST_CASE("128 devices meet a hundred times on two turns") {
  const CollectiveStep step{.kind = CollectiveKind::all_reduce, .reduction = "add", .channel = 1, .is_global = true};
  std::atomic<int> wrong = 0;
  for (const Result<void>&outcome : run_all(128, [&](Rendezvous& rendezvous, int64_t p) -> Result<void> {
         for (int i = 0; i < 100; ++i) {
           float in = float(p), out = 0;
           const TensorView from{Dtype::f32, {}, &in}, to{Dtype::f32, {}, &out};
           TRY(rendezvous.join(p, step, {&from, 1}, {&to, 1}));
           wrong += out != 128 * 127 / 2;
         }
         return {};
       }))
    CHECK(outcome);
  CHECK(wrong == 0);
}

TEST_CASE("a device that fails or goes another way ends the run for all") {
  const CollectiveStep step{.kind = CollectiveKind::all_reduce, .reduction = "add", .channel = 1, .is_global = true};
  const auto join = [&](Rendezvous& rendezvous, int64_t p) {
    float in = 1, out = 0;
    const TensorView from{Dtype::f32, {}, &in}, to{Dtype::f32, {}, &out};
    return rendezvous.join(p, step, {&from, 1}, {&to, 1});
  };
  for (const Result<void>&outcome : run_all(8, [&](Rendezvous& rendezvous, int64_t p) -> Result<void> {
         if (p == 5) return fail(Code::invalid, "broken");
         return join(rendezvous, p);
       }))
    CHECK(outcome.error().message == "broken");
  int failed = 0;
  for (const Result<void>&outcome : run_all(8, [&](Rendezvous& rendezvous, int64_t p) -> Result<void> {
         if (p == 5) return {};
         return join(rendezvous, p);
       }))
    failed += !outcome && outcome.error().message.starts_with("7 of 8 devices wait");
  CHECK(failed == 7);
}

}  // namespace trine::run
