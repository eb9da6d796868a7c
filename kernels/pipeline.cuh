// What one CTA does, for decode and prefill alike: one token, 16 * head_tiles heads, one split of at most 16 chunks of 64 candidates.
//
// The CTA is `groups` independent groups of `slices` warps. A group takes every groups-th step of 16 candidates, and warp s of it owns the
// dims of slice s, 512 / slices of them, for scores and for values alike. So a row is read by the warps that need it and nothing
// but partial scores ever crosses warps; groups share nothing until the end, and one group's waits hide behind another's work.
//
// Shared memory (config.cuh): per group [gather stages | decoded rows | partial scores | P], then the slot table, valid bits, totals.
//
// Pipeline of a group, per step c; the rows of c have landed and are visible:
//   scores    over this warp's dims -> shared memory; with `reuse_decoded` the decoded rows are kept in shared memory too
//   meet      all partial scores are there; every warp's copies for step c + 1 have landed; nobody reads the stage of c - 1 any more
//   refill    starts the gather of step c - 1 + stages into that stage
//   softmax   softmax.cuh
//   values    over this warp's dims
#pragma once
#include "epilogue.cuh"
#include "gather.cuh"

constexpr int prefetch_steps = stages - 1;
// Only the first step is requested before the query is converted: it arrives sooner alone, and the query lies in later stages.
constexpr int clear_stages = (query_offset - (groups - 1) * group_bytes) / stage_bytes;
constexpr int early_steps = 1;
static_assert(clear_stages >= early_steps, "the query lies clear of the first stage");

// Steps of one group, in the order of the CTA's step list.
struct GroupSteps {
  const AttentionArgs& args;
  const Group& group;
  StepList list;
  u32 shared;
  int count;

  CAKE_INLINE GroupSteps(const AttentionArgs& args, const Group& group, StepList list, u32 shared)
      : args(args), group(group), list(list), shared(shared), count((list.total_steps - group.index + groups - 1) / groups) {}

  CAKE_INLINE int place(int step) const {
    const int i = step * groups + group.index;
    return dual_cache && i >= list.main_steps ? i + list.extra_shift : i;
  }
  CAKE_INLINE u32 valid_bits(int step) const { return load_shared_u16(shared + valid_offset + place(step) * 2); }
  // Steps past the last have table entries too, or at least room: loading them is harmless.
  CAKE_INLINE void load_slots(GatherSlots& slots, int step, int lane) const {
    slots.load(shared + slots_offset + place(min(step, count - 1)) * step_candidates * 8, GatherLane(group.slice, lane));
  }
  // Commits a group of copies in any case, so that counting them counts steps.
  CAKE_INLINE void gather(const GatherSlots& slots, int step, int stage, int lane) const {
    if (step < count) {
      const bool extra = dual_cache && step * groups + group.index >= list.main_steps;
      slots.copy(extra ? args.extra : args.main, group.stage + stage * stage_bytes, GatherLane(group.slice, lane));
    }
    commit_copies();
  }
  CAKE_INLINE void gather_first(int from, int to, int lane) const {
#pragma unroll 1
    for (int i = from; i < to; i++) {
      GatherSlots slots;
      if (i < count) load_slots(slots, i, lane);
      gather(slots, i, i, lane);
    }
  }
};

CAKE_INLINE void attend(const AttentionArgs& args) {
  extern __shared__ __align__(1024) u8 shared_memory[];
  const u32 shared = shared_address(shared_memory);
  const int lane = threadIdx.x % 32;
  const Group group(shared, threadIdx.x / 32);
  launch_dependents();
  // Whatever needs no memory is worked out before the wait, and the arguments are in the constant cache after it.
  RowAddresses at(group.slice, lane, group.decoded);
  if (head_tiles < 4) at.settle();
  const BlockPlace place(args);
  const int first_chunk = place.split * args.chunks_per_block;
  RawQuery raw_query;
  raw_query.aim(args, place.token, place.first_head);
  touch_arguments(args);
  wait_for_previous_grid();

  SlotTable table;
  table.fetch(args, place.token, first_chunk, min(args.chunks_per_block, args.num_chunks - first_chunk));
  raw_query.fetch_pass();
  const StepList list = table.store(args, shared);
  __syncthreads();

  const GroupSteps steps(args, group, list, shared);
  steps.gather_first(0, early_steps, lane);
  raw_query.convert(shared + query_offset, shared + factors_offset, args.score_scale);
  __syncthreads();
  Query query;
  load_query(query, shared + query_offset, group.slice, lane);
  __syncthreads();
  steps.gather_first(early_steps, prefetch_steps, lane);
  if (head_tiles == 4) at = RowAddresses(group.slice, lane, group.decoded);   // no registers to keep them through the above
  Output output = {};
  Softmax softmax;
  softmax.init(group, lane);
  wait_for_copies<prefetch_steps - 1>();
  group.meet();

  int stage = 0;
#pragma unroll 1
  for (int step = 0; step < steps.count; step++) {
    const u32 rows = group.stage + stage * stage_bytes;
    const int own_lane = head_tiles == 4 ? renewed(lane) : lane;   // four head tiles: every register counts
    compute_scores(query, rows, at, group.slice, own_lane, [&](int h, const float(&s)[2][4]) { publish_scores(s, group, step, h, own_lane); });
    GatherSlots slots;
    steps.load_slots(slots, step + prefetch_steps, lane);
    const u32 valid = steps.valid_bits(step);
    wait_for_copies<prefetch_steps - 2>();
    group.meet();
    softmax.request(group, step, own_lane);
    ValueStream values;
    steps.gather(slots, step + prefetch_steps, stage == 0 ? stages - 1 : stage - 1, lane);
    Probabilities probabilities;
    if (head_tiles < 4) values.prefetch(rows, at, group.slice, lane);   // four head tiles leave no registers for it
    softmax.finish(probabilities, output, group, step, valid, own_lane);
    if (head_tiles == 4) values.prefetch(rows, at, group.slice, lane);
    values.add(output, probabilities, rows, at, group.slice, own_lane);
    stage = stage + 1 == stages ? 0 : stage + 1;
  }
  write_results(args, output, softmax, shared);
}
