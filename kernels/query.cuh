// The query on its way from global memory to fragments.
//
// Half a warp takes a whole row, four 16-byte pieces of 8 dims per lane, converts it and leaves it in shared memory, where every group then loads
// its fragments. What a converted row holds and what a fragment is depends on the query mode: query_f16.cuh or query_nvfp4.cuh.
#pragma once
#include "args.cuh"
#include "config.cuh"
#include "dequant.cuh"

// Half a warp per row.
struct RowPieces {
  static constexpr int lanes = 16, count = latent_dims / 8 / lanes;
  uint4 words[count];   // dims 8 * (lane % 16 + 16 k) .. + 7 as BF16
};
constexpr int first_rope_lane = nope_units * unit_dims / 8 - (RowPieces::count - 1) * RowPieces::lanes;   // of the last piece
static_assert(first_rope_lane > 0 && first_rope_lane < RowPieces::lanes, "only the last piece of a lane can be RoPE");

#if CAKE_QK_NVFP4
#include "query_nvfp4.cuh"
#else
#include "query_f16.cuh"
#endif

#if CAKE_WARPGROUP
// Rows of this CTA, or of the part of them that this block of a pair converts for both: half warp i takes rows first + i, first + i + rows_per_pass,
// ... All are copied to their places at once and converted there, each thread its own pieces: in a loop, because code that runs once costs more to
// fetch than to run.
struct RawQuery {
  static constexpr int rows_per_pass = num_threads / RowPieces::lanes;
  u32 first, end;

  // Commits one group of copies.
  CAKE_INLINE void fetch(const AttentionArgs& args, int token, int first_head, u32 target) const {
    const int lane = threadIdx.x % RowPieces::lanes;
    const u16* source = args.query + ((s64)token * args.num_heads + first_head) * latent_dims + lane * 8;
#pragma unroll 1
    for (u32 row = first + threadIdx.x / RowPieces::lanes; row < end; row += rows_per_pass) {
      const bool exists = row < args.num_heads - first_head;
#pragma unroll
      for (int k = 0; k < RowPieces::count; k++)
        copy_async(target + query_piece(row, lane + RowPieces::lanes * k), (const u8*)(exists ? source + row * latent_dims + k * RowPieces::lanes * 8 : args.query),
                   exists ? piece_bytes : 0);
    }
    commit_copies();
  }
  // After a wait for that group.
  CAKE_INLINE void convert(u32 target, u32 factors, float score_scale) const {
    const u32 lane = threadIdx.x % RowPieces::lanes;
#pragma unroll 1
    for (u32 row = first + threadIdx.x / RowPieces::lanes; row < end; row += rows_per_pass) {
      RowPieces pieces;
#pragma unroll
      for (int k = 0; k < RowPieces::count; k++) pieces.words[k] = load_shared_u128(target + query_piece(row, lane + RowPieces::lanes * k));
      convert_row(pieces, target, row, factors + row * 4, score_scale, lane);
    }
  }
};
#else
// Rows of this CTA: half warp i of the CTA takes rows i, i + rows_per_pass, ... The first pass is requested early, each later one while the pass
// before is converted: a loop, because code that runs once costs more to fetch than to run.
struct RawQuery {
  static constexpr int rows_per_pass = num_threads / RowPieces::lanes, passes = (block_heads + rows_per_pass - 1) / rows_per_pass;
  RowPieces pieces;
  const u16* source;
  int rows_left;   // rows from this half warp's next one to the last head

  CAKE_INLINE void fetch_pass() {
#pragma unroll
    for (int k = 0; k < RowPieces::count; k++) {
      pieces.words[k] = make_uint4(0, 0, 0, 0);
      if (rows_left > 0) pieces.words[k] = __ldg((const uint4*)(source + k * RowPieces::lanes * 8));
    }
    source += rows_per_pass * latent_dims;
    rows_left -= rows_per_pass;
  }
  CAKE_INLINE void aim(const AttentionArgs& args, int token, int first_head) {
    const int head = first_head + threadIdx.x / RowPieces::lanes;
    source = args.query + ((s64)token * args.num_heads + head) * latent_dims + threadIdx.x % RowPieces::lanes * 8;
    rows_left = args.num_heads - head;
    asm volatile("" : "+l"(source), "+r"(rows_left));
  }
  CAKE_INLINE void convert(u32 target, u32 factors, float score_scale) {
    u32 row = threadIdx.x / RowPieces::lanes;
    static_assert(block_heads % rows_per_pass == 0, "every half warp has a row in every pass");
#pragma unroll 1
    for (int i = 0; i < passes; i++) {
      const RowPieces current = pieces;
      if (i + 1 < passes) fetch_pass();
      convert_row(current, target, row, factors + row * 4, score_scale, threadIdx.x % RowPieces::lanes);
      row += rows_per_pass;
    }
  }
};
#endif
