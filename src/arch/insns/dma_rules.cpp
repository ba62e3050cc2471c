// Rules of the DMA rows: queues, descriptor generation, indirect rows, casts and shapes; see dma.h.
#include <algorithm>

#include "arch/insns/dma.h"
#include "base/text.h"

namespace trine::arch {

namespace {

Result<void> in_queue(const Chip& k, const Call& i) {
  const int64_t queue = i.attr("queue");
  if (queue >= 0 && queue < k.dma.rings) return {};
  return fail(Code::out_of_range, cat("queue=", queue, "; ", k.name, " has queues 0 to ", k.dma.rings - 1));
}

Result<void> in_class(const Chip& k, const Call& i) {
  const int64_t priority = i.attr("priority");
  if (priority < 0 || priority > 3)
    return fail(Code::out_of_range, cat("priority=", priority, "; classes are 0 (first) to 3"));
  if (priority && !k.has(Feature::dma_qos))
    return fail(Code::unsupported,
                cat("priority=", priority, "; ", k.name, " serves its queues in turn, so leave it out"));
  return {};
}

std::string_view issuer(const Call& i) { return name(i.engine); }

// Who may make the descriptors. `indirect`: some row address comes from an index tile.
Result<void> generation(const Chip& k, const Call& i, bool indirect) {
  const Dge dge = i.as<Dge>("dge");
  if (indirect) {
    if (!k.has(Feature::dma_indirect))
      return fail(Code::unsupported, cat("rows from an index tile are not on ", k.name, "; copy them one by one"));
    if (dge == Dge::hwdge || dge == Dge::none)
      return fail(Code::invalid, "rows from an index tile need dge=swdge; only GpSimd makes such descriptors");
    if (i.engine != Engine::gpsimd)
      return fail(Code::invalid, cat("rows from an index tile are issued from gpsimd, not ", issuer(i)));
    return {};
  }
  if (dge == Dge::hwdge && !k.has(Feature::hwdge))
    return fail(Code::unsupported, cat("dge=hwdge is not on ", k.name, "; use swdge from gpsimd, or none"));
  if (dge == Dge::hwdge && i.engine != Engine::scalar && i.engine != Engine::sync)
    return fail(Code::invalid, cat("dge=hwdge is driven by scalar or sync, not ", issuer(i)));
  if (dge == Dge::swdge && i.engine != Engine::gpsimd)
    return fail(Code::invalid, cat("dge=swdge is issued from gpsimd, not ", issuer(i)));
  return {};
}

bool is_indirect(const Tile& t) { return t.dynamic && t.dynamic->kind == DynamicKind::rows; }

// Indirect rows lie in HBM, one index each.
Result<void> rows_by_index(const Call& i, std::string_view slot) {
  const Tile t = i.tile(slot);
  if (t.dynamic && t.dynamic->kind == DynamicKind::free)
    return fail(Code::invalid, cat(slot, " gathers along its free dimension; a DMA gathers whole rows only"));
  if (!is_indirect(t)) return {};
  if (t.space != Space::hbm)
    return fail(Code::invalid, cat(slot, " lies in ", name(t.space), "; rows from an index tile lie in hbm"));
  const Tile index = base_tile(i.program, i.program.operands[t.dynamic->index]);
  if (index.space != Space::sbuf || !is_integer(index.dtype) || bits(index.dtype) > 32)
    return fail(Code::invalid, cat("the index tile of ", slot, " is ", row(index.dtype).name, " in ", name(index.space),
                                   "; 32-bit integers in sbuf are needed"));
  if (index.elements() < t.partitions)
    return fail(Code::invalid,
                cat("the index tile of ", slot, " has ", index.elements(), " entries for ", t.partitions, " rows"));
  return {};
}

Result<void> same_elements(const Call& i, std::string_view slot) {
  const Tile d = i.tile("dst"), s = i.tile(slot);
  if (d.elements() == s.elements()) return {};
  return fail(Code::invalid, cat("dst has ", d.elements(), " elements and ", slot, " has ", s.elements(),
                                 "; each needs its counterpart"));
}

Result<void> same_rows(const Call& i, std::string_view slot) {
  const Tile d = i.tile("dst"), s = i.tile(slot);
  if (d.partitions == s.partitions && d.row_elements == s.row_elements) return {};
  return fail(Code::invalid, cat("dst is ", d.partitions, " rows of ", d.row_elements, " and ", slot, " ", s.partitions,
                                 " of ", s.row_elements, "; they must be cut alike here"));
}

Result<void> castable(const Call& i, std::string_view slot) {
  const Dtype d = i.tile("dst").dtype, s = i.tile(slot).dtype;
  if (d == s) return {};
  if (is_packed(d) || is_packed(s))
    return fail(Code::invalid,
                cat("dst is ", row(d).name, " and ", slot, " ", row(s).name, "; MX carriers are copied, never cast"));
  return {};
}

std::string shape_text(int64_t first, int64_t middle, int64_t last) {
  return cat("[", first, ", ", middle, ", ", last, "]");
}

Result<void> transposed_shape(const Call& i) {
  const Tile d = i.tile("dst"), s = i.tile("src");
  const auto axes = i.list("axes");
  static constexpr int64_t kAxes2[] = {1, 0}, kAxes3[] = {2, 1, 0}, kAxes4[] = {3, 1, 2, 0};
  const bool known = axes.empty() || std::ranges::equal(axes, kAxes2) || std::ranges::equal(axes, kAxes3) ||
                     std::ranges::equal(axes, kAxes4);
  if (!known) return fail(Code::invalid, "axes is none of [1, 0], [2, 1, 0] and [3, 1, 2, 0]");
  if (s.row_elements % d.partitions || d.row_elements != s.elements() / d.partitions)
    return fail(Code::invalid,
                cat("dst is ", d.partitions, " by ", d.row_elements, " and src ", s.partitions, " by ", s.row_elements,
                    "; dst has src's last dimension as partitions and its first innermost"));
  const int64_t middle = s.row_elements / d.partitions;
  if (axes.size() == 2 && middle != 1)
    return fail(Code::invalid, cat("src is ", shape_text(s.partitions, middle, d.partitions), " but axes has two"));
  if (d.dtype != s.dtype || (s.element_bytes() != 2 && s.element_bytes() != 4))
    return fail(Code::invalid, cat("dst is ", row(d.dtype).name, " and src ", row(s.dtype).name,
                                   "; a transpose moves 2- or 4-byte elements of one dtype"));
  return {};
}

// The hardware block transposes 16 rows of 2-byte elements at a time.
Result<void> transposable_by_hardware(const Call& i) {
  const Tile s = i.tile("src"), d = i.tile("dst");
  const int64_t middle = s.row_elements / d.partitions;
  const int rank = s.pattern->rank;
  const int64_t second_last = rank >= 2 ? s.pattern->dims[static_cast<size_t>(rank - 2)].count : middle;
  if (s.element_bytes() != 2)
    return fail(Code::invalid, cat("src is ", row(s.dtype).name, "; dge=hwdge transposes 2-byte elements"));
  if (d.partitions > 128) return fail(Code::invalid, cat("src's last dimension is ", d.partitions, "; at most 128"));
  const int p = s.partitions;
  const bool fits = middle == 1 && i.list("axes").size() <= 2
                        ? p == 16
                        : (p == 1 || p == 2 || p == 4 || p == 8 || p == 16) && p * second_last % 16 == 0;
  if (!fits)
    return fail(Code::invalid,
                cat("src is ", shape_text(p, middle, d.partitions),
                    "; dge=hwdge needs a first dimension of 16, or a divisor of it that makes 16 with the "
                    "second last one"));
  return {};
}

Result<void> transposable_by_index(const Call& i) {
  const Tile s = i.tile("src"), d = i.tile("dst");
  const Tile index = base_tile(i.program, i.program.operands[s.dynamic->index]);
  if (s.element_bytes() != 2)
    return fail(Code::invalid, cat("src is ", row(s.dtype).name, "; gathered rows are transposed as 2-byte elements"));
  if (d.partitions > 128) return fail(Code::invalid, cat("src's last dimension is ", d.partitions, "; at most 128"));
  if (s.partitions % 16)
    return fail(Code::invalid, cat("src has ", s.partitions, " rows; gathered rows come in multiples of 16"));
  if (index.dtype != Dtype::u32)
    return fail(Code::invalid, cat("the index tile is ", row(index.dtype).name, "; u32 is needed"));
  const bool shaped = index.row_elements > 1 ? index.partitions == 128 : index.partitions % 16 == 0;
  if (!shaped)
    return fail(Code::invalid, cat("the index tile is ", index.partitions, " by ", index.row_elements,
                                   "; it has a multiple of 16 partitions, and 128 when it has several columns"));
  return {};
}

}  // namespace

Cost trigger_cycles(const Chip& k, const Call&) { return {.cycles = static_cast<int64_t>(k.sequencer.control_cycles)}; }

Result<void> copy_check(const Chip& k, const Call& i) {
  const Tile d = i.tile("dst"), s = i.tile("src");
  TRY(in_queue(k, i));
  TRY(in_class(k, i));
  TRY(rows_by_index(i, "src"));
  TRY(rows_by_index(i, "dst"));
  const bool indirect = is_indirect(s) || is_indirect(d);
  TRY(generation(k, i, indirect));
  TRY(indirect ? same_rows(i, "src") : same_elements(i, "src"));
  TRY(castable(i, "src"));
  if (i.as<Dge>("dge") == Dge::hwdge && d.dtype != s.dtype)
    return fail(Code::invalid, cat("dst is ", row(d.dtype).name, " and src ", row(s.dtype).name,
                                   "; dge=hwdge never casts, so use another mode or one dtype"));
  return {};
}

Result<void> transpose_transfer_check(const Chip& k, const Call& i) {
  TRY(in_queue(k, i));
  TRY(in_class(k, i));
  TRY(rows_by_index(i, "src"));
  if (i.tile("dst").dynamic) return fail(Code::invalid, "dst takes its rows from an index tile; only src may here");
  const bool indirect = is_indirect(i.tile("src"));
  if (indirect && !k.has(Feature::hwdge))
    return fail(Code::unsupported, cat("a transpose of rows from an index tile is not on ", k.name,
                                       "; gather the rows first and transpose them on the tensor engine"));
  TRY(generation(k, i, indirect));
  TRY(transposed_shape(i));
  if (indirect) return transposable_by_index(i);
  const Dge dge = i.as<Dge>("dge");
  if (dge == Dge::swdge || dge == Dge::none)
    return fail(Code::invalid, "a transpose without an index tile takes dge=unknown or dge=hwdge");
  return dge == Dge::hwdge ? transposable_by_hardware(i) : Result<void>{};
}

Result<void> compute_check(const Chip& k, const Call& i) {
  TRY(in_queue(k, i));
  TRY(in_class(k, i));
  TRY(rows_by_index(i, "dst"));
  bool indirect = is_indirect(i.tile("dst")), scaled = false;
  int sources = 0;
  for (int s = 0; s < kComputeSources; ++s) {
    const std::string_view slot = kSourceNames[static_cast<size_t>(s)];
    if (!i.has(slot)) continue;
    ++sources;
    TRY(rows_by_index(i, slot));
    TRY(same_rows(i, slot));
    TRY(castable(i, slot));
    if (is_packed(i.tile(slot).dtype))
      return fail(Code::invalid,
                  cat(slot, " is ", row(i.tile(slot).dtype).name, "; DMA does no arithmetic on MX carriers"));
    indirect |= is_indirect(i.tile(slot));
    scaled |= i.real(kScaleNames[static_cast<size_t>(s)]) != 1;
  }
  const Alu op = i.as<Alu>("op");
  if (op != Alu::add && op != Alu::max && op != Alu::min)
    return fail(Code::invalid, cat("op=", name(op), "; DMA combines by add, max or min"));
  TRY(generation(k, i, indirect));
  const Dge dge = i.as<Dge>("dge");
  if (!indirect && dge != Dge::none && dge != Dge::unknown)
    return fail(Code::invalid, "dma_compute without an index tile has prebuilt descriptors: dge=none or dge=unknown");
  if (indirect && (sources != 2 || scaled))
    return fail(Code::invalid, cat("rows from an index tile are combined with one other source, unscaled; found ",
                                   sources, " sources", scaled ? " with scales" : ""));
  return {};
}

Result<void> trigger_check(const Chip& k, const Call& i) {
  TRY(in_queue(k, i));
  const Tile d = i.tile("dst"), s = i.tile("src");
  if (i.operand("dst").dynamic || i.operand("src").dynamic)
    return fail(Code::invalid, "prebuilt descriptors have fixed addresses; use dma_copy for an address from data");
  TRY(same_elements(i, "src"));
  if (d.dtype == s.dtype) return {};
  return fail(Code::invalid, cat("dst is ", row(d.dtype).name, " and src ", row(s.dtype).name,
                                 "; a prebuilt ring copies bits, so use one dtype"));
}

}  // namespace trine::arch
