// What one CTA does on sm_90a with few heads: one token, 16 heads, one split of at most 16 chunks of 64 candidates, on mma.sync.
//
// Eight warps. For the scores of a chunk, warp w takes candidates 8 w .. 8 w + 7 and all dims, so it gathers these rows itself, decodes them once, to F16
// in shared memory, and has whole scores without another warp. For the values, warp w takes all candidates and dims 64 w .. 64 w + 63: RoPE, in warp 7
// alone, straight from the gathered rows. So P is all that crosses, and one barrier per chunk carries it.
//
// Per chunk c, whose rows have landed:
//   scores of c, decoding into the tile that the values of c - 2 were read from
//   P with a lazy maximum (softmax.cuh) to shared memory; barrier, which also tells whether a maximum was exceeded
//   values of c
//   request the rows of c + 2
#pragma once
#include "tile_results.cuh"

CAKE_INLINE void attend(const AttentionArgs& args) {
  extern __shared__ __align__(1024) u8 shared_memory[];
  const u32 shared = shared_address(shared_memory);
  const int lane = threadIdx.x % 32, warp = __shfl_sync(0xffffffffu, threadIdx.x / 32, 0);
  launch_dependents();
  // Whatever needs no memory is worked out before the wait.
  TileAddresses at(warp, lane);
  at.settle();
  const BlockPlace place(args);
  const int first_chunk = place.split * args.chunks_per_block;
  RawQuery raw_query;
  raw_query.aim(args, place.token, place.first_head);
  touch_arguments(args);
  if (cluster_blocks() == 2) arrive_at_cluster();
  wait_for_previous_grid();

  SlotTable table;
  table.fetch(args, place.token, first_chunk, min(args.chunks_per_block, args.num_chunks - first_chunk));
  raw_query.fetch_pass();
  const ChunkList chunks(table.store(args, shared));
  __syncthreads();

  const GatherLane gather_lane(warp, lane);
  auto load_slots = [&](GatherSlots& slots, int chunk) { slots.load(shared + slots_offset + chunks.place(min(chunk, chunks.count - 1)) * chunk_width * 8, gather_lane); };
  auto gather = [&](const GatherSlots& slots, int chunk) {   // commits a group of copies in any case, so that counting them counts chunks
    if (chunk < chunks.count) slots.copy(chunks.is_extra(chunk) ? args.extra : args.main, shared + stages_offset + (u32)chunk % stages * chunk_stage_bytes, gather_lane);
    commit_copies();
  };
  GatherSlots slots;
  if (chunks.count > 0) load_slots(slots, 0);
  gather(slots, 0);
  raw_query.convert(shared + query_offset, shared + factors_offset, args.score_scale);
  if (chunks.count > 0) load_slots(slots, 1);
  gather(slots, 1);
  __syncthreads();
  TileQuery query;
  query.load(shared + query_offset, lane);
  TileOutput output = {};
  TileSoftmax softmax;
  softmax.factor[0] = load_shared_f32(shared + factors_offset + (lane >> 2) * 4);
  softmax.factor[1] = load_shared_f32(shared + factors_offset + (lane >> 2) * 4 + 32);

#pragma unroll 1
  for (int chunk = 0; chunk < chunks.count; chunk++) {
    const u32 stage = shared + stages_offset + (u32)chunk % stages * chunk_stage_bytes, tile = shared + tiles_offset + (chunk & 1) * decoded_tile_bytes;
    const u32 p = shared + probability_offset + (chunk & 1) * 2 * probability_bytes;
    wait_for_copies<1>();
    __syncwarp();
    float s[4];
    score_rows(s, query, stage, tile, at, lane);
    const u32 valid = load_shared_u8(shared + valid_offset + chunks.place(chunk) * (chunk_width / 8) + warp);
    load_slots(slots, chunk + 2);
    softmax.finish(s, output, shared, p, valid, chunk == 0, at, warp, lane);
    if (warp == num_warps - 1) add_values<true>(output, p, stage, at);
    else add_values<false>(output, p, tile, at);
    gather(slots, chunk + 2);
  }
  softmax.store_sums(shared, warp, lane);
  __syncthreads();   // sums are there, and nothing is read any more
  const int row = lane & 15;   // every warp has the maxima of all rows in its quads
  const float maximum0 = __shfl_sync(0xffffffffu, softmax.maximum[0], row * 4), maximum1 = __shfl_sync(0xffffffffu, softmax.maximum[1], row * 4);
  const RowTotal total = {row < 8 ? maximum0 : maximum1, total_of(shared, row)};
  if (cluster_blocks() == 2) {
    write_pair(args, output, total, shared, warp, lane);
    return;
  }
  write_block(args, output, total, shared, warp, lane);
}
