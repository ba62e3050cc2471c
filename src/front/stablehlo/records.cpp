// The rows of records.h. Fields, order and codes: StablehloBytecode.cpp, VhloBytecode.cpp and StablehloAttrs.td of
// StableHLO, bytecode.td and attrs.td of Shardy, BuiltinDialectBytecode.td of MLIR.
#include "front/stablehlo/records.h"

namespace trine::front::stablehlo {

namespace {

using K = FieldKind;

constexpr Field kChannel[] = {{"handle", K::integer}, {"type", K::integer}};
constexpr Field kConv[] = {
    {"input_batch_dimension", K::integer},           {"input_feature_dimension", K::integer},
    {"input_spatial_dimensions", K::integers},       {"kernel_input_feature_dimension", K::integer},
    {"kernel_output_feature_dimension", K::integer}, {"kernel_spatial_dimensions", K::integers},
    {"output_batch_dimension", K::integer},          {"output_feature_dimension", K::integer},
    {"output_spatial_dimensions", K::integers},
};
constexpr Field kDot[] = {
    {"lhs_batching_dimensions", K::integers},
    {"rhs_batching_dimensions", K::integers},
    {"lhs_contracting_dimensions", K::integers},
    {"rhs_contracting_dimensions", K::integers},
};
constexpr Field kGather[] = {
    {"offset_dims", K::integers},           {"collapsed_slice_dims", K::integers},
    {"operand_batching_dims", K::integers}, {"start_indices_batching_dims", K::integers},
    {"start_index_map", K::integers},       {"index_vector_dim", K::integer},
};
constexpr Field kScatter[] = {
    {"update_window_dims", K::integers},           {"inserted_window_dims", K::integers},
    {"input_batching_dims", K::integers},          {"scatter_indices_batching_dims", K::integers},
    {"scatter_dims_to_operand_dims", K::integers}, {"index_vector_dim", K::integer},
};
constexpr Field kBounds[] = {{"bounds", K::integers}};
constexpr Field kAlias[] = {
    {"output_tuple_indices", K::integers}, {"operand_index", K::integer}, {"operand_tuple_indices", K::integers}};
constexpr Field kAlgorithm[] = {
    {"lhs_precision_type", K::type},
    {"rhs_precision_type", K::type},
    {"accumulation_type", K::type},
    {"lhs_component_count", K::integer},
    {"rhs_component_count", K::integer},
    {"num_primitive_operations", K::integer},
    {"allow_imprecise_accumulation", K::flag},
};
constexpr Field kAccuracy[] = {
    {"atol", K::real}, {"rtol", K::real}, {"ulps", K::integer}, {"mode", K::attr, "stablehlo.result_accuracy_mode"}};
constexpr Field kSubAxis[] = {{"pre_size", K::integer}, {"size", K::integer}};
constexpr Field kMeshAxis[] = {{"name", K::text}, {"size", K::integer}};

constexpr Field kManualAxes[] = {{"value", K::attrs, "text"}};
constexpr Field kMesh[] = {{"axes", K::attrs, "sdy.mesh_axis"}, {"device_ids", K::integers}};
constexpr Field kAxis[] = {{"name", K::text}, {"sub_axis_info", K::optional_attr, "sdy.sub_axis_info"}};
constexpr Field kDimension[] = {
    {"axes", K::attrs, "sdy.axis_ref"}, {"is_closed", K::flag}, {"priority", K::optional_integer}};
constexpr Field kSharding[] = {
    {"mesh_or_ref", K::attr, "mesh"},
    {"dim_shardings", K::attrs, "sdy.dimension_sharding"},
    {"replicated_axes", K::attrs, "sdy.axis_ref"},
    {"unreduced_axes", K::attrs, "sdy.axis_ref"},
    {"reduction_op", K::integer},
};
constexpr Field kPerValue[] = {{"shardings", K::attrs, "sdy.sharding"}};
constexpr Field kDimMapping[] = {{"factor_indices", K::integers}};
constexpr Field kTensorMapping[] = {{"dim_mappings", K::attrs, "sdy.dim_mapping"}};
constexpr Field kRule[] = {
    {"factor_sizes", K::integers},
    {"operand_mappings", K::attrs, "sdy.tensor_mapping"},
    {"result_mappings", K::attrs, "sdy.tensor_mapping"},
    {"reduction_factors", K::integers},
    {"need_replication_factors", K::integers},
    {"permutation_factors", K::integers},
    {"blocked_propagation_factors", K::integers},
    {"is_custom_rule", K::flag},
};
constexpr Field kAxisList[] = {{"value", K::attrs, "sdy.axis_ref"}};
constexpr Field kAxisLists[] = {{"value", K::attrs, "sdy.axis_ref_list"}};
constexpr Field kToAll[] = {{"axes", K::attrs, "sdy.axis_ref"}, {"src_dim", K::integer}, {"tgt_dim", K::integer}};
constexpr Field kToAlls[] = {{"value", K::attrs, "sdy.all_to_all_param"}};

constexpr Field kRagged[] = {
    {"lhs_batching_dimensions", K::integers},    {"rhs_batching_dimensions", K::integers},
    {"lhs_contracting_dimensions", K::integers}, {"rhs_contracting_dimensions", K::integers},
    {"lhs_ragged_dimensions", K::integers},      {"rhs_group_dimensions", K::integers},
};

constexpr Field kFileLoc[] = {{"file", K::attr, "text"}, {"line", K::count}, {"column", K::count}};
constexpr Field kRangeLoc[] = {{"file", K::attr, "text"},
                               {"line", K::count},
                               {"column", K::count},
                               {"end_line", K::count},
                               {"end_column", K::count}};
constexpr Field kNameLoc[] = {{"name", K::attr, "text"}, {"child", K::attr, "loc"}};
constexpr Field kCallLoc[] = {{"callee", K::attr, "loc"}, {"caller", K::attr, "loc"}};
constexpr Field kFusedLoc[] = {{"locations", K::attrs, "loc"}, {"metadata", K::optional_attr}};

constexpr auto kGiven = Syntax::fields_given;
constexpr auto kPattern = Syntax::pattern;
constexpr auto kCustom = Syntax::custom;

constexpr RecordRow kRecords[] = {
    {"stablehlo.channel_handle", 1, kChannel},
    {"stablehlo.conv", 4, kConv, kCustom},
    {"stablehlo.dot", 5, kDot, kGiven},
    {"stablehlo.gather", 7, kGather, kGiven},
    {"stablehlo.scatter", 11, kScatter, kGiven},
    {"stablehlo.bounds", 13, kBounds, kCustom},
    {"stablehlo.output_operand_alias", 14, kAlias},
    {"stablehlo.dot_algorithm", 15, kAlgorithm},
    {"stablehlo.result_accuracy", 17, kAccuracy, kGiven},
    {"chlo.ragged_dot", -1, kRagged, kGiven},
    {"sdy.manual_axes", 0, kManualAxes, kPattern, "{$value}"},
    {"sdy.mesh_axis", 1, kMeshAxis, kPattern, "$name=$size"},
    {"sdy.mesh", 2, kMesh, kPattern, "<[$axes]`, device_ids=[$device_ids]`>"},
    {"sdy.sub_axis_info", 3, kSubAxis, kPattern, "($pre_size)$size"},
    {"sdy.axis_ref", 4, kAxis, kPattern, "$name`:$sub_axis_info`"},
    {"sdy.dimension_sharding", 5, kDimension, kCustom},
    {"sdy.sharding", 17, kSharding, kCustom},
    {"sdy.sharding_per_value", 7, kPerValue, kPattern, "<[$shardings]>"},
    {"sdy.dim_mapping", 8, kDimMapping, kCustom},
    {"sdy.tensor_mapping", 9, kTensorMapping, kPattern, "[$dim_mappings]"},
    {"sdy.op_sharding_rule", 10, kRule, kCustom},
    {"sdy.axis_ref_list", 11, kAxisList, kPattern, "{$value}"},
    {"sdy.list_of_axis_ref_lists", 12, kAxisLists, kPattern, "[$value]"},
    {"sdy.all_to_all_param", 13, kToAll, kPattern, "{$axes}: $src_dim->$tgt_dim"},
    {"sdy.all_to_all_param_list", 14, kToAlls, kPattern, "[$value]"},
    {"loc.call", 10, kCallLoc, kCustom},
    {"loc.file", 11, kFileLoc, kCustom},
    {"loc.fused", 13, kFusedLoc, kCustom},
    {"loc.name", 14, kNameLoc, kCustom},
    {"loc.range", 22, kRangeLoc, kCustom},
    {"loc.unknown", 15, {}, kCustom},
};

constexpr std::string_view kDirections[] = {"EQ", "NE", "GE", "GT", "LE", "LT"};
constexpr std::string_view kComparisons[] = {"NOTYPE", "FLOAT", "TOTALORDER", "SIGNED", "UNSIGNED"};
constexpr std::string_view kFfts[] = {"FFT", "IFFT", "RFFT", "IRFFT"};
constexpr std::string_view kPrecisions[] = {"DEFAULT", "HIGH", "HIGHEST"};
constexpr std::string_view kAlgorithms[] = {"DEFAULT", "THREE_FRY", "PHILOX"};
constexpr std::string_view kDistributions[] = {"", "UNIFORM", "NORMAL"};
constexpr std::string_view kTransposes[] = {"TRANSPOSE_INVALID", "NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"};
constexpr std::string_view kModes[] = {"DEFAULT", "HIGHEST", "TOLERANCE"};

constexpr EnumRow kEnums[] = {
    {"stablehlo.comparison_direction", 2, 3, kDirections},
    {"stablehlo.comparison_type", 3, 4, kComparisons},
    {"stablehlo.fft_type", 6, 7, kFfts},
    {"stablehlo.precision", 8, 11, kPrecisions},
    {"stablehlo.rng_algorithm", 9, 12, kAlgorithms},
    {"stablehlo.rng_distribution", 10, 13, kDistributions},
    {"stablehlo.transpose", 12, 16, kTransposes},
    {"stablehlo.result_accuracy_mode", 16, 19, kModes, true},
    {"chlo.comparison_direction", 0, -1, kDirections},
    {"chlo.comparison_type", 1, -1, kComparisons},
    {"chlo.precision", -1, -1, kPrecisions},
};

std::string_view dialect_of(std::string_view name) { return name.substr(0, name.find('.')); }

}  // namespace

std::span<const RecordRow> records() { return kRecords; }

const RecordRow* record_by_name(std::string_view name) {
  for (const RecordRow& r : kRecords)
    if (r.name == name) return &r;
  return nullptr;
}

const EnumRow* enum_by_name(std::string_view name) {
  for (const EnumRow& r : kEnums)
    if (r.name == name) return &r;
  return nullptr;
}

const RecordRow* record_by_code(std::string_view dialect, uint64_t code) {
  for (const RecordRow& r : kRecords)
    if (r.code >= 0 && uint64_t(r.code) == code && dialect_of(r.name) == dialect) return &r;
  return nullptr;
}

const EnumRow* enum_by_code(std::string_view dialect, uint64_t code) {
  for (const EnumRow& r : kEnums) {
    const int own = dialect == "vhlo" ? r.vhlo : dialect_of(r.name) == dialect ? r.code : -1;
    if (own >= 0 && uint64_t(own) == code) return &r;
  }
  return nullptr;
}

}  // namespace trine::front::stablehlo
