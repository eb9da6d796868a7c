// A pair of splits on warpgroups (warpgroup.cuh): each block hands the other one its unnormalised output of the heads that the other finishes, rows 0 .. 7 or
// 8 .. 15 of every warp, and its totals; then each finishes its heads from registers and what it was given.
#pragma once
#include "place.cuh"
#include "warpgroup_mma.cuh"

constexpr int given_offset = query_offset, given_totals_offset = slots_offset;   // free once the block's loop is over
constexpr int half_row_bytes = latent_dims + piece_bytes, half_rows_offset = tiles_offset;   // staging: a warpgroup's dims of eight rows per warp
static_assert(num_threads * 128 <= matrix_bytes && num_warps * 8 * half_row_bytes <= 2 * tile_bytes, "what is given and what is staged fit");

// Every thread has arrived at the cluster with its loop behind it and its totals stored.
CAKE_INLINE void write_pair(const AttentionArgs& args, const float (&output)[128], u32 shared, u32 thread, int index, int warp, int lane) {
  const BlockPlace place(args);
  const u32 rank = place.split & 1, other = cluster_address(shared, 1 - rank);
  auto total_of = [&](u32 head) {   // both warpgroups have the same maxima
    const uint2 a = load_shared_u64(shared + stats_offset + head * 8), b = load_shared_u64(shared + stats_offset + stats_bytes + head * 8);
    return RowTotal{__uint_as_float(a.x), __uint_as_float(a.y) + __uint_as_float(b.y)};
  };
  __syncthreads();
  wait_for_cluster();   // the other block's loop is over too
  if (thread < block_heads) {
    const RowTotal total = total_of(thread);
    store_cluster_u64(other + given_totals_offset + thread * 8, __float_as_uint(total.maximum), __float_as_uint(total.sum));
  }
#pragma unroll
  for (int n = 0; n < 32; n += 4) {
    u32 words[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
      const float* o = &output[4 * (n + i)];
      words[i] = rank == 0 ? pack_bf16(o[2], o[3]) : pack_bf16(o[0], o[1]);
    }
    store_cluster_u128(other + given_offset + (n / 4 * num_threads + thread) * 16, make_uint4(words[0], words[1], words[2], words[3]));
  }
  meet_cluster();

  const int first_row = warp * 16 + 8 * rank, row = first_row + (lane >> 2);
  const uint2 x = load_shared_u64(shared + given_totals_offset + row * 8);
  const RowTotal own = total_of(row), given = {__uint_as_float(x.x), __uint_as_float(x.y)};
  const float maximum = fmaxf(own.maximum, given.maximum), own_weight = exp2_fast(own.maximum - maximum), given_weight = exp2_fast(given.maximum - maximum);
  const float share = finish_row(args, place, {maximum, own.sum * own_weight + given.sum * given_weight}, row, 2, index == 0 && (lane & 3) == 0);
  const u32 staging = shared + half_rows_offset + (index * 4 + warp) * 8 * half_row_bytes;
#pragma unroll
  for (int n = 0; n < 32; n += 4) {
    const float factor = share * (index == 0 || n < 24 ? code_bias : 1.f), a = factor * own_weight, b = factor * given_weight;
    const uint4 w = load_shared_u128(shared + given_offset + (n / 4 * num_threads + thread) * 16);
    const u32 shares[4] = {w.x, w.y, w.z, w.w};
    u32 words[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
      const float* o = &output[4 * (n + i)];
      words[i] = pack_bf16((rank == 0 ? o[0] : o[2]) * a + bf16_low(shares[i]) * b, (rank == 0 ? o[1] : o[3]) * a + bf16_high(shares[i]) * b);
    }
    store_matrix(staging + (lane & 7) * half_row_bytes + (n + (lane >> 3)) * piece_bytes, words[0], words[1], words[2], words[3]);
  }
  __syncwarp();
  const bool direct = args.num_splits == 2, nope = index == 0 || lane < 24;
  const int heads = args.num_heads - place.first_head - first_row;
  const s64 first_place = (s64)place.token * args.num_heads + place.first_head + first_row;
  u16* target = (direct ? args.output + first_place * latent_dims : args.mid_out + (first_place * args.mid_splits + place.split / 2) * latent_dims) + index * 256 + lane * 8;
  const s64 row_stride = (direct ? 1 : args.mid_splits) * (s64)latent_dims;
#pragma unroll
  for (int i = 0; i < 8; i++) {
    const uint4 x = load_shared_u128(staging + i * half_row_bytes + lane * piece_bytes);
    if (i < heads) *(uint4*)(target + i * row_stride) = nope ? natural_order(x) : x;
  }
}
