// `trine collectives`: how long a collective takes on the machine, by size and number of ranks, and what it is made of.
#include <algorithm>
#include <charconv>

#include "base/text.h"
#include "run/report/collective_time.h"
#include "tools/choose.h"
#include "tools/cli.h"

namespace trine::tools {

namespace {

using comm::Collective;
using Row = run::CollectiveAnswer;

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

std::string table(const std::vector<Row>& rows) {
  std::vector<std::vector<std::string>> out = {
      {"ranks", "size", "time", "90 % band", "hops", "bytes", "GB/s", "bus GB/s", "steps", "bound by", "algorithm"}};
  for (const Row& r : rows)
    out.push_back({cat(r.ranks), size_text(r.bytes), with_unit_ns(r.time.ns),
                   cat(with_unit_ns(r.time.ns * r.band.low), " – ", with_unit_ns(r.time.ns * r.band.high)),
                   with_unit_ns(r.time.latency_ns), with_unit_ns(r.time.transfer_ns), fixed(r.rate(), 1),
                   fixed(r.bus_rate(), 1), cat(r.time.steps), std::string(sim::name(r.time.bound)), r.time.how});
  return columns(out, "11111111100");
}

// Bus rate over size: a bar for each row, the widest the fastest.
std::string bars(const std::vector<Row>& rows) {
  double most = 0;
  for (const Row& r : rows) most = std::max(most, r.bus_rate());
  std::vector<std::vector<std::string>> out;
  for (const Row& r : rows) {
    const double rate = r.bus_rate();
    std::string bar;
    for (int i = 0; i < static_cast<int>(48 * rate / std::max(most, 1e-9) + 0.5); ++i) bar += "█";
    out.push_back({cat(r.ranks), size_text(r.bytes), bar.empty() ? "▏" : bar, cat(fixed(rate, 1), " GB/s")});
  }
  return columns(out, "1100");
}

comm::Request request_of(const Args& args) {
  comm::Request request;
  request.kind = comm::collective_by_name(args.get("--kind")).value_or(Collective::all_reduce);
  if (args.has("--algorithm")) request.algorithm = comm::algorithm_by_name(args.get("--algorithm"));
  return request;
}

Result<Exit> run_collectives(const Args& args) {
  const Machine machine = TRY(choose_machine(args));
  run::CollectiveQuery query;
  query.cluster = {&machine.instance, args.integer("--nodes"), machine.lnc};
  query.request = request_of(args);
  const int64_t all = query.cluster.ranks();
  query.stride = args.integer("--stride");
  if (query.stride > all)
    return fail(Code::invalid, cat("found --stride ", query.stride, "; the machine has 1 to ", all));
  query.all_groups = args.has("--all-groups");
  const auto sizes = TRY(parse_sizes(args.get("--bytes")));
  std::vector<Row> rows;
  for (const int64_t ranks : TRY(parse_ranks(args.get("--ranks", cat(all / query.stride)), all)))
    for (const int64_t bytes : sizes) {
      query.ranks = ranks;
      query.request.bytes = bytes;
      rows.push_back(TRY(run::answer(query)));
    }
  const std::string_view kind = comm::name(query.request.kind);
  if (args.has("--json")) {
    Json list = Json::array();
    for (const Row& r : rows) list.push(r.json());
    Json out = report("collectives");
    out.set("instance", machine.instance.name).set("nodes", query.cluster.nodes).set("lnc", query.cluster.lnc);
    print(out.set("kind", kind).set("rows", std::move(list)).text(2) + "\n");
    return Exit::ok;
  }
  const std::string nodes = query.cluster.nodes > 1 ? cat(query.cluster.nodes, " x ") : "";
  print(cat(kind, " on ", nodes, machine.instance.name, "\n", table(rows)));
  if (args.has("--picture")) print("\n" + bars(rows));
  return Exit::ok;
}

constexpr Option kOptions[] = {
    kInstance,
    kLnc,
    kChipFile,
    kJson,
    {"--kind", "", "NAME", "permute is each to the next",
     one_of("all_reduce all_gather reduce_scatter all_to_all permute broadcast").otherwise("all_reduce")},
    {"--bytes", "", "SIZES", "4KiB,1MiB, or a range, by fours; all_gather's result, else a rank's input",
     Values().otherwise("1KiB:1GiB")},
    {"--ranks", "", "COUNTS", "logical cores in a group, as 2,8,32 (all)"},
    {"--nodes", "", "N", "instances joined by their network", whole(1, 4096).otherwise("1")},
    {"--stride", "", "N", "a group takes every Nth core, as data-parallel groups do", whole(1).otherwise("1")},
    {"--all-groups", "", "", "every such group of the machine at once, sharing its links"},
    {"--algorithm", "", "NAME", "instead of the one that Neuron would take",
     one_of("mesh single_step rdh ring kangaring hierarchical direct")},
    {"--picture", "", "", "the rates as bars below the table"},
};

}  // namespace

extern const Command command_collectives{
    .name = "collectives",
    .summary = "time of collectives by size and ranks",
    .details =
        "Times the schedule that the runtime sums by, over the machine's links, DMA engines, memory and network.\n"
        "`bus` is what the time asks of each rank's wires, as nccom-test counts it.",
    .examples = "trine collectives --instance trn1.32xlarge --kind all_reduce --bytes 1KiB:1GiB --ranks 2,8,32",
    .options = kOptions,
    .run = run_collectives,
};

}  // namespace trine::tools
