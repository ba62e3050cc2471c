// The assembler: text to Program, line by line; see asm.h. A first pass finds the labels of each stream, so that a jump
// knows its target when it is written. Rules of the machine are program/verify.cpp's; here only names and text are
// judged.
#include "arch/asm/asm.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <limits>
#include <map>
#include <set>

#include "arch/asm/operand.h"
#include "arch/asm/tensor.h"
#include "arch/program/builder.h"
#include "arch/program/verify.h"
#include "arch/row.h"
#include "arch/sequencer.h"
#include "base/text.h"

namespace trine::arch {

namespace {

class Assembler {
 public:
  Assembler(std::string_view text, std::string_view file, bool mark_lines)
      : file_(file), lines_(split(text, '\n')), mark_lines_(mark_lines) {}

  Result<Program> run() {
    TRY(find_labels());
    for (size_t i = 0; i < lines_.size(); ++i) {
      Cursor c(lines_[i], file_, static_cast<uint32_t>(i + 1));
      if (c.at_end()) continue;
      TRY(line(c));
      if (!c.at_end()) return c.found_instead("the end of the line");
    }
    TRY(tensors_.resolve_aliases());
    Program program = b_.take();
    TRY(check(program));
    return program;
  }

 private:
  using Directive = Result<void> (Assembler::*)(Cursor&);
  static Directive directive(std::string_view word);
  static bool is_label(Cursor c);

  Result<void> check(const Program& program) const;
  Result<void> find_labels();
  Result<void> line(Cursor& c);
  Result<void> program_line(Cursor& c);
  Result<void> chip_line(Cursor& c);
  Result<void> producer_line(Cursor& c);
  Result<void> cores_line(Cursor& c);
  Result<void> tensor_line(Cursor& c) { return tensors_.tensor_line(c); }
  Result<void> const_line(Cursor& c) { return tensors_.const_line(c); }
  Result<void> stream_line(Cursor& c);

  Result<void> instruction(Cursor& c);
  Result<void> arguments(Cursor& c, Draft& d);
  Result<void> argument(Cursor& c, Draft& d, std::set<std::string_view>& given);
  Result<int64_t> attr_value(Cursor& c, const AttrSlot& slot);
  Result<int64_t> enum_value(Cursor& c, const AttrSlot& slot);
  Result<int64_t> list_value(Cursor& c);
  Result<int64_t> label_value(Cursor& c);
  Result<void> waits(Cursor& c, Draft& d);
  Result<void> updates(Cursor& c, Draft& d);
  Result<uint16_t> semaphore(Cursor& c);
  Result<void> source_line(Cursor& c, Draft& d);

  struct Label {
    uint32_t pc = 0, line = 0;
  };
  std::string_view file_;
  std::vector<std::string_view> lines_;
  bool mark_lines_;
  Builder b_;
  TensorReader tensors_{b_};
  std::vector<std::vector<std::pair<uint32_t, uint32_t>>> positions_;  // line:column of each instruction of each stream
  std::vector<std::map<std::string, Label, std::less<>>> labels_;      // of each `stream` line, in order
  size_t stream_lines_ = 0;
  bool in_stream_ = false;
  size_t stream_ = 0;
  int depth_ = 0;
};

// What is wrong with the program is said at the line that holds it.
Result<void> Assembler::check(const Program& program) const {
  const auto findings = check_structure(program);
  if (findings.empty()) return {};
  const Finding& first = findings[0];
  Error error = first.error;
  error.where = file_;
  if (first.stream >= 0) {
    const auto [line, column] = positions_[static_cast<size_t>(first.stream)][first.pc];
    error.where = cat(file_, ":", line, ":", column);
  }
  return error;
}

Assembler::Directive Assembler::directive(std::string_view word) {
  if (word == "program") return &Assembler::program_line;
  if (word == "chip") return &Assembler::chip_line;
  if (word == "producer") return &Assembler::producer_line;
  if (word == "cores") return &Assembler::cores_line;
  if (word == "tensor") return &Assembler::tensor_line;
  if (word == "const") return &Assembler::const_line;
  if (word == "stream") return &Assembler::stream_line;
  return nullptr;
}

bool Assembler::is_label(Cursor c) { return !c.word().empty() && c.take(":") && c.at_end(); }

Result<void> Assembler::find_labels() {
  uint32_t pc = 0;
  for (size_t i = 0; i < lines_.size(); ++i) {
    Cursor c(lines_[i], file_, static_cast<uint32_t>(i + 1));
    if (c.at_end()) continue;
    const auto word = c.peek_word();
    if (is_label(c)) {
      if (labels_.empty())
        return c.error_at(c.position(), Code::invalid, cat("label `", word, "` stands outside a stream"));
      const auto [it, fresh] = labels_.back().try_emplace(std::string(word), Label{pc, c.number()});
      if (!fresh)
        return c.error_at(c.position(), Code::invalid,
                          cat("label `", word, "` is already on line ", it->second.line, " of this stream"));
    } else if (word == "stream") {
      labels_.emplace_back();
      pc = 0;
    } else if (!directive(word)) {
      ++pc;
    }
  }
  return {};
}

Result<void> Assembler::line(Cursor& c) {
  if (is_label(c)) {
    c.word();
    c.take(":");
    return {};
  }
  if (const Directive d = directive(c.peek_word())) {
    c.word();
    return (this->*d)(c);
  }
  return instruction(c);
}

Result<void> Assembler::program_line(Cursor& c) {
  b_.program().name = TRY(c.text("the program's name"));
  return {};
}

Result<void> Assembler::chip_line(Cursor& c) {
  b_.program().chip = TRY(c.text("a chip's name"));
  return {};
}

Result<void> Assembler::producer_line(Cursor& c) {
  b_.program().producer = TRY(c.text("the producer's name"));
  return {};
}

Result<void> Assembler::cores_line(Cursor& c) {
  const size_t at = c.position();
  const int64_t n = TRY(c.integer("the number of cores"));
  if (n < 1 || n > 255) return c.error_at(at, Code::out_of_range, cat("found ", n, " cores, expected 1 to 255"));
  b_.program().cores = static_cast<uint8_t>(n);
  return {};
}

Result<void> Assembler::stream_line(Cursor& c) {
  const size_t at = c.position();
  int64_t core = 0;
  if (c.next_is_number()) {
    core = TRY(c.integer("a core"));
    TRY(c.expect(".", "between core and engine"));
    if (core < 0 || core > 255)
      return c.error_at(at, Code::out_of_range, cat("found core ", core, ", expected 0 to 255"));
  }
  const auto word = c.word();
  const auto engine = engine_by_name(word);
  if (!engine) {
    std::vector<std::string> names;
    for (int e = 0; e < kEngineCount; ++e) names.emplace_back(name(static_cast<Engine>(e)));
    return c.error_at(at, Code::not_found, cat("no engine is named `", word, "`; expected one of ", join(names, ", ")));
  }
  const size_t before = b_.program().streams.size();
  stream_ = b_.stream(static_cast<int>(core), *engine);
  if (stream_ < before)
    return c.error_at(at, Code::invalid, cat("core ", core, " already has a ", word, " stream above"));
  positions_.emplace_back();
  in_stream_ = true;
  depth_ = 0;
  ++stream_lines_;
  return {};
}

Result<void> Assembler::instruction(Cursor& c) {
  const size_t at = c.position();
  const auto word = c.word();
  if (word.empty()) return c.found_instead("an instruction, a label, `tensor`, `const` or `stream`");
  const RowInfo* info = row_by_name(word);
  if (!info) {
    const auto names = names_of(rows(), [](const RowInfo& r) { return r.row->name; });
    return c.error_at(at, Code::not_found, cat("no instruction is named `", word, "`", did_you_mean(word, names)));
  }
  if (!in_stream_)
    return c.error_at(at, Code::invalid, cat("`", word, "` stands outside a stream; write `stream ENGINE` first"));
  const uint16_t opcode = info->row->opcode;
  if (opcode == kOpEndLoop && --depth_ < 0)
    return c.error_at(at, Code::invalid, "`end_loop` without a `loop` above it");
  Draft d(*info);
  TRY(arguments(c, d));
  if (opcode == kOpLoop && ++depth_ > kLoopDepthMax)
    return c.error_at(at, Code::out_of_range,
                      cat("found a loop at depth ", depth_, ", expected at most ", kLoopDepthMax));
  if (mark_lines_ && !d.line) d.line = b_.line(file_, c.number());
  b_.emit(stream_, d);
  positions_[stream_].push_back({c.number(), static_cast<uint32_t>(at + 1)});
  return {};
}

// slot=operand attr=value … wait … then … at file:line; the three in any order, each once.
Result<void> Assembler::arguments(Cursor& c, Draft& d) {
  const size_t begin = c.position();
  std::set<std::string_view> given;
  while (!c.at_end()) {
    const size_t at = c.position();
    const auto word = c.word();
    const bool keyword = (word == "wait" || word == "then" || word == "at") && c.peek() != '=';
    if (!keyword) {
      c.go_to(at);
      TRY(argument(c, d, given));
      continue;
    }
    if (!given.insert(word).second) return c.error_at(at, Code::invalid, cat("found a second `", word, "`"));
    if (word == "wait")
      TRY(waits(c, d));
    else if (word == "then")
      TRY(updates(c, d));
    else
      TRY(source_line(c, d));
  }
  for (const OperandSlot& s : d.info->slots)
    if (!s.optional && !given.contains(s.name))
      return c.error_at(begin, Code::invalid, cat("operand `", s.name, "` of ", d.info->row->name, " is missing"));
  for (const AttrSlot& a : d.info->attrs)
    if (a.required && !given.contains(a.name))
      return c.error_at(begin, Code::invalid, cat("attribute `", a.name, "` of ", d.info->row->name, " is missing"));
  return {};
}

// name=value, or the next operand in order without its name.
Result<void> Assembler::argument(Cursor& c, Draft& d, std::set<std::string_view>& given) {
  const size_t at = c.position();
  const auto word = c.word();
  int slot = -1;
  if (!word.empty() && c.take("=")) {
    slot = d.info->slot(word);
    const int attr = d.info->attr(word);
    if (slot < 0 && attr < 0) {
      auto names = names_of(d.info->slots, [](const OperandSlot& s) { return s.name; });
      for (const AttrSlot& a : d.info->attrs) names.emplace_back(a.name);
      return c.error_at(at, Code::not_found,
                        cat(d.info->row->name, " has no operand or attribute `", word, "`", did_you_mean(word, names)));
    }
    if (!given.insert(word).second) return c.error_at(at, Code::invalid, cat("found a second `", word, "`"));
    if (slot < 0) {
      d.attrs[static_cast<size_t>(attr)] = TRY(attr_value(c, d.info->attrs[static_cast<size_t>(attr)]));
      return {};
    }
  } else {
    c.go_to(at);
    for (size_t i = 0; i < d.info->slots.size() && slot < 0; ++i)
      if (given.insert(d.info->slots[i].name).second) slot = static_cast<int>(i);
    if (slot < 0) return c.found_instead("an attribute, `wait`, `then`, `at` or the end of the line");
  }
  d.operands[static_cast<size_t>(slot)] = TRY(parse_operand(c, b_, depth_));
  return {};
}

Result<int64_t> Assembler::attr_value(Cursor& c, const AttrSlot& slot) {
  switch (slot.type) {
    case AttrType::integer:
      return c.integer(cat("an integer for `", slot.name, "`"));
    case AttrType::real:
      return std::bit_cast<int64_t>(immediate_operand(TRY(c.number(cat("a number for `", slot.name, "`")))).immediate);
    case AttrType::boolean: {
      const auto word = c.peek_word();
      if (word != "true" && word != "false") return c.found_instead(cat("true or false for `", slot.name, "`"));
      c.word();
      return int64_t{word == "true"};
    }
    case AttrType::enumeration:
      return enum_value(c, slot);
    case AttrType::ints:
      return list_value(c);
    case AttrType::string:
      return b_.string(TRY(c.text(cat("a string for `", slot.name, "`"))));
    case AttrType::label:
      return label_value(c);
  }
  return c.found_instead("an attribute of a known type");
}

Result<int64_t> Assembler::enum_value(Cursor& c, const AttrSlot& slot) {
  const size_t at = c.position();
  const auto word = c.word();
  if (word.empty()) return c.found_instead(cat("one of the ", slot.set->name, " names for `", slot.name, "`"));
  const auto& members = slot.set->members;
  for (size_t i = 0; i < members.size(); ++i)
    if (members[i] == word) return static_cast<int64_t>(i);
  const auto names = names_of(members, [](std::string_view m) { return m; });
  return c.error_at(at, Code::not_found,
                    cat("`", word, "` is no ", slot.set->name, " for `", slot.name, "`", did_you_mean(word, names)));
}

Result<int64_t> Assembler::list_value(Cursor& c) {
  TRY(c.expect("[", "and integers"));
  std::vector<int64_t> values;
  while (!c.take("]")) {
    if (!values.empty()) TRY(c.expect(",", "or `]`"));
    values.push_back(TRY(c.integer("an integer")));
  }
  return b_.list(values);
}

Result<int64_t> Assembler::label_value(Cursor& c) {
  const size_t at = c.position();
  const auto word = c.word();
  if (word.empty()) return c.found_instead("a label");
  const auto& labels = labels_[stream_lines_ - 1];
  if (const auto it = labels.find(word); it != labels.end()) return int64_t{it->second.pc};
  const auto names = names_of(labels, [](const auto& l) { return l.first; });
  return c.error_at(at, Code::not_found, cat("no label `", word, "` in this stream", did_you_mean(word, names)));
}

Result<uint16_t> Assembler::semaphore(Cursor& c) {
  const size_t at = c.position();
  const auto word = c.word();
  uint16_t n = 0;
  if (!is_register_name(word, 's')) return c.go_to(at), c.found_instead("a semaphore (s0…)");
  if (std::from_chars(word.data() + 1, word.data() + word.size(), n).ec != std::errc{})
    return c.error_at(at, Code::out_of_range, cat("found semaphore `", word, "`, expected at most s65535"));
  return n;
}

Result<void> Assembler::waits(Cursor& c, Draft& d) {
  do {
    Wait w;
    w.semaphore = TRY(semaphore(c));
    if (c.take("=="))
      w.op = WaitOp::eq;
    else if (!c.take(">="))
      return c.found_instead("`>=` or `==`");
    const size_t at = c.position();
    const Affine a = TRY(parse_affine(c, depth_));
    if (a.reg >= 0) return c.error_at(at, Code::unsupported, "a wait's value cannot hold a register");
    w.value = a.constant;
    w.steps = b_.steps(a.steps);
    if (d.waits.size() == 255) return c.error_at(at, Code::out_of_range, "found more than 255 waits");
    d.waits.push_back(w);
  } while (is_register_name(c.peek_word(), 's'));
  return {};
}

Result<void> Assembler::updates(Cursor& c, Draft& d) {
  do {
    Update u;
    u.semaphore = TRY(semaphore(c));
    if (c.take("+="))
      u.op = UpdateOp::add;
    else if (c.take("-="))
      u.op = UpdateOp::subtract;
    else if (c.take("="))
      u.op = UpdateOp::set;
    else
      return c.found_instead("`+=`, `-=` or `=`");
    u.value = TRY(c.integer("an integer"));
    if (d.updates.size() == 255) return c.found_instead("at most 255 updates");
    d.updates.push_back(u);
  } while (is_register_name(c.peek_word(), 's'));
  return {};
}

Result<void> Assembler::source_line(Cursor& c, Draft& d) {
  const std::string file = TRY(c.text("a file name"));
  TRY(c.expect(":", "between file and line"));
  const size_t at = c.position();
  const int64_t n = TRY(c.integer("a line number"));
  if (file.empty() || n < 0 || n > std::numeric_limits<uint32_t>::max())
    return c.error_at(at, Code::out_of_range, "expected a file name and a line number below 2^32");
  d.line = b_.line(file, static_cast<uint32_t>(n));
  return {};
}

}  // namespace

Result<Program> assemble(std::string_view text, std::string_view file_name, bool mark_lines) {
  if (trim(text).empty())
    return fail(Code::invalid, "found nothing; expected a program's text, as `trine asm` prints it",
                std::string(file_name));
  return Assembler(text, file_name, mark_lines).run();
}

}  // namespace trine::arch
