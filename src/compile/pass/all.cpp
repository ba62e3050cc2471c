// The rows of the four tables in one list; see all.h.
#include "compile/pass/all.h"

#include <algorithm>

#include "base/text.h"
#include "compile/device/pipeline.h"
#include "compile/graph/pipeline.h"
#include "compile/host/pipeline.h"
#include "compile/stream/pipeline.h"

namespace trine::compile {

namespace {

template <class State>
void add_rows(const Pipeline<State>& pipeline, std::vector<PassRow>& out) {
  for (const Pass<State>& p : pipeline.passes)
    out.push_back({pipeline.name, p.name, p.needs, p.leaves, p.form->name, p.help, p.is_stage});
}

std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> out = trine::split(text, ' ');
  std::erase_if(out, [](std::string_view word) { return word.empty(); });
  return out;
}

}  // namespace

std::vector<PassRow> all_passes() {
  std::vector<PassRow> out;
  add_rows(graph_pipeline(), out);
  add_rows(host_pipeline(), out);
  add_rows(device::device_pipeline(), out);
  add_rows(stream_pipeline(), out);
  return out;
}

Result<void> check_pass_name(std::string_view name) {
  std::vector<std::string> names = {"all"};
  for (const PassRow& row : all_passes()) names.emplace_back(row.name);
  if (std::find(names.begin(), names.end(), name) != names.end()) return {};
  const auto near = nearest(name, names);
  return fail(Code::not_found, cat("no pass is named ", name, near.empty() ? "" : cat("; near: ", join(near, ", ")),
                                   "; `trine compile --list-passes` lists them"));
}

Result<void> check_pass_order(std::span<const PassRow> rows, std::span<const std::string_view> pipelines) {
  std::vector<std::string_view> left;
  for (std::string_view pipeline : pipelines)
    for (const PassRow& row : rows) {
      if (row.pipeline != pipeline) continue;
      for (std::string_view need : words_of(row.needs))
        if (std::find(left.begin(), left.end(), need) == left.end())
          return fail(Code::internal, cat("pass ", row.name, " needs `", need, "`, which no pass before it leaves"));
      for (std::string_view word : words_of(row.leaves)) left.push_back(word);
    }
  return {};
}

}  // namespace trine::compile
