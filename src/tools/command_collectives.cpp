// `trine collectives`: how long a collective takes on the machine, by size and number of ranks, and what it is made of.
#include <algorithm>

#include "base/text.h"
#include "run/bands.h"
#include "sim/cluster/collective.h"
#include "tools/choose.h"
#include "tools/cli.h"

namespace trine::tools {

namespace {

using comm::Collective;

struct Row {
  int64_t ranks = 0, bytes = 0;
  sim::CollectiveTime time = {};
};

// "64", "1KiB", "3MiB", "1GiB".
Result<int64_t> parse_bytes(std::string_view text) {
  static constexpr std::pair<std::string_view, int> kUnits[] = {
      {"KiB", 10}, {"MiB", 20}, {"GiB", 30}, {"B", 0}, {"", 0}};
  for (const auto& [unit, shift] : kUnits) {
    if (!text.ends_with(unit)) continue;
    const std::string_view digits = text.substr(0, text.size() - unit.size());
    int64_t value = 0;
    const auto [end, bad] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (bad == std::errc() && end == digits.data() + digits.size() && value >= 1 && value <= int64_t{1} << 40 >> shift)
      return value << shift;
  }
  return fail(Code::invalid, cat("\"", text, "\" is no size; write 64, 4KiB, 16MiB or 1GiB, up to 1024GiB"));
}

// "1KiB:1GiB" goes by factors of four; commas join sizes and ranges.
Result<std::vector<int64_t>> parse_sizes(std::string_view text) {
  std::vector<int64_t> out;
  for (const std::string_view part : split(text, ',')) {
    const auto ends = split(part, ':');
    if (ends.size() > 2) return fail(Code::invalid, cat("\"", part, "\" is no range of sizes; write 1KiB:1GiB"));
    const int64_t first = TRY(parse_bytes(ends[0])), last = TRY(parse_bytes(ends.back()));
    if (last < first) return fail(Code::invalid, cat("\"", part, "\" runs backwards"));
    for (int64_t b = first; b <= last; b *= 4) out.push_back(b);
    if (out.back() != last) out.push_back(last);
  }
  return out;
}

Result<std::vector<int64_t>> parse_ranks(std::string_view text, int64_t most) {
  std::vector<int64_t> out;
  for (const std::string_view part : split(text, ',')) {
    int64_t value = 0;
    const auto [end, bad] = std::from_chars(part.data(), part.data() + part.size(), value);
    if (bad != std::errc() || end != part.data() + part.size() || value < 1 || value > most)
      return fail(Code::invalid, cat("\"", part, "\" ranks; the machine has 1 to ", most));
    out.push_back(value);
  }
  return out;
}

std::string size_text(int64_t bytes) {
  for (const auto& [unit, shift] : {std::pair{" GiB", 30}, {" MiB", 20}, {" KiB", 10}})
    if (bytes >> shift << shift == bytes && bytes >> shift) return cat(bytes >> shift, unit);
  return cat(bytes, " B");
}

std::string band_text(double ns) {
  const run::Band band = run::band_of(run::Bound::collective);
  return cat(with_unit_ns(ns * band.low), " – ", with_unit_ns(ns * band.high));
}

std::string table(const std::vector<Row>& rows, Collective kind) {
  std::vector<std::vector<std::string>> out = {
      {"ranks", "size", "time", "90 % band", "hops", "bytes", "GB/s", "bus GB/s", "steps", "bound by", "algorithm"}};
  for (const Row& r : rows)
    out.push_back({cat(r.ranks), size_text(r.bytes), with_unit_ns(r.time.ns), band_text(r.time.ns),
                   with_unit_ns(r.time.latency_ns), with_unit_ns(r.time.transfer_ns),
                   fixed(r.time.algorithm_rate(r.bytes), 1), fixed(r.time.bus_rate(kind, r.bytes, r.ranks), 1),
                   cat(r.time.steps), std::string(sim::name(r.time.bound)), r.time.how});
  return columns(out, "11111111100");
}

// Bus rate over size: a bar for each row, the widest the fastest.
std::string bars(const std::vector<Row>& rows, Collective kind) {
  double most = 0;
  for (const Row& r : rows) most = std::max(most, r.time.bus_rate(kind, r.bytes, r.ranks));
  std::vector<std::vector<std::string>> out;
  for (const Row& r : rows) {
    const double rate = r.time.bus_rate(kind, r.bytes, r.ranks);
    std::string bar;
    for (int i = 0; i < static_cast<int>(48 * rate / std::max(most, 1e-9) + 0.5); ++i) bar += "█";
    out.push_back({cat(r.ranks), size_text(r.bytes), bar.empty() ? "▏" : bar, cat(fixed(rate, 1), " GB/s")});
  }
  return columns(out, "1100");
}

Json rows_json(const std::vector<Row>& rows, Collective kind) {
  Json out = Json::array();
  const run::Band band = run::band_of(run::Bound::collective);
  for (const Row& r : rows)
    out.push(Json::object()
                 .set("ranks", r.ranks)
                 .set("bytes", r.bytes)
                 .set("ns", r.time.ns)
                 .set("band_ns", Json::Array{r.time.ns * band.low, r.time.ns * band.high})
                 .set("start_ns", r.time.start_ns)
                 .set("latency_ns", r.time.latency_ns)
                 .set("transfer_ns", r.time.transfer_ns)
                 .set("algorithm_bytes_per_ns", r.time.algorithm_rate(r.bytes))
                 .set("bus_bytes_per_ns", r.time.bus_rate(kind, r.bytes, r.ranks))
                 .set("steps", r.time.steps)
                 .set("bound", sim::name(r.time.bound))
                 .set("algorithm", comm::name(r.time.algorithm))
                 .set("how", r.time.how)
                 .set("link_bytes", r.time.link_bytes)
                 .set("network_bytes", r.time.network_bytes));
  return out;
}

Result<comm::Request> parse_request(const Args& args) {
  comm::Request request;
  const std::string kind = args.get("--kind", "all_reduce"), how = args.get("--algorithm");
  const auto found = comm::collective_by_name(kind);
  if (!found || *found == Collective::permute)
    return fail(Code::invalid, cat("no collective \"", kind,
                                   "\"; there are all_reduce, all_gather, reduce_scatter, all_to_all and broadcast"));
  request.kind = *found;
  if (how.empty()) return request;
  request.algorithm = comm::algorithm_by_name(how);
  if (!request.algorithm)
    return fail(Code::invalid, cat("no algorithm \"", how,
                                   "\"; there are mesh, single_step, rdh, ring, kangaring, hierarchical and direct"));
  return request;
}

Result<Exit> run_collectives(const Args& args) {
  const Machine machine = TRY(choose_machine(args));
  const comm::Cluster cluster{&machine.instance, TRY(args.integer("--nodes", 1, 1, 4096)), machine.lnc};
  comm::Request request = TRY(parse_request(args));
  const auto sizes = TRY(parse_sizes(args.get("--bytes", "1KiB:1GiB")));
  const auto counts =
      TRY(parse_ranks(args.get("--ranks", cat(std::min<int64_t>(cluster.ranks(), 2048))), cluster.ranks()));
  const int64_t stride = TRY(args.integer("--stride", 1, 1, cluster.ranks()));
  std::vector<Row> rows;
  for (const int64_t ranks : counts) {
    auto groups = comm::groups_of(cluster, ranks, stride);
    if (groups.empty())
      return fail(Code::invalid,
                  cat(ranks, " ranks, every ", stride, "th, do not fit the machine's ", cluster.ranks()));
    if (!args.has("--all-groups")) groups.resize(1);
    for (const int64_t bytes : sizes) {
      request.bytes = bytes;
      rows.push_back({ranks, bytes, TRY(sim::time_collective(cluster, groups, request))});
    }
  }
  if (args.has("--json")) {
    print(report("collectives")
              .set("instance", machine.instance.name)
              .set("nodes", cluster.nodes)
              .set("lnc", cluster.lnc)
              .set("kind", comm::name(request.kind))
              .set("rows", rows_json(rows, request.kind))
              .text(2) +
          "\n");
    return Exit::ok;
  }
  print(cat(comm::name(request.kind), " on ", cluster.nodes > 1 ? cat(cluster.nodes, " x ") : "", machine.instance.name,
            "\n", table(rows, request.kind)));
  if (args.has("--picture")) print("\n" + bars(rows, request.kind));
  return Exit::ok;
}

constexpr Option kOptions[] = {
    kInstance,
    kLnc,
    kChipFile,
    kJson,
    {"--kind", "", "NAME", "all_reduce (default), all_gather, reduce_scatter, all_to_all, broadcast"},
    {"--bytes", "", "SIZES", "1KiB:1GiB (by fours, default), or 4KiB,1MiB; all_gather's result, else a rank's input"},
    {"--ranks", "", "COUNTS", "logical cores in a group, as 2,8,32 (default: all)"},
    {"--nodes", "", "N", "instances joined by their network (default 1)"},
    {"--stride", "", "N", "a group takes every Nth core, as data-parallel groups do (default 1)"},
    {"--all-groups", "", "", "every such group of the machine at once, sharing its links"},
    {"--algorithm", "", "NAME", "mesh, single_step, rdh, ring, kangaring or hierarchical, whatever Neuron would take"},
    {"--picture", "", "", "the rates as bars below the table"},
};

}  // namespace

extern const Command command_collectives{
    .name = "collectives",
    .summary = "time of collectives by size and ranks",
    .details =
        "Times the schedule that the runtime sums by, over the machine's links, DMA engines, memory and network.\n"
        "`bus` is what the time asks of each rank's wires, as nccom-test counts it.\n\n"
        "  trine collectives --instance trn1.32xlarge --kind all_reduce --bytes 1KiB:1GiB --ranks 2,8,32",
    .options = kOptions,
    .run = run_collectives,
};

}  // namespace trine::tools
