// Groups of the machine, their time and its band; see collective_time.h.
#include "run/report/collective_time.h"

#include "base/text.h"

namespace trine::run {

Result<CollectiveAnswer> answer(const CollectiveQuery& query) {
  const int64_t all = query.cluster.ranks(), ranks = query.ranks > 0 ? query.ranks : all;
  if (query.ranks < 0 || query.stride < 1 || query.stride > all || ranks > all / query.stride)
    return fail(Code::invalid, cat(ranks, " ranks, every ", query.stride, "th core, do not fit the machine's ", all));
  auto groups = comm::groups_of(query.cluster, ranks, query.stride);
  if (!query.all_groups) groups.resize(1);
  CollectiveAnswer out{query.request.kind, ranks, query.request.bytes};
  comm::Request request = query.request;
  if (request.kind == comm::Collective::permute && request.pairs.empty())
    for (int32_t r = 0; r < int32_t(ranks); ++r) request.pairs.emplace_back(r, (r + 1) % int32_t(ranks));
  out.time = TRY(sim::time_collective(query.cluster, groups, request));
  out.band = band_of(Bound::collective, *query.cluster.instance->chip);
  return out;
}

Json CollectiveAnswer::json() const {
  Json busy = Json::object();
  for (const sim::Limit kind : {sim::Limit::dma, sim::Limit::link, sim::Limit::network, sim::Limit::hbm})
    busy.set(sim::name(kind), time.busy_ns[static_cast<size_t>(kind)]);
  return Json::object()
      .set("kind", comm::name(kind))
      .set("ranks", ranks)
      .set("bytes", bytes)
      .set("ns", time.ns)
      .set("band_ns", Json::Array{time.ns * band.low, time.ns * band.high})
      .set("band_from", band.from)
      .set("start_ns", time.start_ns)
      .set("latency_ns", time.latency_ns)
      .set("transfer_ns", time.transfer_ns)
      .set("bytes_per_ns", rate())
      .set("bus_bytes_per_ns", bus_rate())
      .set("steps", time.steps)
      .set("bound", sim::name(time.bound))
      .set("algorithm", comm::name(time.algorithm))
      .set("how", time.how)
      .set("link_bytes", time.link_bytes)
      .set("network_bytes", time.network_bytes)
      .set("busy_ns", std::move(busy));
}

}  // namespace trine::run
