// The query on its way from global memory to fragments.
//
// A warp takes whole rows, two 16-byte pieces of 8 dims per lane, converts them and leaves them in shared memory, where every group then loads
// its fragments. What a converted row holds and what a fragment is depends on the query mode: query_f16.cuh or query_nvfp4.cuh.
#pragma once
#include "args.cuh"
#include "config.cuh"
#include "dequant.cuh"

struct RowPieces {
  static constexpr int count = latent_dims / 8 / 32;
  uint4 words[count];   // dims 8 * (lane + 32 k) .. + 7 as BF16
};

#if CAKE_QK_NVFP4
#include "query_nvfp4.cuh"
#else
#include "query_f16.cuh"
#endif

// Rows of this CTA: warp w takes rows w, w + num_warps, ...
struct RawQuery {
  static constexpr int rows = (block_heads + num_warps - 1) / num_warps;
  RowPieces pieces[rows];

  CAKE_INLINE void fetch(const AttentionArgs& args, int token, int first_head, int warp, int lane) {
#pragma unroll
    for (int i = 0; i < rows; i++) {
      const int head = first_head + warp + i * num_warps;
      const u16* row = args.query + ((s64)token * args.num_heads + head) * latent_dims + lane * 8;
#pragma unroll
      for (int k = 0; k < RowPieces::count; k++) {
        pieces[i].words[k] = make_uint4(0, 0, 0, 0);
        if (head < args.num_heads) pieces[i].words[k] = __ldg((const uint4*)(row + k * 256));
      }
    }
  }

  CAKE_INLINE void convert(u32 target, u32 factors, float score_scale, int warp, int lane) const {
#pragma unroll
    for (int i = 0; i < rows; i++) {
      const int row = warp + i * num_warps;
      if (block_heads % num_warps != 0 && row >= block_heads) break;
      convert_row(pieces[i], target + row * query_row_bytes, factors + row * 4, score_scale, lane);
    }
  }
};
