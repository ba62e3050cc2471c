// Thresholds: numbers at which the compiler takes another of two ways that are both right, with the reason for each and
// what was seen there. "Chosen": no measurement is kept. Not here: what a format, an instruction or a chip allows, and
// how far a search goes; those are beside their code. On the chip, times are the timer's; on the host, of one x86 core.
#pragma once

#include <cstddef>
#include <cstdint>

namespace trine::compile::thresholds {

// Which ops are one host loop. Seen on one thread of an x86 core with bench/loop.cpp and the training steps of
// docs/performance.md. (graph/fuse.cpp)
namespace fuse {
inline constexpr size_t kOpsMax = 256;  // ops of one loop: programs stay small enough to prepare fast
// in additions: computing such a value again is cheaper than writing and reading it
inline constexpr int kDuplicateCostMax = 2;
// likewise of a chain of ops on kRebuiltMin elements and more: GPT-2's step of 4x128 tokens from 1,059 to 525 MB of
// temporaries
inline constexpr int kRebuiltCost = 32;
inline constexpr int64_t kRebuiltMin = 1 << 16;  // elements of such a chain
// and at most, where each loop of many that computes it counts: 1 MiB of f32, half of a second-level cache. A norm's
// gradient, with a tanh in four loops, from 1.45 to 0.96 times XLA's time
inline constexpr int64_t kCachedSpace = 1 << 18;
inline constexpr int64_t kHugeSpace = 1 << 23;  // elements; past every cache
// rows that a loop with a reduction inside it should have, so that threads share it
inline constexpr int64_t kRowsMin = 4;
inline constexpr int64_t kSmallSpace = 1 << 15;  // elements; below, rows do not matter
// ops on a row's result, done one by one without vectors: a mean's divide and a rounding; a scan in bf16 from 0.72 to
// 0.89 of f32's speed
inline constexpr size_t kRowOpsMax = 4;
// elements; starting such a loop costs more than running it: a scan of 10,000 small ops is 35 ns an iteration
inline constexpr int64_t kTinySpace = 256;
inline constexpr size_t kSmallPlan = 64;  // units; in larger plans no one looks for tiny loops
// loops that one with joins in it is cut into: rolls of a plane make nine
inline constexpr size_t kBoxesMax = 32;
// elements of a row from which on vectors are worth cutting for; shorter parts are copied
inline constexpr int64_t kRunLeast = 16;
// numbers of a row in which all parts of a join are computed at all indices, instead of cutting it: four vectors
inline constexpr int64_t kSelectedMax = 32;
// numbers that a loop of as few computes wherever it sees one of them: 1,000 Runge-Kutta steps of three numbers
inline constexpr int64_t kPartNumbersMax = 8;
inline constexpr size_t kPartOpsMax = 96;  // ops of such a loop: each may be computed for every number
}  // namespace fuse

// Constants. (graph/simplify.cpp)
namespace fold {
// elements of a constant worth keeping instead of computing: 16 KiB of f32 in the program
inline constexpr int64_t kFoldedMax = 4096;
}  // namespace fold

// When a multiply is a loop on the host. (host/dot.cpp)
namespace host_dot {
inline constexpr int64_t kProductsMax = 256;  // of so few, packing and sharing out cost more than the products
// Where products are multiplied where they lie, as host/thresholds.h has it: columns of B, side by side, numbers of A
// and sums.
inline constexpr int64_t kSmallColumnsMin = 5;
inline constexpr int64_t kSmallColumnsMax = 64;
inline constexpr int64_t kSmallLeft = 128;
inline constexpr int64_t kSmallTile = 2048;
inline constexpr int64_t kSmallDots = 512;  // multiply-adds of a product that is small any way it lies
inline constexpr int64_t kSmallWork = 256;  // multiply-adds of each, at least: less than a call costs
}  // namespace host_dot

// Scatters that read a gather's windows where they lie: 1.2 to 0.8 ms for 16 MB of rows. (host/windows.cpp)
namespace host_windows {
// of a window; shorter ones are no more than what is kept of each of them
inline constexpr int64_t kJoinedElements = 64;
}  // namespace host_windows

// Pools as loops on the host. (host/pool.cpp)
namespace host_pool {
inline constexpr int64_t kWindowMax = 4096;  // elements of a window; chosen
inline constexpr int64_t kUnrollMax = 16;    // elements of a window that are loaded side by side; chosen
// of a window as long as its dim: there, once over it costs as much (a cumulative sum of 1,024 by 1,024 from 65 to 5.6
// ms)
inline constexpr int64_t kRunMax = 48;
}  // namespace host_pool

// Products whose right side is an input, made transposed. (host/plan_builder.cpp)
namespace host_plan {
// from here on packing the other side is nothing: a GAN's step from 11.1 to 9.6 ms
inline constexpr int64_t kManyRows = 64;
}  // namespace host_plan

// How a device loop fills partitions. Times are the timer's, of trn1 and trn2. (device/loops/fold.h,
// device/loops/fold.cpp, device/loops/loop.cpp)
namespace partitions {
// elements that a partition moves at once: below, a transfer is mostly overhead
inline constexpr int64_t kRowShort = 256;
inline constexpr int64_t kRowLong = 1024;  // likewise: from here on it is hardly any
// elements of a reduced row of which a partition takes several: softmax of [524288, 8] from 6,953 to 196 us
inline constexpr int64_t kRowTiny = 32;
inline constexpr int64_t kTinyLeast = 1 << 16;  // elements of all such rows, at least; chosen
inline constexpr int64_t kListLeast = 1 << 14;  // elements that are worth all partitions
// the part of a partition's memory that rows read again may take: two tiles of them, and others
inline constexpr int64_t kRowsShare = 3;
}  // namespace partitions

// Results that lie side by side, by one loop: interleaved rope from 48 to 2.2 times the time of its bytes.
// (device/loops/join.cpp)
namespace join {
inline constexpr int64_t kElementsLeast = 1 << 12;  // below, starting a loop takes as long as the transfers
inline constexpr size_t kPartsMax = 8;              // of one result; chosen
// bytes of a run from which on transfers write it as fast as engines do: a packet
inline constexpr int64_t kRunComputed = 512;
inline constexpr int64_t kRunMoved = 128;  // the same of parts that lie in memory anyway: half a packet's overhead
}  // namespace join

// Strided reads as long runs: a slice of every other column from 6 to 0.9 times the time of its bytes.
// (device/loops/operands.h, device/loops/cover.cpp)
namespace cover {
// of what lies between elements that may be loaded with them; chosen: a sixth of a partition
inline constexpr int64_t kCoverBytes = 32 << 10;
// that a DMA engine moves in the time of one more descriptor; estimate: 7 ns at 23 B/ns
inline constexpr int64_t kDescriptorBytes = 160;
}  // namespace cover

// Attention of a few queries, keys on partitions: Llama-3-8B decode of 16 on trn2 from 40.0 to 9.6 ms.
// (device/attention/decode.cpp)
namespace decode {
inline constexpr int64_t kQueriesMost = 31;  // more are rows of a tile of their own (attention::kQueriesLeast)
inline constexpr int64_t kRowsMost = 64;     // queries that attend to one head of keys; chosen: half of the partitions
inline constexpr int64_t kKeysMost = 65536;  // of a head; chosen: 512 in each partition
}  // namespace decode

// Attention by tiles of queries and blocks of keys. (device/attention/attention.cpp, device/attention/backward.cpp)
namespace attention {
// whose scores are in PSUM at once; half as many where the next can be made meanwhile
inline constexpr int64_t kBlockKeys = 2048;
inline constexpr int64_t kKeysOnChip = 16384;      // of one head; of more, a block after the other passes by
inline constexpr int64_t kKeysMax = 131072;        // of one head; chosen
inline constexpr int64_t kTilesTogether = 16;      // of queries that a block of keys is brought in for
inline constexpr int64_t kQueriesLeast = 32;       // fewer are rows of a multiply over all heads
inline constexpr int64_t kBackwardQueries = 2048;  // of one head whose gradients are on chip at once
}  // namespace attention

// Convolutions as shifted multiplies: a 3x3 kernel of each of 128 channels from 7.4 to 2.9 times the time of its bytes.
// (device/multiplies/conv_shift.cpp)
namespace convolution {
inline constexpr int64_t kChannelsLeast = 16;     // from here on Tensor is quicker than products by Vector
inline constexpr int64_t kChannelsApart = 32;     // the same of channels with a weight each
inline constexpr int64_t kBandBytes = 40 << 10;   // of padded input, per partition; chosen: a fifth of SBUF
inline constexpr int64_t kPanelBytes = 40 << 10;  // of weights, likewise
}  // namespace convolution

// Multiplies: panels, and how many contracted dims are put in order. (device/multiplies/dot.cpp)
namespace dot {
inline constexpr int64_t kNarrow = 64;  // columns of a panel, at least; chosen
// bytes of a weight's row below which panels are laid out one after the other: a descriptor takes as long for less
inline constexpr int64_t kRowBytes = 512;
inline constexpr size_t kOrdered = 6;    // contracted dims whose orders are tried: 720 at most
inline constexpr size_t kTogether = 64;  // chunks of k whose rows are on chip at once while they are transposed
}  // namespace dot

// A scatter that adds rows as a multiply: BERT-large's head, loss and embedding from 33 to 24 ms a step.
// (device/decompose/index.cpp)
namespace scatter {
inline constexpr double kRowNs = 3000;                     // that a row added by itself takes at least; estimate
inline constexpr double kRowElementNs = 1.6;               // and for each of its elements; estimate
inline constexpr double kProductsPerNs = 128 * 128 * 2.8;  // of the tensor engine meanwhile, in bf16
}  // namespace scatter

// Sorts by rank, and searches for the largest: argmax of [16, 128256] on trn1 from 2,965 to 95 us.
// (device/decompose/order.cpp, device/decompose/largest.cpp)
namespace order {
inline constexpr int64_t kPairsMax = int64_t{1} << 28;  // comparisons of a sort by rank; chosen
inline constexpr int64_t kRoundsMax = 32;               // of top_k, one element a round
inline constexpr int64_t kSearched = 4096;  // elements of a part: short enough to be loaded while others are searched
inline constexpr int64_t kRowLeast = 64;    // elements of a row; below, halves are as quick
inline constexpr int64_t kElementsLeast = 1 << 14;  // elements of top_k; chosen
// comparisons from which on a sort is by the largest; below, ranks are as quick
inline constexpr int64_t kPairsLeast = 1 << 18;
}  // namespace order

// Windows by slices, running sums by scans: cumsum on trn1 from 3,928 to 143 us. (device/decompose/window.cpp)
namespace window {
inline constexpr int64_t kLinear = 4;      // taps combined one by one; above, by doubling
inline constexpr int64_t kTapsMax = 64;    // of select_and_scatter; chosen
inline constexpr int64_t kTapsFew = 9;     // combined at once, where windows are far apart
inline constexpr int64_t kLong = 1 << 14;  // elements of a row that is scanned in parts
inline constexpr int64_t kPartsLeast = 4;  // of such a row, at least; chosen
inline constexpr int64_t kRunLeast = 16;   // elements along a running sum, at least; chosen
}  // namespace window

// Reductions and products that would leave partitions or Tensor idle: ResNet-50's training step at batch 16 from 331 to
// 119 ms. (device/decompose/product.cpp)
namespace reduce {
inline constexpr int64_t kResultsFew = 32;        // of a reduction by rows; chosen: a quarter of the partitions
inline constexpr int64_t kTotalLeast = 1 << 14;   // elements reduced to one, at least; chosen
inline constexpr int64_t kEachLeast = 1 << 20;    // elements of each of a few results, at least; chosen
inline constexpr int64_t kMinorMost = 64;         // elements of a group's channels, reduced after the pixels; chosen
inline constexpr int64_t kMajorLeast = 32;        // pixels of such a group, at least; chosen
inline constexpr int64_t kVectorLeast = 1 << 14;  // elements of a product of vectors that all partitions take; chosen
inline constexpr int64_t kFactorsFew = 16;        // numbers of a batch that are multiplied element by element; chosen
inline constexpr int64_t kBatchesMany = 64;       // of such batches, at least: Tensor would take them one at a time
inline constexpr int64_t kBlockColumnsMin = 8;    // of what is reduced by blocks of rows, at least; chosen
inline constexpr int64_t kBlockColumnsLong = 1 << 13;  // from here on one row fills the partitions
inline constexpr int64_t kBlockRowLeast = 1024;        // elements of a block's row, at least; chosen
inline constexpr int64_t kBlocksMost = 32;             // combined one after the other; chosen
inline constexpr int64_t kBlocksLeast = 2;             // below, there is nothing to combine
inline constexpr int64_t kMajorFew = 8;           // rows combined one after the other; more are a multiply with ones
inline constexpr int64_t kMajorColumnsMin = 128;  // of that multiply, unless rows are many; chosen: the partitions
inline constexpr int64_t kMajorRowsMin = 32;      // of each of several groups, at least; chosen
inline constexpr int64_t kMajorRowsLong = 8192;   // from here on a transposed tile does not hold them
}  // namespace reduce

// Transfers and what is done on chip instead. (device/memory/load_transposed.cpp, device/memory/moves.cpp,
// device/memory/windows.cpp)
namespace memory {
// elements from which on transposing them takes less than as many descriptors; estimate: a trip through PSUM is about 2
// us
inline constexpr int64_t kTransposeLeast = 4096;
inline constexpr int64_t kFillBytes = 8 << 10;  // of the tile that fills memory, per partition; chosen
inline constexpr int64_t kRunLeast = 2048;   // elements of a run that is cut into rows, so that queues share it; chosen
inline constexpr int64_t kSharesOfEdge = 4;  // of all elements the edges are at most one share; else all are filled
inline constexpr int64_t kTransfersMax = 128;  // of edges filled alone; chosen
// of a part that is put together on chip; chosen: an eighth of a packet
inline constexpr int64_t kInterleavedBytes = 64;
inline constexpr int64_t kInterleavedRow = 8 << 10;  // bytes of a whole item, put together so; chosen
inline constexpr int64_t kInterleavedLeast = 4096;   // elements put together so, at least; chosen
inline constexpr int64_t kSliceRunLeast = 512;       // bytes of a run that a transfer moves at full rate: a packet
inline constexpr int64_t kUnrolled = 16384;          // windows moved one by one without a loop; chosen
inline constexpr int64_t kCombineMax = 8192;         // elements of a window combined on chip; chosen
}  // namespace memory

// Which of several ways the timer takes: 4096 cubed of bf16 on trn2 from 90.6 to 92.6 % MFU. (device/choose/choose.h,
// device/choose/choose.cpp)
namespace choose {
// over the first variant: timed apart, a unit has no neighbours to overlap with, and may lose less than this again
inline constexpr double kGainLeast = 0.02;
// of SBUF; estimate: what is kept for other units and loaded ahead for them has the rest
inline constexpr double kRoom = 0.6;
// instructions from which on how a unit begins and ends hardly counts, and timing it takes long
inline constexpr size_t kLong = 4000;
// instructions from which on the first variant is taken: each is held in memory until it is timed
inline constexpr size_t kTimedMax = size_t{1} << 18;
}  // namespace choose

// Passes over the device's graph. (device/passes/pick_in_rows.cpp, device/passes/spread_partitions.cpp,
// device/passes/split_long_rows.cpp, device/passes/split_batches.cpp)
namespace passes {
inline constexpr int64_t kPickedRowsLeast = 64;   // of a row picked from each; fewer are found in memory one by one
inline constexpr int64_t kSpreadLeast = 1 << 14;  // elements of a list that is spread over partitions
inline constexpr int64_t kSpreadRowsFew = 64;     // rows that do not fill them
inline constexpr int64_t kSplitLong = 1 << 14;    // elements of a row that is split
inline constexpr int64_t kSplitRowsFew = 64;      // of so few rows
inline constexpr int64_t kPiecesMost = 64;        // of a batch; chosen
}  // namespace passes

// Ops along rows on chip: take_along_axis of 256 by 256 from 10,000 to 1.6 times the time of its bytes.
// (device/rows/scan.cpp, device/rows/top_k.cpp, device/rows/gather.cpp)
namespace rows {
inline constexpr int64_t kScanBlock = 2048;  // columns scanned at once; chosen
// comparisons of a sort by rank, which is exact for every float, at least; chosen
inline constexpr int64_t kRankedLeast = 1 << 16;
inline constexpr int64_t kGatheredBytes = 32 << 10;  // of a row that is looked through; chosen: a sixth of a partition
inline constexpr int64_t kPassed = 64;               // elements that are loaded in the time of finding one in memory
inline constexpr int64_t kGatheredLeast = 1 << 10;   // elements found, at least; chosen
}  // namespace rows

}  // namespace trine::compile::thresholds
