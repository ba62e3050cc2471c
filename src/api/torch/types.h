// Trine's number formats and torch's.
#pragma once

#include "api/torch/aten.h"

#include <optional>
#include <utility>

#include "base/tensor.h"

namespace trine::api::neuron {

constexpr std::pair<Dtype, at::ScalarType> kTypes[] = {
    {Dtype::f32, at::kFloat},     {Dtype::f64, at::kDouble},       {Dtype::f16, at::kHalf},
    {Dtype::bf16, at::kBFloat16}, {Dtype::boolean, at::kBool},     {Dtype::s8, at::kChar},
    {Dtype::s16, at::kShort},     {Dtype::s32, at::kInt},          {Dtype::s64, at::kLong},
    {Dtype::u8, at::kByte},       {Dtype::c64, at::kComplexFloat}, {Dtype::c128, at::kComplexDouble},
};

inline std::optional<Dtype> our_type(at::ScalarType dtype) {
  for (const auto& [ours, theirs] : kTypes)
    if (theirs == dtype) return ours;
  return {};
}

}  // namespace trine::api::neuron
