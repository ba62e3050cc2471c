// Reading a command line by the option table; see options.h.
#include "tools/options.h"

#include <algorithm>
#include <charconv>

#include "base/text.h"
#include "tools/cli.h"

namespace trine::tools {

namespace {

using Kind = Values::Kind;

template <class T>
bool reads_as(std::string_view text, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size();
}

const Option* row_of(std::span<const Option> table, std::string_view name) {
  for (const Option& o : table)
    if (o.name == name) return &o;
  return nullptr;
}

Error unknown_option(const Command& command, std::string_view typed) {
  Names names = {std::string(kHelp.name)};
  for (const Option& o : command.options) names.emplace_back(o.name);
  return fail(Code::invalid, cat("no option ", typed, "; nearest: ", join(nearest(typed, names), ", ")));
}

Result<void> check_words(const Command& command, Args& args) {
  const auto n = static_cast<int>(args.words.size());
  if (n > command.words_max)
    return fail(Code::invalid,
                cat("one argument too many: \"", args.words[static_cast<size_t>(command.words_max)], "\""));
  if (n < command.words_min) return fail(Code::invalid, cat("expected ", command.words));
  for (std::string& word : args.words) word = TRY(check_value(command.word, "", word));
  return {};
}

std::string range_text(const Values& v) {
  const std::string_view what = v.kind == Kind::real ? "a number" : "a whole number";
  return v.max == Values::kAny ? cat(what, ", ", v.min, " or more") : cat(what, " from ", v.min, " to ", v.max);
}

bool in_range(const Values& v, std::string_view text) {
  if (v.kind == Kind::real) {
    double x = 0;
    return reads_as(text, x) && x >= double(v.min) && (v.max == Values::kAny || x <= double(v.max));
  }
  int64_t n = 0;
  return reads_as(text, n) && n >= v.min && n <= v.max;
}

// The first spelling of a choice; empty where there is none such.
std::string_view spelled(const Values& v, std::string_view text) {
  for (const std::string_view choice : split(v.choices, ' ')) {
    const auto spellings = split(choice, '=');
    if (std::find(spellings.begin(), spellings.end(), text) != spellings.end()) return spellings[0];
  }
  return {};
}

Json typed_value(const Values& v, std::string_view text) {
  int64_t n = 0;
  double x = 0;
  if (v.kind == Kind::whole && reads_as(text, n)) return n;
  if (v.kind == Kind::real && reads_as(text, x)) return x;
  return text;
}

}  // namespace

Names Values::all_choices() const {
  if (names && kind == Kind::choice) return names();
  Names out;
  for (const std::string_view choice : split(choices, ' '))
    if (!choice.empty()) out.emplace_back(split(choice, '=')[0]);
  return out;
}

std::string either(const Names& names) {
  if (names.size() < 2) return join(names, "");
  return cat(join(std::span(names).first(names.size() - 1), ", "), " or ", names.back());
}

std::string full_meaning(const Option& option) {
  const Names choices = option.values.all_choices();
  return cat(choices.empty() ? "" : cat(either(choices), ": "), option.meaning,
             option.values.initial.empty() ? "" : cat(" (", option.values.initial, ")"));
}

Result<std::string> check_value(const Values& values, std::string_view what, std::string_view text) {
  const auto wrong = [&](const std::string& expected) {
    return fail(Code::invalid,
                cat("found ", what.empty() ? cat("\"", text, "\"") : cat(what, " ", text), ", expected ", expected));
  };
  if (values.kind == Kind::whole || values.kind == Kind::real) {
    if (!in_range(values, text)) return wrong(range_text(values));
  } else if (values.kind == Kind::choice) {
    const Names choices = values.all_choices();
    const std::string_view first = values.names ? text : spelled(values, text);
    if (std::find(choices.begin(), choices.end(), first) == choices.end()) return wrong(either(choices));
    return std::string(first);
  }
  return std::string(text);
}

std::string Args::get(std::string_view option, std::string_view otherwise) const {
  if (const auto found = values_.find(option); found != values_.end()) return found->second.back();
  const Option* row = row_of(table_, option);
  return std::string(otherwise.empty() && row ? row->values.initial : otherwise);
}

std::vector<std::string> Args::all(std::string_view option) const {
  const auto found = values_.find(option);
  return found == values_.end() ? std::vector<std::string>{} : found->second;
}

int64_t Args::integer(std::string_view option) const {
  int64_t value = 0;
  reads_as(get(option), value);
  return value;
}

double Args::real(std::string_view option) const {
  double value = 0;
  reads_as(get(option), value);
  return value;
}

std::vector<std::string> Args::typed() const {
  std::vector<std::string> out;
  for (const Option& o : table_)
    for (const std::string& value : all(o.name))
      out.push_back(o.is_switch() ? std::string(o.name) : cat(o.name, "=", value));
  return out;
}

Json Args::json() const {
  Json list = Json::array(), options = Json::object();
  for (const std::string& word : words) list.push(word);
  for (const Option& o : table_) {
    if (!o.same_as.empty()) continue;
    const std::string_view key = o.name.substr(2);
    if (o.is_switch()) {
      options.set(key, has(o.name));
    } else if (o.values.repeats) {
      Json each = Json::array();
      for (const std::string& value : all(o.name)) each.push(typed_value(o.values, value));
      options.set(key, std::move(each));
    } else {
      const bool known = has(o.name) || !o.values.initial.empty();
      options.set(key, known ? typed_value(o.values, get(o.name)) : Json());
    }
  }
  return Json::object().set("words", std::move(list)).set("options", std::move(options));
}

const Option* find_option(const Command& command, std::string_view typed) {
  if (typed == kHelp.name || typed == kHelp.brief) return &kHelp;
  for (const Option& o : command.options)
    if (typed == o.name || (!o.brief.empty() && typed == o.brief)) return &o;
  return nullptr;
}

const Option& row_set_by(const Command& command, const Option& option) {
  if (option.same_as.empty()) return option;
  const Option* const row = row_of(command.options, option.same_as);
  CHECK(row, "an option is the same as one of its table");
  return *row;
}

Result<Args> parse_args(const Command& command, std::span<const std::string> typed) {
  Args args(command.options);
  std::map<std::string_view, std::string_view> names;  // of each row that was set, by which name
  bool only_words = false;
  for (size_t i = 0; i < typed.size(); ++i) {
    const std::string_view arg = typed[i];
    if (only_words || arg.size() < 2 || arg[0] != '-') {
      args.words.emplace_back(arg);
      only_words = only_words || command.rest_is_words;
      continue;
    }
    if (arg == "--") {
      only_words = true;
      continue;
    }
    const size_t equals = arg.starts_with("--") ? arg.find('=') : std::string_view::npos;
    const Option* option = find_option(command, arg.substr(0, equals));
    if (!option) return unknown_option(command, arg.substr(0, equals));
    const Option* set = &row_set_by(command, *option);
    if (option->is_switch() && equals != std::string_view::npos)
      return fail(Code::invalid, cat(option->name, " takes no value"));
    std::string value;
    if (!option->is_switch()) {
      if (equals == std::string_view::npos && i + 1 == typed.size())
        return fail(Code::invalid, cat(option->name, " needs a value: ", option->value));
      value = equals == std::string_view::npos ? typed[++i] : std::string(arg.substr(equals + 1));
      value = TRY(check_value(set->values, option->name, value));
    }
    const std::string_view before = names.emplace(set->name, option->name).first->second;
    if (before != option->name && args.get(set->name) != value && !set->values.repeats)
      return fail(Code::invalid, cat(before, " ", args.get(set->name), " and ", option->name, " ", value,
                                     " say the opposite; give one"));
    args.set(set->name, std::move(value));
  }
  if (!args.has(kHelp.name)) TRY(check_words(command, args));
  return args;
}

}  // namespace trine::tools
