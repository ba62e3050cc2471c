// The collectives over shared memory. Work is cut into runs of contiguous bytes or elements, in parallel.
#include "run/devices/collective.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "base/pool.h"
#include "base/text.h"
#include "run/devices/combine.h"

namespace trine::run {

using arch::CollectiveKind;
using arch::CollectiveStep;

namespace {

// A tensor seen as [outer, dim, inner] around one dimension; sizes of `inner` in bytes.
struct Around {
  int64_t outer = 1, dim = 1, inner_bytes = 1;
};
Around around(const TensorView& view, int64_t dim) {
  Around out;
  for (int64_t i = 0; i < int64_t(view.dims.size()); ++i)
    (i < dim ? out.outer : i == dim ? out.dim : out.inner_bytes) *= view.dims[size_t(i)];
  out.inner_bytes *= trine::bytes(view.dtype);
  return out;
}

// Reduces elements of input i and hands each finished run to `put(element, stored values, count)`; `where(element)` is
// its Run.
Result<void> reduce(const CollectiveStep& step, std::span<const Member> members, size_t i, const SumOrder& order,
                    const WhereIs& where, const Put& put) {
  const auto how = fold_by_name(step.reduction);
  if (!how) return fail(Code::unsupported, cat("a collective that reduces by \"", step.reduction, "\""));
  const TensorView& like = members[0].in[i];
  std::vector<const std::byte*> inputs;
  for (const Member& m : members) inputs.push_back(m.in[i].as<const std::byte>());
  parallel_for(like.elements(), kSumElements, [&](int64_t begin, int64_t end) {
    combine(like.dtype, {.how = *how, .scale = 1, .divisor = 1}, inputs, order, {begin, end}, where, put);
  });
  return {};
}

std::shared_ptr<const SumOrder> order_of(const CollectiveStep& step, std::span<const Member> members, size_t i,
                                         const Sums& sums) {
  if (!sums.orders) return std::make_shared<const SumOrder>(members_in_order(int64_t(members.size())));
  const auto kind =
      step.kind == CollectiveKind::all_reduce ? comm::Collective::all_reduce : comm::Collective::reduce_scatter;
  return sums.orders->find(kind, sums.places, int64_t(members[0].in[i].bytes()));
}

Result<void> all_reduce(const CollectiveStep& step, std::span<const Member> members, const Sums& sums) {
  for (size_t i = 0; i < members[0].in.size(); ++i) {
    const int64_t size = trine::bytes(members[0].in[i].dtype), elements = members[0].in[i].elements();
    const auto order = order_of(step, members, i, sums);
    const auto where = [&](int64_t at) { return run_at(at, elements, order->parts()); };
    TRY(reduce(step, members, i, *order, where, [&](int64_t at, const std::byte* values, int64_t count) {
      for (const Member& m : members)
        if (!m.out.empty()) std::memmove(m.out[i].as<std::byte>() + at * size, values, size_t(count * size));
    }));
  }
  return {};
}

// Member j gets part j of the result, cut along `dim`.
Result<void> reduce_scatter(const CollectiveStep& step, std::span<const Member> members, const Sums& sums) {
  const int64_t count_of_members = int64_t(members.size());
  for (size_t i = 0; i < members[0].in.size(); ++i) {
    const int64_t size = trine::bytes(members[0].in[i].dtype), elements = members[0].in[i].elements();
    const Around whole = around(members[0].in[i], step.dim);
    const int64_t row = whole.dim * whole.inner_bytes / size, part = row / count_of_members;  // elements
    const auto order = order_of(step, members, i, sums);
    const auto where = [&](int64_t at) {
      const int64_t member = at % row / part, inside = at % row % part;
      if (order->parts() < count_of_members) return Run{0, part - inside};
      const int64_t subs = order->parts() / count_of_members;
      Run run = run_at(at / row * part + inside, elements / count_of_members, subs);
      return Run{member * subs + run.piece, std::min(run.count, part - inside)};
    };
    TRY(reduce(step, members, i, *order, where, [&](int64_t at, const std::byte* values, int64_t count) {
      const int64_t member = at % row / part, to = at / row * part + at % row % part;
      if (members[size_t(member)].out.empty()) return;
      std::memcpy(members[size_t(member)].out[i].as<std::byte>() + to * size, values, size_t(count * size));
    }));
  }
  return {};
}

Result<void> all_gather(const CollectiveStep& step, std::span<const Member> members, const Sums&) {
  for (size_t i = 0; i < members[0].in.size(); ++i) {
    const Around part = around(members[0].in[i], step.dim);
    const int64_t run = part.dim * part.inner_bytes, row = run * int64_t(members.size());
    const auto copy_part = [&](int64_t which) {
      const size_t from = size_t(which) % members.size(), to = size_t(which) / members.size();
      if (members[to].out.empty()) return;
      const std::byte* in = members[from].in[i].as<const std::byte>();
      std::byte* out = members[to].out[i].as<std::byte>() + int64_t(from) * run;
      for (int64_t o = 0; o < part.outer; ++o) std::memcpy(out + o * row, in + o * run, size_t(run));
    };
    parallel_for(int64_t(members.size() * members.size()), 1, [&](int64_t begin, int64_t end) {
      for (int64_t which = begin; which < end; ++which) copy_part(which);
    });
  }
  return {};
}

// Part j of member i, cut along `dim`, becomes part i of member j, joined along `other_dim`.
void move_part(const TensorView& in, const TensorView& out, int64_t dim, int64_t other_dim, int64_t from, int64_t to,
               int64_t count) {
  const size_t element = size_t(trine::bytes(in.dtype));
  const Dims in_strides = row_major_strides(in.dims), out_strides = row_major_strides(out.dims);
  Dims part = in.dims;
  part[size_t(dim)] /= count;
  const std::byte* src = in.as<const std::byte>() + size_t(to * part[size_t(dim)] * in_strides[size_t(dim)]) * element;
  std::byte* dst = out.as<std::byte>() + size_t(from * in.dims[size_t(other_dim)] / (dim == other_dim ? count : 1) *
                                                out_strides[size_t(other_dim)]) *
                                             element;
  Dims at(part.size(), 0);
  const int64_t inner = part.empty() ? 1 : part.back(), rows = inner == 0 ? 0 : element_count(part) / inner;
  for (int64_t r = 0; r < rows; ++r) {
    int64_t a = 0, b = 0;
    for (size_t d = 0; d + 1 < part.size(); ++d) a += at[d] * in_strides[d], b += at[d] * out_strides[d];
    std::memcpy(dst + size_t(b) * element, src + size_t(a) * element, size_t(inner) * element);
    for (size_t d = part.size() - 1; d-- > 0;) {
      if (++at[d] < part[d]) break;
      at[d] = 0;
    }
  }
}

Result<void> all_to_all(const CollectiveStep& step, std::span<const Member> members, const Sums&) {
  const int64_t count = int64_t(members.size());
  for (size_t i = 0; i < members[0].in.size(); ++i)
    parallel_for(count * count, 1, [&](int64_t begin, int64_t end) {
      for (int64_t which = begin; which < end; ++which) {
        const Member &from = members[size_t(which / count)], &to = members[size_t(which % count)];
        if (!to.out.empty())
          move_part(from.in[i], to.out[i], step.dim, step.other_dim, which / count, which % count, count);
      }
    });
  return {};
}

void copy_values(const Member& from, const Member& to) {
  for (size_t i = 0; i < to.out.size(); ++i) std::memcpy(to.out[i].data, from.in[i].data, to.out[i].bytes());
}

// Nobody's target gets zeros.
Result<void> permute(const CollectiveStep& step, std::span<const Member> members, const Sums&) {
  for (const Member& to : members) {
    const auto pair =
        std::find_if(step.pairs.begin(), step.pairs.end(), [&](const auto& p) { return p.second == to.id; });
    const auto from = pair == step.pairs.end() ? members.end()
                                               : std::find_if(members.begin(), members.end(),
                                                              [&](const Member& m) { return m.id == pair->first; });
    if (from != members.end()) {
      copy_values(*from, to);
    } else {
      for (const TensorView& out : to.out) std::memset(out.data, 0, out.bytes());
    }
  }
  return {};
}

Result<void> broadcast(const CollectiveStep&, std::span<const Member> members, const Sums&) {
  for (const Member& to : members) copy_values(members[0], to);
  return {};
}

// Types are the verifier's business; sizes against the number of members are known only here.
Result<void> check_sizes(const CollectiveStep& step, std::span<const Member> members) {
  const int64_t count = int64_t(members.size());
  for (const Member& m : members) {
    for (size_t i = 0; i < m.out.size(); ++i) {
      const int64_t in = int64_t(m.in[i].bytes()), out = int64_t(m.out[i].bytes());
      const bool has_dim = step.dim >= 0 && step.dim < int64_t(m.in[i].dims.size());
      const int64_t dim = has_dim ? m.in[i].dims[size_t(step.dim)] : 0;
      bool fits = m.in[i].dims == members[0].in[i].dims && in == out;
      if (step.kind == CollectiveKind::all_gather) fits = has_dim && out == in * count;
      if (step.kind == CollectiveKind::reduce_scatter) fits = has_dim && dim % count == 0 && out * count == in;
      if (step.kind == CollectiveKind::all_to_all)
        fits = fits && step.split_count == count && dim % count == 0 && step.other_dim >= 0 &&
               step.other_dim < int64_t(m.in[i].dims.size());
      if (!fits)
        return fail(Code::invalid,
                    cat("a collective among ", count, " devices takes ", shape_text(m.in[i].dtype, m.in[i].dims),
                        " to ", shape_text(m.out[i].dtype, m.out[i].dims), ", which does not fit"));
    }
  }
  return {};
}

}  // namespace

Result<void> run_collective(const CollectiveStep& step, std::span<const Member> members, const Sums& sums) {
  TRY(check_sizes(step, members));
  static constexpr std::pair<CollectiveKind,
                             Result<void> (*)(const CollectiveStep&, std::span<const Member>, const Sums&)>
      kKinds[] = {{CollectiveKind::all_reduce, all_reduce},
                  {CollectiveKind::all_gather, all_gather},
                  {CollectiveKind::reduce_scatter, reduce_scatter},
                  {CollectiveKind::all_to_all, all_to_all},
                  {CollectiveKind::permute, permute},
                  {CollectiveKind::broadcast, broadcast}};
  for (auto [kind, run] : kKinds)
    if (kind == step.kind) return run(step, members, sums);
  return fail(Code::internal, "not a collective of several devices");
}

}  // namespace trine::run
