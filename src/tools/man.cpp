// The option tables as man pages, in the roff macros of man(7); see pages.h.
#include "base/text.h"
#include "tools/pages.h"

namespace trine::tools {

namespace {

// Text that roff prints as it is: dashes stay ASCII, and nothing is taken for a request or an escape.
std::string roff(std::string_view text) {
  std::string out;
  bool first = true;  // of its line
  for (const char c : text) {
    if (first && (c == '.' || c == '\'')) out += "\\&";
    first = c == '\n';
    if (c == '\\')
      out += "\\e";
    else if (c == '-')
      out += "\\-";
    else
      out += c;
  }
  return out;
}

std::string head(std::string_view name, std::string_view summary) {
  std::string upper;
  for (const char c : name) upper += c >= 'a' && c <= 'z' ? char(c - 'a' + 'A') : c;
  return cat(".\\\" Written by `trine help --man`.\n.TH ", roff(upper), " 1 \"\" \"trine ", TRINE_VERSION,
             "\" \"Trine\"\n.SH NAME\n", roff(name), " \\- ", roff(summary), "\n");
}

std::string row(std::string_view term, std::string_view text) { return cat(".TP\n", term, "\n", roff(text), "\n"); }

std::string option_term(const Option& o) {
  return cat(o.brief.empty() ? "" : cat("\\fB", roff(o.brief), "\\fR, "), "\\fB", roff(o.name), "\\fR",
             o.is_switch() ? "" : cat(" \\fI", roff(o.value), "\\fR"));
}

std::string examples(std::string_view lines) {
  if (lines.empty()) return "";
  return cat(".SH EXAMPLES\n.nf\n", roff(lines), "\n.fi\n");
}

constexpr std::pair<std::string_view, std::string_view> kExits[] = {
    {"0", "it worked"},
    {"1", "it ran, and a check did not hold"},
    {"2", "wrong arguments, or a name that is not there"},
    {"3", "the input cannot be used"},
    {"4", "out of a virtual device's memory"},
    {"5", "something outside failed: a file, the network"},
    {"130", "interrupted"},
};

constexpr std::pair<std::string_view, std::string_view> kEnvironment[] = {
    {"TRINE_INSTANCE", "the virtual instance, where --instance is not given"},
    {"NEURON_LOGICAL_NC_CONFIG", "physical cores in a logical core, where --lnc is not given"},
    {"NEURON_COMPILE_CACHE_URL", "where compiled programs are kept: a directory or s3://bucket/prefix"},
    {"NEURON_CC_FLAGS", "flags of the compiler; --no_cache turns the cache off"},
    {"TRINE_CACHE_BYTES", "how large the cache may become"},
    {"XDG_CONFIG_HOME", "trine/settings.json in it keeps what `trine use` chose (else ~/.config)"},
    {"VIRTUAL_ENV", "its Python runs the commands that are Python's, where the command was not installed beside one"},
    {"NO_COLOR", "no colours on a terminal"},
};

template <class Rows>
std::string listed(const Rows& rows) {
  std::string out;
  for (const auto& [name, meaning] : rows) out += row(cat("\\fB", roff(name), "\\fR"), meaning);
  return out;
}

}  // namespace

std::string man_page(const Command& command) {
  std::string out = head(cat("trine-", command.name), command.summary);
  out += cat(".SH SYNOPSIS\n\\fBtrine ", roff(command.name), "\\fR [\\fIOPTION\\fR...]",
             command.words.empty() ? "" : cat(" ", roff(command.words)), "\n");
  if (!command.details.empty()) out += cat(".SH DESCRIPTION\n", roff(command.details), "\n");
  out += ".SH OPTIONS\n";
  for (const Option& o : command.options) out += row(option_term(o), full_meaning(o));
  out += row(option_term(kHelp), kHelp.meaning);
  out += examples(command.examples);
  return out + ".SH SEE ALSO\n\\fBtrine\\fR(1), which lists exit codes and the environment\n";
}

std::string general_man_page() {
  std::string out = head("trine", "the Trainium stack on an ordinary machine");
  out += ".SH SYNOPSIS\n\\fBtrine\\fR \\fICOMMAND\\fR [\\fIOPTION\\fR...]\n.SH DESCRIPTION\n";
  out += roff(
      "Compiles programs of PyTorch, JAX, ONNX and NKI to NeuronCore instructions, and gives their values, time and "
      "cost\nwithout the chip. Reports go to stdout, everything else to stderr; every report has --json with a version "
      "field.\n");
  out += roff(cat(aliases_text(), " `trine help COMMAND` and trine-COMMAND(1) explain one.\n"));
  out += ".SH COMMANDS\n";
  for (const Command* c : commands()) out += row(cat("\\fBtrine\\-", roff(c->name), "\\fR(1)"), c->summary);
  out += cat(".SH EXIT STATUS\n", listed(kExits), ".SH ENVIRONMENT\n", listed(kEnvironment));
  std::vector<std::string> others;
  for (const Command* c : commands()) others.push_back(cat("\\fBtrine\\-", roff(c->name), "\\fR(1)"));
  return out + cat(".SH SEE ALSO\n", join(others, ",\n"), "\n");
}

std::vector<ManPage> man_pages() {
  std::vector<ManPage> out = {{"trine.1", general_man_page()}};
  for (const Command* c : commands()) {
    out.push_back({cat("trine-", c->name, ".1"), man_page(*c)});
    if (!c->alias.empty()) out.push_back({cat(c->alias, ".1"), cat(".so man1/trine-", c->name, ".1\n")});
  }
  return out;
}

}  // namespace trine::tools
