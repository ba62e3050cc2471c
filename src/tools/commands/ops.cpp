// trine ops: the ops a graph may have, as their rows say them; docs/ops.md is its --markdown.
#include <algorithm>

#include "base/text.h"
#include "ops/op.h"
#include "tools/cli.h"

namespace trine::tools {

namespace {

using Names = std::vector<std::string>;
using ops::Op;
using ops::OpKind;

constexpr std::string_view kKinds[] = {"elementwise", "shape",      "reduction", "contraction",
                                       "control",     "collective", "other"};
static_assert(std::size(kKinds) == size_t(OpKind::other) + 1);

// Whether the type rule takes scalars of this dtype; the attributes are such that they never stand in the way.
bool takes(const Op& op, Dtype dtype) {
  const ir::Attrs attrs{{"direction", "EQ"}, {"exponent_bits", int64_t{8}}, {"mantissa_bits", int64_t{7}}};
  const ir::Type type = ir::tensor_type(dtype, {}), flag = ir::tensor_type(Dtype::boolean, {});
  std::vector<ir::Type> inputs(size_t(op.arity), type);
  const ir::Type declared[] = {type};
  if (op.infer({inputs, attrs, {}, declared})) return true;
  inputs[0] = flag;
  return op.arity == 3 && op.infer({inputs, attrs, {}, declared});
}

// By kind where all of it is taken, else by name; empty where only the op's own page can say.
std::string dtypes_of(const Op& op) {
  if (op.kind == OpKind::shape) return "all";
  if (op.kind != OpKind::elementwise) return "";
  struct Class {
    std::string_view name;
    std::vector<DtypeKind> kinds;
  };
  const Class classes[] = {{"floats", {DtypeKind::floating}},
                           {"integers", {DtypeKind::signed_int, DtypeKind::unsigned_int}},
                           {"bool", {DtypeKind::boolean}},
                           {"complex", {DtypeKind::complex}}};
  Names out;
  size_t whole = 0;
  for (const Class& c : classes) {
    Names taken;
    size_t of = 0;
    for (const DtypeRow& r : kDtypes) {
      if (std::find(c.kinds.begin(), c.kinds.end(), r.kind) == c.kinds.end()) continue;
      ++of;
      if (takes(op, r.dtype)) taken.emplace_back(r.name);
    }
    if (taken.size() == of) taken = {std::string(c.name)}, ++whole;
    out.insert(out.end(), taken.begin(), taken.end());
  }
  return whole == std::size(classes) ? "all" : join(out, ", ");
}

std::string inputs_of(const Op& op) { return op.arity < 0 ? "any" : cat(op.arity); }

Names attrs_of(const Op& op) {
  Names names;
  for (std::string_view name : split(op.attrs, ' '))
    if (!name.empty()) names.emplace_back(name);
  return names;
}

// The comment of the op's file as one line, without the op's name before it.
std::string meaning_of(const Op& op) {
  std::string out;
  for (std::string_view line : split(op_summary(op), '\n')) append_text(out, cat(out.empty() ? "" : " ", trim(line)));
  const std::string head = cat(op.name, ": ");
  return std::string(trim(out.starts_with(head) ? out.substr(head.size()) : out));
}

std::string cell(std::string_view text) {
  std::string out;
  for (char c : text) append_text(out, c == '|' ? std::string("\\|") : std::string(1, c));
  return out;
}

std::string page_row(const Op& op) {
  Names attrs = attrs_of(op);
  for (std::string& a : attrs) a = cat("`", a, "`");
  return cat("| `", op.name, "` | ", inputs_of(op), " | ", join(attrs, ", "), " | ", dtypes_of(op), " | ",
             cell(meaning_of(op)), " |\n");
}

std::string page() {
  std::string out =
      "<!-- Written by `trine ops --markdown`; do not edit. -->\n"
      "# Ops\n\nWhat a graph may be made of: the ops of StableHLO and CHLO, and a few of our own. Each is one file of "
      "`src/ops/`, which holds its type rule and its reference meaning; the rules an op states are its C1, C2 ... "
      "Floats are f64, f32, f16, bf16 and those of 8 bits and fewer; integers are signed and unsigned of 2 to 64 "
      "bits.\n";
  const auto section = [&](std::string_view title, auto holds) {
    std::string rows;
    for (const Op* op : ops::all_ops())
      if (holds(*op)) append_text(rows, page_row(*op));
    if (!rows.empty())
      append_text(out, cat("\n## ", title, "\n\n| op | inputs | attributes | dtypes | meaning |\n",
                           "|---|---|---|---|---|\n", rows));
  };
  for (size_t kind = 0; kind < std::size(kKinds); ++kind)
    section(kKinds[kind], [&](const Op& op) { return size_t(op.kind) == kind && !op.is_internal; });
  section("internal: made by the compiler's passes, by no front-end", [](const Op& op) { return op.is_internal; });
  return out;
}

Json op_json(const Op& op) {
  Json attrs = Json::array();
  for (const std::string& a : attrs_of(op)) attrs.push(a);
  return Json::object()
      .set("name", std::string(op.name))
      .set("kind", std::string(kKinds[size_t(op.kind)]))
      .set("inputs", op.arity)
      .set("attributes", std::move(attrs))
      .set("dtypes", dtypes_of(op))
      .set("internal", op.is_internal)
      .set("meaning", meaning_of(op));
}

std::string op_text(const Op& op) {
  std::string out = cat(bold(op.name), "  ", kKinds[size_t(op.kind)], ", ", inputs_of(op), " inputs",
                        op.is_internal ? ", internal: made by the compiler alone\n" : "\n");
  if (!op.attrs.empty()) append_text(out, cat("attributes: ", join(attrs_of(op), ", "), "\n"));
  if (const std::string dtypes = dtypes_of(op); !dtypes.empty()) append_text(out, cat("dtypes: ", dtypes, "\n"));
  return out + meaning_of(op) + "\n";
}

std::string list_text() {
  std::vector<Names> rows = {{"op", "kind", "inputs", "attributes"}};
  for (const Op* op : ops::all_ops())
    rows.push_back(
        {std::string(op->name), std::string(kKinds[size_t(op->kind)]), inputs_of(*op), std::string(op->attrs)});
  return columns(rows, "0000") + "\n`trine ops NAME` explains one\n";
}

Result<Exit> run(const Args& args) {
  if (args.has("--markdown")) {
    print(page());
    return Exit::ok;
  }
  std::vector<const Op*> chosen;
  for (const std::string& word : args.words) {
    const Op* op = ops::find_op(word);
    if (!op) {
      Names names;
      for (const Op* o : ops::all_ops()) names.emplace_back(o->name);
      return fail(Code::not_found, cat("no op is named `", word, "`; nearest: ", join(nearest(word, names), ", ")));
    }
    chosen.push_back(op);
  }
  if (args.has("--json")) {
    Json list = Json::array();
    for (const Op* op : chosen.empty() ? std::vector<const Op*>(ops::all_ops().begin(), ops::all_ops().end()) : chosen)
      list.push(op_json(*op));
    print(report("ops").set("ops", std::move(list)).text(2) + "\n");
  } else if (chosen.empty()) {
    print(list_text());
  } else {
    for (size_t i = 0; i < chosen.size(); ++i) print((i ? "\n" : "") + op_text(*chosen[i]));
  }
  return Exit::ok;
}

constexpr Option kOptions[] = {kJson, {"--markdown", "", "", "the page docs/ops.md"}};

}  // namespace

extern const Command command_ops{
    .name = "ops",
    .summary = "the ops of graphs: inputs, attributes, dtypes, meaning",
    .words = "[NAME...]",
    .words_max = 64,
    .word = text_like(op_names),
    .examples =
        "trine ops pad\n"
        "trine ops --json",
    .options = kOptions,
    .run = run,
};

}  // namespace trine::tools
