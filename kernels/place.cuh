// Which part of the call a CTA works on, and how a row of it ends.
#pragma once
#include "args.cuh"
#include "config.cuh"
#include "lse.cuh"

// The first use of an argument waits for its line of the constant bank: here, while there is nothing else to do.
CAKE_INLINE void touch_arguments(const AttentionArgs& args) {
  asm volatile("" :: "l"(args.query), "l"(args.mid_lse), "l"(args.main.cache), "l"(args.extra.cache), "l"(args.extra.page_stride), "r"(args.num_heads), "f"(args.lse_scale));
}

// What this CTA works on. Derived from the block index both before and after the loop, because registers are short in between.
struct BlockPlace {
  int token, split, first_head;
  CAKE_INLINE explicit BlockPlace(const AttentionArgs& args) {
    const u32 block = block_index();
    token = block;
    first_head = 0;
    split = split_index();
    if (args.num_heads > block_heads) {   // head blocks are neighbours: their reads of the same rows meet in L2
      const u32 head_blocks = ((u32)args.num_heads + block_heads - 1) / block_heads;
      token = block / head_blocks;
      first_head = (block - token * head_blocks) * block_heads;
    }
  }
};

// Decoded pieces leave eight dims in the order 0 4 1 5 2 6 3 7.
CAKE_INLINE uint4 natural_order(uint4 x) {
  return make_uint4(__byte_perm(x.x, x.y, 0x5410), __byte_perm(x.z, x.w, 0x5410), __byte_perm(x.x, x.y, 0x7632), __byte_perm(x.z, x.w, 0x7632));
}

// The end of a row of `ranks` splits with this softmax total: writes its log-sum-exp where `writes`, and says what its weighted values are multiplied with.
CAKE_INLINE float finish_row(const AttentionArgs& args, const BlockPlace& place, RowTotal total, int row, int ranks, bool writes) {
  const int head = place.first_head + row;
  const bool exists = head < args.num_heads, direct = args.num_splits == ranks;
  const float maximum = total.maximum;
  if (direct && args.sink != nullptr && exists) total = add_sink(total, __ldg(args.sink + head));
  if (writes && exists) {
    const s64 place_of_head = (s64)place.token * args.num_heads + head;
    const float lse = row_lse(total);
    if (direct) args.out_lse[place_of_head] = scaled_lse(lse, args.lse_scale);
    else args.mid_lse[place_of_head * args.mid_splits + place.split / ranks] = lse;
  }
  return total.sum > 0.f ? __fdividef(exp2_fast(maximum - total.maximum), total.sum) : 0.f;
}
