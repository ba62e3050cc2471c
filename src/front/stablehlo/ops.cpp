// The rows of ops.h. Attributes are words "name?!@N:rule=absent": ? optional in StableHLO's own bytecode, ! unknown to
// VHLO, @N from VHLO op version N on, :rule how VHLO's value converts (a record's name: its fields), =absent the value
// VHLO writes where StableHLO writes none. Sources: StablehloOps.td, VhloOps.td, VhloLegalizeToStablehlo.cpp of
// StableHLO 1.17; ops.td of Shardy; FuncOps.td of MLIR. Versions are those of artifacts 1.6 to 1.17.
#include "front/stablehlo/ops.h"

#include <algorithm>
#include <charconv>
#include <unordered_map>

#include "base/text.h"
#include "front/stablehlo/records.h"

namespace trine::front::stablehlo {

namespace {

constexpr std::string_view kUnary = "% attrs :same";
constexpr std::string_view kBinary = "% , % attrs :same";
constexpr std::string_view kAll = "%* attrs :function";
constexpr std::string_view kAccuracy = "result_accuracy?@2=default";
constexpr std::string_view kChloUnary = "% attrs :arrow";
constexpr std::string_view kChloBinary = "% , % attrs :arrows";
constexpr std::string_view kCollective = "channel_handle?:channel replica_groups use_global_device_ids?:unit";
constexpr std::string_view kConv =
    "batch_group_count dimension_numbers:conv feature_group_count lhs_dilation?:integers=1 padding?=0 "
    "precision_config?=DEFAULT rhs_dilation?:integers=1 window_reversal?:booleans=false window_strides?:integers=1";
constexpr std::string_view kDynamicConv =
    "batch_group_count dimension_numbers:conv feature_group_count lhs_dilation?:integers=1 precision_config?=DEFAULT "
    "rhs_dilation?:integers=1 window_reversal?:booleans=false window_strides?:integers=1";
constexpr std::string_view kCustomCall =
    "api_version?=1 backend_config?=empty call_target_name called_computations?:symbols=empty has_side_effect?=false "
    "operand_layouts?=both_empty output_operand_aliases?=empty result_layouts?=both_empty";

constexpr OpRow kRows[] = {
    {"builtin.module", "sym_name?! sym_visibility?!", "<module>"},
    {"builtin.unrealized_conversion_cast", "", "%* :cast attrs"},
    {"func.func", "arg_attrs?=empty function_type no_inline?! res_attrs?=empty sym_name sym_visibility?=empty",
     "<func>"},
    {"func.call", "arg_attrs?! callee:symbol no_inline?! res_attrs?!", "{callee:symbol} ( %* ) attrs :function"},
    {"func.return", "", "attrs %* :operands"},

    {"stablehlo.abs", "", kUnary},
    {"stablehlo.add", "", kBinary},
    {"stablehlo.after_all", "", "%* attrs :same"},
    {"stablehlo.all_gather", "all_gather_dim channel_handle?:channel replica_groups use_global_device_ids?:unit", "", 1,
     2},
    {"stablehlo.all_reduce", kCollective, "", 1, 2},
    {"stablehlo.all_to_all", "channel_handle?:channel concat_dimension replica_groups split_count split_dimension", "",
     1, 2},
    {"stablehlo.and", "", kBinary},
    {"stablehlo.async_done", "", ""},
    {"stablehlo.async_start", "", ""},
    {"stablehlo.atan2", "", kBinary},
    {"stablehlo.batch_norm_grad", "epsilon feature_index", ""},
    {"stablehlo.batch_norm_inference", "epsilon feature_index", ""},
    {"stablehlo.batch_norm_training", "epsilon feature_index", ""},
    {"stablehlo.bitcast_convert", "", kAll},
    {"stablehlo.broadcast", "broadcast_sizes:integers", "% , sizes = {broadcast_sizes:integers} attrs :function"},
    {"stablehlo.broadcast_in_dim", "broadcast_dimensions:integers",
     "% , dims = {broadcast_dimensions:integers} attrs :function"},
    {"stablehlo.case", "", ""},
    {"stablehlo.cbrt", kAccuracy, kUnary, 1, 2},
    {"stablehlo.ceil", "", kUnary},
    {"stablehlo.cholesky", "lower?=false", "% [, lower = {lower:attr}] attrs :same"},
    {"stablehlo.clamp", "", "% , % , % attrs :same"},
    {"stablehlo.collective_broadcast", "channel_handle?:channel replica_groups", ""},
    {"stablehlo.collective_permute", "channel_handle?:channel source_target_pairs", ""},
    {"stablehlo.compare", "compare_type?=NOTYPE comparison_direction",
     "{comparison_direction:stablehlo.comparison_direction} , % , % [, {compare_type:stablehlo.comparison_type}] attrs "
     ":function"},
    {"stablehlo.complex", "", "% , % attrs :complex"},
    {"stablehlo.composite", "composite_attributes?=empty decomposition:symbol name version?=0",
     "{name:attr} %* attrs :function", 1, 2},
    {"stablehlo.concatenate", "dimension", "%, dim = {dimension:i64} attrs :function"},
    {"stablehlo.constant", "value", "<constant>"},
    {"stablehlo.convert", "", kUnary},
    {"stablehlo.convolution", kConv, "( %* ) dim_numbers = <conv> , window = { <window> } attrs :function"},
    {"stablehlo.cosine", kAccuracy, kUnary, 1, 2},
    {"stablehlo.count_leading_zeros", "", kUnary},
    {"stablehlo.create_token", "", "attrs :results"},
    {"stablehlo.cross-replica-sum", "replica_groups", ""},
    {"stablehlo.custom_call", kCustomCall, "{call_target_name:symbol_text} ( %* ) attrs :function"},
    {"stablehlo.divide", "", kBinary},
    {"stablehlo.dot", "precision_config?=DEFAULT", "% , % <precision> attrs :function"},
    {"stablehlo.dot_general", "algorithm?@2:dot_algorithm dot_dimension_numbers:dot precision_config?=DEFAULT",
     "% , % , <dot> <precision> attrs :function", 1, 2},
    {"stablehlo.dynamic_broadcast_in_dim",
     "broadcast_dimensions:integers known_expanding_dimensions?:integers=empty "
     "known_nonexpanding_dimensions?:integers=empty",
     "% , % , dims = {broadcast_dimensions:integers} attrs :function"},
    {"stablehlo.dynamic_conv", kDynamicConv, "", 2, 2},
    {"stablehlo.dynamic_gather", "dimension_numbers:gather indices_are_sorted?=false", "", 2, 2},
    {"stablehlo.dynamic_iota", "iota_dimension", "% , dim = {iota_dimension:i64} attrs :function"},
    {"stablehlo.dynamic_pad", "", kAll},
    {"stablehlo.dynamic_reshape", "", kAll},
    {"stablehlo.dynamic_slice", "slice_sizes:integers", "%, sizes = {slice_sizes:integers} attrs :function"},
    {"stablehlo.dynamic_update_slice", "", kAll},
    {"stablehlo.einsum", "einsum_config", "% , % , config = {einsum_config:attr} attrs :function"},
    {"stablehlo.exponential", kAccuracy, kUnary, 1, 2},
    {"stablehlo.exponential_minus_one", kAccuracy, kUnary, 1, 2},
    {"stablehlo.fft", "fft_length:integers fft_type",
     "% , type = {fft_type:stablehlo.fft_type} , length = {fft_length:integers} attrs :function"},
    {"stablehlo.floor", "", kUnary},
    {"stablehlo.gather", "dimension_numbers:gather indices_are_sorted?=false slice_sizes:integers", "", 2, 2},
    {"stablehlo.get_dimension_size", "dimension", "% , dim = {dimension:i64} attrs :function"},
    {"stablehlo.get_tuple_element", "index", "% [ {index:i32} ] attrs :function"},
    {"stablehlo.if", "", ""},
    {"stablehlo.imag", "", kUnary},
    {"stablehlo.infeed", "infeed_config?=empty layout?=empty", ""},
    {"stablehlo.iota", "iota_dimension", "dim = {iota_dimension:i64} attrs :results"},
    {"stablehlo.is_finite", "", kAll},
    {"stablehlo.log", kAccuracy, kUnary, 1, 2},
    {"stablehlo.log_plus_one", kAccuracy, kUnary, 1, 2},
    {"stablehlo.logistic", kAccuracy, kUnary, 1, 2},
    {"stablehlo.map", "dimensions:integers", ""},
    {"stablehlo.maximum", "", kBinary},
    {"stablehlo.minimum", "", kBinary},
    {"stablehlo.multiply", "", kBinary},
    {"stablehlo.negate", "", kUnary},
    {"stablehlo.not", "", kUnary},
    {"stablehlo.optimization_barrier", "", "attrs <barrier>"},
    {"stablehlo.or", "", kBinary},
    {"stablehlo.outfeed", "outfeed_config?=empty", ""},
    {"stablehlo.pad", "edge_padding_high:integers edge_padding_low:integers interior_padding:integers",
     "% , % , low = {edge_padding_low:integers} , high = {edge_padding_high:integers} , interior = "
     "{interior_padding:integers} attrs :function"},
    {"stablehlo.partition_id", "", "attrs :results"},
    {"stablehlo.popcnt", "", kUnary},
    {"stablehlo.power", "", kBinary},
    {"stablehlo.real", "", kUnary},
    {"stablehlo.real_dynamic_slice", "", kAll},
    {"stablehlo.recv", "channel_handle:channel_handle is_host_transfer?=false source_target_pairs?@2=empty", "", 1, 2},
    {"stablehlo.reduce", "dimensions:integers", "<reduce>"},
    {"stablehlo.reduce_precision", "exponent_bits mantissa_bits", "% , format = <exponent_mantissa> attrs :same"},
    {"stablehlo.reduce_scatter", "channel_handle?:channel replica_groups scatter_dimension use_global_device_ids?:unit",
     ""},
    {"stablehlo.reduce_window",
     "base_dilations?:integers=1 padding?=0 window_dilations?:integers=1 window_dimensions:integers "
     "window_strides?:integers=1",
     ""},
    {"stablehlo.remainder", "", kBinary},
    {"stablehlo.replica_id", "", "attrs :results"},
    {"stablehlo.reshape", "", kAll},
    {"stablehlo.return", "", "%* attrs :operands"},
    {"stablehlo.reverse", "dimensions:integers", "% , dims = {dimensions:integers} attrs :same"},
    {"stablehlo.rng", "rng_distribution",
     "% , % , % , distribution = {rng_distribution:stablehlo.rng_distribution} attrs :function"},
    {"stablehlo.rng_bit_generator", "rng_algorithm",
     "% , algorithm = {rng_algorithm:stablehlo.rng_algorithm} attrs :function"},
    {"stablehlo.round_nearest_afz", "", kUnary},
    {"stablehlo.round_nearest_even", "", kUnary},
    {"stablehlo.rsqrt", kAccuracy, kUnary, 1, 2},
    {"stablehlo.scatter", "indices_are_sorted?=false scatter_dimension_numbers:scatter unique_indices?=false", "", 2,
     2},
    {"stablehlo.select", "", "% , % , % attrs :select"},
    {"stablehlo.select_and_scatter", "padding?=0 window_dimensions?:integers window_strides?:integers=1", ""},
    {"stablehlo.send", "channel_handle:channel_handle is_host_transfer?=false source_target_pairs?@2=empty", "", 1, 2},
    {"stablehlo.set_dimension_size", "dimension", "% , % , dim = {dimension:i64} attrs :function"},
    {"stablehlo.shift_left", "", kBinary},
    {"stablehlo.shift_right_arithmetic", "", kBinary},
    {"stablehlo.shift_right_logical", "", kBinary},
    {"stablehlo.sign", "", kUnary},
    {"stablehlo.sine", kAccuracy, kUnary, 1, 2},
    {"stablehlo.slice", "limit_indices:integers start_indices:integers strides:integers", "% <slice> attrs :function"},
    {"stablehlo.sort", "dimension?=-1 is_stable?=false", ""},
    {"stablehlo.sqrt", kAccuracy, kUnary, 1, 2},
    {"stablehlo.subtract", "", kBinary},
    {"stablehlo.tan", kAccuracy, kUnary, 1, 2},
    {"stablehlo.tanh", kAccuracy, kUnary, 1, 2},
    {"stablehlo.torch_index_select", "batch_dims dim", ""},
    {"stablehlo.transpose", "permutation:integers", "% , dims = {permutation:integers} attrs :function"},
    {"stablehlo.triangular_solve", "left_side lower transpose_a unit_diagonal", ""},
    {"stablehlo.tuple", "", "%* attrs :tuple"},
    {"stablehlo.unary_einsum", "einsum_config", "% , config = {einsum_config:attr} attrs :function"},
    {"stablehlo.uniform_dequantize", "", kUnary},
    {"stablehlo.uniform_quantize", "", kUnary},
    {"stablehlo.while", "", "<while>"},
    {"stablehlo.xor", "", kBinary},

    {"chlo._asin_acos_kernel", "", kChloUnary},
    {"chlo.acos", "", kChloUnary},
    {"chlo.acosh", "", kChloUnary},
    {"chlo.asin", "", kChloUnary},
    {"chlo.asinh", "", kChloUnary},
    {"chlo.atan", "", kChloUnary},
    {"chlo.atanh", "", kChloUnary},
    {"chlo.bessel_i1e", "", kChloUnary},
    {"chlo.broadcast_compare", "broadcast_dimensions?! compare_type?! comparison_direction!", kAll},
    {"chlo.conj", "", kChloUnary},
    {"chlo.constant", "value!", "<constant>"},
    {"chlo.constant_like", "value!", ""},
    {"chlo.cosh", "", kChloUnary},
    {"chlo.digamma", "", kChloUnary},
    {"chlo.erf", "", kChloUnary},
    {"chlo.erf_inv", "", kChloUnary},
    {"chlo.erfc", "", kChloUnary},
    {"chlo.is_inf", "", kChloUnary},
    {"chlo.is_neg_inf", "", kChloUnary},
    {"chlo.is_pos_inf", "", kChloUnary},
    {"chlo.lgamma", "", kChloUnary},
    {"chlo.mulhi", "", kChloBinary},
    {"chlo.next_after", "", kChloBinary},
    {"chlo.polygamma", "", kChloBinary},
    {"chlo.ragged_dot", "precision_config?! ragged_dot_dimension_numbers!", ""},
    {"chlo.sinh", "", kChloUnary},
    {"chlo.square", "", kChloUnary},
    {"chlo.tan", "", kChloUnary},
    {"chlo.top_k", "k!", "( % , k = {k:i64} ) attrs :arrow"},
    {"chlo.zeta", "", kChloBinary},

    {"sdy.all_gather", "gathering_axes! out_sharding!",
     "{gathering_axes:sdy.list_of_axis_ref_lists} % out_sharding = {out_sharding:sdy.sharding} attrs :one"},
    {"sdy.all_reduce", "out_sharding! reduction_axes!",
     "{reduction_axes:sdy.axis_ref_list} % out_sharding = {out_sharding:sdy.sharding} attrs :one"},
    {"sdy.all_slice", "out_sharding! slicing_axes!",
     "{slicing_axes:sdy.list_of_axis_ref_lists} % out_sharding = {out_sharding:sdy.sharding} attrs :one"},
    {"sdy.all_to_all", "out_sharding! params!",
     "{params:sdy.all_to_all_param_list} % out_sharding = {out_sharding:sdy.sharding} attrs :one"},
    {"sdy.collective_permute", "out_sharding!", "% out_sharding = {out_sharding:sdy.sharding} attrs :one"},
    {"sdy.constant", "value!", "<constant>"},
    {"sdy.data_flow_edge", "sharding?!", "% [sharding = {sharding:sdy.sharding}] attrs :one"},
    {"sdy.manual_computation", "in_shardings! manual_axes! out_shardings!",
     "( %* ) in_shardings = {in_shardings:shardings} out_shardings = {out_shardings:shardings} manual_axes = "
     "{manual_axes:sdy.manual_axes} <body> attrs :function"},
    {"sdy.mesh", "mesh! sym_name!", "{sym_name:symbol_text} = {mesh:sdy.mesh} attrs"},
    {"sdy.named_computation", "in_shardings?! name! out_shardings?!",
     "< {name:attr} > ( %* ) [in_shardings = {in_shardings:shardings}] [out_shardings = {out_shardings:shardings}] "
     "<body> attrs :function"},
    {"sdy.propagation_barrier", "allowed_direction!", "% allowed_direction = <direction> attrs :one"},
    {"sdy.reduce_scatter", "out_sharding! reduce_scatter_axes!",
     "{reduce_scatter_axes:sdy.list_of_axis_ref_lists} % out_sharding = {out_sharding:sdy.sharding} attrs :one"},
    {"sdy.replicated_to_unreduced", "axes! out_sharding!",
     "{axes:sdy.axis_ref_list} % out_sharding = {out_sharding:sdy.sharding} attrs :one"},
    {"sdy.reshard", "sharding!", "% {sharding:sdy.sharding} attrs :one"},
    {"sdy.return", "", "attrs %* :operands"},
    {"sdy.sharded_to_unreduced", "axes! out_sharding!",
     "{axes:sdy.list_of_axis_ref_lists} % out_sharding = {out_sharding:sdy.sharding} attrs :one"},
    {"sdy.sharding_constraint", "sharding!", "% {sharding:sdy.sharding} attrs :one"},
    {"sdy.sharding_group", "group_id!", "% group_id = {group_id:i64} attrs :operand_only"},
};

struct RuleName {
  std::string_view name;
  Rule rule;
};
constexpr RuleName kRules[] = {{"integers", Rule::integers}, {"booleans", Rule::booleans}, {"unit", Rule::unit},
                               {"symbol", Rule::symbol},     {"symbols", Rule::symbols},   {"channel", Rule::channel}};

AttrRow parse_word(std::string_view word) {
  AttrRow a;
  const size_t end = std::min(word.size(), word.find_first_of("?!@:="));
  a.name = word.substr(0, end);
  size_t at = end;
  auto until = [&](std::string_view stops) {
    const size_t from = at + 1;
    at = std::min(word.size(), word.find_first_of(stops, from));
    return word.substr(from, at - from);
  };
  while (at < word.size()) {
    const char mark = word[at];
    if (mark == '?' || mark == '!') {
      (mark == '?' ? a.optional : a.native) = true;
      ++at;
    } else if (mark == '@') {
      const std::string_view digits = until("?!@:=");
      std::from_chars(digits.data(), digits.data() + digits.size(), a.since);
    } else if (mark == ':') {
      const std::string_view rule = until("?!@:=");
      const auto* known = std::find_if(std::begin(kRules), std::end(kRules), [&](auto& r) { return r.name == rule; });
      a.rule = known != std::end(kRules) ? known->rule : Rule::record;
      if (a.rule == Rule::record) a.record = rule;
    } else {
      a.absent = until("");
    }
  }
  return a;
}

OpInfo parse_row(const OpRow& row) {
  OpInfo info{.row = &row};
  for (std::string_view word : split(row.attrs, ' '))
    if (!word.empty()) info.attrs.push_back(parse_word(word));
  std::sort(info.attrs.begin(), info.attrs.end(), [](auto& a, auto& b) { return a.name < b.name; });
  return info;
}

const std::unordered_map<std::string_view, OpInfo>& infos() {
  static const auto kInfos = [] {
    std::unordered_map<std::string_view, OpInfo> map;
    for (const OpRow& row : kRows) map.emplace(row.name, parse_row(row));
    return map;
  }();
  return kInfos;
}

}  // namespace

std::vector<std::string_view> OpInfo::vhlo_names(int version) const {
  std::vector<std::string_view> names;
  for (const AttrRow& a : attrs) {
    if (a.native || version < a.since) continue;
    if (a.rule == Rule::channel) {
      names.push_back("channel_id");
    } else if (a.record == "channel_handle") {
      names.insert(names.end(), {"channel_id", "channel_type"});
    } else if (a.rule == Rule::record) {
      for (const RecordRow& r : records())
        if (r.name.starts_with("stablehlo.") && r.name.substr(10) == a.record)
          for (const Field& f : r.fields) names.push_back(f.name);
    } else {
      names.push_back(a.name);
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

const OpInfo* op_by_name(std::string_view name) {
  const auto found = infos().find(name);
  return found == infos().end() ? nullptr : &found->second;
}

bool is_isolated(std::string_view op) { return op == "func.func" || op == "builtin.module"; }

std::string_view name_from_vhlo(std::string_view stem) {
  static const auto kByStem = [] {
    std::unordered_map<std::string_view, std::string_view> map;
    for (const OpRow& row : kRows)
      if (row.name.starts_with("stablehlo.")) map.emplace(row.name.substr(10), row.name);
    map.emplace("func", "func.func");
    map.emplace("call", "func.call");
    return map;
  }();
  const auto found = kByStem.find(stem);
  return found == kByStem.end() ? std::string_view{} : found->second;
}

}  // namespace trine::front::stablehlo
