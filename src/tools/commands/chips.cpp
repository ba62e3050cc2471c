// trine chips: the generations side by side, every number with its source on request.
#include <memory>

#include "arch/chips/chip.h"
#include "arch/chips/peaks.h"
#include "base/text.h"
#include "tools/cli.h"

namespace trine::tools {

namespace {

using arch::Chip;
using arch::NumberRow;
using Rows = std::vector<std::vector<std::string>>;

struct Chosen {
  std::vector<const Chip*> chips;
  std::vector<std::unique_ptr<Chip>> own;  // read from files
};

Result<Chosen> chosen(const Args& args) {
  Chosen out;
  for (const std::string& name : args.words) {
    if (name.ends_with(".json")) {
      Chip chip = TRY(arch::load_chip_file(name));
      out.own.push_back(std::make_unique<Chip>(std::move(chip)));
      out.chips.push_back(out.own.back().get());
    } else {
      out.chips.push_back(TRY(arch::find_chip(name)));
    }
  }
  if (out.chips.empty())
    for (const Chip& chip : arch::all_chips()) out.chips.push_back(&chip);
  return out;
}

// Bytes as people say them; the JSON has them plain.
std::string shown(const NumberRow& row, double v) {
  if (row.unit != "bytes") return shortest(v);
  constexpr std::pair<double, std::string_view> units[] = {{0x1p30, " GiB"}, {0x1p20, " MiB"}, {0x1p10, " KiB"}};
  for (const auto& [size, name] : units)
    if (v >= size && v / size * 16 == static_cast<double>(static_cast<int64_t>(v / size * 16)))
      return cat(v / size, name);
  return cat(v, " B");
}

// ? for an estimate, * for a projection: what to trust less is seen at a glance.
std::string_view mark(const Chip& chip, std::string_view path) {
  const std::string& from = chip.sources.find(path)->second;
  if (from.starts_with("projected")) return "*";
  return from.find("estimate") != std::string::npos ? "?" : "";
}

Rows numbers_table(const std::vector<const Chip*>& chips) {
  Rows rows(1, {"number", "unit"});
  for (const Chip* c : chips) rows[0].push_back(c->name);
  for (const NumberRow& row : arch::number_rows()) {
    rows.push_back({std::string(row.path), std::string(row.unit)});
    for (const Chip* c : chips)
      rows.back().push_back(shown(row, arch::read_number(*c, row)) + std::string(mark(*c, row.path)));
  }
  return rows;
}

Rows features_table(const std::vector<const Chip*>& chips) {
  Rows rows(1, {"feature"});
  for (const Chip* c : chips) rows[0].push_back(c->name);
  rows[0].emplace_back("meaning");
  for (const arch::FeatureRow& f : arch::kFeatureRows) {
    if (f.feature == arch::Feature::base) continue;
    rows.push_back({std::string(f.name)});
    for (const Chip* c : chips) rows.back().push_back(c->has(f.feature) ? "yes" : "-");
    rows.back().emplace_back(f.meaning);
  }
  return rows;
}

Rows peaks_table(const std::vector<const Chip*>& chips) {
  Rows rows(1, {"chip", "figure", "published", "from the parts", "off", "meaning"});
  for (const Chip* c : chips)
    for (const arch::PeakRow& p : arch::peak_rows()) {
      const auto found = c->published.find(p.name);
      if (found == c->published.end()) continue;
      const double published = found->second.is, ours = p.from_parts ? p.from_parts(*c) : 0;
      rows.push_back({c->name, std::string(p.name), shortest(published),
                      p.from_parts ? fixed(ours, ours < 100 ? 2 : 0) : "-",
                      p.from_parts ? cat(fixed(100 * (ours / published - 1), 1), " %") : "-", std::string(p.meaning)});
    }
  return rows;
}

std::string sources_text(const std::vector<const Chip*>& chips) {
  std::string out;
  for (const Chip* c : chips) {
    out += cat(bold(c->title), " (", c->name, ")\n");
    Rows rows;
    for (const NumberRow& row : arch::number_rows())
      rows.push_back({cat("  ", row.path), shown(row, arch::read_number(*c, row)), c->sources.find(row.path)->second});
    for (const auto& [path, from] : c->sources)
      if (path.starts_with("features.")) rows.push_back({cat("  ", path), "yes", from});
    for (const auto& [name, peak] : c->published)
      rows.push_back({cat("  published.", name), shortest(peak.is), peak.from});
    out += columns(rows, "010") + "\n";
  }
  return out;
}

Json chip_json(const Chip& chip) {
  Json numbers = Json::object(), features = Json::object(), published = Json::object();
  for (const NumberRow& row : arch::number_rows()) {
    const double v = arch::read_number(chip, row);
    Json entry = Json::object();
    entry.set("is", row.whole ? Json(static_cast<int64_t>(v)) : Json(v)).set("unit", row.unit);
    numbers.set(row.path, entry.set("from", chip.sources.find(row.path)->second));
  }
  for (const arch::FeatureRow& f : arch::kFeatureRows)
    if (f.feature != arch::Feature::base) features.set(f.name, chip.has(f.feature));
  for (const auto& [name, peak] : chip.published) {
    const arch::PeakRow* row = arch::find_peak(name);
    Json entry = Json::object();
    entry.set("is", peak.is).set("from", peak.from);
    published.set(name, entry.set("from_parts", row->from_parts ? Json(row->from_parts(chip)) : Json()));
  }
  return Json::object()
      .set("name", chip.name)
      .set("title", chip.title)
      .set("numbers", std::move(numbers))
      .set("features", std::move(features))
      .set("published", std::move(published));
}

// What one compares first. A figure of the maker that differs from what the parts give stands in brackets.
std::string peak_text(const Chip& chip, std::string_view name) {
  const arch::PeakRow* row = arch::find_peak(name);
  const double ours = row->from_parts(chip);
  const auto published = chip.published.find(name);
  if (published == chip.published.end()) return "-";
  const std::string text = fixed(ours, ours < 100 ? 1 : 0), maker = fixed(published->second.is, ours < 100 ? 1 : 0);
  return text == maker ? text : cat(text, " (", maker, ")");
}

struct Headline {
  std::string_view label;
  std::string (*text)(const Chip&);
};

constexpr Headline kHeadlines[] = {
    {"core generation", [](const Chip& c) { return cat("v", c.generation); }},
    {"cores", [](const Chip& c) { return cat(c.cores); }},
    {"logical core (LNC)", [](const Chip& c) { return c.lnc_max == 1 ? "1" : cat("1 to ", c.lnc_max); }},
    {"fp32 TFLOP/s", [](const Chip& c) { return peak_text(c, "fp32_tflops"); }},
    {"bf16 TFLOP/s", [](const Chip& c) { return peak_text(c, "bf16_tflops"); }},
    {"fp8 TFLOP/s", [](const Chip& c) { return peak_text(c, "fp8_tflops"); }},
    {"sparse TFLOP/s", [](const Chip& c) { return peak_text(c, "sparse_tflops"); }},
    {"device memory GiB", [](const Chip& c) { return cat(c.hbm.bytes >> 30); }},
    {"  stacks", [](const Chip& c) { return cat(c.hbm.stacks); }},
    {"  GB/s", [](const Chip& c) { return peak_text(c, "memory_bytes_per_ns"); }},
    {"SBUF MiB a core", [](const Chip& c) { return cat(static_cast<double>(c.sbuf_bytes()) / 0x1p20); }},
    {"PSUM MiB a core", [](const Chip& c) { return cat(static_cast<double>(c.psum_bytes()) / 0x1p20); }},
    {"GHz tensor", [](const Chip& c) { return cat(c.tensor.clock_ghz); }},
    {"  vector", [](const Chip& c) { return cat(c.vector.clock_ghz); }},
    {"  scalar, gpsimd", [](const Chip& c) { return cat(c.scalar.clock_ghz); }},
    {"DMA engines", [](const Chip& c) { return cat(c.cores * c.dma.engines_per_core); }},
    {"  GB/s each", [](const Chip& c) { return cat(c.dma.rate_bytes_per_ns); }},
    {"link GB/s", [](const Chip& c) { return fixed(c.link.bandwidth_bytes_per_ns, 0); }},
    {"watts", [](const Chip& c) { return cat(c.power.chip_watts, mark(c, "power.chip_watts")); }},
};

Rows headlines_table(const std::vector<const Chip*>& chips) {
  Rows rows(1, {""});
  for (const Chip* c : chips) rows[0].push_back(cat(c->name, mark(*c, "generation")));
  for (const Headline& h : kHeadlines) {
    rows.push_back({std::string(h.label)});
    for (const Chip* c : chips) rows.back().push_back(h.text(*c));
  }
  return rows;
}

std::string aligned(const Rows& rows, size_t left, size_t chips) {
  return columns(rows, std::string(left, '0') + std::string(chips, '1'));
}

std::string page(const std::vector<const Chip*>& chips) {
  return cat(
      "# Chips\n\nWritten by `trine chips --markdown`; the numbers are in `src/arch/chips/`. `?` marks an estimate, "
      "`*` a "
      "projection;\n`trine chips --sources` says where each number comes from.\n\n",
      markdown(headlines_table(chips)), "\nIn brackets: the maker's figure, where the parts give another.\n",
      "\n## Peaks\n\nThe maker's figures recomputed from the parts. Chip headlines lie above what the clocks of the "
      "NKI "
      "guides give;\nthe guides' figures for one core agree with them. Trine times programs by the parts.\n\n",
      markdown(peaks_table(chips)), "\n## Features\n\n", markdown(features_table(chips)), "\n## Numbers\n\n",
      markdown(numbers_table(chips)));
}

Result<Exit> run(const Args& args) {
  const Chosen list = TRY(chosen(args));
  const auto& chips = list.chips;
  if (args.has("--json")) {
    Json rows = Json::array();
    for (const Chip* c : chips) rows.push(chip_json(*c));
    print(report("chips").set("chips", std::move(rows)).text(2) + "\n");
  } else if (args.has("--markdown")) {
    print(page(chips));
  } else if (args.has("--sources")) {
    print(sources_text(chips));
  } else if (args.has("--all")) {
    print(aligned(numbers_table(chips), 2, chips.size()) + "\n" + aligned(features_table(chips), 1, chips.size()) +
          "\n" + columns(peaks_table(chips), "001110"));
    print("\n? estimate   * projected   (--sources says where each number comes from)\n");
  } else {
    print(aligned(headlines_table(chips), 1, chips.size()));
    print(
        "\n(…) the maker's figure where the parts, which Trine times by, give another   ? estimate   * projected\n"
        "--all shows every number, --sources where it comes from\n");
  }
  return Exit::ok;
}

constexpr Option kOptions[] = {
    kJson,
    {"--all", "", "", "every number and feature, and the maker's peaks recomputed from the parts"},
    {"--sources", "", "", "where each number comes from"},
    {"--markdown", "", "", "everything as a page"},
};

}  // namespace

extern const Command command_chips{
    .name = "chips",
    .summary = "the chip generations side by side, and what each number rests on",
    .words = "[CHIP...]",
    .words_max = 64,
    .word = file(".json", chip_names),
    .examples =
        "trine chips trn2 trn3\n"
        "trine chips --sources trn2",
    .options = kOptions,
    .run = run,
};

}  // namespace trine::tools
