// `trine nccom-test`: the options and the table of Neuron's benchmark of collectives, with times of the virtual
// machine. GB/s are GiB/s, as the real tool has them; every iteration takes the same here, so -n and -w change nothing.
#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/file.h"
#include "base/text.h"
#include "comm/outcome.h"
#include "sim/cluster/collective.h"
#include "tools/choose.h"
#include "tools/cli.h"

namespace trine::tools {

namespace {

using comm::Collective;

struct Row {
  int64_t bytes = 0, count = 0;
  sim::CollectiveTime time = {};
  double algorithm_rate = 0, bus_rate = 0;  // GiB a second
};

constexpr std::pair<std::string_view, int64_t> kTypes[] = {{"uint8", 1},  {"int8", 1},  {"uint16", 2},
                                                           {"int16", 2},  {"fp16", 2},  {"bf16", 2},
                                                           {"uint32", 4}, {"int32", 4}, {"fp32", 4}};
constexpr double kGib = 1 << 30;

// "8", "2kb", "32M", "1GiB": in powers of 1024, in any case of letters.
Result<int64_t> parse_size(std::string_view option, std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return std::tolower(c); });
  int64_t value = 0;
  const auto [end, bad] = std::from_chars(lower.data(), lower.data() + lower.size(), value);
  const std::string_view unit(end, static_cast<size_t>(lower.data() + lower.size() - end));
  static constexpr std::pair<std::string_view, int> kUnits[] = {{"", 0},     {"b", 0},   {"k", 10},  {"kb", 10},
                                                                {"kib", 10}, {"m", 20},  {"mb", 20}, {"mib", 20},
                                                                {"g", 30},   {"gb", 30}, {"gib", 30}};
  for (const auto& [name, shift] : kUnits)
    if (bad == std::errc() && unit == name && value >= 1 && value <= (int64_t{1} << 40) >> shift) return value << shift;
  return fail(Code::invalid,
              cat("found ", option, " ", text, ", expected a size such as 8, 2kb, 32M or 1GB, up to 1024GB"));
}

Result<std::vector<int64_t>> sizes_of(const Args& args) {
  const int64_t first = TRY(parse_size("--minbytes", args.get("--minbytes")));
  const int64_t last = args.has("--maxbytes")   ? TRY(parse_size("--maxbytes", args.get("--maxbytes")))
                       : args.has("--minbytes") ? first
                                                : TRY(parse_size("--maxbytes", args.get("--maxbytes")));
  if (last < first)
    return fail(Code::invalid, cat("found --maxbytes ", last, ", expected no less than --minbytes ", first));
  const int64_t factor = args.has("--stepfactor") ? args.integer("--stepfactor") : 0;
  const int64_t step = args.has("--stepbytes") ? TRY(parse_size("--stepbytes", args.get("--stepbytes")))
                                               : std::max<int64_t>(1, (last - first) / 10);
  if (!factor && (last - first) / step > 1000)
    return fail(Code::invalid,
                cat("found ", (last - first) / step, " sizes, expected 1000 at most: a larger --stepbytes"));
  std::vector<int64_t> out;
  for (int64_t b = first; b <= last; b = factor ? b * factor : b + step) out.push_back(b);
  return out;
}

// Workers evenly over the nodes, the first cores of each.
Result<std::vector<comm::Place>> workers_of(const comm::Cluster& cluster, int64_t workers) {
  const int64_t nodes = cluster.nodes, each = workers / nodes;
  if (workers % nodes)
    return fail(Code::invalid, cat("found --nworkers ", workers, ", expected a multiple of ", nodes, " nodes"));
  if (each > cluster.ranks_per_node())
    return fail(Code::invalid, cat("found --nworkers ", workers, ", expected at most ",
                                   cluster.ranks_per_node() * nodes, " on ", nodes, " x ", cluster.instance->name));
  std::vector<comm::Place> out;
  for (int64_t n = 0; n < nodes; ++n)
    for (int64_t r = 0; r < each; ++r) out.push_back(comm::place_of(cluster, n * cluster.ranks_per_node() + r));
  return out;
}

comm::Request request_of(std::string_view op, int64_t bytes, int32_t workers) {
  comm::Request request{.bytes = bytes};
  if (op == "sendrecv" || op == "permute") {
    request.kind = Collective::permute;
    for (int32_t r = 0; r < workers; ++r)
      if (op == "permute" || r % 2 == 0) request.pairs.emplace_back(r, (r + 1) % workers);
  } else {
    request.kind = *comm::collective_by_name(op);
  }
  return request;
}

// Every rank brings 1 + its number; what each holds at the end is added up in f32 in the schedule's own order.
Result<void> check_values(const comm::Schedule& schedule, const comm::Request& request) {
  TRY(comm::verify(schedule, request));
  if (!comm::reduces(request.kind)) return {};
  const auto ranks = static_cast<size_t>(schedule.ranks);
  const double expected = static_cast<double>(ranks) * static_cast<double>(ranks + 1) / 2;
  for (const comm::PieceOutcome& piece : comm::outcome(schedule)) {
    std::vector<float> values;
    for (size_t r = 0; r < ranks; ++r) values.push_back(static_cast<float>(r + 1));
    for (const auto& sum : piece.sums) {
      float total = 0;
      for (const int32_t v : sum) total += values[static_cast<size_t>(v)];
      values.push_back(total);
    }
    for (const int32_t held : piece.holds)
      if (held >= static_cast<int32_t>(ranks) && request.kind == Collective::all_reduce &&
          std::abs(static_cast<double>(values[static_cast<size_t>(held)]) - expected) > 1e-6 * expected)
        return fail(Code::internal, cat("a rank holds ", values[static_cast<size_t>(held)], ", expected ", expected));
  }
  return {};
}

std::string table(const std::vector<Row>& rows, std::string_view type, bool with_algorithm) {
  std::vector<std::vector<std::string>> out = {
      {"size(B)", "count(elems)", "type", "time(us)", "algbw(GB/s)", "busbw(GB/s)"}};
  if (with_algorithm) out[0].emplace_back("algorithm");
  for (const Row& r : rows) {
    out.push_back({cat(r.bytes), cat(r.count), std::string(type), fixed(r.time.ns / 1e3, 2), fixed(r.algorithm_rate, 2),
                   fixed(r.bus_rate, 2)});
    if (with_algorithm) out.back().push_back(r.time.how);
  }
  return columns(out, with_algorithm ? "1111110" : "111111");
}

Json json_of(const std::vector<Row>& rows, std::string_view type, double average) {
  Json list = Json::array();
  for (const Row& r : rows)
    list.push(Json::object()
                  .set("size(B)", r.bytes)
                  .set("count(elems)", r.count)
                  .set("type", type)
                  .set("time(us)", r.time.ns / 1e3)
                  .set("algbw(GB/s)", r.algorithm_rate)
                  .set("busbw(GB/s)", r.bus_rate)
                  .set("algorithm", r.time.how));
  return report("nccom-test").set("results", std::move(list)).set("avg_bus_bandwidth(GB/s)", average);
}

Result<Exit> run_nccom_test(const Args& args) {
  const Machine machine = TRY(choose_machine(args));
  const comm::Cluster cluster{&machine.instance, args.integer("--nnodes"), machine.lnc};
  if (!args.has("--nworkers")) return fail(Code::invalid, "found no --nworkers, expected the number of ranks: -r 32");
  const auto workers = TRY(workers_of(cluster, args.integer("--nworkers")));
  const std::string type = args.get("--datatype");
  const int64_t element =
      std::find_if(std::begin(kTypes), std::end(kTypes), [&](auto& t) { return t.first == type; })->second;
  if (args.has("--check") && type != "fp32")
    return fail(Code::invalid, cat("found --check with --datatype ", type, ", expected fp32, as in the real tool"));
  std::vector<Row> rows;
  double sum = 0;
  for (const int64_t asked : TRY(sizes_of(args))) {
    Row row{.bytes = std::max(element, asked / element * element)};
    row.count = row.bytes / element;
    const auto request = request_of(args.words[0], row.bytes, static_cast<int32_t>(workers.size()));
    if (args.has("--check")) TRY(check_values(TRY(comm::make_schedule(cluster, workers, request)), request));
    row.time = TRY(sim::time_collective(cluster, workers, request));
    row.algorithm_rate = row.time.algorithm_rate(row.bytes) * 1e9 / kGib;
    row.bus_rate = row.time.bus_rate(request.kind, row.bytes, static_cast<int64_t>(workers.size())) * 1e9 / kGib;
    sum += row.bus_rate;
    rows.push_back(std::move(row));
  }
  const double average = sum / static_cast<double>(rows.size());
  if (args.has("--report-to-json-file"))
    TRY(write_file(args.get("--report-to-json-file"), json_of(rows, type, average).text(2) + "\n"));
  if (args.has("--json")) {
    print(json_of(rows, type, average).text(2) + "\n");
    return Exit::ok;
  }
  print(cat(table(rows, type, args.has("--show-algorithm")), "Avg bus bandwidth:\t", fixed(average, 4), "GB/s\n"));
  return Exit::ok;
}

constexpr Option kOptions[] = {
    kInstance,
    kLnc,
    kChipFile,
    kJson,
    {"--nworkers", "-r", "N", "ranks in all, evenly over the nodes", whole(1, 65536)},
    {"--nnodes", "-N", "N", "instances", whole(1, 4096).otherwise("1")},
    {"--minbytes", "-b", "SIZE", "the first size: 8, 2kb, 1MB", Values().otherwise("32M")},
    {"--maxbytes", "-e", "SIZE", "the last size (the first, where that is given alone)", Values().otherwise("32M")},
    {"--stepbytes", "-i", "SIZE", "from one size to the next (a tenth of the range)"},
    {"--stepfactor", "-f", "N", "instead: each size so many times the one before", whole(2)},
    {"--iters", "-n", "N", "accepted: all take the same", whole(1).otherwise("20")},
    {"--warmup_iters", "-w", "N", "accepted: there is nothing to warm up", whole().otherwise("5")},
    {"--datatype", "-d", "TYPE", "of the elements",
     one_of("uint8 int8 uint16 int16 fp16 bf16 uint32 int32 fp32").otherwise("uint8")},
    {"--check", "-c", "", "add up values of fp32 in the order of the schedule and compare"},
    {"--hosts", "-s", "NAMES", "accepted: the nodes are virtual"},
    {"--show-algorithm", "", "", "a column with the schedule that was taken"},
    {"--report-to-json-file", "", "FILE", "write the rows there too", file(".json")},
};

}  // namespace

extern const Command command_nccom_test{
    .name = "nccom-test",
    .summary = "Neuron's benchmark of collectives: its options, its table, times of the virtual machine",
    .alias = "nccom-test",
    .words = "OP",
    .words_min = 1,
    .words_max = 1,
    .word =
        one_of("all_reduce=allr all_gather=allg reduce_scatter=redsct all_to_all=alltoall permute sendrecv broadcast"),
    .details = "Times are of one operation on the devices, without a launch by the host. GB/s are GiB/s, as there.",
    .examples =
        "trine nccom-test -r 32 -b 1kb -e 1gb -f 4 -d fp32 allr --instance trn1.32xlarge\n"
        "trine nccom-test -r 64 -N 2 -b 8 -e 1GB -f 2 -d fp32 --check allg --instance trn1.32xlarge",
    .options = kOptions,
    .run = run_nccom_test,
};

}  // namespace trine::tools
