// NVFP4 query (opt-in): quantised as the cache writer does, per 16 NoPE dims scale = E4M3(amax / 6), codes = E2M1(x / scale), both round to
// nearest even and saturating. RoPE dims stay BF16.
#pragma once
#include "block_scaled.cuh"

// Fragments of the block-scaled product: 64 dims are units 2j and 2j + 1 of the slice, in dim order. A RoPE unit counts as zeros there.
#if !CAKE_WARPGROUP && !CAKE_TILE
struct Query {
  static constexpr int pairs = slice_units / 2;
  u32 codes[head_tiles][pairs][4], scales[head_tiles][pairs], rope[head_tiles][2][4];
};
#endif

CAKE_INLINE u32 encode_e4m3(float x) {
  u16 pair; asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(0.f), "f"(x)); return pair & 0xffu;
}
CAKE_INLINE float decode_e4m3(u32 byte) {
  float value; asm("{ .reg .b16 l, h; mov.b32 {l, h}, %1; cvt.f32.f16 %0, l; }" : "=f"(value) : "r"(decode_scales(byte))); return value;
}
// Nearest E2M1 code, ties to the even code: the boundaries lie half way between 0, 0.5, 1, 1.5, 2, 3, 4, 6.
CAKE_INLINE u32 encode_e2m1(float x) {
  const float a = fabsf(x);
  const u32 magnitude = (a > 0.25f) + (a >= 0.75f) + (a > 1.25f) + (a >= 1.75f) + (a > 2.5f) + (a >= 3.5f) + (a > 5.f);
  return magnitude | (__float_as_uint(x) >> 31) << 3;
}

// A NoPE piece becomes {its eight codes, the scale of its 16 dims}; a RoPE piece stays as it is.
CAKE_INLINE void convert_row(const RowPieces& raw, u32 target, u32 row, u32 factor, float score_scale, int lane) {
#pragma unroll
  for (int k = 0; k < RowPieces::count; k++) {
    const uint4 w = raw.words[k];
    const u32 piece = target + query_piece(row, lane + RowPieces::lanes * k);
    const float x[8] = {bf16_low(w.x), bf16_high(w.x), bf16_low(w.y), bf16_high(w.y), bf16_low(w.z), bf16_high(w.z), bf16_low(w.w), bf16_high(w.w)};
    float largest = 0.f;
#pragma unroll
    for (int i = 0; i < 8; i++) largest = fmaxf(largest, fabsf(x[i]));
    largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, 1));   // the neighbour has the other eight dims of the group
    if (k == RowPieces::count - 1 && lane >= first_rope_lane) {
#if CAKE_WARPGROUP || CAKE_TILE
      const u32 down = 0x31803180u;   // 2^-28: the decoded codes of query and cache both lack 2^14
      store_shared_u128(piece, multiply_bf16(w.x, down), multiply_bf16(w.y, down), multiply_bf16(w.z, down), multiply_bf16(w.w, down));
#else
      store_shared_u128(piece, w.x, w.y, w.z, w.w);
#endif
    } else {
      const u32 scale = encode_e4m3(__fdiv_rn(largest, 6.f));
      const float decoded = decode_e4m3(scale);
      u32 codes = 0;
#pragma unroll
      for (int i = 0; i < 8; i++) codes |= (decoded > 0.f ? encode_e2m1(__fdiv_rn(x[i], decoded)) : 0u) << (4 * i);
#if CAKE_WARPGROUP || CAKE_TILE
      u32 values[4];   // no block-scaled product there: the quantised values themselves, which F16 holds
      decode_codes(values, codes, duplicate_low(decode_scales(scale | scale << 8)));
      store_shared_u128(piece, values[0], values[1], values[2], values[3]);
#else
      store_shared_u64(piece, codes, scale);
#endif
    }
  }
  if (lane == 0) store_shared_f32(factor, score_scale * (warpgroups || shared_tile ? code_bias * code_bias : 1.f));
}

#if !CAKE_WARPGROUP && !CAKE_TILE
CAKE_INLINE void load_query(Query& query, u32 source, int slice, int lane) {
  const int quad_row = lane >> 2, quad_lane = lane & 3;
  const bool has_rope = slice >= slices - 2;
#pragma unroll
  for (int h = 0; h < head_tiles; h++) {
    const u32 tile = source + h * heads_per_tile * query_row_bytes;
#pragma unroll
    for (int j = 0; j < Query::pairs; j++) {
      const u32 scale_row = tile + (quad_row + 8 * (quad_lane & 1)) * query_row_bytes;
      query.scales[h][j] = 0;
#pragma unroll
      for (int u = 0; u < 2; u++) {
        const bool rope = has_rope && j == Query::pairs - 1 && u == 1;
        const u32 unit = ((2 * j + u) * slices + slice) * unit_dims * 2;
#pragma unroll
        for (int r = 0; r < 2; r++)
          query.codes[h][j][2 * u + r] = rope ? 0 : load_shared_u32(tile + (quad_row + 8 * r) * query_row_bytes + unit + quad_lane * piece_bytes);
        const u32 both = load_shared_u8(scale_row + unit + 4) | load_shared_u8(scale_row + unit + 2 * piece_bytes + 4) << 8;
        query.scales[h][j] |= rope ? 0 : both << (16 * u);
      }
    }
    const u32 rope_unit = ((slice_units - 1) * slices + slice) * unit_dims * 2 + quad_lane * 4;
#pragma unroll
    for (int i = 0; i < 8; i++)   // k step i / 4; register i % 4: row + 8 * (i % 2), piece 2k + i % 4 / 2
      query.rope[h][i / 4][i % 4] = load_shared_u32(tile + (quad_row + 8 * (i % 2)) * query_row_bytes + rope_unit + (i / 4 * 2 + i % 4 / 2) * piece_bytes);
  }
}

CAKE_INLINE const u32 (&rope_fragment(const Query& query, int h, int k))[4] { return query.rope[h][k]; }
#endif
