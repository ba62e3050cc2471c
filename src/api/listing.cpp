// Text of the two compiled forms; see listing.h.
#include "api/listing.h"

#include "arch/asm/asm.h"
#include "arch/plan/text.h"
#include "base/text.h"
#include "compile/aot/artifact.h"

namespace trine::api {

namespace {

template <class T>
std::string numbers(const std::vector<T>& all) {
  std::string out;
  for (const T& n : all) append_text(out, cat(" ", n));
  return out;
}

std::string layouts(std::string_view what, const std::vector<Dims>& all) {
  std::string out;
  for (size_t i = 0; i < all.size(); ++i)
    if (!all[i].empty()) append_text(out, cat(what, " ", i, " layout", numbers(all[i]), "\n"));
  return out;
}

std::string texts(std::string_view what, const std::vector<std::string>& all) {
  std::string out;
  for (size_t i = 0; i < all.size(); ++i)
    if (!all[i].empty()) append_text(out, cat(what, " ", i, " ", all[i], "\n"));
  return out;
}

}  // namespace

std::string listing(const Executable& e) {
  return cat(layouts("argument", e.layouts.params), layouts("result", e.layouts.results),
             texts("argument sharding", e.shardings.inputs), texts("result sharding", e.shardings.results),
             texts("result memory", e.output_kinds), arch::text(*e.plan));
}

std::string listing(const Compiled& compiled) {
  const compile::SplitProgram& split = compiled.split();
  std::string out =
      cat("inputs ", split.inputs, " results", numbers(split.results), "\ncollectives ", compiled.collectives(), "\n");
  for (const compile::HostOp& h : split.host)
    append_text(out, cat("on the host ", h.op, " ", h.type, ": ", h.reason, " at ", h.where, "\n"));
  for (const compile::DevicePart& part : split.parts) {
    append_text(out, cat("part reads", numbers(part.reads), " writes", numbers(part.writes), "\n"));
    if (part.on_host) {
      append_text(out, compile::graph_text(*part.host));
    } else {
      append_text(out, cat("loading ", compile::inputs_json(part.device.inputs).text(0), "\n"));
      append_text(out, arch::disassemble(part.device.program));
    }
  }
  return out;
}

}  // namespace trine::api
