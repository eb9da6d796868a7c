// From candidate lists to rows in shared memory.
//
// At the start the CTA turns the candidates of its chunks into a table of {page, row in page}; a masked candidate gets no_page.
// In the loop each warp of a group copies its share of a step's 16 rows: 24 asynchronous 16-byte copies per row.
#pragma once
#include "args.cuh"
#include "config.cuh"
#include "ptx.cuh"

constexpr u32 no_page = 0xffffffffu;

// The steps with work in this CTA: main steps first, then extra steps. Steps past a token's length are left out.
struct StepList {
  int main_steps;    // steps 0 .. main_steps-1 read the main cache and sit at their own place in the table
  int total_steps;
  int extra_shift;   // step i >= main_steps sits at table place i + extra_shift
};

CAKE_INLINE int chunks_of(int width) { return (width + chunk_width - 1) / chunk_width; }

CAKE_INLINE int valid_length(const CacheArgs& cache, int token) {
  if (cache.lengths == nullptr) return cache.width;
  return max(0, min(__ldg(cache.lengths + token), cache.width));
}

// Steps that `length` valid candidates fill within chunks first .. first + count - 1 of one cache.
CAKE_INLINE int steps_within(int length, int first, int count) {
  const int candidates = max(0, min(length - first * chunk_width, count * chunk_width));
  return (candidates + step_candidates - 1) / step_candidates;
}

CAKE_INLINE StepList list_steps(const AttentionArgs& args, int main_length, int extra_length, int first_chunk, int num_chunks) {
  if constexpr (!dual_cache) {
    const int steps = steps_within(main_length, first_chunk, num_chunks);
    return {steps, steps, 0};
  }
  const int main_chunks = chunks_of(args.main.width);
  const int main_count = max(0, min(num_chunks, main_chunks - first_chunk));
  const int main_steps = steps_within(main_length, first_chunk, main_count);
  const int extra_first = max(0, first_chunk - main_chunks);
  const int extra_steps = steps_within(extra_length, extra_first, num_chunks - main_count);
  return {main_steps, main_steps + extra_steps, main_count * steps_per_chunk - main_steps};
}

// Chunks with work in this CTA, in order: main chunks, then extra chunks.
struct ChunkList {
  int main_count, count, extra_shift;
  CAKE_INLINE explicit ChunkList(const StepList& steps)
      : main_count((steps.main_steps + steps_per_chunk - 1) / steps_per_chunk),
        count(main_count + (steps.total_steps - steps.main_steps + steps_per_chunk - 1) / steps_per_chunk),
        extra_shift((steps.main_steps + steps.extra_shift) / steps_per_chunk - main_count) {}
  CAKE_INLINE bool is_extra(int chunk) const { return dual_cache && chunk >= main_count; }
  CAKE_INLINE int place(int chunk) const { return is_extra(chunk) ? chunk + extra_shift : chunk; }
};

// The table in the making. fetch() only requests the indices: none waits for a length, and other loads can follow before the first is used.
struct SlotTable {
  static constexpr int rounds = max_chunks * chunk_width / num_threads;
  int slots[rounds], token, first_chunk, num_chunks, main_chunks;

  struct Candidate { bool extra; int index; };
  CAKE_INLINE Candidate candidate(u32 entry) const {
    const int index = first_chunk * chunk_width + entry;
    const bool extra = dual_cache && index >= main_chunks * chunk_width;
    return {extra, extra ? index - main_chunks * chunk_width : index};
  }

  CAKE_INLINE void fetch(const AttentionArgs& args, int token_, int first_chunk_, int num_chunks_) {
    token = token_; first_chunk = first_chunk_; num_chunks = num_chunks_;
    main_chunks = chunks_of(args.main.width);
    const int* main_indices = args.main.indices + token * args.main.index_stride;
    const int* extra_indices = args.extra.indices + token * args.extra.index_stride;
#pragma unroll
    for (int i = 0; i < rounds; i++) {
      const int entry = threadIdx.x + i * num_threads;
      const Candidate c = candidate(entry);
      slots[i] = -1;
      if (entry < num_chunks * chunk_width && c.index < (c.extra ? args.extra.width : args.main.width))
        slots[i] = __ldg((c.extra ? extra_indices : main_indices) + c.index);
    }
  }

  CAKE_INLINE StepList store(const AttentionArgs& args, u32 shared) const {
    const int main_length = valid_length(args.main, token), extra_length = dual_cache ? valid_length(args.extra, token) : 0;
#pragma unroll
    for (int i = 0; i < rounds; i++) {
      const int entry = threadIdx.x + i * num_threads;
      if (i * num_threads >= num_chunks * chunk_width) break;
      const Candidate c = candidate(entry);
      const bool valid = slots[i] >= 0 && c.index < (c.extra ? extra_length : main_length);
      const u32 slot = valid ? slots[i] : 0;
      const u32 page = __umulhi(slot * 2u, c.extra ? args.extra.page_magic : args.main.page_magic) >> (c.extra ? args.extra.page_shift : args.main.page_shift);
      const u32 row = slot - page * (c.extra ? args.extra.page_size : args.main.page_size);
      store_shared_u64(shared + slots_offset + entry * 8, valid ? page : no_page, row);
      const u32 ballot = __ballot_sync(0xffffffffu, valid);
      if (threadIdx.x % 32 == 0) store_shared_u32(shared + valid_offset + entry / step_candidates * 2, ballot);   // two steps
    }
    return list_steps(args, main_length, extra_length, first_chunk, num_chunks);
  }
};

// Where a lane takes part in the copies: neighbouring lanes share a row, so its bytes arrive in whole 128-byte lines.
struct GatherLane {
  static constexpr int rows_per_warp = gather_rows;
  static constexpr int lanes_per_row = rows_per_warp >= 4 ? 8 : 32 / rows_per_warp;
  static constexpr int rows_per_pass = 32 / lanes_per_row;
  static constexpr int passes = rows_per_warp / rows_per_pass;
  u32 row, piece, target;
  CAKE_INLINE GatherLane(int slice, int lane) : row(slice * rows_per_warp + lane / lanes_per_row), piece(lane % lanes_per_row), target(piece_offset(row, piece)) {}
};

// The table entries of this lane's rows of one step, requested before they are needed.
struct GatherSlots {
  uint2 slots[GatherLane::passes];
  CAKE_INLINE void load(u32 table, const GatherLane& at) {
#pragma unroll
    for (int pass = 0; pass < GatherLane::passes; pass++) slots[pass] = load_shared_u64(table + (at.row + pass * GatherLane::rows_per_pass) * 8);
  }

  // Copies the rows. Masked rows read nothing and become zeros.
  CAKE_INLINE void copy(const CacheArgs& cache, u32 stage, const GatherLane& at) const {
    constexpr int lanes = GatherLane::lanes_per_row;
    constexpr u32 row_step = GatherLane::rows_per_pass;
#pragma unroll
    for (int pass = 0; pass < GatherLane::passes; pass++) {
      const uint2 slot = slots[pass];
      const bool masked = slot.x == no_page;
      const u32 bytes = masked ? 0u : (u32)piece_bytes;
      const u8* data = cache.cache + (u64)(masked ? 0u : slot.x) * cache.page_stride + (u64)slot.y * data_bytes;
      // The scales as a distance from the data, in pieces; a page's data is 22 pieces per token.
      const u32 scale_pieces = (u32)cache.page_size * (data_bytes / piece_bytes) - slot.y * ((data_bytes - scale_bytes) / piece_bytes);
      const u32 target = ((stage + at.target) ^ ((pass * row_step & 7) * piece_bytes)) + pass * row_step * row_bytes;
#pragma unroll
      for (int i = 0; i * lanes < row_pieces; i++) {
        u32 from = at.piece + i * lanes;
        if (row_pieces % lanes != 0 && from >= row_pieces) break;
        if ((i + 1) * lanes > first_scale_piece && from >= first_scale_piece) from += scale_pieces - first_scale_piece;
        copy_async(target + i * lanes * piece_bytes, data + (u64)from * piece_bytes, bytes);
      }
    }
  }
};
