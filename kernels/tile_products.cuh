// The two products of the tile pipeline (tile.cuh), and where their operands lie.
#pragma once
#include "gather.cuh"
#include "query.cuh"

// The query as fragments, k step by k step: 28 of NoPE in the order of the codes (query_f16.cuh), then 4 of RoPE.
struct TileQuery {
  static constexpr int rope_step = 2 * nope_units, steps = latent_dims / 16;
  u32 values[steps][4];
  CAKE_INLINE void load(u32 source, int lane) {
    const u32 quad_row = lane >> 2, base = source + query_piece(quad_row, lane & 3);
#pragma unroll
    for (int p = 0; p < nope_units; p++)
#pragma unroll
      for (int r = 0; r < 2; r++) {
        const uint4 w = load_shared_u128((base ^ (p % 2 * 4 * piece_bytes)) + p / 2 * 8 * piece_bytes + r * 8 * query_row_bytes);
        values[2 * p][r] = w.x; values[2 * p][2 + r] = w.y; values[2 * p + 1][r] = w.z; values[2 * p + 1][2 + r] = w.w;
      }
    const u32 rope = source + query_piece(lane & 15, nope_units * 4 + (lane >> 4));
#pragma unroll
    for (int k = 0; k < steps - rope_step; k++) load_matrix(values[rope_step + k], rope ^ (2 * k * piece_bytes));
  }
};

__device__ constexpr u32 decoded_row(u32 row) { return row * decoded_row_bytes + scattered(row) * piece_bytes; }   // row < 8

// Where a lane reads and writes; offsets within a stage, a decoded tile or P.
struct TileAddresses {
  u32 keys;            // pieces 0 .. 3 of the warp's rows: row lane % 8, piece lane / 8
  u32 scales;          // the first half of the scales of the warp's row lane / 4
  u32 decoded;         // piece lane % 4 of the warp's decoded row lane / 4
  u32 values;          // warps 0 .. 6, in a tile: row lane % 16, the warp's first piece + lane / 16
  u32 rope_values;     // warp 7, in a stage: row lane % 16, RoPE piece 2 + lane / 16
  u32 p_store, p_load; // head lane / 4, the lane's two candidates of the warp; head lane % 16, candidates 8 * (lane / 16)

  CAKE_INLINE TileAddresses(int warp, int lane) {
    const u32 row = warp * 8 + (lane & 7), quad_row = lane >> 2;
    keys = piece_offset(row, lane >> 3);
    scales = piece_offset(warp * 8 + quad_row, first_scale_piece);
    decoded = warp * 8 * decoded_row_bytes + decoded_row(quad_row) + (lane & 3) * piece_bytes;
    values = (lane >> 3 & 1) * 8 * decoded_row_bytes + decoded_row(lane & 7) + (warp * 8 + (lane >> 4)) * piece_bytes;
    rope_values = piece_offset(lane & 15, first_rope_piece + 2 + (lane >> 4));
    p_store = quad_row * 128 + ((warp ^ quad_row) & 7) * piece_bytes + (lane & 3) * 4;
    p_load = (lane & 15) * 128 + (((lane >> 4) ^ lane) & 7) * piece_bytes;
  }
  CAKE_INLINE void settle() { asm volatile("" : "+r"(keys), "+r"(scales), "+r"(decoded), "+r"(values), "+r"(rope_values), "+r"(p_store), "+r"(p_load)); }
};

// Scores of 16 heads and the warp's eight candidates, as one m16n8 tile. Leaves the decoded rows in `tile`.
CAKE_INLINE void score_rows(float (&s)[4], const TileQuery& query, u32 stage, u32 tile, const TileAddresses& at, int lane) {
  constexpr int loads = row_pieces / 4;
  u32 words[2][4];   // four pieces each, one load ahead
  auto load = [&](int i) { load_matrix(words[i % 2], stage + (at.keys ^ (i % 2 * 4 * piece_bytes)) + i / 2 * 8 * piece_bytes); };
  load(0);
  const uint4 a = load_shared_u128(stage + at.scales), b = load_shared_u128(stage + (at.scales ^ piece_bytes));
  const u32 scales[8] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};   // of two units each
  const u32 selector = (lane >> 1 & 1) * 0x11;                      // a lane's eight dims lie in half lane % 4 / 2 of a unit
  float chains[4][4] = {};
#pragma unroll
  for (int i = 0; i < loads; i++) {
    if (i + 1 < loads) load(i + 1);
    const u32(&w)[4] = words[i % 2];
#pragma unroll
    for (int m = 0; m < 4; m++) {
      const int p = 4 * i + m;
      if (p < nope_units) {
        u32 v[4];
        decode_codes(v, w[m], decode_scales(__byte_perm(scales[p / 2], 0, selector + p % 2 * 0x22)));
        store_shared_u128(tile + at.decoded + 4 * p * piece_bytes, v[0], v[1], v[2], v[3]);
        mma_f16(chains[p % 2 * 2], query.values[2 * p], v[0], v[1]);
        mma_f16(chains[p % 2 * 2 + 1], query.values[2 * p + 1], v[2], v[3]);
      } else if (p < first_scale_piece && p % 2 == 0) {
        mma_bf16(chains[m], query.values[TileQuery::rope_step + (p - nope_units) / 2], w[m], w[m + 1]);
      }
    }
  }
#pragma unroll
  for (int i = 0; i < 4; i++) s[i] = (chains[0][i] + chains[1][i]) + (chains[2][i] + chains[3][i]);
}

typedef float TileOutput[8][4];   // m16n8 tiles of the warp's 64 dims

// output += P * the warp's dims of all candidates.
template <bool rope> CAKE_INLINE void add_values(TileOutput& output, u32 p, u32 source, const TileAddresses& at) {
  u32 weights[2][4], words[2][4];
  auto load_weights = [&](int k) { load_matrix(weights[k % 2], p + (rope ? probability_bytes : 0) + (at.p_load ^ (2 * k * piece_bytes))); };
  auto load = [&](int i) {
    const int k = i / 4, j = i % 4;
    if constexpr (rope) {   // RoPE pieces 0 and 1 end a block of eight pieces, the others follow in the next
      const u32 piece = j == 0 ? (at.rope_values ^ (6 * piece_bytes)) - 8 * piece_bytes : at.rope_values ^ (2 * (j - 1) * piece_bytes);
      load_matrix_transposed(words[i % 2], source + piece + k * 16 * row_bytes);
    } else {
      load_matrix_transposed(words[i % 2], source + at.values + k * 16 * decoded_row_bytes + 2 * j * piece_bytes);
    }
  };
  load_weights(0);
  load(0);
#pragma unroll
  for (int i = 0; i < 16; i++) {
    if (i + 1 < 16) load(i + 1);
    if (i % 4 == 0 && i < 12) load_weights(i / 4 + 1);
    const u32(&w)[4] = words[i % 2];
    const u32(&weight)[4] = weights[i / 4 % 2];
    float(&first)[4] = output[i % 4 * 2];
    float(&second)[4] = output[i % 4 * 2 + 1];
    if constexpr (rope) {
      mma_bf16(first, weight, w[0], w[1]);
      mma_bf16(second, weight, w[2], w[3]);
    } else {
      mma_f16(first, weight, w[0], w[1]);
      mma_f16(second, weight, w[2], w[3]);
    }
  }
}
