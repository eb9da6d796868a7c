// The warpgroup matrix product of sm_90a, as warpgroup.cuh uses it. No other target has it.
//
// Four warps hold D (64 rows, float32) and issue D += A * B together; it runs on while they do other work. A fragment is m16n8 tiles side by
// side: warp w of the four has rows 16 w .. 16 w + 15. Operands in shared memory are blocks of 64 rows x 128 bytes (warpgroup_config.cuh).
#pragma once
#include "ptx.cuh"

// ---- order -----------------------------------------------------------------------------------------------------
// Before the first product that reads registers or accumulators written since.
CAKE_INLINE void warpgroup_arrive() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
CAKE_INLINE void warpgroup_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
// Waits until at most `pending` committed groups still run.
template <int pending> CAKE_INLINE void warpgroup_wait() { asm volatile("wgmma.wait_group.sync.aligned %0;" :: "n"(pending) : "memory"); }
// Shared memory that this thread has stored becomes visible to products, once a barrier has followed.
CAKE_INLINE void publish_to_products() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
// What was written by products: to be used after the wait only.
template <int n> CAKE_INLINE void settled(float (&d)[n]) {
#pragma unroll
  for (int i = 0; i < n; i++) asm volatile("" : "+f"(d[i]) :: "memory");
}

// ---- operands in shared memory ---------------------------------------------------------------------------------
// A descriptor says where a matrix is; this is its low word, the high word is the same for all. A step within the matrix, in bytes, is added as
// step >> 4. `block_stride` matters where the rows of several blocks make up the long side (the transposed B).
// In a cluster an address also says whose shared memory it is in: products read their own block's.
CAKE_INLINE u32 matrix_descriptor(u32 address, u32 block_stride) { return (address & 0x3ffff) >> 4 | block_stride >> 4 << 16; }
constexpr u32 matrix_descriptor_high = 1u << 30 | 1024 >> 4;   // 128-byte swizzle; 1024 bytes from eight rows to the next eight

// ---- products of 16 along k: D += A * B ----------------------------------------------------------------------------
// Scores: A is 64 heads, B 32 candidates, both with dims along their rows. accumulate = 0 starts from zero.
CAKE_INLINE void warpgroup_scores_f16(float (&d)[16], u32 a, u32 b, u32 accumulate) {
  asm volatile("{ .reg .pred p; .reg .b64 x, y; setp.ne.u32 p, %19, 0; mov.b64 x, {%16, %18}; mov.b64 y, {%17, %18}; "
      "wgmma.mma_async.sync.aligned.m64n32k16.f32.f16.f16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, "
      "x, y, p, 1, 1, 0, 0; }"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
        "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15])
      : "r"(a), "r"(b), "n"(matrix_descriptor_high), "r"(accumulate));
}
CAKE_INLINE void warpgroup_scores_bf16(float (&d)[16], u32 a, u32 b, u32 accumulate) {
  asm volatile("{ .reg .pred p; .reg .b64 x, y; setp.ne.u32 p, %19, 0; mov.b64 x, {%16, %18}; mov.b64 y, {%17, %18}; "
      "wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, "
      "x, y, p, 1, 1, 0, 0; }"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
        "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15])
      : "r"(a), "r"(b), "n"(matrix_descriptor_high), "r"(accumulate));
}

// Values: A is 64 heads x 16 candidates with candidates along its rows, B 16 candidates x dims with dims along its rows: the first 192 of 256 dims, or
// the last 64. No product takes all 256: accumulators of 128 registers that are 96 and 32 elsewhere make ptxas serialise (C7511), or not, by chance.
CAKE_INLINE void warpgroup_values_192_f16(float (&d)[128], u32 a, u32 b) {
  asm volatile("{ .reg .pred p; .reg .b64 x, y; setp.ne.u32 p, %99, 0; mov.b64 x, {%96, %98}; mov.b64 y, {%97, %98}; "
      "wgmma.mma_async.sync.aligned.m64n192k16.f32.f16.f16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "
      "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95}, "
      "x, y, p, 1, 1, 0, 1; }"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
        "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
        "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
        "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]),
        "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]),
        "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]),
        "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]),
        "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63]),
        "+f"(d[64]), "+f"(d[65]), "+f"(d[66]), "+f"(d[67]), "+f"(d[68]), "+f"(d[69]), "+f"(d[70]), "+f"(d[71]),
        "+f"(d[72]), "+f"(d[73]), "+f"(d[74]), "+f"(d[75]), "+f"(d[76]), "+f"(d[77]), "+f"(d[78]), "+f"(d[79]),
        "+f"(d[80]), "+f"(d[81]), "+f"(d[82]), "+f"(d[83]), "+f"(d[84]), "+f"(d[85]), "+f"(d[86]), "+f"(d[87]),
        "+f"(d[88]), "+f"(d[89]), "+f"(d[90]), "+f"(d[91]), "+f"(d[92]), "+f"(d[93]), "+f"(d[94]), "+f"(d[95])
      : "r"(a), "r"(b), "n"(matrix_descriptor_high), "n"(1));
}
CAKE_INLINE void warpgroup_values_last_64_bf16(float (&d)[128], u32 a, u32 b) {
  asm volatile("{ .reg .pred p; .reg .b64 x, y; setp.ne.u32 p, %35, 0; mov.b64 x, {%32, %34}; mov.b64 y, {%33, %34}; "
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
      "x, y, p, 1, 1, 0, 1; }"
      : "+f"(d[96]), "+f"(d[97]), "+f"(d[98]), "+f"(d[99]), "+f"(d[100]), "+f"(d[101]), "+f"(d[102]), "+f"(d[103]),
        "+f"(d[104]), "+f"(d[105]), "+f"(d[106]), "+f"(d[107]), "+f"(d[108]), "+f"(d[109]), "+f"(d[110]), "+f"(d[111]),
        "+f"(d[112]), "+f"(d[113]), "+f"(d[114]), "+f"(d[115]), "+f"(d[116]), "+f"(d[117]), "+f"(d[118]), "+f"(d[119]),
        "+f"(d[120]), "+f"(d[121]), "+f"(d[122]), "+f"(d[123]), "+f"(d[124]), "+f"(d[125]), "+f"(d[126]), "+f"(d[127])
      : "r"(a), "r"(b), "n"(matrix_descriptor_high), "n"(1));
}
CAKE_INLINE void warpgroup_values_last_64_f16(float (&d)[128], u32 a, u32 b) {
  asm volatile("{ .reg .pred p; .reg .b64 x, y; setp.ne.u32 p, %35, 0; mov.b64 x, {%32, %34}; mov.b64 y, {%33, %34}; "
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
      "x, y, p, 1, 1, 0, 1; }"
      : "+f"(d[96]), "+f"(d[97]), "+f"(d[98]), "+f"(d[99]), "+f"(d[100]), "+f"(d[101]), "+f"(d[102]), "+f"(d[103]),
        "+f"(d[104]), "+f"(d[105]), "+f"(d[106]), "+f"(d[107]), "+f"(d[108]), "+f"(d[109]), "+f"(d[110]), "+f"(d[111]),
        "+f"(d[112]), "+f"(d[113]), "+f"(d[114]), "+f"(d[115]), "+f"(d[116]), "+f"(d[117]), "+f"(d[118]), "+f"(d[119]),
        "+f"(d[120]), "+f"(d[121]), "+f"(d[122]), "+f"(d[123]), "+f"(d[124]), "+f"(d[125]), "+f"(d[126]), "+f"(d[127])
      : "r"(a), "r"(b), "n"(matrix_descriptor_high), "n"(1));
}
