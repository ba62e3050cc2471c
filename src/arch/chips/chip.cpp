// Reads chip files: the numbers of chip_numbers.cpp, features, published peaks; `like` fills the rest, one level deep.
// Every error names the file and the path of the number.
#include "arch/chips/chip.h"

#include <algorithm>

#include "arch/chips/peaks.h"
#include "base/embedded.h"
#include "base/file.h"
#include "base/format/json.h"
#include "base/text.h"

namespace trine::arch {

std::span<const EmbeddedFile> embedded_chips();  // written by the build

namespace {

// The file that `like` names: built in, and called after its chip.
const EmbeddedFile* find_embedded(std::string_view chip_name) {
  for (const EmbeddedFile& f : embedded_chips())
    if (f.name == cat(chip_name, ".json")) return &f;
  return nullptr;
}

constexpr std::string_view kWords[] = {"name",      "title",    "aliases",   "like",
                                       "like_from", "features", "published", "note"};

std::vector<std::string> paths() {
  std::vector<std::string> out;
  for (const NumberRow& row : number_rows()) out.emplace_back(row.path);
  return out;
}

class Reader {
 public:
  explicit Reader(std::string_view file_name) : file_(file_name) {}

  Result<Chip> read(std::string_view text, bool may_inherit) {
    const Json root = TRY(parse_json(text, file_));
    if (!root.is_object()) return wrong("", cat("found ", root.kind(), ", expected an object"));
    Chip chip;
    const Json* like = root.find("like");
    if (like) chip = TRY(base(*like, root.find("like_from"), may_inherit));
    TRY(words(root, chip));
    TRY(read_facts(number_rows(), root, file_, like == nullptr, chip, chip.sources));
    TRY(features(root, chip));
    TRY(published(root, chip));
    TRY(check_unknown(root, paths(), kWords, file_));
    TRY(consistent(chip));
    return chip;
  }

 private:
  Result<Chip> base(const Json& like, const Json* reason, bool may_inherit) {
    if (!like.is_string()) return wrong("like", cat("found ", like.kind(), ", expected a chip's name"));
    if (!may_inherit)
      return wrong("like", "a chip that is like another cannot itself be a base; name its base instead");
    const EmbeddedFile* file = find_embedded(like.string());
    if (!file) return wrong("like", cat("no chip \"", like.string(), "\""));
    Chip chip = TRY(Reader(file->name).read(file->text, false));
    chip.published.clear();
    chip.aliases.clear();
    if (reason && !reason->is_string()) return wrong("like_from", cat("found ", reason->kind(), ", expected a source"));
    const std::string lead = reason ? reason->string() : cat("like ", like.string());
    for (auto& [path, from] : chip.sources) from = cat(lead, ": ", from);
    return chip;
  }

  Result<void> words(const Json& root, Chip& chip) {
    for (const auto& [key, field] : {std::pair{"name", &chip.name}, std::pair{"title", &chip.title}}) {
      const Json* v = root.find(key);
      if (!v || !v->is_string() || v->string().empty()) return wrong(key, "missing; every chip has one, a string");
      *field = v->string();
    }
    if (const Json* aliases = root.find("aliases"))
      for (const Json& a : aliases->items()) chip.aliases.push_back(a.string());
    return {};
  }

  Result<void> features(const Json& root, Chip& chip) {
    const Json* list = root.find("features");
    if (!list) return {};
    for (const auto& [name, from] : list->members()) {
      const std::string path = cat("features.", name);
      const auto row = std::find_if(std::begin(kFeatureRows) + 1, std::end(kFeatureRows),
                                    [&](const FeatureRow& r) { return r.name == name; });
      if (row == std::end(kFeatureRows)) {
        std::vector<std::string> names;
        for (const FeatureRow& r : kFeatureRows) names.emplace_back(r.name);
        return wrong(path, cat("no such feature; nearest: ", join(nearest(name, names), ", ")));
      }
      if (from.is_null()) {  // a difference: the base has it, this chip does not
        chip.features.remove(row->feature);
        chip.sources.erase(path);
        continue;
      }
      if (trim(from.string()).empty()) return wrong(path, "no source; expected \"doc: …\", or null to drop it");
      chip.features.add(row->feature);
      chip.sources.insert_or_assign(path, from.string());
    }
    return {};
  }

  Result<void> published(const Json& root, Chip& chip) {
    const Json* list = root.find("published");
    if (!list) return {};
    for (const auto& [name, v] : list->members()) {
      const std::string path = cat("published.", name);
      if (!find_peak(name)) return wrong(path, "no such peak; see arch/chips/peaks.cpp");
      Chip::Peak peak;
      peak.is = TRY(read_entry(v, file_, path, peak.from));
      if (!(peak.is > 0)) return wrong(path, cat("found ", peak.is, ", expected more than 0"));
      chip.published.emplace(name, peak);
    }
    return {};
  }

  Result<void> consistent(const Chip& c) {
    struct Rule {
      bool holds;
      std::string_view path, expected;
    };
    const Rule rules[] = {
        {c.sbuf.reserved_bytes_per_partition < c.sbuf.bytes_per_partition, "sbuf.reserved_bytes_per_partition",
         "less than sbuf.bytes_per_partition"},
        {c.lnc_default <= c.lnc_max, "lnc_default", "at most lnc_max"},
        {c.cores % c.lnc_max == 0, "lnc_max", "a divisor of cores"},
        {c.tensor.stationary_max <= c.tensor.columns, "tensor.stationary_max", "at most tensor.columns"},
        {c.tensor.rows <= c.partitions, "tensor.rows", "at most partitions"},
        {c.dma.engines_per_core * c.dma.partitions_per_engine >= c.partitions, "dma.partitions_per_engine",
         "engines_per_core times this to cover all partitions"},
        {c.cores >= c.hbm.stacks ? c.cores % c.hbm.stacks == 0 : true, "hbm.stacks", "a divisor of cores"},
        {c.power.idle_watts <= c.power.chip_watts, "power.idle_watts", "at most power.chip_watts"},
    };
    for (const Rule& rule : rules)
      if (!rule.holds) return wrong(rule.path, cat("expected ", rule.expected));
    return {};
  }

  Error wrong(std::string_view path, std::string message) const { return fact_error(file_, path, std::move(message)); }

  std::string_view file_;
};

std::vector<Chip> read_all() {
  std::vector<Chip> chips;
  for (const EmbeddedFile& f : embedded_chips()) {
    Result<Chip> chip = parse_chip(f.text, f.name);
    CHECK(chip, chip.error().text().c_str());
    chips.push_back(*std::move(chip));
  }
  std::stable_sort(chips.begin(), chips.end(), [](auto& a, auto& b) { return a.generation < b.generation; });
  return chips;
}

}  // namespace

std::span<const Chip> all_chips() {
  static const std::vector<Chip> chips = read_all();
  return chips;
}

Result<const Chip*> find_chip(std::string_view name) {
  const std::string wanted = lower(name.substr(0, 256));
  std::vector<std::string> names;
  for (const Chip& chip : all_chips()) {
    if (chip.name == wanted || std::count(chip.aliases.begin(), chip.aliases.end(), wanted)) return &chip;
    names.push_back(chip.name);
  }
  return fail(Code::not_found, cat("no chip \"", wanted, "\"; there are ", join(names, ", ")));
}

Result<Chip> parse_chip(std::string_view json, std::string_view file_name) {
  return Reader(file_name).read(json, true);
}

Result<Chip> load_chip_file(const std::string& path) {
  const std::string text = TRY(read_file(path));
  return parse_chip(text, path);
}

}  // namespace trine::arch
