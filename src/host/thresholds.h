// Thresholds: numbers at which the host's kernels take another of two ways that are both right, with the reason for
// each and what was seen there, on one x86 core. "Chosen": no measurement is kept. Not here: the shape of a kernel,
// which its registers decide, and limits of formats; those are beside their code.
#pragma once

#include <cstddef>
#include <cstdint>

namespace trine::host::thresholds {

// Few rows against packed weights. (gemm/gemv.cpp)
namespace gemv {
inline constexpr int64_t kRows = 8;        // more rows are bound by arithmetic and take the blocked path
inline constexpr int64_t kTaskPanels = 4;  // of one task: 64 columns of f32
// of B: below, panels go side by side, since sums of one wait for each other
inline constexpr int64_t kCachedBytes = 1 << 20;
inline constexpr int64_t kShortBytes = 8192;  // of the sums of one row by one thread; chosen
// how far a lone group fetches ahead; several fetch the next block together
inline constexpr int64_t kNearBytes = 1024;
}  // namespace gemv

// Packing. (gemm/pack.cpp)
namespace pack {
inline constexpr int64_t kRowsAhead = 4;  // prefetched when packing row by row
// widened at a time: 2 KiB of f32, in the first-level cache beside what is read
inline constexpr int64_t kRowLanes = 512;
}  // namespace pack

// A vector and a matrix that is not packed. (gemm/matvec.cpp)
namespace matvec {
inline constexpr int64_t kTaskColumns = 256;                  // of one task; chosen
inline constexpr int64_t kInlineProducts = int64_t{1} << 17;  // multiply-adds not worth a second thread
}  // namespace matvec

// Batches of few numbers each, not packed. m, n and k of 1 to 128 with 1 to 1,024 items were timed both ways: over 312
// sizes this choice takes 0.60 of the time of packing all. (gemm/dot.cpp)
namespace small {
// numbers of A, by rows: the two ways meet here, whatever n up to kSmallColumns
inline constexpr int64_t kSmallLeft = 128;
inline constexpr int64_t kSmallProducts = 512;  // of all, by dots: they meet between this and twice as many
inline constexpr int64_t kSmallColumns = 64;    // of B, at most
inline constexpr int64_t kSmallTile = 2048;     // sums that an epilogue is called for: 8 KiB
// up to here dots are quicker than rows (of one column, 0.12 to 0.25 of the time)
inline constexpr int64_t kDotColumns = 4;
}  // namespace small

// The packed multiply: 95 to 102 GFLOP/s of f32 on one thread, as OpenBLAS. (gemm/blocked.cpp)
namespace blocked {
inline constexpr int64_t kBlockGroups = 24;    // 144 rows: with kDepthBlock 432 KiB of A, in the second-level cache
inline constexpr int64_t kChunkPanels = 12;    // 192 columns, there too, four panels at a time
inline constexpr int64_t kTasksPerThread = 4;  // so that a thread that lost its core is not waited for
inline constexpr int64_t kSharedBytes = int64_t{16} << 20;  // of packed A at a time
// of B, widened for all blocks of rows at once: BERT of eight in bf16 from 2.18 to 2.01 s
inline constexpr int64_t kWidenedBytes = int64_t{64} << 20;
inline constexpr int64_t kDepthLong = 8192;  // steps: longer sums are packed in parts
inline constexpr int64_t kDepthPart = 4096;  // of such a part
// groups x panels; results this small split a long depth, so that threads have work
inline constexpr int64_t kSplitTiles = 384;
inline constexpr int64_t kInlineProducts = int64_t{1} << 18;  // multiply-adds not worth a second thread
}  // namespace blocked

// Loop programs: how they are cut for threads and caches. bench/loop.cpp. (loops/run.cpp, loops/nest.cpp,
// loops/interp.cpp, loops/plan.h)
namespace loops {
inline constexpr int64_t kTaskCost = 100'000;  // additions: some ten microseconds, so that handing out a task is cheap
inline constexpr int64_t kCutHorizontal = 8192;        // elements of a partial result
inline constexpr int64_t kCutVertical = 256;           // rows of a partial result
inline constexpr int64_t kBufferedBytesMax = 1 << 20;  // of a row that is kept: within the second-level cache
inline constexpr int64_t kShortMax = 12;               // elements of a dim that vectors fill badly
// numbers of an operand written out so that short rows are one long one: 256 x 32 x 32 x 3 from 0.93 to 0.13 ms
inline constexpr int64_t kRepeatedMin = 64;
inline constexpr int64_t kRepeatedMax = 2048;         // and at most
inline constexpr double kPick = 6;                    // of an element, wherever it lies, in loads along the vector
inline constexpr int kCheap = 3;                      // a value of this cost is computed again rather than buffered
inline constexpr int64_t kSlotsBytes = 24 << 10;      // all slots together: most of a first-level cache
inline constexpr int64_t kBlockMax = 1024;            // lanes of a block, at most; chosen
inline constexpr int64_t kBlockMin = 64;              // and at least
inline constexpr int64_t kBufferedBytes = 128 << 10;  // of a block of rows
inline constexpr int64_t kStageRows = 64;     // rows of a block that is transposed as it is read; chosen: 16 KiB of f32
inline constexpr int64_t kStageColumns = 64;  // columns of it
}  // namespace loops

// Attention as one step. bench/conv.cpp. (attention/attention.cpp)
namespace attention {
inline constexpr int64_t kBlockKeys = 192;   // 32 groups of keys; their scores are 12 KiB
inline constexpr int64_t kFewKeys = 64;      // met at a time by few rows
inline constexpr int64_t kTogetherKeys = 8;  // by few rows of several heads
inline constexpr int64_t kTogether = 12;     // heads; a row of them is 3 KiB of f32
inline constexpr int64_t kRowsAhead = 16;    // fetched while others are widened
}  // namespace attention

// Gathers and scatters. (windows.cpp)
namespace windows {
inline constexpr int64_t kSharedBytes = 1 << 18;  // below, one thread is as quick
inline constexpr int64_t kColumnsMin = 256;       // elements of a window that a thread takes
inline constexpr int64_t kLongWindow = 256;       // bytes; of shorter ones, looking at the indices is the work
}  // namespace windows

// Copies. (move.cpp)
namespace move {
inline constexpr int64_t kParallelBytes = 1 << 20;  // below, sharing out costs more than copying
// of a row that a loop's iteration reads or writes, copied without a call: a scan of rows of eight numbers from 34 to
// 26 ns an iteration
inline constexpr int64_t kShortBytes = 256;
}  // namespace move

// Memory that stays with the process: a step of training asks for the same arenas again and again. (scratch.cpp)
namespace scratch {
inline constexpr size_t kSlackBytes = size_t{32} << 20;  // kept for sizes that take turns
inline constexpr size_t kUsedToCached = 4;               // so many times what is kept must be in use,
inline constexpr size_t kKeepBytes = size_t{512} << 20;  // up to this bound; besides one buffer as large as any, up to
inline constexpr size_t kLargestCached = size_t{1} << 30;  // this
}  // namespace scratch

// Convolutions that no multiply does. bench/conv.cpp. (conv/depthwise.cpp, conv/stencil.cpp)
namespace convolution {
inline constexpr int64_t kDepthwiseTapsMax = 1024;  // of a window; chosen
inline constexpr int64_t kStencilTapsMax = 4096;    // of a window; chosen
// of the output, at most, where the input is read as it lies: against gathered panels 28 x 28 of 16, 32 and 64
// features take 0.54, 0.70 and 0.87 of the time, of 128 and 256 1.06 and 1.41
inline constexpr int64_t kDirectFeatures = 64;
inline constexpr int64_t kTaskProducts = 1 << 17;  // multiply-adds worth a task
inline constexpr int64_t kRowMin = 16;             // positions of a stencil's row: below, rows are mostly ends
}  // namespace convolution

}  // namespace trine::host::thresholds
