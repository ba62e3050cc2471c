// Facts: numbers of a data file, each {"is": 2.4, "from": "doc: …"}, described by a table of rows. Chips and instances
// are read through it. Invariant: after read_facts, every required number is set, within its unit's limits, with a
// source.
#pragma once

#include <cmath>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/format/json.h"
#include "base/result.h"
#include "base/text.h"

namespace trine::arch {

using Sources = std::map<std::string, std::string, std::less<>>;  // path of a number -> where it comes from

struct FactUnit {
  std::string_view name;  // every path holds its unit's name, except for plain counts
  double min, max;        // so that no user's file can divide by zero or overflow
};

inline constexpr FactUnit kFactUnits[] = {
    {"count", 1, 65536},  {"ghz", 0.01, 100},          {"cycles", 0, 1e6},    {"ns", 0, 1e9},
    {"bytes", 1, 0x1p50}, {"bytes_per_ns", 1e-3, 1e6}, {"fraction", 1e-3, 1}, {"factor", 1, 64},
    {"passes", 1, 64},    {"watts", 0, 1e7},           {"pj", 0, 1e6},        {"flops_per_cycle", 1, 1024},
    {"gbps", 1e-3, 1e9},  {"usd_per_hour", 0, 1e6},
};

constexpr FactUnit find_fact_unit(std::string_view name) {
  for (const FactUnit& u : kFactUnits)
    if (u.name == name) return u;
  return {"", 1, 0};
}

// One number of a T: where it stands in the file, its unit, its field. Exactly one of real and whole is set.
template <class T>
struct Fact {
  std::string_view path, unit, meaning;
  double min = 0, max = 0;
  bool optional = false;  // may be missing: not published
  double& (*real)(T&) = nullptr;
  int64_t& (*whole)(T&) = nullptr;
};

template <class T, class Field>
constexpr Fact<T> fact(std::string_view path, std::string_view unit, Field field, std::string_view meaning,
                       double max = 0) {
  const FactUnit u = find_fact_unit(unit);
  Fact<T> r{.path = path, .unit = unit, .meaning = meaning, .min = u.min, .max = max > 0 ? max : u.max};
  if constexpr (std::is_same_v<std::invoke_result_t<Field, T&>, double&>) {
    r.real = field;
  } else {
    r.whole = field;
  }
  return r;
}

template <class T>
constexpr Fact<T> optional_fact(Fact<T> fact) {
  fact.optional = true;
  return fact;
}

// For static_assert: known unit, unit in the path, no path twice.
template <class T>
constexpr bool facts_well_formed(std::span<const Fact<T>> rows) {
  for (const auto& r : rows) {
    if (r.min > r.max || (r.unit != "count" && r.path.find(r.unit) == std::string_view::npos)) return false;
    for (const auto& other : rows)
      if (&other != &r && other.path == r.path) return false;
  }
  return true;
}

template <class T>
double read_fact(const T& object, const Fact<T>& row) {
  T& o = const_cast<T&>(object);  // the row only forms a reference to the field
  return row.real ? row.real(o) : static_cast<double>(row.whole(o));
}

// An error about a path of a file: "trn2.json: cores: found …".
Error fact_error(std::string_view file, std::string_view path, std::string message);

// The number of {"is": …, "from": …}; its source goes to `from`.
Result<double> read_entry(const Json& entry, std::string_view file, std::string_view path, std::string& from);
Result<void> check_limits(double v, double min, double max, bool whole, std::string_view unit, std::string_view file,
                          std::string_view path);

// Whatever no table asked for is a mistake: a misspelt number, or one without its unit. `words` are the other root
// keys.
Result<void> check_unknown(const Json& root, std::span<const std::string> paths,
                           std::span<const std::string_view> words, std::string_view file);

template <class T>
Result<void> read_facts(std::span<const Fact<T>> rows, const Json& root, std::string_view file, bool complete,
                        T& object, Sources& sources) {
  for (const Fact<T>& row : rows) {
    const Json* at = &root;
    for (const auto part : split(row.path, '.')) at = at ? at->find(part) : nullptr;
    if (!at) {
      if (complete && !row.optional)
        return fact_error(file, row.path, cat("missing; expected ", row.meaning, " (", row.unit, ")"));
      continue;
    }
    std::string from;
    const double v = TRY(read_entry(*at, file, row.path, from));
    TRY(check_limits(v, row.min, row.max, row.whole != nullptr, row.unit, file, row.path));
    if (row.real)
      row.real(object) = v;
    else
      row.whole(object) = static_cast<int64_t>(v);
    sources.insert_or_assign(std::string(row.path), from);
  }
  return {};
}

}  // namespace trine::arch
