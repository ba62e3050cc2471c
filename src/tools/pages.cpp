// The JSON of the option tables; see pages.h. Man pages are in man.cpp.
#include "tools/pages.h"

#include "base/text.h"

namespace trine::tools {

namespace {

constexpr std::string_view kKinds[] = {"text", "whole", "real", "choice", "file", "folder"};
static_assert(std::size(kKinds) == size_t(Values::Kind::folder) + 1);

Json option_json(const Option& o) {
  Json out = Json::object().set("name", o.name);
  if (!o.brief.empty()) out.set("brief", o.brief);
  out.set("kind", o.is_switch() ? "switch" : kKinds[size_t(o.values.kind)]);
  if (!o.is_switch()) out.set("value", o.value);
  if (const Names choices = o.values.all_choices(); !choices.empty()) {
    Json list = Json::array();
    for (const std::string& c : choices) list.push(c);
    out.set("choices", std::move(list));
  }
  if (o.values.kind == Values::Kind::whole || o.values.kind == Values::Kind::real) {
    out.set("min", o.values.min);
    if (o.values.max != Values::kAny) out.set("max", o.values.max);
  }
  if (!o.values.initial.empty()) out.set("default", o.values.initial);
  if (o.values.repeats) out.set("repeats", true);
  return out.set("meaning", o.meaning);
}

}  // namespace

Json command_json(const Command& command) {
  Json options = Json::array(), examples = Json::array();
  for (const Option& o : command.options) options.push(option_json(o));
  options.push(option_json(kHelp));
  for (const std::string_view line : split(command.examples, '\n'))
    if (!line.empty()) examples.push(line);
  Json out = Json::object().set("name", command.name).set("summary", command.summary).set("usage", usage(command));
  if (!command.alias.empty()) out.set("alias", command.alias);
  return out.set("details", command.details)
      .set("python", !command.run)
      .set("options", std::move(options))
      .set("examples", std::move(examples));
}

}  // namespace trine::tools
