// The part of facts.h that does not depend on what is described.
#include "arch/chips/facts.h"

#include <algorithm>

namespace trine::arch {

namespace {

Result<void> check_below(const Json& v, const std::string& lead, std::span<const std::string> paths,
                         std::span<const std::string_view> words, std::string_view file) {
  for (const auto& [key, child] : v.members()) {
    const std::string path = lead + key;
    if (lead.empty() && std::count(words.begin(), words.end(), key)) continue;
    if (std::count(paths.begin(), paths.end(), path)) continue;
    const bool group =
        std::any_of(paths.begin(), paths.end(), [&](const std::string& p) { return p.starts_with(path + "."); });
    if (!group) return fact_error(file, path, cat("no such number; nearest: ", join(nearest(path, paths), ", ")));
    if (!child.is_object()) return fact_error(file, path, cat("found ", child.kind(), ", expected an object"));
    TRY(check_below(child, path + ".", paths, words, file));
  }
  return {};
}

}  // namespace

Error fact_error(std::string_view file, std::string_view path, std::string message) {
  return fail(Code::invalid, std::move(message), cat(file, path.empty() ? "" : ": ", path));
}

Result<double> read_entry(const Json& entry, std::string_view file, std::string_view path, std::string& from) {
  if (entry.is_number())
    return fact_error(file, path, "a bare number; write {\"is\": …, \"from\": \"doc | measured | estimate: …\"}");
  const Json *is = entry.find("is"), *source = entry.find("from");
  if (!is || !is->is_number()) return fact_error(file, path, "no number under \"is\"");
  if (!source || trim(source->string()).empty()) return fact_error(file, path, "no source under \"from\"");
  const bool is_price = path.ends_with("usd_per_hour");
  for (const auto& [key, other] : entry.members())
    if (key != "is" && key != "from" && !(is_price && (key == "region" || key == "date")))
      return fact_error(file, path,
                        cat("unknown key \"", key, "\"; expected is and from", is_price ? ", region and date" : ""));
  from = source->string();
  return is->number();
}

Result<void> check_limits(double v, double min, double max, bool whole, std::string_view unit, std::string_view file,
                          std::string_view path) {
  if (!(v >= min && v <= max))
    return fact_error(file, path, cat("found ", v, ", expected ", min, " to ", max, " (", unit, ")"));
  if (whole && v != std::floor(v)) return fact_error(file, path, cat("found ", v, ", expected a whole number"));
  return {};
}

Result<void> check_unknown(const Json& root, std::span<const std::string> paths,
                           std::span<const std::string_view> words, std::string_view file) {
  return check_below(root, "", paths, words, file);
}

}  // namespace trine::arch
