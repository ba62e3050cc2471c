// What monitors show: the document as text is JSON with its values, and Prometheus's rows are the same from a sample
// as from its document.
#include <filesystem>
#include <sstream>

#include "base/text.h"
#include "run/counters/monitor.h"
#include "run/counters/prometheus.h"
#include "run/counters/scrape.h"
#include "tests/testing.h"

using namespace trine;
using namespace trine::run;

namespace {

Sample two_processes() {
  ProgramTimes times(std::filesystem::temp_directory_path().string(), "none");
  std::vector<ProcessCounters> before, now;
  for (int64_t pid = 1; pid <= 2; ++pid) {
    ProcessCounters page{
        .file = cat(pid, ".0"), .pid = pid, .instance = "trn1.32xlarge", .tag = cat("job \"", pid, "\"")};
    page.command = "python \"a\\b\"\n";
    for (int64_t id = 0; id < 3; ++id) {
      ProcessCounters::Core core{.at = size_t(id), .id = id, .chip = id / 2};
      core.executions = 10 + id, core.busy_ns = 1000, core.host_to_device_bytes = 77, core.memory = {1, 2, 3, 4};
      core.statuses[size_t(Status::success)] = 9, core.statuses[size_t(Status::timeout)] = id;
      core.collectives[1] = 2, core.collective_bytes[1] = 100, core.latency[40] = 5, core.lost = id == 2;
      page.cores.push_back(core);
    }
    page.programs.push_back({.name = "step", .per_core = {{4, 400}, {5, 500}, {6, 600}}});
    before.push_back(page);
    for (auto& core : page.cores) core.busy_ns += 300'000'000, core.statuses[0] += 3, core.latency[50] += 3;
    for (auto& c : page.programs[0].per_core) c.runs += 3, c.host_ns += 300'000'000;
    now.push_back(page);
  }
  return make_sample(before, now, 1.0, 5'000'000'000, times);
}

struct Row {
  std::string series;
  double value;
};
std::vector<Row> rows_of(const std::string& text) {
  std::vector<Row> out;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);)
    if (line[0] == '#')
      out.push_back({line, 0});
    else
      out.push_back({line.substr(0, line.rfind(' ')), std::stod(line.substr(line.rfind(' ')))});
  return out;
}

}  // namespace

TEST_CASE("the document is JSON, and its text is what its values give") {
  Sample sample = two_processes();
  Monitor monitor(MonitorConfig::usual(), {*arch::find_instance("trn1.32xlarge"), 1});
  const std::string text = monitor.text(sample);
  const auto parsed = parse_json(text);
  REQUIRE(parsed);
  CHECK(parsed->text() == text);
  const Json& report = *parsed->find("neuron_runtime_data")->items()[0].find("report");
  CHECK(report.find("execution_stats")->find("execution_summary")->find("completed")->integer() == 9);
  CHECK(report.find("trine")->find("command")->string() == "python \"a\\b\"\n");
  CHECK(report.find("trine")->find("cores")->members().size() == 3);
  CHECK(report.find("memory_used")->find("neuron_runtime_used_bytes")->find("neuron_device")->integer() == 30);
}

TEST_CASE("Prometheus's rows are the same from a sample and from its document") {
  Sample sample = two_processes();
  for (const bool is_whole : {true, false}) {
    MonitorConfig config = MonitorConfig::usual();
    if (!is_whole) config.runtimes = {{"job \"2\"", {"execution_stats"}}}, config.system_metrics.pop_back();
    Monitor monitor(config, {*arch::find_instance("trn1.32xlarge"), 1});
    Exposition direct, through;
    for (int twice = 0; twice < 2; ++twice) {
      const auto a = rows_of(direct.text(sample, monitor)), b = rows_of(through.text(monitor.document(sample)));
      REQUIRE(a.size() == b.size());
      CHECK(a.size() > (is_whole ? 150 : 30));
      for (size_t i = 0; i < a.size(); ++i) {
        CHECK(a[i].series == b[i].series);
        CHECK(a[i].value == doctest::Approx(b[i].value).epsilon(1e-12));
      }
    }
  }
}

TEST_CASE("counts of periods are added up; a document from anywhere shows what it has") {
  Exposition exposition;
  const Json document = *parse_json(
      R"({"neuron_runtime_data": [{"neuron_runtime_tag": "a\nb", "report": {"execution_stats": {"execution_summary": {"completed": 3}}}}, 7],
          "system_data": []})");
  CHECK(exposition.text(document).find(R"(status_type="completed",runtime_tag="a\nb"} 3)") != std::string::npos);
  const std::string second = exposition.text(document);
  CHECK(second.find(R"(status_type="completed",runtime_tag="a\nb"} 6)") != std::string::npos);
  CHECK(second.find("neuroncore_utilization_ratio") == std::string::npos);
}
