// Full-precision query: F16 with one power of two per head.
//
// BF16 values then lose nothing above 2^-39 of the row's largest, and the scores carry the power away again. RoPE dims stay BF16 because the
// cache's RoPE dims are.
#pragma once

// Fragment order: lane t of a quad holds dims 8t..8t+7 of a NoPE unit, the ones that one packed 32-bit word of the cache holds.
// decode_codes pairs dim j with dim j+4, so k step 0 of the unit takes dims (0,4) and (1,5), k step 1 dims (2,6) and (3,7).
#if !CAKE_WARPGROUP && !CAKE_TILE
struct Query {
  u32 values[head_tiles][slice_units * 2][4];
};
#endif

// Largest magnitude of two BF16 pairs; the sign of the result means nothing.
CAKE_INLINE u32 max_magnitude(u32 a, u32 b) { u32 r; asm("max.xorsign.abs.bf16x2 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b)); return r; }

// Stores one row as fragments want it: 16 bytes per piece, and the head's factor. `lane` is the place in the half warp.
CAKE_INLINE void convert_row(const RowPieces& raw, u32 target, u32 row, u32 factor, float score_scale, int lane) {
  u32 tops[RowPieces::count];
#pragma unroll
  for (int k = 0; k < RowPieces::count; k++)
    tops[k] = max_magnitude(max_magnitude(raw.words[k].x, raw.words[k].y), max_magnitude(raw.words[k].z, raw.words[k].w));
  u32 largest = max_magnitude(max_magnitude(tops[0], tops[1]), max_magnitude(tops[2], tops[3]));
#pragma unroll
  for (int x = RowPieces::lanes / 2; x; x >>= 1) largest = max_magnitude(largest, __shfl_xor_sync(0xffffffffu, largest, x));
  // up = 2^(14 - e) for a row maximum in [2^e, 2^(e+1)); the clamp keeps both powers normal.
  const u32 exponent = max(max(largest >> 7 & 0xffu, largest >> 23 & 0xffu), 24u);
  const u32 up = (127 + 14 + 127 - exponent) * 0x00800080u;
#pragma unroll
  for (int k = 0; k < RowPieces::count; k++) {
    const u32 x = multiply_bf16(raw.words[k].x, up), y = multiply_bf16(raw.words[k].y, up);
    const u32 z = multiply_bf16(raw.words[k].z, up), w = multiply_bf16(raw.words[k].w, up);
    uint4 piece = make_uint4(pack_f16(bf16_low(x), bf16_low(z)), pack_f16(bf16_high(x), bf16_high(z)), pack_f16(bf16_low(y), bf16_low(w)),
                             pack_f16(bf16_high(y), bf16_high(w)));
    if (k == RowPieces::count - 1 && lane >= first_rope_lane) {   // RoPE: BF16 in its own order, without the codes' missing 2^14
      constexpr u32 down = 0x38803880u;
      static_assert(code_bias == 16384.f, "down is 1 / code_bias twice");
      piece = make_uint4(multiply_bf16(x, down), multiply_bf16(y, down), multiply_bf16(z, down), multiply_bf16(w, down));
    }
    store_shared_u128(target + query_piece(row, lane + RowPieces::lanes * k), piece.x, piece.y, piece.z, piece.w);
  }
  if (lane == 0) store_shared_f32(factor, __uint_as_float(exponent << 23) * score_scale);
}

#if !CAKE_WARPGROUP && !CAKE_TILE
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
#endif
