// Full-precision query: F16 with one power of two per head.
//
// BF16 values then lose nothing above 2^-39 of the row's largest, and the scores carry the power away again. RoPE dims stay BF16 because the
// cache's RoPE dims are.
#pragma once

// Fragment order: lane t of a quad holds dims 8t..8t+7 of a NoPE unit, the ones that one packed 32-bit word of the cache holds.
// decode_codes pairs dim j with dim j+4, so k step 0 of the unit takes dims (0,4) and (1,5), k step 1 dims (2,6) and (3,7).
struct Query {
  u32 values[head_tiles][slice_units * 2][4];
};

CAKE_INLINE u32 max_magnitude(u32 a, u32 b) { u32 r; asm("max.bf16x2 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b & 0x7fff7fffu)); return r; }

// Stores one row as fragments want it: 16 bytes per piece, and the head's factor.
CAKE_INLINE void convert_row(const RowPieces& raw, u32 target, u32 factor, float score_scale, int lane) {
  u32 largest = 0;
#pragma unroll
  for (int k = 0; k < RowPieces::count; k++)
    largest = max_magnitude(max_magnitude(max_magnitude(max_magnitude(largest, raw.words[k].x), raw.words[k].y), raw.words[k].z), raw.words[k].w);
  float row_max = fmaxf(bf16_low(largest), bf16_high(largest));
#pragma unroll
  for (int x = 16; x; x >>= 1) row_max = fmaxf(row_max, __shfl_xor_sync(0xffffffffu, row_max, x));
  // up = 2^(14 - e) for row_max in [2^e, 2^(e+1)); the clamp keeps both powers normal.
  const u32 exponent = max(__float_as_uint(row_max) >> 23, 24u);
  const float up = __uint_as_float((127 + 14 + 127 - exponent) << 23);
#pragma unroll
  for (int k = 0; k < RowPieces::count; k++) {
    const uint4 w = raw.words[k];
    const u32 piece = target + (lane + 32 * k) * piece_bytes;
    if (lane + 32 * k >= nope_units * 4) {   // RoPE: BF16 in its own order, without the codes' missing 2^14
      const float down = 1.f / code_bias;
      store_shared_u128(piece, pack_bf16(bf16_low(w.x) * up * down, bf16_high(w.x) * up * down), pack_bf16(bf16_low(w.y) * up * down, bf16_high(w.y) * up * down),
                        pack_bf16(bf16_low(w.z) * up * down, bf16_high(w.z) * up * down), pack_bf16(bf16_low(w.w) * up * down, bf16_high(w.w) * up * down));
    } else {
      store_shared_u128(piece, pack_f16(bf16_low(w.x) * up, bf16_low(w.z) * up), pack_f16(bf16_high(w.x) * up, bf16_high(w.z) * up),
                        pack_f16(bf16_low(w.y) * up, bf16_low(w.w) * up), pack_f16(bf16_high(w.y) * up, bf16_high(w.w) * up));
    }
  }
  if (lane == 0) store_shared_f32(factor, __uint_as_float(exponent << 23) * score_scale);
}

CAKE_INLINE void load_query(Query& query, u32 source, int slice, int lane) {
  const int quad_row = lane >> 2, quad_lane = lane & 3;
  const bool has_rope = slice >= slices - 2;
#pragma unroll
  for (int h = 0; h < head_tiles; h++)
#pragma unroll
    for (int r = 0; r < 2; r++) {
      const u32 row = source + (h * heads_per_tile + quad_row + 8 * r) * query_row_bytes;
#pragma unroll
      for (int p = 0; p < slice_units; p++) {
        const u32 unit = row + (p * slices + slice) * unit_dims * 2;
        u32(&first)[4] = query.values[h][2 * p];
        u32(&second)[4] = query.values[h][2 * p + 1];
        if (p == slice_units - 1 && has_rope) {
          first[r] = load_shared_u32(unit + quad_lane * 4);
          first[2 + r] = load_shared_u32(unit + 16 + quad_lane * 4);
          second[r] = load_shared_u32(unit + 32 + quad_lane * 4);
          second[2 + r] = load_shared_u32(unit + 48 + quad_lane * 4);
        } else {
          const uint4 w = load_shared_u128(unit + quad_lane * piece_bytes);
          first[r] = w.x; first[2 + r] = w.y; second[r] = w.z; second[2 + r] = w.w;
        }
      }
    }
}

CAKE_INLINE const u32 (&rope_fragment(const Query& query, int h, int k))[4] { return query.values[h][2 * (slice_units - 1) + k]; }
