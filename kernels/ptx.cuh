// Thin wrappers of the PTX instructions used here. All exist on sm_90a, sm_120a and sm_121a.
#pragma once
#include "types.cuh"
#define CAKE_INLINE __device__ __forceinline__

// ---- matrix products: D += A (16 x 16) * B (16 x 8), float32 accumulators ------------------------------------
CAKE_INLINE void mma_f16(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
CAKE_INLINE void mma_bf16(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// ---- shared memory -------------------------------------------------------------------------------------------
// Opaque to the compiler, which would rather recompute it from special registers in every use.
CAKE_INLINE u32 shared_address(const void* p) {
  u32 address = (u32)__cvta_generic_to_shared(p);
  asm volatile("" : "+r"(address));
  return address;
}
CAKE_INLINE void load_matrix(u32 (&r)[4], u32 address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(address));
}
CAKE_INLINE void load_matrix_transposed(u32 (&r)[4], u32 address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(address));
}
// Four 8 x 8 matrices of 16-bit values; lane 8 m + r has the address of row r of matrix m.
CAKE_INLINE void store_matrix(u32 address, u32 m0, u32 m1, u32 m2, u32 m3) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1,%2,%3,%4};" :: "r"(address), "r"(m0), "r"(m1), "r"(m2), "r"(m3) : "memory");
}
CAKE_INLINE u32 load_shared_u8(u32 a) { u32 r; asm volatile("ld.shared.u8 %0, [%1];" : "=r"(r) : "r"(a)); return r; }
CAKE_INLINE u32 load_shared_u16(u32 a) { u16 r; asm volatile("ld.shared.u16 %0, [%1];" : "=h"(r) : "r"(a)); return r; }
CAKE_INLINE u32 load_shared_u32(u32 a) { u32 r; asm volatile("ld.shared.u32 %0, [%1];" : "=r"(r) : "r"(a)); return r; }
CAKE_INLINE uint2 load_shared_u64(u32 a) {
  uint2 r; asm volatile("ld.shared.v2.u32 {%0,%1}, [%2];" : "=r"(r.x), "=r"(r.y) : "r"(a)); return r;
}
CAKE_INLINE uint4 load_shared_u128(u32 a) {
  uint4 r; asm volatile("ld.shared.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(r.x), "=r"(r.y), "=r"(r.z), "=r"(r.w) : "r"(a)); return r;
}
CAKE_INLINE float load_shared_f32(u32 a) { float r; asm volatile("ld.shared.f32 %0, [%1];" : "=f"(r) : "r"(a)); return r; }
CAKE_INLINE void load_shared_f32x4(float (&r)[4], u32 a) {
  asm volatile("ld.shared.v4.f32 {%0,%1,%2,%3}, [%4];" : "=f"(r[0]), "=f"(r[1]), "=f"(r[2]), "=f"(r[3]) : "r"(a));
}
CAKE_INLINE void store_shared_u8(u32 a, u32 v) { asm volatile("st.shared.u8 [%0], %1;" :: "r"(a), "r"(v) : "memory"); }
CAKE_INLINE void store_shared_u16(u32 a, u32 v) { asm volatile("st.shared.u16 [%0], %1;" :: "r"(a), "h"((u16)v) : "memory"); }
CAKE_INLINE void store_shared_u32(u32 a, u32 v) { asm volatile("st.shared.u32 [%0], %1;" :: "r"(a), "r"(v) : "memory"); }
CAKE_INLINE void store_shared_u64(u32 a, u32 x, u32 y) {
  asm volatile("st.shared.v2.u32 [%0], {%1,%2};" :: "r"(a), "r"(x), "r"(y) : "memory");
}
CAKE_INLINE void store_shared_u128(u32 a, u32 x, u32 y, u32 z, u32 w) {
  asm volatile("st.shared.v4.u32 [%0], {%1,%2,%3,%4};" :: "r"(a), "r"(x), "r"(y), "r"(z), "r"(w) : "memory");
}
CAKE_INLINE void store_shared_f32(u32 a, float v) { asm volatile("st.shared.f32 [%0], %1;" :: "r"(a), "f"(v) : "memory"); }
CAKE_INLINE void store_shared_f32x4(u32 a, float x, float y, float z, float w) {
  asm volatile("st.shared.v4.f32 [%0], {%1,%2,%3,%4};" :: "r"(a), "f"(x), "f"(y), "f"(z), "f"(w) : "memory");
}

// ---- asynchronous copies and barriers ------------------------------------------------------------------------
// Copies `bytes` (0 or 16) from global memory and fills the rest of the 16 bytes with zeros.
CAKE_INLINE void copy_async(u32 shared, const u8* global, u32 bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" :: "r"(shared), "l"(global), "r"(bytes) : "memory");
}
CAKE_INLINE void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Waits until at most `pending` of this thread's committed groups are still in flight.
template <int pending> CAKE_INLINE void wait_for_copies() { asm volatile("cp.async.wait_group %0;" :: "n"(pending) : "memory"); }
CAKE_INLINE void named_barrier(int id, int threads) { asm volatile("bar.sync %0, %1;" :: "r"(id), "r"(threads) : "memory"); }
// A named barrier that also tells every thread whether any of them said so.
CAKE_INLINE bool named_barrier_any(int id, int threads, bool mine) {
  u32 any;
  asm volatile("{ .reg .pred in, out; setp.ne.u32 in, %3, 0; bar.red.or.pred out, %1, %2, in; selp.u32 %0, 1, 0, out; }"
               : "=r"(any) : "r"(id), "r"(threads), "r"((u32)mine) : "memory");
  return any;
}

// A value that the compiler has to take as new: what depends on it is computed where it is used, instead of once before a loop and then spilled.
CAKE_INLINE int renewed(int x) { asm volatile("" : "+r"(x)); return x; }
// Volatile, so that two reads stay two reads.
CAKE_INLINE u32 thread_index() { u32 r; asm volatile("mov.u32 %0, %%tid.x;" : "=r"(r)); return r; }
CAKE_INLINE u32 block_index() { u32 r; asm volatile("mov.u32 %0, %%ctaid.x;" : "=r"(r)); return r; }
CAKE_INLINE u32 split_index() { u32 r; asm volatile("mov.u32 %0, %%ctaid.y;" : "=r"(r)); return r; }

// ---- clusters ----------------------------------------------------------------------------------------------------
CAKE_INLINE u32 cluster_blocks() { u32 r; asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(r)); return r; }
// What a shared memory address of this block is in the block of that rank: for load_cluster_* only.
CAKE_INLINE u32 cluster_address(u32 shared, u32 rank) { u32 r; asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(r) : "r"(shared), "r"(rank)); return r; }
CAKE_INLINE uint2 load_cluster_u64(u32 a) {
  uint2 r; asm volatile("ld.shared::cluster.v2.u32 {%0,%1}, [%2];" : "=r"(r.x), "=r"(r.y) : "r"(a)); return r;
}
CAKE_INLINE uint4 load_cluster_u128(u32 a) {
  uint4 r; asm volatile("ld.shared::cluster.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(r.x), "=r"(r.y), "=r"(r.z), "=r"(r.w) : "r"(a)); return r;
}
CAKE_INLINE void store_cluster_u64(u32 a, u32 x, u32 y) { asm volatile("st.shared::cluster.v2.u32 [%0], {%1,%2};" :: "r"(a), "r"(x), "r"(y) : "memory"); }
CAKE_INLINE void store_cluster_u128(u32 a, uint4 x) {
  asm volatile("st.shared::cluster.v4.u32 [%0], {%1,%2,%3,%4};" :: "r"(a), "r"(x.x), "r"(x.y), "r"(x.z), "r"(x.w) : "memory");
}
// The two halves of a meeting that orders no memory: each block says that it runs, and later waits for the other's word.
CAKE_INLINE void arrive_at_cluster() { asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory"); }
CAKE_INLINE void wait_for_cluster() { asm volatile("barrier.cluster.wait.aligned;" ::: "memory"); }
CAKE_INLINE void meet_cluster() {
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}
// The same without order among memory accesses: for a block whose loads from others have all been used, and which may end then.
CAKE_INLINE void leave_cluster() {
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
  asm volatile("barrier.cluster.wait.aligned;" ::: "memory");
}

// A transfer is bytes that another block of the cluster copies into this block's shared memory; `transfer` is 8 bytes of it, set up by one thread before the
// block tells the cluster that it is there.
CAKE_INLINE void expect_transfer(u32 transfer, u32 bytes) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(transfer) : "memory");
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(transfer), "r"(bytes) : "memory");
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
// `to` and `transfer` are addresses of the other block (cluster_address).
CAKE_INLINE void send(u32 to, u32 from, u32 bytes, u32 transfer) {
  asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
               :: "r"(to), "r"(from), "r"(bytes), "r"(transfer) : "memory");
}
CAKE_INLINE void wait_for_transfer(u32 transfer) {
  asm volatile("{ .reg .pred done; again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], 0; @!done bra again; }" :: "r"(transfer) : "memory");
}

// ---- programmatic dependent launch: no-ops in an ordinary launch ------------------------------------------------
CAKE_INLINE void launch_dependents() { asm volatile("griddepcontrol.launch_dependents;"); }
CAKE_INLINE void wait_for_previous_grid() { asm volatile("griddepcontrol.wait;" ::: "memory"); }

// ---- numbers -------------------------------------------------------------------------------------------------
constexpr float log2_e = 1.4426950408889634f;
CAKE_INLINE float negative_infinity() { return __int_as_float(0xff800000); }
CAKE_INLINE float exp2_fast(float x) { float y; asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x)); return y; }
CAKE_INLINE float log2_fast(float x) { float y; asm("lg2.approx.f32 %0, %1;" : "=f"(y) : "f"(x)); return y; }
CAKE_INLINE u32 pack_f16(float low, float high) { u32 r; asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low)); return r; }
CAKE_INLINE u32 pack_bf16(float low, float high) { u32 r; asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low)); return r; }
CAKE_INLINE float bf16_low(u32 x) { return __uint_as_float(x << 16); }
CAKE_INLINE float bf16_high(u32 x) { return __uint_as_float(x & 0xffff0000u); }
CAKE_INLINE u32 f16_pair_to_bf16(u32 x) {
  float low, high;
  asm("{ .reg .b16 l, h; mov.b32 {l, h}, %2; cvt.f32.f16 %0, l; cvt.f32.f16 %1, h; }" : "=f"(low), "=f"(high) : "r"(x));
  return pack_bf16(low, high);
}
