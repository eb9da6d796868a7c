// From shares of rows in shared memory to whole rows and log-sum-exps in global memory: how the groups of pipeline.cuh end, and a block of warpgroups
// that has no pair.
//
// A thread per head works out what each share of its row is multiplied with, from the {maximum, sum} that every group left for it; then the
// CTA sums the weighted shares in float32 and writes whole 1024-byte rows. The code here runs once, so few instructions count for more than
// few barriers.
//
// An even number of splits may be launched in clusters of two neighbouring splits. Then the two blocks read each other's shares and totals from
// shared memory (sm_90a only, for want of another board) and each finishes half of the heads for both: half as many partials, and neither partials nor a merge when there are two splits.
#pragma once
#include "dequant.cuh"
#include "lse.cuh"
#include "place.cuh"

// The softmax total of one head over the groups of `ranks` blocks. A group without a valid candidate has sum 0 and the lowest maximum.
template <int ranks> struct HeadTotals {
  float maxima[ranks * groups];
  RowTotal total;
  CAKE_INLINE HeadTotals(const u32 (&blocks)[ranks], int row) {
    float sums[ranks * groups];
    total = {lowest_maximum, 0.f};
#pragma unroll
    for (int i = 0; i < ranks * groups; i++) {
      const u32 source = blocks[i / groups] + stats_offset + i % groups * stats_bytes + row * 8;
      const uint2 x = ranks == 1 ? load_shared_u64(source) : load_cluster_u64(source);
      maxima[i] = __uint_as_float(x.x); sums[i] = __uint_as_float(x.y);
      total.maximum = fmaxf(total.maximum, maxima[i]);
    }
#pragma unroll
    for (int i = 0; i < ranks * groups; i++) total.sum += sums[i] * exp2_fast(maxima[i] - total.maximum);
  }
};

// What every share of a row is multiplied with: for each block of the cluster 16 bytes per row that this block finishes, NoPE first (it lacks the
// codes' 2^14), then RoPE.
constexpr u32 weights_offset = slots_offset, rope_weights = block_heads * 16;
template <int ranks> constexpr int part_heads = block_heads / ranks;
static_assert(groups <= 4 && staged_shares <= groups && 2 * rope_weights <= max_steps * step_candidates * 8, "the weights lie where the slots were");

// One thread per head: leaves the weights in shared memory and the log-sum-exp in global memory.
template <int ranks> CAKE_INLINE void finish_head(const AttentionArgs& args, const BlockPlace& place, u32 shared, const u32 (&blocks)[ranks], int part_row) {
  const int row = place.split % ranks * part_heads<ranks> + part_row, head = place.first_head + row;
  if (head >= args.num_heads) return;
  const bool direct = args.num_splits == ranks;
  HeadTotals<ranks> head_totals(blocks, row);
  RowTotal total = head_totals.total;
  if (direct && args.sink != nullptr) total = add_sink(total, __ldg(args.sink + head));
  const float inverse = total.sum > 0.f ? __fdividef(1.f, total.sum) : 0.f;
#pragma unroll
  for (int rank = 0; rank < ranks; rank++) {
    float weights[4] = {};
#pragma unroll
    for (int i = 0; i < groups; i++) weights[i] = exp2_fast(head_totals.maxima[rank * groups + i] - total.maximum) * inverse;
    const u32 target = shared + weights_offset + (rank * part_heads<ranks> + part_row) * 16;
    store_shared_f32x4(target + rope_weights, weights[0], weights[1], weights[2], weights[3]);
    store_shared_f32x4(target, weights[0] * code_bias, weights[1] * code_bias, weights[2] * code_bias, weights[3] * code_bias);
  }
  const s64 place_of_head = (s64)place.token * args.num_heads + head;
  const float lse = row_lse(total);
  if (direct) args.out_lse[place_of_head] = scaled_lse(lse, args.lse_scale);
  else args.mid_lse[place_of_head * args.mid_splits + place.split / ranks] = lse;
}

// One 16-byte piece of a row: the shares of all blocks, and their weighted sum.
template <int ranks> struct Shares {
  static constexpr int count = ranks * staged_shares;
  uint4 words[count];
  CAKE_INLINE void load(const u32 (&blocks)[ranks], u32 place) {
#pragma unroll
    for (int i = 0; i < count; i++) {
      const u32 share = blocks[i / staged_shares] + place + i % staged_shares * block_heads * staged_row_bytes;
      words[i] = ranks == 1 ? load_shared_u128(share) : load_cluster_u128(share);
    }
  }
  CAKE_INLINE uint4 sum(u32 weights) const {
    float sum[8];
#pragma unroll
    for (int i = 0; i < count; i++) {
      const uint4 x = words[i];
      const float w = load_shared_f32(weights + i / staged_shares * part_heads<ranks> * 16 + i % staged_shares * 4);
      const float values[8] = {bf16_low(x.x), bf16_high(x.x), bf16_low(x.y), bf16_high(x.y), bf16_low(x.z), bf16_high(x.z), bf16_low(x.w), bf16_high(x.w)};
#pragma unroll
      for (int k = 0; k < 8; k++) sum[k] = i == 0 ? w * values[k] : fmaf(w, values[k], sum[k]);
    }
    return make_uint4(pack_bf16(sum[0], sum[1]), pack_bf16(sum[2], sum[3]), pack_bf16(sum[4], sum[5]), pack_bf16(sum[6], sum[7]));
  }
};

// This block's part of the rows: all of them, or those that it finishes for the blocks of a cluster.
template <int ranks> CAKE_INLINE void finish_part(const AttentionArgs& args, const BlockPlace& place, u32 shared, u32 thread) {
  u32 blocks[ranks];   // where the shared memory of the cluster's blocks is
#pragma unroll
  for (int rank = 0; rank < ranks; rank++) blocks[rank] = ranks == 1 ? shared : cluster_address(shared, rank);
  // A thread keeps one piece of the row and walks down the rows, some at a time: all their loads are on the way before the first is used, and those
  // from another block, which is far, before the weights are known.
  constexpr int pieces = latent_dims * 2 / 16, rows_per_round = num_threads / pieces, at_once = 2;
  const int piece = thread % pieces, first_row = place.split % ranks * part_heads<ranks>;
  const int rows = min(args.num_heads - place.first_head - first_row, part_heads<ranks>);
  const u32 source = first_row * staged_row_bytes + piece * 16;
  Shares<ranks> shares[at_once];
  auto load = [&](int row) {
#pragma unroll
    for (int i = 0; i < at_once; i++)
      if (row + i * rows_per_round < rows) shares[i].load(blocks, source + (row + i * rows_per_round) * staged_row_bytes);
  };
  int row = thread / pieces;
  if (ranks > 1) load(row);   // meet_cluster has made them visible
  if (thread < part_heads<ranks>) finish_head<ranks>(args, place, shared, blocks, thread);
  __syncthreads();
  if (ranks == 1) load(row);
  const bool nope = piece < nope_units * unit_dims / 8, direct = args.num_splits == ranks;
  const s64 first_place = (s64)place.token * args.num_heads + place.first_head + first_row + row;
  u16* target = (direct ? args.output + first_place * latent_dims : args.mid_out + (first_place * args.mid_splits + place.split / ranks) * latent_dims) + piece * 8;
  const s64 row_stride = (direct ? 1 : args.mid_splits) * (s64)latent_dims * rows_per_round;
  const u32 weights = shared + weights_offset + (nope ? 0 : rope_weights);
#pragma unroll 1
  while (row < rows) {
#pragma unroll
    for (int i = 0; i < at_once; i++)
      if (row + i * rows_per_round < rows) {
        const uint4 x = shares[i].sum(weights + (row + i * rows_per_round) * 16);
        *(uint4*)target = reuse_decoded && nope ? natural_order(x) : x;
        target += row_stride;
      }
    row += at_once * rows_per_round;
    load(row);
  }
}

// Every thread has stored its shares of the rows and its totals.
CAKE_INLINE void finish_rows(const AttentionArgs& args, const BlockPlace& place, u32 shared, u32 thread) {
#if __CUDA_ARCH__ == 900
  if (cluster_blocks() == 2) {
    meet_cluster();
    finish_part<2>(args, place, shared, thread);
    leave_cluster();   // the other block has read what it needs
    return;
  }
#endif
  finish_part<1>(args, place, shared, thread);
}
