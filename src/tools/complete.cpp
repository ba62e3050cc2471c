// What may follow on a command line; see complete.h. The scripts are in complete_scripts.cpp.
#include "tools/complete.h"

#include <algorithm>

#include "base/text.h"
#include "tools/cli.h"

namespace trine::tools {

namespace {

using Kind = Values::Kind;

// Adds what a value may be. `typing` is what there is of it, `before` what the word has in front of it ("--phase=").
void add_values(Completion& out, const Values& values, std::string_view metavar, std::string_view typing,
                std::string_view before) {
  std::string lead(before);
  const char joins = values.listed ? ',' : metavar.find('=') != std::string_view::npos ? '=' : '\0';
  if (joins != '\0') {  // "a,b" is at b; "NAME=FILE" has nothing to offer for the name
    const size_t at = typing.rfind(joins);
    if (at == std::string_view::npos && joins == '=') return;
    lead += typing.substr(0, at == std::string_view::npos ? 0 : at + 1);
  }
  Names names = values.all_choices();
  if (names.empty() && values.names) names = values.names();
  for (const std::string& name : names) out.words.push_back({lead + name});
  out.goes_on = values.listed;
  out.files = values.kind == Kind::file;
  out.folders = values.kind == Kind::folder;
  out.endings = values.endings;
}

void add_options(Completion& out, const Command& command, std::span<const std::string> given) {
  const auto is_given = [&](const Option& o) {
    return std::any_of(given.begin(), given.end(), [&](const std::string& word) {
      return !word.empty() && (split(word, '=')[0] == o.name || word == o.brief);
    });
  };
  const auto add = [&](const Option& o) {
    if (o.values.repeats || !is_given(o)) out.words.push_back({std::string(o.name), full_meaning(o)});
  };
  for (const Option& o : command.options) add(o);
  add(kHelp);
}

Completion after_command(const Command& command, std::span<const std::string> words) {
  Completion out;
  const std::string_view typing = words.back();
  int count = 0;
  bool only_words = false;
  const Option* pending = nullptr;  // waits for its value
  for (const std::string& word : words.first(words.size() - 1)) {
    const bool is_word = only_words || word.size() < 2 || word[0] != '-';
    if (pending) {
      pending = nullptr;
    } else if (is_word) {
      ++count;
      only_words = only_words || command.rest_is_words;
    } else if (word == "--") {
      only_words = true;
    } else if (const Option* o = find_option(command, word); o && !o->is_switch()) {
      pending = o;
    }
  }
  if (pending) {
    add_values(out, row_set_by(command, *pending).values, pending->value, typing, "");
    return out;
  }
  if (!only_words && typing.starts_with("--") && typing.find('=') != std::string_view::npos) {
    const size_t equals = typing.find('=');
    const Option* o = find_option(command, typing.substr(0, equals));
    if (o && !o->is_switch())
      add_values(out, row_set_by(command, *o).values, o->value, typing.substr(equals + 1),
                 typing.substr(0, equals + 1));
    return out;
  }
  if (!typing.starts_with("-") && count < command.words_max) add_values(out, command.word, "", typing, "");
  const bool nothing = out.words.empty() && !out.files && !out.folders;
  if (!only_words && (typing.starts_with("-") || nothing)) add_options(out, command, words.first(words.size() - 1));
  return out;
}

}  // namespace

Completion complete(std::span<const std::string> line) {
  if (line.empty()) return {};
  const std::string_view base = std::string_view(line[0]).substr(line[0].find_last_of('/') + 1);
  Completion out;
  const std::string typing = line.back();
  if (line.size() < 2) return out;
  const Command* own = base.starts_with("neuron-") ? find_command(base.substr(7)) : nullptr;
  if (own) {
    out = after_command(*own, line.subspan(1));
  } else if (line.size() == 2) {
    for (const Command* c : commands()) out.words.push_back({std::string(c->name), std::string(c->summary)});
    if (typing.starts_with("-")) out.words = {{"--help", "list the commands"}, {"--version", "name this build"}};
  } else if (const Command* command = find_command(line[1])) {
    out = after_command(*command, line.subspan(2));
  }
  std::erase_if(out.words, [&](const Candidate& c) { return !c.text.starts_with(typing); });
  return out;
}

}  // namespace trine::tools
