// What the DMA rows forbid, and the names of dma_compute's many operands. Values are in dma.cpp.
#pragma once

#include <array>
#include <string_view>

#include "arch/call.h"
#include "arch/chips/chip.h"
#include "arch/row.h"

namespace trine::arch {

inline constexpr int kComputeSources = 16;
inline constexpr std::array<std::string_view, kComputeSources> kSourceNames = {
    "src0", "src1", "src2",  "src3",  "src4",  "src5",  "src6",  "src7",
    "src8", "src9", "src10", "src11", "src12", "src13", "src14", "src15"};
inline constexpr std::array<std::string_view, kComputeSources> kScaleNames = {
    "scale0", "scale1", "scale2",  "scale3",  "scale4",  "scale5",  "scale6",  "scale7",
    "scale8", "scale9", "scale10", "scale11", "scale12", "scale13", "scale14", "scale15"};
inline constexpr std::string_view kComputeOperands =
    "dst:w:hbm|sbuf src0:r:hbm|sbuf src1?:r:hbm|sbuf src2?:r:hbm|sbuf src3?:r:hbm|sbuf src4?:r:hbm|sbuf "
    "src5?:r:hbm|sbuf src6?:r:hbm|sbuf src7?:r:hbm|sbuf src8?:r:hbm|sbuf src9?:r:hbm|sbuf src10?:r:hbm|sbuf "
    "src11?:r:hbm|sbuf src12?:r:hbm|sbuf src13?:r:hbm|sbuf src14?:r:hbm|sbuf src15?:r:hbm|sbuf";
inline constexpr std::string_view kComputeAttrs =
    "op:alu=add queue:int=0 dge:dge=unknown oob:oob=error priority:int=0 scale0:float=1 scale1:float=1 scale2:float=1 "
    "scale3:float=1 scale4:float=1 scale5:float=1 scale6:float=1 scale7:float=1 scale8:float=1 scale9:float=1 "
    "scale10:float=1 scale11:float=1 scale12:float=1 scale13:float=1 scale14:float=1 scale15:float=1";

Cost trigger_cycles(const Chip& k, const Call& i);
Result<void> copy_check(const Chip& k, const Call& i);
Result<void> transpose_transfer_check(const Chip& k, const Call& i);
Result<void> compute_check(const Chip& k, const Call& i);
Result<void> trigger_check(const Chip& k, const Call& i);

}  // namespace trine::arch
