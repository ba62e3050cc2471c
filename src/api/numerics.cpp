// Flags are rows of a table: a name, and what its value sets.
#include "api/numerics.h"

#include <algorithm>
#include <charconv>
#include <vector>

#include "api/machine.h"
#include "base/text.h"

namespace trine::api {

namespace {

using compile::AutoCast;
using compile::Numerics;

constexpr std::pair<std::string_view, AutoCast> kCasts[] = {
    {"none", AutoCast::none}, {"matmult", AutoCast::matmult}, {"all", AutoCast::all}};
constexpr std::pair<std::string_view, Dtype> kTypes[] = {{"bf16", Dtype::bf16}, {"fp16", Dtype::f16},
                                                         {"tf32", Dtype::tf32}, {"fp8_e4m3", Dtype::f8e4m3},
                                                         {"f16", Dtype::f16},   {"f8e4m3", Dtype::f8e4m3}};
constexpr std::pair<std::string_view, bool> kSwitch[] = {{"0", false},   {"1", true},      {"false", false},
                                                         {"true", true}, {"False", false}, {"True", true}};

template <class T, size_t kCount>
Result<T> chosen(const std::pair<std::string_view, T> (&rows)[kCount], std::string_view value) {
  std::vector<std::string> names;
  for (const auto& [name, what] : rows) {
    if (name == value) return what;
    names.emplace_back(name);
  }
  return fail(Code::invalid, cat("found \"", value, "\"; expected ", join(names, ", ")));
}

struct Flag {
  std::string_view name;
  Result<void> (*set)(Numerics&, std::string_view value);
};

constexpr Flag kFlags[] = {
    {"auto-cast",
     [](Numerics& n, std::string_view value) -> Result<void> {
       n.cast = TRY(chosen(kCasts, value));
       return {};
     }},
    {"auto-cast-type",
     [](Numerics& n, std::string_view value) -> Result<void> {
       n.type = TRY(chosen(kTypes, value));
       return {};
     }},
    {"stochastic-rounding",
     [](Numerics& n, std::string_view value) -> Result<void> {
       n.is_stochastic = TRY(chosen(kSwitch, value));
       return {};
     }},
    {"stochastic-rounding-seed",
     [](Numerics& n, std::string_view value) -> Result<void> {
       const auto read = std::from_chars(value.data(), value.data() + value.size(), n.seed);
       if (read.ec != std::errc{} || read.ptr != value.data() + value.size())
         return fail(Code::invalid, cat("found \"", value, "\"; expected a number"));
       return {};
     }},
};

const Flag* find(std::string_view name) {
  const auto found = std::find_if(std::begin(kFlags), std::end(kFlags), [&](const Flag& f) { return f.name == name; });
  return found == std::end(kFlags) ? nullptr : found;
}

Result<void> set(Numerics& numerics, const Flag& flag, std::string_view value) {
  auto done = flag.set(numerics, value);
  if (!done) return fail(done.error().code, cat("--", flag.name, ": ", done.error().text()));
  return {};
}

}  // namespace

Result<void> set_numerics(Numerics& numerics, std::string_view name, std::string_view value) {
  std::string plain(name.substr(std::min(name.find_first_not_of('-'), name.size())));
  std::replace(plain.begin(), plain.end(), '_', '-');
  if (const Flag* flag = find(plain)) return set(numerics, *flag, value);
  std::vector<std::string> names;
  for (const Flag& flag : kFlags) names.emplace_back(flag.name);
  return fail(Code::invalid, cat("No such compile option: '", name, "'; there are ", join(names, ", ")));
}

Result<void> set_numerics_by_flags(Numerics& numerics, std::string_view flags) {
  std::vector<std::string_view> words;
  for (std::string_view word : split(flags, ' '))
    if (!trim(word).empty()) words.push_back(trim(word));
  for (size_t i = 0; i < words.size(); ++i) {
    if (!words[i].starts_with("--")) continue;
    const size_t equals = words[i].find('=');
    const Flag* flag = find(words[i].substr(2, equals == std::string_view::npos ? equals : equals - 2));
    if (!flag) continue;
    if (equals == std::string_view::npos && i + 1 == words.size())
      return fail(Code::invalid, cat(words[i], " needs a value"));
    TRY(set(numerics, *flag, equals == std::string_view::npos ? words[++i] : words[i].substr(equals + 1)));
  }
  return {};
}

Result<Numerics> numerics_from_environment() {
  Numerics out;
  auto done = set_numerics_by_flags(out, getenv_or("NEURON_CC_FLAGS"));
  if (!done) return fail(done.error().code, cat("NEURON_CC_FLAGS: ", done.error().text()));
  const std::pair<const char*, std::string_view> kVariables[] = {
      {"NEURON_RT_STOCHASTIC_ROUNDING_EN", "stochastic-rounding"},
      {"NEURON_RT_STOCHASTIC_ROUNDING_SEED", "stochastic-rounding-seed"}};
  for (const auto& [variable, flag] : kVariables)
    if (const std::string value = getenv_or(variable); !value.empty())
      if (auto set_it = find(flag)->set(out, value); !set_it)
        return fail(Code::invalid, cat(variable, ": ", set_it.error().text()));
  return out;
}

std::string numerics_text(const Numerics& numerics) {
  const auto name_of = [](const auto& rows, auto value) {
    return std::find_if(std::begin(rows), std::end(rows), [&](auto& r) { return r.second == value; })->first;
  };
  std::string out;
  if (numerics.cast != AutoCast::none)
    out += cat(" --auto-cast ", name_of(kCasts, numerics.cast), " --auto-cast-type ", name_of(kTypes, numerics.type));
  if (numerics.is_stochastic) out += cat(" --stochastic-rounding 1 --stochastic-rounding-seed ", numerics.seed);
  return out.empty() ? out : out.substr(1);
}

}  // namespace trine::api
