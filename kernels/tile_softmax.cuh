// The softmax of the tile pipeline (tile.cuh): scores in, P to shared memory out, and the totals of a row at the end.
#pragma once
#include "lse.cuh"
#include "tile_products.cuh"

// Softmax of a chunk over all warps, base 2: softmax.cuh says how the maximum is lazy. Every warp has the same maxima.
struct TileSoftmax {
  float maximum[2] = {lowest_maximum, lowest_maximum}, sum[2] = {0.f, 0.f}, factor[2];

  // From products to P of the chunk in shared memory, visible to the CTA at the end. `valid` has a bit per candidate of the warp.
  CAKE_INLINE void finish(float (&s)[4], TileOutput& output, u32 shared, u32 p, u32 valid, bool first, const TileAddresses& at, int warp, int lane) {
#pragma unroll
    for (int i = 0; i < 4; i++) s[i] *= factor[i >> 1];
    if (valid != 0xffu) {
      const u32 bits = valid >> (2 * (lane & 3));
      if (!(bits & 1)) s[0] = s[2] = negative_infinity();
      if (!(bits & 2)) s[1] = s[3] = negative_infinity();
    }
    const float top[2] = {fmaxf(s[0], s[1]), fmaxf(s[2], s[3])};
    float sums[2];
    bool raise = first;
#pragma unroll 1
    while (true) {
      if (raise) raise_maxima(top, output, shared, first, warp, lane);
      const float p0 = exp2_fast(s[0] - maximum[0]), p1 = exp2_fast(s[1] - maximum[0]), p2 = exp2_fast(s[2] - maximum[1]), p3 = exp2_fast(s[3] - maximum[1]);
      store_shared_u32(p + at.p_store, pack_f16(p0, p1));
      store_shared_u32(p + at.p_store + 8 * 128, pack_f16(p2, p3));
      store_shared_u32(p + at.p_store + probability_bytes, pack_bf16(p0, p1));   // for the RoPE values
      store_shared_u32(p + at.p_store + probability_bytes + 8 * 128, pack_bf16(p2, p3));
      sums[0] = p0 + p1; sums[1] = p2 + p3;
      const bool exceeds = !raise && (top[0] > maximum[0] + headroom || top[1] > maximum[1] + headroom);
      if (!__syncthreads_or(exceeds)) break;
      raise = true;
    }
    sum[0] += sums[0];
    sum[1] += sums[1];
  }

  // The largest score that any warp has seen becomes the maximum; holds a barrier.
  CAKE_INLINE void raise_maxima(const float (&top)[2], TileOutput& output, u32 shared, bool first, int warp, int lane) {
    const u32 mine = shared + maxima_offset + (lane >> 2) * num_warps * 4;
    const float own0 = quad_max(top[0]), own1 = quad_max(top[1]);
    if ((lane & 3) == 0) {
      store_shared_f32(mine + warp * 4, own0);
      store_shared_f32(mine + 8 * num_warps * 4 + warp * 4, own1);
    }
    __syncthreads();
#pragma unroll
    for (int r = 0; r < 2; r++) {
      float a[4], b[4];
      load_shared_f32x4(a, mine + r * 8 * num_warps * 4);
      load_shared_f32x4(b, mine + r * 8 * num_warps * 4 + 16);
      const float raised = fmaxf(maximum[r], fmaxf(fmaxf(fmaxf(a[0], a[1]), fmaxf(a[2], a[3])), fmaxf(fmaxf(b[0], b[1]), fmaxf(b[2], b[3]))));
      const float rescale = exp2_fast(maximum[r] - raised);
      maximum[r] = raised;
      sum[r] *= rescale;
      if (!first)
#pragma unroll
        for (int n = 0; n < 8; n++) { output[n][2 * r] *= rescale; output[n][2 * r + 1] *= rescale; }
    }
  }

  // Leaves the warp's sums in shared memory.
  CAKE_INLINE void store_sums(u32 shared, int warp, int lane) const {
    const float total0 = quad_sum(sum[0]), total1 = quad_sum(sum[1]);
    if ((lane & 3) != 0) return;
    const u32 mine = shared + sums_offset + (lane >> 2) * num_warps * 4 + warp * 4;
    store_shared_f32(mine, total0);
    store_shared_f32(mine + 8 * num_warps * 4, total1);
  }
};

// What store_sums left, over all warps.
CAKE_INLINE float total_of(u32 shared, int row) {
  float a[4], b[4];
  load_shared_f32x4(a, shared + sums_offset + row * num_warps * 4);
  load_shared_f32x4(b, shared + sums_offset + row * num_warps * 4 + 16);
  return ((a[0] + a[1]) + (a[2] + a[3])) + ((b[0] + b[1]) + (b[2] + b[3]));
}
