// Partial scores of one step: 16 heads x head_tiles by 16 candidates, over this warp's slice of the dims.
#pragma once
#include "query.cuh"

// Where a lane reads the rows of a stage (byte offsets). The same addresses serve ldmatrix for scores (rows are columns n of B)
// and ldmatrix.trans for values (rows are k of B).
struct RowAddresses {
  u32 units;     // packed words of units 0 and 1: row lane % 16, unit lane / 16
  u32 rope;      // RoPE pieces 0 and 1 of the slice's RoPE unit
  u32 scales;    // scale word of row lane / 4
  u32 value_scales;   // the scale that ValueScales prepares in this lane: group lane / 4 of the slice, row 2 * (lane % 4)
  u32 decoded_store, decoded_load;   // absolute, in this warp's decoded rows: piece t of row lane / 4; pieces 0 and 1 of row lane % 16

  CAKE_INLINE RowAddresses(int slice, int lane, u32 decoded) {
    decoded_store = decoded + decoded_row(lane >> 2) + (lane & 3) * piece_bytes;
    decoded_load = decoded + decoded_row(lane & 7) + (lane >> 3 & 1) * decoded_half_bytes + (lane >> 4) * piece_bytes;
    const u32 row = lane & 15, second = lane >> 4;
    units = piece_offset(row, slice + slices * second);
    rope = piece_offset(row, first_rope_piece + 4 * (slice & 1) + second);
    scales = piece_offset(lane >> 2, first_scale_piece) + ((2 * slice) & ~3);
    const u32 scale_byte = 2 * ((lane >> 3) % slice_units * slices + slice) + (lane >> 2 & 1);
    value_scales = piece_offset(2 * (lane & 3), first_scale_piece + (scale_byte >> 4)) + (scale_byte & 15);
  }
  CAKE_INLINE void settle() {
    asm volatile("" : "+r"(units), "+r"(rope), "+r"(scales), "+r"(decoded_store), "+r"(decoded_load));
    if (!reuse_decoded) asm volatile("" : "+r"(value_scales));
  }
  // RoPE pieces 2k and 2k + 1: two pieces on is an XOR by 6, across a block of 8 pieces in an even slice only.
  CAKE_INLINE u32 rope_pair(u32 stage, int k, int slice) const {
    return k == 0 ? stage + rope : ((stage + rope) ^ (6 * piece_bytes)) + (slice & 1 ? 0 : 8 * piece_bytes);
  }
  static CAKE_INLINE u32 decoded_row(u32 row) { return row * decoded_row_bytes + ((row >> 1) + 4 * (row & 1)) * piece_bytes; }   // row < 8
  // Units p and p + 1 (p even) of the slice: its units lie `slices` pieces apart, which is an XOR within a block of 8 pieces.
  static CAKE_INLINE u32 unit_pair(u32 base, int p) { return (base ^ (((p * slices) & 7) * piece_bytes)) + ((p * slices) >> 3) * 8 * piece_bytes; }
  static CAKE_INLINE u32 scale_word(u32 base, int p) { return (base ^ (((p * slices * 2) >> 4) * piece_bytes)) + ((p * slices * 2) & 15); }
};

// F16 scale pairs of the slice's NoPE units: candidate g in the low half, g + 8 in the high half. A lane's dims 8t .. 8t+7 lie in half t / 2 of
// a unit, so it takes one of the unit's two scales.
struct ScoreScales {
  static constexpr int batch = slice_units < 4 ? slice_units : 4;
  u32 pairs[batch];
  CAKE_INLINE void load(u32 base, int first, int slice, int lane) {   // units first .. first + batch - 1
    const u32 byte = ((2 * slice) & 3) + (lane >> 1 & 1), selector = byte | (byte + 4) << 4;
    if constexpr (slices == 2) {   // words of four consecutive units are adjacent
      const uint4 a = load_shared_u128(RowAddresses::scale_word(base, first)), b = load_shared_u128(RowAddresses::scale_word(base, first) + 8 * row_bytes);
      pairs[0] = decode_scales(__byte_perm(a.x, b.x, selector));
      pairs[1] = decode_scales(__byte_perm(a.y, b.y, selector));
      pairs[2 % batch] = decode_scales(__byte_perm(a.z, b.z, selector));
      pairs[3 % batch] = decode_scales(__byte_perm(a.w, b.w, selector));
    } else {
#pragma unroll
      for (int i = 0; i < batch; i++) {
        const u32 word = RowAddresses::scale_word(base, first + i);
        pairs[i] = decode_scales(__byte_perm(load_shared_u32(word), load_shared_u32(word + 8 * row_bytes), selector));
      }
    }
  }
};

typedef float Scores[head_tiles][2][4];   // [candidates 0..7, 8..15]: m16n8 tiles

// Decodes a unit of packed words for both candidate halves and, with reuse_decoded, keeps it for the value product.
struct DecodedPair {
  u32 low[4], high[4];
  CAKE_INLINE void decode(int p, u32 word0, u32 word1, u32 scales, u32 decoded) {
    decode_codes(low, word0, duplicate_low(scales));
    decode_codes(high, word1, duplicate_high(scales));
    if constexpr (reuse_decoded) {
      const u32 target = decoded + 4 * p * piece_bytes;
      store_shared_u128(target, low[0], low[1], low[2], low[3]);
      store_shared_u128(target + decoded_half_bytes, high[0], high[1], high[2], high[3]);
    }
  }
};

#if CAKE_QK_NVFP4
// Two units (64 dims) by the block-scaled product. A second unit that is RoPE has zero codes and scales in the query.
CAKE_INLINE void add_nope_pair(Scores& s, const Query& query, int p, const u32 (&words)[4], u32 scales_address, int slice, int lane) {
  const u32 byte = (2 * slice) & 2;   // of the slice's two scales in a scale word
#pragma unroll
  for (int n = 0; n < 2; n++) {
    u32 scales = 0, codes[2];
#pragma unroll
    for (int u = 0; u < 2; u++) {
      const u32 both = load_shared_u16(RowAddresses::scale_word(scales_address, p + u) + byte + n * 8 * row_bytes);
      const bool negative = both >> (8 * (lane >> 1 & 1) + 7) & 1;   // the product takes unsigned scales: the sign goes to the codes
      codes[u] = words[2 * u + n] ^ (negative ? 0x88888888u : 0u);
      scales |= (both & 0x7f7fu) << (16 * u);
    }
    if (p + 2 == slice_units && slice >= slices - 2) scales &= 0xffffu;   // behind the last NoPE unit lies padding
#pragma unroll
    for (int h = 0; h < head_tiles; h++) mma_block_scaled(s[h][n], query.codes[h][p / 2], query.scales[h][p / 2], codes[0], codes[1], scales);
  }
}
#else
// One NoPE unit: two k16 steps for both candidate halves.
CAKE_INLINE void add_nope_unit(float (&s)[2][4], const Query& query, int h, int p, const DecodedPair& unit) {
#pragma unroll
  for (int k = 0; k < 2; k++) {
    mma_f16(s[0], query.values[h][2 * p + k], unit.low[2 * k], unit.low[2 * k + 1]);
    mma_f16(s[1], query.values[h][2 * p + k], unit.high[2 * k], unit.high[2 * k + 1]);
  }
}
#endif

struct RopePair {
  u32 words[2][4];
  CAKE_INLINE void load(u32 stage, const RowAddresses& at, int slice) {
#pragma unroll
    for (int k = 0; k < 2; k++) load_matrix(words[k], at.rope_pair(stage, k, slice));
  }
  CAKE_INLINE void add(float (&s)[2][4], const Query& query, int h) const {
#pragma unroll
    for (int k = 0; k < 2; k++) {
      mma_bf16(s[0], rope_fragment(query, h, k), words[k][0], words[k][2]);
      mma_bf16(s[1], rope_fragment(query, h, k), words[k][1], words[k][3]);
    }
  }
};

CAKE_INLINE void clear(float (&s)[2][4]) {
#pragma unroll
  for (int i = 0; i < 8; i++) s[i / 4][i % 4] = 0.f;
}

// Unit after unit for all head tiles together, which keeps many products in flight. publish(h, tiles) takes each head tile's result.
template <class Publish>
CAKE_INLINE void compute_scores_by_unit(const Query& query, u32 stage, const RowAddresses& at, int slice, int lane, Publish publish) {
  const bool has_rope = slices == 2 || slice >= slices - 2;
  Scores scores;
  u32 words[2][4];   // two units each, one pair ahead
  load_matrix(words[0], RowAddresses::unit_pair(stage + at.units, 0));
  ScoreScales scales;
  constexpr bool decodes = !nvfp4_query || reuse_decoded;
  if (decodes) scales.load(stage + at.scales, 0, slice, lane);
#pragma unroll
  for (int h = 0; h < head_tiles; h++) clear(scores[h]);
  auto nope_unit = [&](int p, u32 word0, u32 word1) {
    DecodedPair unit;
    if (decodes) unit.decode(p, word0, word1, scales.pairs[p % 4], at.decoded_store);
#if !CAKE_QK_NVFP4
#pragma unroll
    for (int h = 0; h < head_tiles; h++) add_nope_unit(scores[h], query, h, p, unit);
#endif
  };
#pragma unroll
  for (int p = 0; p < slice_units; p += 2) {
    const u32(&w)[4] = words[p / 2 % 2];
    if (decodes && p > 0 && p % 4 == 0) scales.load(stage + at.scales, p, slice, lane);
#if CAKE_QK_NVFP4
    add_nope_pair(scores, query, p, w, stage + at.scales, slice, lane);
#endif
    nope_unit(p, w[0], w[1]);
    if (p + 2 < slice_units) load_matrix(words[(p / 2 + 1) % 2], RowAddresses::unit_pair(stage + at.units, p + 2));
    if (p + 1 == slice_units - 1 && has_rope) {
      RopePair rope;
      rope.load(stage, at, slice);
#pragma unroll
      for (int h = 0; h < head_tiles; h++) rope.add(scores[h], query, h);
    } else {
      nope_unit(p + 1, w[2], w[3]);
    }
  }
#pragma unroll
  for (int h = 0; h < head_tiles; h++) publish(h, scores[h]);
}

#if !CAKE_QK_NVFP4
// The slice's second unit, NoPE or RoPE, as compute_scores_by_head_tile adds it.
CAKE_INLINE void add_second_unit(float (&s)[2][4], const Query& query, int h, const DecodedPair& unit) { add_nope_unit(s, query, h, 1, unit); }
CAKE_INLINE void add_second_unit(float (&s)[2][4], const Query& query, int h, const RopePair& unit) { unit.add(s, query, h); }

template <class Second, class Publish>
CAKE_INLINE void publish_head_tiles(const Query& query, const DecodedPair& first, const Second& second, Publish publish) {
#pragma unroll
  for (int h = 0; h < head_tiles; h++) {
    float s[2][4];
    clear(s);
    add_nope_unit(s, query, h, 0, first);
    add_second_unit(s, query, h, second);
    publish(h, s);
  }
}

// With four head tiles a warp has two units only: decode both, then head tile after head tile, so that one tile's scores live at a time.
template <class Publish>
CAKE_INLINE void compute_scores_by_head_tile(const Query& query, u32 stage, const RowAddresses& at, int slice, int lane, Publish publish) {
  u32 words[4];
  load_matrix(words, RowAddresses::unit_pair(stage + at.units, 0));
  ScoreScales scales;
  scales.load(stage + at.scales, 0, slice, lane);
  DecodedPair first;
  first.decode(0, words[0], words[1], scales.pairs[0], at.decoded_store);
  if (slice >= slices - 2) {
    RopePair rope;
    rope.load(stage, at, slice);
    publish_head_tiles(query, first, rope, publish);
  } else {
    DecodedPair second;
    second.decode(1, words[2], words[3], scales.pairs[1 % ScoreScales::batch], at.decoded_store);
    publish_head_tiles(query, first, second, publish);
  }
}
#endif

template <class Publish>
CAKE_INLINE void compute_scores(const Query& query, u32 stage, const RowAddresses& at, int slice, int lane, Publish publish) {
#if !CAKE_QK_NVFP4
  if constexpr (head_tiles == 4) return compute_scores_by_head_tile(query, stage, at, slice, lane, publish);
#endif
  compute_scores_by_unit(query, stage, at, slice, lane, publish);
}
