// The value product of one step: output += P (heads x 16 candidates) * V (16 candidates x this warp's slice of the dims).
#pragma once
#include "scores.cuh"

// output[h][4p + j] is an m16n8 tile of unit p. A lane's columns 2t, 2t+1 are, in a RoPE unit, dims 8j + 2t, 8j + 2t + 1; in a NoPE unit
//   read as packed words:   dims 8t + j, 8t + 4 + j (the four tiles together: dims 8t .. 8t+7);
//   read as decoded pieces: dims 8j + t, 8j + 4 + t (the quad together: dims 8j .. 8j+7).
typedef float Output[head_tiles][output_tiles][4];

// Scales for ldmatrix.trans words: F16 pairs (candidate 2t, candidate 2t+1), one per group of 16 dims. Lane (G, t) prepares group G of the
// slice, and group 8 + G when there are that many; a shuffle then hands each lane the group of its dims 4g .. 4g+3, half g / 4 of a unit.
struct ValueScales {
  static constexpr int banks = slice_units > 4 ? 2 : 1;
  u32 prepared[banks][2];   // [..][candidates 0..7, 8..15]

  // `base` is the place of the lane's first scale in row 2t. The next row is an XOR by one piece and a row on, bank 1 an XOR by one piece.
  CAKE_INLINE void load(u32 base) {
#pragma unroll
    for (int b = 0; b < banks; b++)
#pragma unroll
      for (int k = 0; k < 2; k++) {
        const u32 even = load_shared_u8((base ^ (b * piece_bytes)) + 8 * k * row_bytes);
        const u32 odd = load_shared_u8((base ^ ((b ^ 1) * piece_bytes)) + (8 * k + 1) * row_bytes);
        prepared[b][k] = decode_scales(even | odd << 8);
      }
  }
  CAKE_INLINE u32 of_unit(int p, int k, int lane) const {
    return __shfl_sync(0xffffffffu, prepared[p / 4][k], (lane & 3) + 4 * (lane >> 4) + 8 * (p % 4));
  }
};


// P of a step as F16 A fragments. With four head tiles registers are short: each use loads its fragment again from shared memory.
struct Probabilities {
  static constexpr bool kept = head_tiles < 4;
  u32 values[kept ? head_tiles : 1][4];
  u32 source;   // shared memory address of this lane's row of head tile 0
  static constexpr int tile_stride = heads_per_tile * step_candidates * 2;

  CAKE_INLINE void keep() {
#pragma unroll
    for (int h = 0; h < (kept ? head_tiles : 0); h++) load_matrix(values[h], source + h * tile_stride);
  }
  CAKE_INLINE const u32 (&of_tile(int h))[4] {
    if constexpr (!kept) load_matrix(values[0], source + h * tile_stride);
    return values[kept ? h : 0];
  }
};

// RoPE values are BF16, so P is converted for them, one head tile at a time.
CAKE_INLINE void add_rope_tiles(Output& output, Probabilities& probabilities, int first_tile, const u32 (&words)[4]) {
#pragma unroll
  for (int h = 0; h < head_tiles; h++) {
    const u32(&p)[4] = probabilities.of_tile(h);
    u32 converted[4];
#pragma unroll
    for (int i = 0; i < 4; i++) converted[i] = f16_pair_to_bf16(p[i]);
    mma_bf16(output[h][first_tile], converted, words[0], words[1]);
    mma_bf16(output[h][first_tile + 1], converted, words[2], words[3]);
  }
}

// The value product as a stream of ldmatrix.trans, `ahead` of them in flight; the first are requested before P is known.
// reuse_decoded: load i holds both tiles 2i and 2i + 1. Otherwise: packed words of units 2i and 2i + 1, decoded here.
struct ValueStream {
  static constexpr int loads = reuse_decoded ? 2 * slice_units : slice_units / 2;
  static constexpr int ahead = reuse_decoded ? (slice_units > 2 ? 3 : 2) : 1;
  u32 words[ahead + 1][4];
  ValueScales scales;

  template <bool has_rope> CAKE_INLINE void load(int i, u32 stage, const RowAddresses& at, int slice) {
    if constexpr (reuse_decoded) {
      constexpr int decoded_loads = loads - (has_rope ? 2 : 0);
      load_matrix_transposed(words[i % (ahead + 1)], i < decoded_loads ? at.decoded_load + 2 * i * piece_bytes : at.rope_pair(stage, i - decoded_loads, slice));
    } else {
      load_matrix_transposed(words[i % (ahead + 1)], RowAddresses::unit_pair(stage + at.units, 2 * i));
    }
  }

  CAKE_INLINE void prefetch(u32 stage, const RowAddresses& at, int slice, int lane) {
    if constexpr (!reuse_decoded) scales.load(stage + at.value_scales);
#pragma unroll
    for (int i = 0; i < ahead; i++) load<false>(i, stage, at, slice);
  }

  CAKE_INLINE void add_packed_unit(Output& output, Probabilities& probabilities, int p, u32 word0, u32 word1, int lane) {
    u32 low[4], high[4];
    decode_codes(low, word0, scales.of_unit(p, 0, lane));
    decode_codes(high, word1, scales.of_unit(p, 1, lane));
#pragma unroll
    for (int h = 0; h < head_tiles; h++) {
      const u32(&a)[4] = probabilities.of_tile(h);
#pragma unroll
      for (int j = 0; j < 4; j++) mma_f16(output[h][4 * p + j], a, low[j], high[j]);
    }
  }

  template <bool has_rope> CAKE_INLINE void add_all(Output& output, Probabilities& probabilities, u32 stage, const RowAddresses& at, int slice, int lane) {
#pragma unroll
    for (int i = 0; i < loads; i++) {
      if (i + ahead < loads) load<has_rope>(i + ahead, stage, at, slice);
      const u32(&w)[4] = words[i % (ahead + 1)];
      if constexpr (!reuse_decoded) {
        add_packed_unit(output, probabilities, 2 * i, w[0], w[1], lane);
        if (!has_rope || i < loads - 1) add_packed_unit(output, probabilities, 2 * i + 1, w[2], w[3], lane);
      } else if (has_rope && i >= loads - 2) {
        add_rope_tiles(output, probabilities, 2 * i, w);
      } else {
#pragma unroll
        for (int h = 0; h < head_tiles; h++) {
          const u32(&a)[4] = probabilities.of_tile(h);
          mma_f16(output[h][2 * i], a, w[0], w[1]);
          mma_f16(output[h][2 * i + 1], a, w[2], w[3]);
        }
      }
    }
    if constexpr (!reuse_decoded && has_rope) {
#pragma unroll
      for (int k = 0; k < 2; k++) {
        load_matrix_transposed(words[k], at.rope_pair(stage, k, slice));
        add_rope_tiles(output, probabilities, 4 * (slice_units - 1) + 2 * k, words[k]);
      }
    }
  }

  CAKE_INLINE void add(Output& output, Probabilities& probabilities, u32 stage, const RowAddresses& at, int slice, int lane) {
    if (slices == 2 || slice >= slices - 2) add_all<true>(output, probabilities, stage, at, slice, lane);
    else add_all<false>(output, probabilities, stage, at, slice, lane);
  }
};
