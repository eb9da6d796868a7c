// Online softmax of one group, base 2, with a lazy maximum.
//
// P = 2^(score - m) keeps the row maximum m of earlier steps until a score exceeds it by more than `headroom`; 2^headroom still fits the F16
// of P. So the common step has no maximum to exchange and nothing to rescale. The row sum stays per lane until the end.
//
// A group's warps hold partial scores over their slices, which meet in shared memory behind a barrier of the group:
//   private (one head tile)  every warp sums both score tiles itself and keeps P in registers; the warps of a group see the same sums and so
//                            take the same decisions without another word;
//   shared  (more tiles)     warp f finishes score tile f (head tile f / 2, candidate half f % 2) and stores P; a second barrier carries the
//                            question whether any tile exceeded its maximum, and if so the group rescales together.
#pragma once
#include "lse.cuh"
#include "values.cuh"


// Places of one group, and of this warp in it.
struct Group {
  u32 stage, decoded, partial, probability, maxima, stats, factors;
  int index, slice;
  CAKE_INLINE Group(u32 shared, int warp) : index(warp / slices), slice(warp % slices) {
    stage = shared + index * group_bytes;
    decoded = stage + decoded_offset + slice * decoded_warp_bytes;   // this warp's own rows
    partial = stage + partial_offset;
    probability = stage + probability_offset;
    maxima = shared + maxima_offset + index * maxima_bytes;
    stats = shared + stats_offset + index * stats_bytes;
    factors = shared + factors_offset + (private_softmax ? 0 : slice / 2 * heads_per_tile * 4);   // of the head tile whose scores this warp finishes
  }
  CAKE_INLINE void meet() const { named_barrier(1 + index, slices * 32); }
  CAKE_INLINE bool meet_and_ask(bool mine) const { return named_barrier_any(1 + index, slices * 32, mine); }
};

// Each slice's float32 tiles lie together, 16 bytes per lane.
CAKE_INLINE void publish_scores(const float (&s)[2][4], const Group& group, int step, int h, int lane) {
  const u32 target = group.partial + step % partial_buffers * partial_bytes + (2 * h * slices + group.slice) * tile_bytes + lane * 16;
#pragma unroll
  for (int n = 0; n < 2; n++) store_shared_f32x4(target + n * slices * tile_bytes, s[n][0], s[n][1], s[n][2], s[n][3]);
}

// The slices' partial scores of one tile, requested early and summed later, in log2 units.
struct TileParts {
  float parts[slices][4];
  CAKE_INLINE void load(const Group& group, int step, int tile, int lane) {
    const u32 source = group.partial + step % partial_buffers * partial_bytes + tile * slices * tile_bytes + lane * 16;
#pragma unroll
    for (int i = 0; i < slices; i++) load_shared_f32x4(parts[i], source + i * tile_bytes);
  }
  CAKE_INLINE void sum(float (&s)[4], const float (&factor)[2]) const {
#pragma unroll
    for (int i = 0; i < 4; i++) {
      s[i] = parts[0][i];
#pragma unroll
      for (int k = 1; k < slices; k++) s[i] += parts[k][i];
      s[i] *= factor[i >> 1];
    }
  }
};

CAKE_INLINE void load_factors(float (&factor)[2], const Group& group, int lane) {
  factor[0] = load_shared_f32(group.factors + (lane >> 2) * 4);
  factor[1] = load_shared_f32(group.factors + (lane >> 2) * 4 + 32);
}

// Masked candidates of a tile to -inf; bit n of `valid` is column n.
CAKE_INLINE void mask_tile(float (&s)[4], u32 valid, int lane) {
  const u32 bits = valid >> (2 * (lane & 3));
  if (!(bits & 1)) s[0] = s[2] = negative_infinity();
  if (!(bits & 2)) s[1] = s[3] = negative_infinity();
}

CAKE_INLINE void rescale(float (&output)[output_tiles][4], float factor0, float factor1) {
#pragma unroll
  for (int n = 0; n < output_tiles; n++) {
    output[n][0] *= factor0; output[n][1] *= factor0;
    output[n][2] *= factor1; output[n][3] *= factor1;
  }
}

struct PrivateSoftmax {
  float maximum[2] = {lowest_maximum, lowest_maximum}, sum[2] = {0.f, 0.f};
  CAKE_INLINE void init(const Group&, int) const {}

  TileParts tiles[2];
  float factor[2];
  CAKE_INLINE void request(const Group& group, int step, int lane) {
    load_factors(factor, group, lane);
    tiles[0].load(group, step, 0, lane);
    tiles[1].load(group, step, 1, lane);
  }

  // From the requested scores to P as A fragments.
  CAKE_INLINE void finish(Probabilities& probabilities, Output& output, const Group& group, int step, u32 valid, int lane) {
    float s[2][4];
    tiles[0].sum(s[0], factor);
    tiles[1].sum(s[1], factor);
    if (valid != 0xffffu) {
      mask_tile(s[0], valid, lane);
      mask_tile(s[1], valid >> 8, lane);
    }
    const float top0 = fmaxf(fmaxf(s[0][0], s[0][1]), fmaxf(s[1][0], s[1][1]));
    const float top1 = fmaxf(fmaxf(s[0][2], s[0][3]), fmaxf(s[1][2], s[1][3]));
    if (__any_sync(0xffffffffu, top0 > maximum[0] + headroom || top1 > maximum[1] + headroom)) {
      const float new0 = fmaxf(maximum[0], quad_max(top0)), new1 = fmaxf(maximum[1], quad_max(top1));
      const float factor0 = exp2_fast(maximum[0] - new0), factor1 = exp2_fast(maximum[1] - new1);
      maximum[0] = new0; maximum[1] = new1;
      sum[0] *= factor0; sum[1] *= factor1;
      if (step > 0) rescale(output[0], factor0, factor1);
    }
#pragma unroll
    for (int n = 0; n < 2; n++) {
#pragma unroll
      for (int i = 0; i < 4; i++) s[n][i] = exp2_fast(s[n][i] - maximum[i >> 1]);
      sum[0] += s[n][0] + s[n][1];
      sum[1] += s[n][2] + s[n][3];
      probabilities.values[0][2 * n] = pack_f16(s[n][0], s[n][1]);
      probabilities.values[0][2 * n + 1] = pack_f16(s[n][2], s[n][3]);
    }
  }

  // Leaves {maximum, sum} of every head of the group in shared memory.
  CAKE_INLINE void store_totals(const Group& group, int lane) {
    const float total0 = quad_sum(sum[0]), total1 = quad_sum(sum[1]);
    if (group.slice == 0 && (lane & 3) == 0) {
      store_shared_u64(group.stats + (lane >> 2) * 8, __float_as_uint(maximum[0]), __float_as_uint(total0));
      store_shared_u64(group.stats + ((lane >> 2) + 8) * 8, __float_as_uint(maximum[1]), __float_as_uint(total1));
    }
  }
};

struct SharedSoftmax {
  float sum[2] = {0.f, 0.f};
  float own[4], own_maximum[2] = {lowest_maximum, lowest_maximum};   // the finished scores of this warp's tile and its row maxima
  // The group's maxima live in its totals, {maximum, sum} per head: only the rare raise reads them.
  CAKE_INLINE void init(const Group& group, int lane) const {
    if (group.slice == 0)
      for (int row = lane; row < block_heads; row += 32) store_shared_f32(group.stats + row * 8, lowest_maximum);
  }

  // P rows are 32 bytes; the two 16-byte halves swap every four rows so that ldmatrix reads eight rows without conflicts.
  static CAKE_INLINE u32 half_offset(u32 row, u32 half) { return row * 32 + ((half ^ (row >> 2)) & 1) * 16; }

  CAKE_INLINE void store_probabilities(float (&sums)[2], const Group& group, int lane) const {
    const float p0 = exp2_fast(own[0] - own_maximum[0]), p1 = exp2_fast(own[1] - own_maximum[0]);
    const float p2 = exp2_fast(own[2] - own_maximum[1]), p3 = exp2_fast(own[3] - own_maximum[1]);
    sums[0] = p0 + p1; sums[1] = p2 + p3;
    const u32 row = group.slice / 2 * heads_per_tile + (lane >> 2);
    const u32 target = group.probability + (lane & 3) * 4;
    store_shared_u32(target + half_offset(row, group.slice & 1), pack_f16(p0, p1));
    store_shared_u32(target + half_offset(row + 8, group.slice & 1), pack_f16(p2, p3));
  }

  TileParts tile;
  float factor[2];
  CAKE_INLINE void request(const Group& group, int step, int lane) {
    load_factors(factor, group, lane);
    tile.load(group, step, group.slice, lane);
  }

  CAKE_INLINE void finish(Probabilities& probabilities, Output& output, const Group& group, int step, u32 valid, int lane) {
    tile.sum(own, factor);
    if (valid != 0xffffu) mask_tile(own, valid >> (group.slice % 2 * 8), lane);
    const float top0 = fmaxf(own[0], own[1]), top1 = fmaxf(own[2], own[3]);
    float sums[2];
    store_probabilities(sums, group, lane);
    const bool exceeds = top0 > own_maximum[0] + headroom || top1 > own_maximum[1] + headroom;
    if (group.meet_and_ask(exceeds)) raise_maxima(sums, output, group, step, quad_max(top0), quad_max(top1), lane);
    sum[0] += sums[0]; sum[1] += sums[1];
    probabilities.source = group.probability + half_offset(lane & 15, lane >> 4);
    probabilities.keep();
  }

  // Rare after the first step: every warp learns the new maxima, rescales its output, and the P of all tiles is stored again.
  CAKE_INLINE void raise_maxima(float (&sums)[2], Output& output, const Group& group, int step, float max0, float max1, int lane) {
    const u32 quad_row = lane >> 2;
    if ((lane & 3) == 0) {
      store_shared_f32(group.maxima + (group.slice * heads_per_tile + quad_row) * 4, max0);
      store_shared_f32(group.maxima + (group.slice * heads_per_tile + quad_row + 8) * 4, max1);
    }
    group.meet();
#pragma unroll
    for (int h = 0; h < head_tiles; h++) {
      float factor[2];
#pragma unroll
      for (int r = 0; r < 2; r++) {
        const u32 source = group.maxima + (2 * h * heads_per_tile + quad_row + 8 * r) * 4;
        const float before = load_shared_f32(group.stats + (h * heads_per_tile + quad_row + 8 * r) * 8);
        const float m = fmaxf(before, fmaxf(load_shared_f32(source), load_shared_f32(source + heads_per_tile * 4)));
        factor[r] = exp2_fast(before - m);
        own_maximum[r] = group.slice / 2 == h ? m : own_maximum[r];
        sum[r] *= group.slice / 2 == h ? factor[r] : 1.f;
      }
      if (step > 0) rescale(output[h], factor[0], factor[1]);
    }
    store_probabilities(sums, group, lane);
    group.meet();
    if (group.slice % 2 == 0 && (lane & 3) == 0) {
      store_shared_f32(group.stats + (group.slice / 2 * heads_per_tile + quad_row) * 8, own_maximum[0]);
      store_shared_f32(group.stats + (group.slice / 2 * heads_per_tile + quad_row + 8) * 8, own_maximum[1]);
    }
  }

  // Leaves {maximum, sum} of every head of the group in shared memory: the two tiles of a head tile add their sums.
  CAKE_INLINE void store_totals(const Group& group, int lane) {
    const u32 quad_row = lane >> 2;
    const float total0 = quad_sum(sum[0]), total1 = quad_sum(sum[1]);
    if ((lane & 3) == 0) {
      store_shared_f32(group.maxima + (group.slice * heads_per_tile + quad_row) * 4, total0);
      store_shared_f32(group.maxima + (group.slice * heads_per_tile + quad_row + 8) * 4, total1);
    }
    group.meet();
    if (group.slice == 0)
      for (int row = lane; row < block_heads; row += 32) {
        const u32 source = group.maxima + (row / heads_per_tile * 2 * heads_per_tile + row % heads_per_tile) * 4;
        store_shared_f32(group.stats + row * 8 + 4, load_shared_f32(source) + load_shared_f32(source + heads_per_tile * 4));
      }
  }
};

template <bool one_tile> struct SoftmaxOf { typedef SharedSoftmax type; };
template <> struct SoftmaxOf<true> { typedef PrivateSoftmax type; };
typedef SoftmaxOf<private_softmax>::type Softmax;
