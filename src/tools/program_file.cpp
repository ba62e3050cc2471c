// See program_file.h.
#include "tools/program_file.h"

#include <iostream>
#include <iterator>

#include "arch/program/container.h"
#include "arch/program/verify.h"
#include "base/text.h"

namespace trine::tools {

Result<arch::Program> load_program(const std::string& path) {
  if (path != "-") return arch::load_program(path);
  const std::string text(std::istreambuf_iterator<char>(std::cin), {});
  return arch::parse_any(std::as_bytes(std::span(text)), "stdin");
}

Result<Exit> report_findings(const arch::Program& program, const arch::Chip& chip) {
  const auto findings = arch::verify(program, chip);
  if (findings.empty()) return Exit::ok;
  for (const auto& f : findings) note(cat("error: ", f.error.text()));
  const bool more = findings.size() >= arch::kFindingsMax;
  note(cat("trine: ", findings.size(), more ? " or more" : "", findings.size() == 1 ? " finding" : " findings",
           " against ", chip.name));
  return exit_of(findings[0].error.code);
}

}  // namespace trine::tools
