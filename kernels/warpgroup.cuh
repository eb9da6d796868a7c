// What one CTA does on sm_90a with many heads: one token, 64 heads, one split of at most 16 chunks of 64 candidates, on wgmma.
//
// Two warpgroups. For the scores of a chunk, warpgroup w takes candidates 32 w .. 32 w + 31 and all dims; for the values, all candidates and dims
// 256 w .. 256 w + 255. So P is all that crosses, through shared memory. A chunk is decoded once, to F16 in shared memory (RoPE stays BF16), by
// all threads, while the scores of the chunk before are computed: each thread keeps a quarter of one candidate's row in registers, loaded a chunk ahead.
//
// In a pair of splits each block converts half of the query, which both need, and copies it to the other one.
//
// Per chunk c, whose tile is there:
//   start the scores of c and, meanwhile, decode c + 1 into the other tile and request c + 2
//   softmax with a lazy maximum (softmax.cuh), P to shared memory; barrier
//   values of c
#pragma once
#include "gather.cuh"
#include "query.cuh"
#include "results.cuh"
#include "warpgroup_results.cuh"

CAKE_INLINE uint4 load_row_piece(const u8* p) {
  uint4 r; asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(r.x), "=r"(r.y), "=r"(r.z), "=r"(r.w) : "l"(p)); return r;
}
CAKE_INLINE u32 load_scale_pair(const u8* p) { u16 r; asm volatile("ld.global.nc.u16 %0, [%1];" : "=h"(r) : "l"(p)); return r; }

// A quarter of one candidate's row, four neighbouring lanes to a row: packed pieces q, q + 4, q + 8, q + 12 (14 in all) and, without a stop in
// registers, RoPE pieces q, q + 4.
struct RowQuarter {
  uint4 packed[4];
  u32 scales[4];

  CAKE_INLINE void load(const CacheArgs& cache, u32 table, u32 rope, u32 thread) {
    const u32 quarter = thread & 3, candidate = thread >> 2;
    const uint2 slot = load_shared_u64(table + candidate * 8);
    const bool masked = slot.x == no_page;
    const u8* page = cache.cache + (u64)(masked ? 0u : slot.x) * cache.page_stride;
    const u8* row = page + (u64)slot.y * data_bytes + quarter * piece_bytes;
#pragma unroll
    for (int k = 0; k < 2; k++)
      copy_async((rope + swizzled(candidate, quarter)) ^ (4 * k * piece_bytes), row + (first_rope_piece + 4 * k) * piece_bytes, masked ? 0 : piece_bytes);
#pragma unroll
    for (int k = 0; k < 4; k++) { packed[k] = make_uint4(0, 0, 0, 0); scales[k] = 0; }
    if (masked) return;
    const u8* row_scales = page + ((u64)cache.page_size * data_bytes + slot.y * scale_bytes) + quarter * 2;
#pragma unroll
    for (int k = 0; k < 4; k++)
      if (k < 3 || quarter < 2) {
        packed[k] = load_row_piece(row + k * 4 * piece_bytes);
        scales[k] = load_scale_pair(row_scales + k * 8);
      }
  }

  // Packed piece j = q + 4k becomes pieces 4j .. 4j + 3. Quarters 2 and 3 store the second half first, so that eight lanes always hit all banks.
  CAKE_INLINE void decode(u32 tile, u32 thread) const {
    const u32 quarter = thread & 3, row = thread >> 2, second = quarter >> 1;
    const u32 target = tile + swizzled(row, 8 * second + 4 * (quarter & 1));
#pragma unroll
    for (int k = 0; k < 4; k++) {
      const u32 pair = decode_scales(scales[k]), words[4] = {packed[k].x, packed[k].y, packed[k].z, packed[k].w};
      if (k < 3 || quarter < 2)
#pragma unroll
        for (int i = 0; i < 4; i++) {
          u32 v[4];
          decode_codes(v, second ? words[i ^ 2] : words[i], (i < 2) != (second != 0) ? duplicate_low(pair) : duplicate_high(pair));
          store_shared_u128(((target ^ (second * 2 * piece_bytes)) ^ (i * piece_bytes)) + k * 2 * swizzled_block_bytes, v[0], v[1], v[2], v[3]);
        }
    }
  }
};

struct WarpgroupPlace {
  int index, warp, lane;   // of the warpgroup in the CTA, of the warp in the warpgroup, of the lane in the warp
  CAKE_INLINE explicit WarpgroupPlace(u32 thread) : index(__shfl_sync(0xffffffffu, thread / 128, 0)), warp(thread / 32 % 4), lane(thread % 32) {}
  CAKE_INLINE int row() const { return warp * 16 + (lane >> 2); }   // of the first half of a fragment; the second is 8 on
};

typedef float ChunkScores[16];       // [n8 tile of candidates][fragment value]
typedef float WarpgroupOutput[128];  // [n8 tile of dims][fragment value]

// Where the operands of a chunk are, as descriptors; steps along k are constants.
struct ScoreOperands {
  u32 query, keys, rope_keys;
  CAKE_INLINE ScoreOperands(u32 shared, u32 tile, u32 rope, int index)
      : query(matrix_descriptor(shared + query_offset, 16)), keys(matrix_descriptor(tile + index * 32 * 128, 16)), rope_keys(matrix_descriptor(rope + index * 32 * 128, 16)) {}
};

// scores = query * the warpgroup's 32 candidates, started only.
CAKE_INLINE void start_scores(ChunkScores& scores, const ScoreOperands& from) {
  warpgroup_arrive();
#pragma unroll
  for (int k = 0; k < latent_dims / 16; k++) {
    const u32 step = (k / 4 * swizzled_block_bytes + k % 4 * 32) >> 4;
    if (k < nope_units * 2) warpgroup_scores_f16(scores, from.query + step, from.keys + step, k > 0);
    else warpgroup_scores_bf16(scores, from.query + step, from.rope_keys + (k % 4 * 32 >> 4), 1);
  }
}

// output += P * 256 dims of a tile, done at the end. Warpgroup 0 has NoPE dims only. Nothing is in flight where the two part and meet:
// otherwise the compiler would wait behind every single product.
CAKE_INLINE void add_values(WarpgroupOutput& output, u32 shared, u32 tile, u32 rope, int index) {
  const u32 p = matrix_descriptor(shared + probability_offset, 16);
  if (index == 0) {
    const u32 values = matrix_descriptor(tile, swizzled_block_bytes);
    warpgroup_arrive();
#pragma unroll
    for (int k = 0; k < 4; k++) {
      warpgroup_values_192_f16(output, p + (k * 32 >> 4), values + (k * 2048 >> 4));
      warpgroup_values_last_64_f16(output, p + (k * 32 >> 4), values + ((k * 2048 + 3 * swizzled_block_bytes) >> 4));
    }
    warpgroup_commit();
    warpgroup_wait<0>();
  } else {
    const u32 values = matrix_descriptor(tile + 4 * swizzled_block_bytes, swizzled_block_bytes), rope_values = matrix_descriptor(rope, swizzled_block_bytes);
    warpgroup_arrive();
#pragma unroll
    for (int k = 0; k < 4; k++) {
      warpgroup_values_192_f16(output, p + (k * 32 >> 4), values + (k * 2048 >> 4));
      warpgroup_values_last_64_bf16(output, p + ((k * 32 + swizzled_block_bytes) >> 4), rope_values + (k * 2048 >> 4));
    }
    warpgroup_commit();
    warpgroup_wait<0>();
  }
  settled(output);
}

// Softmax of one chunk over both warpgroups, base 2: softmax.cuh says how the maximum is lazy.
struct WarpgroupSoftmax {
  float maximum[2] = {lowest_maximum, lowest_maximum}, sum[2] = {0.f, 0.f}, factor[2];

  CAKE_INLINE void init(u32 shared, const WarpgroupPlace& at) {
    factor[0] = load_shared_f32(shared + factors_offset + at.row() * 4);
    factor[1] = load_shared_f32(shared + factors_offset + at.row() * 4 + 32);
  }

  CAKE_INLINE void store_probabilities(float (&sums)[2], const ChunkScores& s, u32 shared, const WarpgroupPlace& at) const {
    sums[0] = sums[1] = 0.f;
#pragma unroll
    for (int n = 0; n < 4; n++)
#pragma unroll
      for (int r = 0; r < 2; r++) {
        const float p0 = exp2_fast(s[4 * n + 2 * r] - maximum[r]), p1 = exp2_fast(s[4 * n + 2 * r + 1] - maximum[r]);
        sums[r] += p0 + p1;
        const u32 target = shared + probability_offset + swizzled(at.row() + 8 * r, 4 * at.index + n) + (at.lane & 3) * 4;
        store_shared_u32(target, pack_f16(p0, p1));
        store_shared_u32(target + swizzled_block_bytes, pack_bf16(p0, p1));   // for the RoPE values
      }
    publish_to_products();
  }

  // From scores to P in shared memory, visible to the CTA at the end. `valid` has a bit per candidate of the warpgroup.
  CAKE_INLINE void finish(ChunkScores& s, WarpgroupOutput& output, u32 shared, u32 valid, bool first, const WarpgroupPlace& at) {
#pragma unroll
    for (int i = 0; i < 16; i++) s[i] *= factor[i >> 1 & 1];
    if (valid != 0xffffffffu) {
      const u32 bits = valid >> (2 * (at.lane & 3));
#pragma unroll
      for (int i = 0; i < 16; i++)
        if (!(bits >> (i / 4 * 8 + i % 2) & 1)) s[i] = negative_infinity();
    }
    float top[2], sums[2];
#pragma unroll
    for (int r = 0; r < 2; r++)
      top[r] = fmaxf(fmaxf(fmaxf(s[2 * r], s[2 * r + 1]), fmaxf(s[4 + 2 * r], s[5 + 2 * r])), fmaxf(fmaxf(s[8 + 2 * r], s[9 + 2 * r]), fmaxf(s[12 + 2 * r], s[13 + 2 * r])));
    bool raise = first;   // rare later
#pragma unroll 1
    while (true) {
      if (raise) raise_maxima(top, output, shared, first, at);
      store_probabilities(sums, s, shared, at);
      if (!__syncthreads_or(!raise && (top[0] > maximum[0] + headroom || top[1] > maximum[1] + headroom))) break;
      raise = true;
    }
    sum[0] += sums[0];
    sum[1] += sums[1];
  }

  // The largest score that either warpgroup has seen becomes the maximum; holds a barrier.
  CAKE_INLINE void raise_maxima(const float (&top)[2], WarpgroupOutput& output, u32 shared, bool first, const WarpgroupPlace& at) {
    const u32 maxima = shared + maxima_offset + at.row() * 4;
    const float own0 = quad_max(top[0]), own1 = quad_max(top[1]);
    if ((at.lane & 3) == 0) {
      store_shared_f32(maxima + at.index * block_heads * 4, own0);
      store_shared_f32(maxima + at.index * block_heads * 4 + 32, own1);
    }
    __syncthreads();
#pragma unroll
    for (int r = 0; r < 2; r++) {
      const float raised = fmaxf(maximum[r], fmaxf(load_shared_f32(maxima + r * 32), load_shared_f32(maxima + block_heads * 4 + r * 32)));
      const float rescale = exp2_fast(maximum[r] - raised);
      maximum[r] = raised;
      sum[r] *= rescale;
      if (!first)
#pragma unroll
        for (int n = 0; n < 32; n++) { output[4 * n + 2 * r] *= rescale; output[4 * n + 2 * r + 1] *= rescale; }
    }
  }

  CAKE_INLINE void store_totals(u32 shared, const WarpgroupPlace& at) const {
    const float total0 = quad_sum(sum[0]), total1 = quad_sum(sum[1]);
    if ((at.lane & 3) != 0) return;
    const u32 target = shared + stats_offset + at.index * stats_bytes + at.row() * 8;
    store_shared_u64(target, __float_as_uint(maximum[0]), __float_as_uint(total0));
    store_shared_u64(target + 64, __float_as_uint(maximum[1]), __float_as_uint(total1));
  }
};

// This warp's rows of the output as BF16, unnormalised.
CAKE_INLINE void stage_output(const WarpgroupOutput& o, u32 shared, const WarpgroupPlace& at) {
  const u32 matrix = shared + (at.warp * 16 + (at.lane & 15)) * staged_row_bytes + at.index * 512 + (at.lane >> 4) * piece_bytes;
#pragma unroll
  for (int n = 0; n < 32; n += 2)
    store_matrix(matrix + n * piece_bytes, pack_bf16(o[4 * n], o[4 * n + 1]), pack_bf16(o[4 * n + 2], o[4 * n + 3]), pack_bf16(o[4 * n + 4], o[4 * n + 5]),
                 pack_bf16(o[4 * n + 6], o[4 * n + 7]));
}

// This block's half of the converted query and its factors, to the other block of the pair: each warp a block of 64 dims.
constexpr u32 half_block_bytes = swizzled_block_bytes / 2, half_factor_bytes = block_heads / 2 * 4;
constexpr u32 sent_bytes = matrix_bytes / 2 + half_factor_bytes;
static_assert(num_warps * 64 == latent_dims, "a warp per block of dims");
CAKE_INLINE void send_half_query(u32 shared, u32 rank) {
  const u32 thread = thread_index();
  if (thread % 32 != 0) return;
  const u32 away = cluster_address(shared, 1 - rank) - shared, transfer = shared + transfer_offset + away;
  const u32 from = shared + query_offset + thread / 32 * swizzled_block_bytes + rank * half_block_bytes, factors = shared + factors_offset + rank * half_factor_bytes;
  send(from + away, from, half_block_bytes, transfer);
  if (thread == 0) send(factors + away, factors, half_factor_bytes, transfer);
}

CAKE_INLINE void attend(const AttentionArgs& args) {
  extern __shared__ __align__(1024) u8 shared_memory[];
  const u32 shared = shared_address(shared_memory);
  const u32 thread = threadIdx.x;
  const WarpgroupPlace at(thread);
  launch_dependents();
  const BlockPlace place(args);
  const int first_chunk = place.split * args.chunks_per_block;
  touch_arguments(args);
  wait_for_previous_grid();

  SlotTable table;
  table.fetch(args, place.token, first_chunk, min(args.chunks_per_block, args.num_chunks - first_chunk));
  const bool paired = cluster_blocks() == 2;   // then each block converts half of the query, and sends it to the other one
  const u32 rank = place.split % 2;
  if (paired) {
    if (thread == 0) expect_transfer(shared + transfer_offset, sent_bytes);
    arrive_at_cluster();
  }
  const RawQuery raw_query = {paired ? rank * (block_heads / 2) : 0, paired ? (rank + 1) * (block_heads / 2) : block_heads};
  raw_query.fetch(args, place.token, place.first_head, shared + query_offset);
  const ChunkList chunks(table.store(args, shared));
  __syncthreads();

  RowQuarter rows;
  auto tile_of = [&](int chunk) { return shared + tiles_offset + (chunk & 1) * tile_bytes; };
  auto rope_of = [&](int chunk) { return shared + ropes_offset + (u32)chunk % ropes * swizzled_block_bytes; };
  auto load_rows = [&](RowQuarter& rows, int chunk) {   // commits a group of copies in any case, so that counting them counts chunks
    if (chunk < chunks.count)
      rows.load(chunks.is_extra(chunk) ? args.extra : args.main, shared + slots_offset + chunks.place(chunk) * chunk_width * 8, rope_of(chunk), thread);
    commit_copies();
  };
  RowQuarter first_rows;
  load_rows(first_rows, 0);
  load_rows(rows, 1);
  wait_for_copies<2>();   // all but the first two RoPE blocks
  raw_query.convert(shared + query_offset, shared + factors_offset, args.score_scale);
  if (cluster_blocks() == 2) {
    publish_to_products();   // and to copies
    wait_for_cluster();      // the other block runs, so its shared memory is there
    __syncthreads();
    send_half_query(shared, split_index() % 2);
  }
  first_rows.decode(tile_of(0), thread);
  wait_for_copies<1>();
  publish_to_products();
  if (cluster_blocks() == 2) wait_for_transfer(shared + transfer_offset);
  __syncthreads();
  WarpgroupOutput output = {};
  WarpgroupSoftmax softmax;
  softmax.init(shared, at);

#pragma unroll 1
  for (int chunk = 0; chunk < chunks.count; chunk++) {
    // A warp that starts products stands still while they wait for their turn. So one warpgroup decodes its half of the next chunk first and the
    // other one starts its scores first. Past the last chunk they decode what is in the registers once more, into a tile that nobody reads.
    ChunkScores scores;
    const u32 base = renewed(shared), tile = base + tiles_offset + (chunk & 1) * tile_bytes, next_tile = base + tiles_offset + (~chunk & 1) * tile_bytes;
    const u32 rope = base + ropes_offset + (u32)chunk % ropes * swizzled_block_bytes;
    const ScoreOperands operands(base, tile, rope, at.index);
    if (at.index == 1) rows.decode(next_tile, thread);
    start_scores(scores, operands);
    warpgroup_commit();
    warpgroup_wait<0>();
    if (at.index == 0) rows.decode(next_tile, thread);
    settled(scores);
    load_rows(rows, chunk + 2);
    const u32 valid = load_shared_u32(shared + valid_offset + (chunks.place(chunk) * steps_per_chunk + at.index * 2) * 2);
    wait_for_copies<1>();   // the RoPE block of the next chunk: softmax.finish makes it visible
    softmax.finish(scores, output, shared, valid, chunk == 0, at);
    add_values(output, base, tile, rope, at.index);
    __syncthreads();   // its tile and P are free
  }
  softmax.store_totals(shared, at);
  if (cluster_blocks() == 2) {
    arrive_at_cluster();
    write_pair(args, output, shared, thread, at.index, at.warp, at.lane);
    return;
  }
  __syncthreads();
  stage_output(output, shared, at);
  finish_part<1>(args, BlockPlace(args), shared, thread);
}
