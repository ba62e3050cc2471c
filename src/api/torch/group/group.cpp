// From c10d's calls to operations of run/transport; see group.h.
#include "api/torch/group/group.h"

#include <numeric>

#include "api/machine.h"
#include "api/torch/backend.h"
#include "api/torch/group/group_host.h"
#include "api/torch/types.h"
#include "base/text.h"

namespace trine::api::neuron {

using run::CollectiveOp;
using run::Fold;
using run::Operation;
using std::chrono::milliseconds;

namespace {

// Those that rows compute in, and those that only travel and are summed.
std::optional<Dtype> carried_type(at::ScalarType dtype) {
  static constexpr std::pair<Dtype, at::ScalarType> kMore[] = {{Dtype::f8e4m3fn, at::kFloat8_e4m3fn},
                                                               {Dtype::f8e5m2, at::kFloat8_e5m2},
                                                               {Dtype::f8e4m3fnuz, at::kFloat8_e4m3fnuz},
                                                               {Dtype::f8e5m2fnuz, at::kFloat8_e5m2fnuz},
                                                               {Dtype::f8e8m0, at::kFloat8_e8m0fnu},
                                                               {Dtype::u16, at::kUInt16},
                                                               {Dtype::u32, at::kUInt32},
                                                               {Dtype::u64, at::kUInt64}};
  for (const auto& [ours, theirs] : kMore)
    if (theirs == dtype) return ours;
  return our_type(dtype);
}

run::Bytes bytes_of(const at::Tensor& tensor) {
  return {static_cast<std::byte*>(tensor.data_ptr()), size_t(tensor.nbytes())};
}

int64_t nbytes(const at::Tensor& tensor) { return int64_t(tensor.nbytes()); }

const at::Tensor& only(const std::vector<at::Tensor>& tensors) {
  TORCH_CHECK(tensors.size() == 1, "a collective of ", tensors.size(), " tensors on one rank; expected one");
  return tensors[0];
}

double scale_of(const c10d::ReduceOp& op) {
  const auto* supplement = reinterpret_cast<const c10d::PreMulSumSupplement*>(op.supplement_.get());
  TORCH_CHECK(supplement, "PREMUL_SUM without its factor");
  return supplement->tensor_factor.defined() ? supplement->tensor_factor.item<double>() : supplement->double_factor;
}

run::Combine combine_of(const c10d::ReduceOp& op, Dtype dtype, int size) {
  using Op = c10d::ReduceOp;
  static constexpr std::pair<Op::RedOpType, Fold> kFolds[] = {
      {Op::SUM, Fold::add},          {Op::AVG, Fold::add},        {Op::PREMUL_SUM, Fold::add},
      {Op::PRODUCT, Fold::multiply}, {Op::MIN, Fold::minimum},    {Op::MAX, Fold::maximum},
      {Op::BAND, Fold::logical_and}, {Op::BOR, Fold::logical_or}, {Op::BXOR, Fold::logical_xor}};
  for (const auto& [theirs, how] : kFolds) {
    if (theirs != op.op_) continue;
    TORCH_CHECK(run::can_fold(how, dtype), "a reduction by ", std::string(run::name(how)), " of ",
                std::string(row(dtype).name), "; expected whole numbers or booleans");
    return {.how = how, .scale = theirs == Op::PREMUL_SUM ? scale_of(op) : 1, .divisor = theirs == Op::AVG ? size : 1};
  }
  TORCH_CHECK(false, "an unknown reduction, number ", int(op.op_));
}

class StoreBoard : public run::Board {
 public:
  // A group may be made again in the same store: each time its texts have another number.
  StoreBoard(const c10::intrusive_ptr<c10d::Store>& store, int size)
      : store_(store), time_((store->add("trine/joined", 1) - 1) / size) {}
  Result<void> put(const std::string& key, const std::string& text) override {
    store_->set(full(key), std::vector<uint8_t>(text.begin(), text.end()));
    return {};
  }
  Result<std::string> get(const std::string& key, int timeout_ms) override {
    store_->wait({full(key)}, milliseconds(timeout_ms));
    const std::vector<uint8_t> text = store_->get(full(key));
    return std::string(text.begin(), text.end());
  }

 private:
  std::string full(const std::string& key) const { return cat("trine/", time_, "/", key); }

  c10::intrusive_ptr<c10d::Store> store_;
  const int64_t time_;
};

}  // namespace

// One call's operations and the tensors they use.
class GroupBackend::Builder {
 public:
  Builder(int rank, int size, milliseconds timeout)
      : rank_(rank), size_(size), timeout_(timeout), line_(python_line()) {}

  Operation& add(CollectiveOp op, const at::Tensor& like, int64_t root = 0) {
    Operation& out = job_.operations.emplace_back();
    out.op = op;
    out.dtype = carried_type(like.scalar_type()).value_or(Dtype::u8);
    out.root = int(root);
    out.dims.assign(like.sizes().begin(), like.sizes().end());
    out.line = line_;
    out.timeout = timeout_;
    TORCH_CHECK(root >= 0 && root < size_, "root ", root, " of a group of ", size_, " ranks");
    return out;
  }

  // The reduction by `op` of what `input` brings.
  Operation& add_reduction(CollectiveOp kind, const at::Tensor& like, const c10d::ReduceOp& op, int64_t root = 0) {
    const auto dtype = carried_type(like.scalar_type());
    TORCH_CHECK(dtype, "a reduction of ", like.scalar_type(), "; expected numbers or booleans");
    Operation& out = add(kind, like, root);
    out.combine = combine_of(op, *dtype, size_);
    return out;
  }

  void read(Operation& operation, const at::Tensor& tensor) { operation.in.push_back(bytes_of(contiguous(tensor))); }

  // What is read, dense: tasks may still write it, then it is copied after them.
  at::Tensor contiguous(const at::Tensor& tensor) {
    const at::Tensor source = hold(dense(tensor, Use::read));
    if (job_.operands.empty() || source.is_contiguous()) return hold(source.contiguous());
    const at::Tensor flat = hold(at::empty(source.sizes(), source.options()));
    job_.before.push_back([source, flat] { flat.copy_(source); });
    return flat;
  }

  void write(Operation& operation, const at::Tensor& tensor) {
    const at::Tensor target = hold(dense(tensor, Use::write));
    if (target.is_contiguous()) return operation.out.push_back(bytes_of(target));
    const at::Tensor flat = hold(at::empty(target.sizes(), target.options()));
    operation.out.push_back(bytes_of(flat));
    job_.after.push_back([target, flat] { target.copy_(flat); });
  }

  void gather(const std::vector<at::Tensor>& outputs, const at::Tensor& input, CollectiveOp op, int64_t root) {
    Operation& operation = add(op, input, root);
    operation.to.assign(size_t(size_), op == CollectiveOp::all_gather ? nbytes(input) : 0);
    if (op == CollectiveOp::gather) operation.to[size_t(root)] = nbytes(input);
    operation.from.assign(size_t(size_), 0);
    read(operation, input);
    if (op == CollectiveOp::gather && rank_ != root) return;
    TORCH_CHECK(int(outputs.size()) == size_, op_name(op), " into ", outputs.size(),
                " tensors; expected one for each of ", size_, " ranks");
    for (int r = 0; r < size_; ++r) {
      check_type(outputs[size_t(r)], input);
      operation.from[size_t(r)] = nbytes(outputs[size_t(r)]);
      write(operation, outputs[size_t(r)]);
    }
  }

  void gather_into(const at::Tensor& output, const at::Tensor& input) {
    check_type(output, input);
    TORCH_CHECK(output.numel() == input.numel() * size_, "all_gather of ", input.numel(), " elements from each of ",
                size_, " ranks into ", output.numel());
    Operation& operation = add(CollectiveOp::all_gather, input);
    operation.to.assign(size_t(size_), nbytes(input));
    operation.from = operation.to;
    read(operation, input);
    write(operation, output);
  }

  void scatter_sums(const at::Tensor& output, const std::vector<at::Tensor>& inputs, const c10d::ReduceOp& op) {
    TORCH_CHECK(int(inputs.size()) == size_, "reduce_scatter of ", inputs.size(), " tensors; expected one for each of ",
                size_, " ranks");
    Operation& operation = add_reduction(CollectiveOp::reduce_scatter, inputs[0], op);
    for (const at::Tensor& t : inputs) {
      check_type(t, output);
      operation.to.push_back(nbytes(t));
      read(operation, t);
    }
    TORCH_CHECK(nbytes(output) == operation.to[size_t(rank_)], "reduce_scatter into ", output.numel(),
                " elements; expected the ", inputs[size_t(rank_)].numel(), " of this rank's part");
    write(operation, output);
  }

  void scatter_sums(const at::Tensor& output, const at::Tensor& input, const c10d::ReduceOp& op) {
    check_type(output, input);
    TORCH_CHECK(output.numel() * size_ == input.numel(), "reduce_scatter of ", input.numel(), " elements among ", size_,
                " ranks into ", output.numel());
    Operation& operation = add_reduction(CollectiveOp::reduce_scatter, input, op);
    operation.to.assign(size_t(size_), nbytes(output));
    read(operation, input);
    write(operation, output);
  }

  static void check_type(const at::Tensor& a, const at::Tensor& b) {
    TORCH_CHECK(a.scalar_type() == b.scalar_type(), "a collective from ", b.scalar_type(), " to ", a.scalar_type(),
                "; expected one type");
  }
  static std::string op_name(CollectiveOp op) { return std::string(run::name(op)); }

  GroupJob take() {
    job_.ready = moments_before(job_.operands);
    job_.memories = memories_of(job_.operands);
    return std::move(job_);
  }
  const std::string& line() const { return line_; }
  int size() const { return size_; }

  at::Tensor hold(at::Tensor tensor) { return job_.held.emplace_back(std::move(tensor)); }
  // The tensor's memory under the CPU's name.
  at::Tensor dense(const at::Tensor& tensor, Use use) {
    TORCH_CHECK(tensor.layout() == at::kStrided, "a collective of a ", tensor.layout(),
                " tensor; expected a dense one");
    hold(tensor);
    if (!is_ours(tensor)) return tensor.detach();
    if (!is_beside(tensor.device())) return as_cpu(tensor, use);
    job_.operands.push_back({tensor, use});
    return alias_of(tensor);
  }

 private:
  const int rank_, size_;
  const milliseconds timeout_;
  const std::string line_;
  GroupJob job_ = {};
};

c10::intrusive_ptr<GroupBackend> GroupBackend::make(const std::string& name,
                                                    const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                                                    milliseconds timeout, std::vector<int> numbers) {
  auto machine = choose_machine({});
  if (!machine) throw_group_error(machine.error());
  if (numbers.empty()) {
    numbers.resize(size_t(size));
    std::iota(numbers.begin(), numbers.end(), 0);
  }
  const auto machine_held = std::make_shared<Machine>(std::move(*machine));  // the instance's chip may be its own
  const auto address = host_address();
  if (!address) throw_group_error(address.error());
  StoreBoard board(store, size);
  auto group = run::RankGroup::make(board, {.rank = rank,
                                            .numbers = std::move(numbers),
                                            .timeout = timeout,
                                            .instance = {machine_held, &machine_held->instance},
                                            .lnc = machine_held->lnc,
                                            .host = host_name(),
                                            .address = *address});
  if (!group) throw_group_error(group.error());
  return c10::make_intrusive<GroupBackend>(name, std::move(*group), timeout);
}

GroupBackend::GroupBackend(std::string name, std::unique_ptr<run::RankGroup> group, milliseconds timeout)
    : Backend(group->rank(), group->ranks()),
      name_(std::move(name)),
      timeout_(timeout),
      group_(std::move(group)),
      queue_(std::make_unique<GroupQueue>(*group_)) {}

GroupBackend::~GroupBackend() {
  without_python([&] {  // which their threads may wait for
    wait_for({posted_});
    queue_.reset();
    group_.reset();
  });
}

c10::intrusive_ptr<c10d::Backend::Options> GroupBackend::getBackendOptions() {
  return c10::make_intrusive<Options>(name_, timeout_);
}

milliseconds GroupBackend::timeout_or(milliseconds given) const { return given.count() > 0 ? given : timeout_; }

GroupBackend::WorkPtr GroupBackend::submit(Builder builder, c10d::OpType type, Tensors results, bool is_async) {
  ++number_;
  auto work = c10::make_intrusive<GroupWork>(getRank(), type, std::move(results));
  GroupJob job = builder.take();
  const std::vector<Operand> operands = job.operands;
  queue_->add(std::move(job), work, is_async || is_coalescing_);
  note_end(operands, work->done());
  if (is_coalescing_) coalesced_.push_back(work);
  return work;
}

void GroupBackend::startCoalescing() {
  is_coalescing_ = true;
  coalesced_.clear();
}

GroupBackend::WorkPtr GroupBackend::endCoalescing() {
  is_coalescing_ = false;
  return c10::make_intrusive<JoinedWork>(getRank(), std::move(coalesced_));
}

void GroupBackend::abort() { group_->abort("abort() was called"); }

void GroupBackend::shutdown() {
  wait_for({posted_});
  queue_->end();
  group_->leave();
}

GroupBackend::WorkPtr GroupBackend::broadcast(Tensors& tensors, const c10d::BroadcastOptions& opts) {
  Builder b(getRank(), getSize(), timeout_or(opts.timeout));
  const at::Tensor& t = only(tensors);
  Operation& operation = b.add(CollectiveOp::broadcast, t, opts.rootRank);
  operation.to.assign(size_t(getSize()), 0);
  operation.from.assign(size_t(getSize()), 0);
  if (getRank() == opts.rootRank) {
    operation.to.assign(size_t(getSize()), nbytes(t));
    operation.to[size_t(getRank())] = 0;
    b.read(operation, t);
  } else {
    operation.from[size_t(opts.rootRank)] = nbytes(t);
    b.write(operation, t);
  }
  return submit(std::move(b), c10d::OpType::BROADCAST, tensors, opts.asyncOp);
}

// Every rank gets the indices and values of all, and adds them up: dense collectives, waited for.
GroupBackend::WorkPtr GroupBackend::allreduce_sparse(Tensors& tensors, const c10d::AllreduceOptions& opts) {
  TORCH_CHECK(opts.reduceOp == c10d::ReduceOp::SUM, "an all_reduce of a sparse tensor; expected the reduction SUM");
  const at::Tensor target = only(tensors), mine = target.coalesce();
  const auto gathered = [&](at::Tensor part, const auto& like) {
    std::vector<Tensors> parts(1);
    Tensors inputs{part.contiguous()};
    for (int r = 0; r < getSize(); ++r) parts[0].push_back(like(r));
    c10d::AllgatherOptions options;
    options.timeout = opts.timeout;
    options.asyncOp = false;
    allgather(parts, inputs, options)->wait();
    return parts[0];
  };
  std::vector<int64_t> head{mine._nnz(), mine.sparse_dim()};
  head.insert(head.end(), mine.sizes().begin(), mine.sizes().end());
  const at::Tensor my_head = at::tensor(head, at::kLong);
  const Tensors heads = gathered(my_head, [&](int) { return at::empty_like(my_head); });
  for (int r = 0; r < getSize(); ++r)
    TORCH_CHECK(heads[size_t(r)].slice(0, 1).equal(my_head.slice(0, 1)), "rank ", r,
                " brings a sparse tensor of another shape");
  const auto count = [&](int r) { return heads[size_t(r)][0].item<int64_t>(); };
  const at::Tensor indices = mine.indices(), values = mine.values();
  std::vector<int64_t> dims = values.sizes().vec();
  const Tensors all_indices =
      gathered(indices, [&](int r) { return at::empty({indices.size(0), count(r)}, indices.options()); });
  const Tensors all_values = gathered(values, [&](int r) {
    dims[0] = count(r);
    return at::empty(dims, values.options());
  });
  target.copy_(at::sparse_coo_tensor(at::cat(all_indices, 1), at::cat(all_values), mine.sizes()).coalesce());
  auto work = c10::make_intrusive<GroupWork>(getRank(), c10d::OpType::ALLREDUCE, tensors);
  work->end({});
  return work;
}

GroupBackend::WorkPtr GroupBackend::allreduce(Tensors& tensors, const c10d::AllreduceOptions& opts) {
  if (tensors.size() == 1 && tensors[0].layout() == at::kSparse) return allreduce_sparse(tensors, opts);
  Builder b(getRank(), getSize(), timeout_or(opts.timeout));
  for (const at::Tensor& t : tensors) {
    Operation& operation = b.add_reduction(CollectiveOp::all_reduce, t, opts.reduceOp);
    b.read(operation, t);
    b.write(operation, t);
  }
  return submit(std::move(b), c10d::OpType::ALLREDUCE, tensors, opts.asyncOp);
}

GroupBackend::WorkPtr GroupBackend::allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& opts) {
  return allreduce(tensors, opts);
}

GroupBackend::WorkPtr GroupBackend::reduce(Tensors& tensors, const c10d::ReduceOptions& opts) {
  Builder b(getRank(), getSize(), timeout_or(opts.timeout));
  const at::Tensor& t = only(tensors);
  Operation& operation = b.add_reduction(CollectiveOp::reduce, t, opts.reduceOp, opts.rootRank);
  b.read(operation, t);
  if (getRank() == opts.rootRank) b.write(operation, t);
  return submit(std::move(b), c10d::OpType::REDUCE, tensors, opts.asyncOp);
}

GroupBackend::WorkPtr GroupBackend::allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                                              const c10d::AllgatherOptions& opts) {
  Builder b(getRank(), getSize(), timeout_or(opts.timeout));
  TORCH_CHECK(outputs.size() == 1, "all_gather into ", outputs.size(), " lists; expected one");
  b.gather(outputs[0], only(inputs), CollectiveOp::all_gather, 0);
  return submit(std::move(b), c10d::OpType::ALLGATHER, outputs[0], opts.asyncOp);
}

GroupBackend::WorkPtr GroupBackend::_allgather_base(at::Tensor& output, at::Tensor& input,
                                                    const c10d::AllgatherOptions& opts) {
  Builder b(getRank(), getSize(), timeout_or(opts.timeout));
  b.gather_into(output, input);
  return submit(std::move(b), c10d::OpType::_ALLGATHER_BASE, {output}, opts.asyncOp);
}

GroupBackend::WorkPtr GroupBackend::allgather_coalesced(std::vector<Tensors>& outputs, Tensors& inputs,
                                                        const c10d::AllgatherOptions& opts) {
  Builder b(getRank(), getSize(), timeout_or(opts.timeout));
  Tensors results;
  for (size_t i = 0; i < inputs.size(); ++i) {
    Tensors of_ranks;
    for (const Tensors& list : outputs) {
      TORCH_CHECK(list.size() == inputs.size(), "all_gather of ", inputs.size(), " tensors into ", list.size());
      of_ranks.push_back(list[i]);
    }
    b.gather(of_ranks, inputs[i], CollectiveOp::all_gather, 0);
    results.insert(results.end(), of_ranks.begin(), of_ranks.end());
  }
  return submit(std::move(b), c10d::OpType::ALLGATHER_COALESCED, results, opts.asyncOp);
}

GroupBackend::WorkPtr GroupBackend::allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                                    const c10d::AllgatherOptions& opts) {
  Builder b(getRank(), getSize(), timeout_or(opts.timeout));
  TORCH_CHECK(outputs.size() == inputs.size(), "all_gather of ", inputs.size(), " tensors into ", outputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) b.gather_into(outputs[i], inputs[i]);
  return submit(std::move(b), c10d::OpType::ALLGATHER_COALESCED, outputs, opts.asyncOp);
}

GroupBackend::WorkPtr GroupBackend::gather(std::vector<Tensors>& outputs, Tensors& inputs,
                                           const c10d::GatherOptions& opts) {
  Builder b(getRank(), getSize(), timeout_or(opts.timeout));
  const Tensors results = outputs.empty() ? Tensors() : outputs[0];
  b.gather(results, only(inputs), CollectiveOp::gather, opts.rootRank);
  return submit(std::move(b), c10d::OpType::GATHER, results, opts.asyncOp);
}

GroupBackend::WorkPtr GroupBackend::scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                                            const c10d::ScatterOptions& opts) {
  Builder b(getRank(), getSize(), timeout_or(opts.timeout));
  const at::Tensor& output = only(outputs);
  Operation& operation = b.add(CollectiveOp::scatter, output, opts.rootRank);
  operation.to.assign(size_t(getSize()), 0);
  operation.from.assign(size_t(getSize()), 0);
  operation.from[size_t(opts.rootRank)] = nbytes(output);
  if (getRank() == opts.rootRank) {
    TORCH_CHECK(inputs.size() == 1 && int(inputs[0].size()) == getSize(), "scatter without one tensor for each of ",
                getSize(), " ranks on its root");
    for (int r = 0; r < getSize(); ++r) {
      operation.to[size_t(r)] = nbytes(inputs[0][size_t(r)]);
      b.read(operation, inputs[0][size_t(r)]);
    }
  }
  b.write(operation, output);
  return submit(std::move(b), c10d::OpType::SCATTER, outputs, opts.asyncOp);
}

GroupBackend::WorkPtr GroupBackend::reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                                                   const c10d::ReduceScatterOptions& opts) {
  Builder b(getRank(), getSize(), timeout_or(opts.timeout));
  TORCH_CHECK(inputs.size() == 1, "reduce_scatter of ", inputs.size(), " lists; expected one");
  b.scatter_sums(only(outputs), inputs[0], opts.reduceOp);
  return submit(std::move(b), c10d::OpType::REDUCE_SCATTER, outputs, opts.asyncOp);
}

GroupBackend::WorkPtr GroupBackend::_reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                                         const c10d::ReduceScatterOptions& opts) {
  Builder b(getRank(), getSize(), timeout_or(opts.timeout));
  b.scatter_sums(output, input, opts.reduceOp);
  return submit(std::move(b), c10d::OpType::_REDUCE_SCATTER_BASE, {output}, opts.asyncOp);
}

GroupBackend::WorkPtr GroupBackend::reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                                    const c10d::ReduceScatterOptions& opts) {
  Builder b(getRank(), getSize(), timeout_or(opts.timeout));
  TORCH_CHECK(outputs.size() == inputs.size(), "reduce_scatter of ", inputs.size(), " tensors into ", outputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) b.scatter_sums(outputs[i], inputs[i], opts.reduceOp);
  return submit(std::move(b), c10d::OpType::REDUCE_SCATTER_TENSOR_COALESCED, outputs, opts.asyncOp);
}

GroupBackend::WorkPtr GroupBackend::alltoall_base(at::Tensor& output, at::Tensor& input,
                                                  std::vector<int64_t>& output_splits,
                                                  std::vector<int64_t>& input_splits,
                                                  const c10d::AllToAllOptions& opts) {
  Builder b(getRank(), getSize(), timeout_or(opts.timeout));
  Builder::check_type(output, input);
  c10d::checkSplitSizes(input_splits, input, getSize());
  c10d::checkSplitSizes(output_splits, output, getSize());
  Operation& operation = b.add(CollectiveOp::all_to_all, input);
  const auto cut = [&](const at::Tensor& t, const std::vector<int64_t>& splits, std::vector<int64_t>& counts) {
    const int64_t rows = t.dim() ? t.size(0) : 1;
    for (int r = 0; r < getSize(); ++r)
      counts.push_back(splits.empty() ? nbytes(t) / getSize() : rows ? nbytes(t) / rows * splits[size_t(r)] : 0);
  };
  cut(input, input_splits, operation.to);
  cut(output, output_splits, operation.from);
  b.read(operation, input);
  b.write(operation, output);
  return submit(std::move(b), c10d::OpType::ALLTOALL_BASE, {output}, opts.asyncOp);
}

GroupBackend::WorkPtr GroupBackend::alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& opts) {
  Builder b(getRank(), getSize(), timeout_or(opts.timeout));
  TORCH_CHECK(int(outputs.size()) == getSize() && int(inputs.size()) == getSize(), "all_to_all of ", inputs.size(),
              " tensors into ", outputs.size(), "; expected one for each of ", getSize(), " ranks");
  Operation& operation = b.add(CollectiveOp::all_to_all, inputs[0]);
  for (int r = 0; r < getSize(); ++r) {
    operation.to.push_back(nbytes(inputs[size_t(r)]));
    operation.from.push_back(nbytes(outputs[size_t(r)]));
    b.read(operation, inputs[size_t(r)]);
    b.write(operation, outputs[size_t(r)]);
  }
  return submit(std::move(b), c10d::OpType::ALLTOALL, outputs, opts.asyncOp);
}

GroupBackend::WorkPtr GroupBackend::barrier(const c10d::BarrierOptions& opts) {
  Builder b(getRank(), getSize(), timeout_or(opts.timeout));
  b.add(CollectiveOp::barrier, at::empty({0}, at::kByte));
  return submit(std::move(b), c10d::OpType::BARRIER, {}, opts.asyncOp);
}

void GroupBackend::monitoredBarrier(const c10d::BarrierOptions& opts, bool wait_all_ranks) {
  const milliseconds timeout = opts.timeout == c10d::kUnsetTimeout ? timeout_ : opts.timeout;
  Builder b(getRank(), getSize(), timeout);
  Operation& operation = b.add(CollectiveOp::barrier, at::empty({0}, at::kByte));
  operation.monitored = wait_all_ranks ? run::Monitored::all : run::Monitored::first;
  const auto deadline = run::Clock::now() + timeout;
  try {
    submit(std::move(b), c10d::OpType::BARRIER, {}, false)->wait();
  } catch (const c10::DistBackendError& error) {  // torch's own words, before and after ours
    const std::string rank = cat("Rank ", getRank());
    const std::string what = error.what_without_backtrace();
    const std::string waited = cat(rank, " successfully reached monitoredBarrier, but received errors while waiting");
    if (getRank()) C10_THROW_ERROR(DistBackendError, cat(waited, " for send/recv from rank 0. ", what));
    if (run::Clock::now() < deadline) throw;
    C10_THROW_ERROR(DistBackendError,
                    cat(what, "\n", rank, " timed out in monitoredBarrier after ", timeout.count(), " ms"));
  }
}

// A message as a task of its stream, or at once.
void GroupBackend::post(const std::shared_ptr<GroupJob>& job, const c10::intrusive_ptr<GroupWork>& work,
                        std::function<void()> body) {
  if (job->operands.empty()) {
    if (posted_) synchronize(posted_);
    return body();
  }
  const c10::Stream stream = current_stream(job->operands[0].tensor.device());
  if (posted_) block(stream, posted_);
  issue(stream, "c10d::" + c10d::opTypeToString(work->retrieveOpType()), job->operands, [job, body = std::move(body)] {
    for (const auto& f : job->before) f();
    body();
  });
  posted_ = record(stream);
  note_end(job->operands, work->done());
}

GroupBackend::WorkPtr GroupBackend::send(Tensors& tensors, int to, int tag) {
  Builder b(getRank(), getSize(), timeout_);
  const at::Tensor flat = b.contiguous(only(tensors));
  auto work = c10::make_intrusive<GroupWork>(getRank(), c10d::OpType::SEND, tensors);
  auto job = std::make_shared<GroupJob>(b.take());
  post(job, work, [=, this, line = b.line(), timeout = timeout_] {
    group_->mailbox().send({to,
                            uint64_t(tag),
                            {bytes_of(flat)},
                            line,
                            run::Clock::now() + timeout,
                            [work, job](const Result<void>& outcome, int) { work->end(outcome); }});
  });
  if (is_coalescing_) coalesced_.push_back(work);
  return work;
}

GroupBackend::WorkPtr GroupBackend::recv(Tensors& tensors, int from, int tag) {
  return receive(tensors, from, tag, c10d::OpType::RECV);
}

GroupBackend::WorkPtr GroupBackend::recvAnysource(Tensors& tensors, int tag) {
  return receive(tensors, run::kAnyRank, tag, c10d::OpType::RECVANYSOURCE);
}

GroupBackend::WorkPtr GroupBackend::receive(Tensors& tensors, int from, int tag, c10d::OpType type) {
  Builder b(getRank(), getSize(), timeout_);
  Operation target;
  b.write(target, only(tensors));
  auto work = c10::make_intrusive<GroupWork>(getRank(), type, tensors);
  auto job = std::make_shared<GroupJob>(b.take());
  post(job, work, [=, this, out = target.out, line = b.line(), timeout = timeout_] {
    group_->mailbox().receive({from, uint64_t(tag), out, line, run::Clock::now() + timeout,
                               [work, job](const Result<void>& outcome, int source) {
                                 if (outcome)
                                   for (const auto& f : job->after) f();
                                 work->end(outcome, source);
                               }});
  });
  if (is_coalescing_) coalesced_.push_back(work);
  return work;
}

}  // namespace trine::api::neuron
