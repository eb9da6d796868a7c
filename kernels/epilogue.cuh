// From the groups' accumulators to rows in global memory.
//
// Every group has its own maxima, sums and unnormalised output. All meet in shared memory: each group stores its share of the normalised row
// as BF16 over the gather stages, and the CTA sums the shares in float32 and writes whole 1024-byte rows.
#pragma once
#include "lse.cuh"
#include "softmax.cuh"

// The softmax total of one head over the groups.
CAKE_INLINE RowTotal combined_total(u32 shared, int row) {
  RowTotal total = {negative_infinity(), 0.f};
  float maxima[groups], sums[groups];
#pragma unroll
  for (int i = 0; i < groups; i++) {
    const uint2 x = load_shared_u64(shared + stats_offset + i * stats_bytes + row * 8);
    maxima[i] = __uint_as_float(x.x); sums[i] = __uint_as_float(x.y);
    if (sums[i] > 0.f) total.maximum = fmaxf(total.maximum, maxima[i]);
  }
#pragma unroll
  for (int i = 0; i < groups; i++)
    if (sums[i] > 0.f) total.sum += sums[i] * exp2_fast(maxima[i] - total.maximum);
  return total;
}

// Stores one head's row share: `weight` normalises it; NoPE values also lack the codes' 2^14.
CAKE_INLINE void stage_row(const float (&output)[output_tiles][4], int r, float weight, u32 target, int slice, int lane) {
  const int quad_lane = lane & 3;
  const bool has_rope = slice >= slices - 2;
  const float nope = weight * code_bias;
#pragma unroll
  for (int p = 0; p < slice_units; p++) {
    const u32 unit = target + (p * slices + slice) * unit_dims * 2;
    const float(*o)[4] = &output[4 * p];
    if (p == slice_units - 1 && has_rope) {
#pragma unroll
      for (int j = 0; j < 4; j++) store_shared_u32(unit + j * 16 + quad_lane * 4, pack_bf16(o[j][2 * r] * weight, o[j][2 * r + 1] * weight));
    } else {
#pragma unroll
      for (int j = 0; j < 4; j++) {
        if constexpr (reuse_decoded) store_shared_u32(unit + j * 16 + quad_lane * 4, pack_bf16(o[j][2 * r] * nope, o[j][2 * r + 1] * nope));   // dims j*8 + t, + 4
      }
      if constexpr (!reuse_decoded)
        store_shared_u128(unit + quad_lane * 16, pack_bf16(o[0][2 * r] * nope, o[1][2 * r] * nope), pack_bf16(o[2][2 * r] * nope, o[3][2 * r] * nope),
                          pack_bf16(o[0][2 * r + 1] * nope, o[1][2 * r + 1] * nope), pack_bf16(o[2][2 * r + 1] * nope, o[3][2 * r + 1] * nope));
    }
  }
}

// Decoded pieces leave eight dims in the order 0 4 1 5 2 6 3 7.
CAKE_INLINE uint4 natural_order(uint4 x) {
  return make_uint4(__byte_perm(x.x, x.y, 0x5410), __byte_perm(x.z, x.w, 0x5410), __byte_perm(x.x, x.y, 0x7632), __byte_perm(x.z, x.w, 0x7632));
}

// One 16-byte piece of a row, summed over the groups.
CAKE_INLINE uint4 summed_piece(u32 source) {
  uint4 x = load_shared_u128(source);
  if constexpr (groups == 1) return x;
  float sum[8] = {bf16_low(x.x), bf16_high(x.x), bf16_low(x.y), bf16_high(x.y), bf16_low(x.z), bf16_high(x.z), bf16_low(x.w), bf16_high(x.w)};
#pragma unroll
  for (int i = 1; i < groups; i++) {
    x = load_shared_u128(source + i * block_heads * staged_row_bytes);
    sum[0] += bf16_low(x.x); sum[1] += bf16_high(x.x); sum[2] += bf16_low(x.y); sum[3] += bf16_high(x.y);
    sum[4] += bf16_low(x.z); sum[5] += bf16_high(x.z); sum[6] += bf16_low(x.w); sum[7] += bf16_high(x.w);
  }
  return make_uint4(pack_bf16(sum[0], sum[1]), pack_bf16(sum[2], sum[3]), pack_bf16(sum[4], sum[5]), pack_bf16(sum[6], sum[7]));
}

// What this CTA works on. Derived from the block index both before and after the loop, because registers are short in between.
struct BlockPlace {
  int token, split, first_head;
  CAKE_INLINE explicit BlockPlace(const AttentionArgs& args) {
    const u32 block = block_index(), head_blocks = (args.num_heads + block_heads - 1) / block_heads;
    const u32 token_split = block / head_blocks;   // head blocks are neighbours: their reads of the same rows meet in L2
    token = token_split / args.num_splits;
    split = token_split % args.num_splits;
    first_head = block % head_blocks * block_heads;
  }
};

CAKE_INLINE void write_results(const AttentionArgs& args, const Output& output, Softmax& softmax, const Group& group, u32 shared, int lane) {
  softmax.store_totals(group, lane);
  __syncthreads();   // totals are there, and no stage is read any more
  const BlockPlace place(args);
  const bool direct = args.num_splits == 1;
  const int quad_row = lane >> 2;
#pragma unroll
  for (int h = 0; h < head_tiles; h++)
#pragma unroll
    for (int r = 0; r < 2; r++) {
      const int row = h * heads_per_tile + quad_row + 8 * r, head = place.first_head + row;
      RowTotal total = combined_total(shared, row);
      const uint2 own = load_shared_u64(group.stats + row * 8);
      if (direct && args.sink != nullptr && head < args.num_heads) total = add_sink(total, __ldg(args.sink + head));
      const float weight = __uint_as_float(own.y) > 0.f ? __fdividef(exp2_fast(__uint_as_float(own.x) - total.maximum), total.sum) : 0.f;
      stage_row(output[h], r, weight, shared + (group.index * block_heads + row) * staged_row_bytes, group.slice, lane);
      if (group.index == 0 && group.slice == 0 && (lane & 3) == 0 && head < args.num_heads) {
        const s64 place_of_head = (s64)place.token * args.num_heads + head;
        const float lse = row_lse(total);
        if (direct) args.out_lse[place_of_head] = scaled_lse(lse, args.lse_scale);
        else args.mid_lse[place_of_head * args.mid_splits + place.split] = lse;
      }
    }
  __syncthreads();
  // A thread keeps one piece of the row and walks down the rows.
  constexpr int pieces = latent_dims * 2 / 16, rows_per_round = num_threads / pieces;
  const int piece = threadIdx.x % pieces, first_row = threadIdx.x / pieces;
  const bool reorder = reuse_decoded && piece < nope_units * unit_dims / 8;
  const s64 first_place = (s64)place.token * args.num_heads + place.first_head + first_row;
  u16* target = (direct ? args.output + first_place * latent_dims : args.mid_out + (first_place * args.mid_splits + place.split) * latent_dims) + piece * 8;
  const s64 row_stride = (direct ? 1 : args.mid_splits) * (s64)latent_dims * rows_per_round;
  const int rows = min(args.num_heads - place.first_head, block_heads) - first_row;
#pragma unroll 4
  for (int row = 0; row < block_heads; row += rows_per_round) {
    const uint4 x = summed_piece(shared + (first_row + row) * staged_row_bytes + piece * 16);
    if (row < rows) *(uint4*)target = reorder ? natural_order(x) : x;
    target += row_stride;
  }
}
