// The replay's own small kernels, as PTX that the driver compiles.
#pragma once

namespace kernel_evolve::replay {

// ke_pause(u64 ns): keeps the device busy until `ns` have passed; one thread.
// ke_read(u64 p, u64 n): reads n vectors of 16 bytes at p, any grid.
// ke_differ(u64 a, u64 b, u64 n, u32 byte, u64 count): adds to *count how many of the n bytes at a
//   differ from those at b, or from `byte` where b is 0; any grid.
// ke_hash(u64 p, u64 n, u64 seed, u64 sum): adds to *sum a hash of the n bytes at p that depends on
//   place and seed; any grid.
// ke_scrub(u32 words): overwrites as many words of the block's dynamic shared memory.
inline constexpr char kKernels[] = R"(
.version 7.0
.target sm_80
.address_size 64

.visible .entry ke_pause(.param .u64 ns) {
  .reg .u64 %rd<3>;
  .reg .pred %p<1>;
  ld.param.u64 %rd0, [ns];
  mov.u64 %rd1, %globaltimer;
  add.u64 %rd0, %rd0, %rd1;
WAIT:
  mov.u64 %rd2, %globaltimer;
  setp.lt.u64 %p0, %rd2, %rd0;
  @%p0 bra WAIT;
  ret;
}

.visible .entry ke_read(.param .u64 p, .param .u64 n) {
  .reg .u64 %rd<5>;
  .reg .u32 %r<11>;
  .reg .pred %p<2>;
  ld.param.u64 %rd0, [p];
  ld.param.u64 %rd1, [n];
  cvta.to.global.u64 %rd0, %rd0;
  mov.u32 %r0, %ctaid.x;
  mov.u32 %r1, %ntid.x;
  mov.u32 %r2, %tid.x;
  mov.u32 %r3, %nctaid.x;
  mad.lo.u32 %r4, %r0, %r1, %r2;
  cvt.u64.u32 %rd2, %r4;
  mul.lo.u32 %r5, %r1, %r3;
  cvt.u64.u32 %rd3, %r5;
  mov.u32 %r10, 0;
NEXT:
  setp.ge.u64 %p0, %rd2, %rd1;
  @%p0 bra DONE;
  shl.b64 %rd4, %rd2, 4;
  add.u64 %rd4, %rd0, %rd4;
  ld.global.v4.u32 {%r6, %r7, %r8, %r9}, [%rd4];
  xor.b32 %r6, %r6, %r7;
  xor.b32 %r8, %r8, %r9;
  xor.b32 %r6, %r6, %r8;
  add.u32 %r10, %r10, %r6;
  add.u64 %rd2, %rd2, %rd3;
  bra NEXT;
DONE:
  setp.ne.u32 %p1, %r10, 0x9E3779B9;
  @%p1 bra END;
  st.global.u32 [%rd0], %r10;
END:
  ret;
}

.visible .entry ke_differ(.param .u64 a, .param .u64 b, .param .u64 n, .param .u32 byte,
                          .param .u64 count) {
  .reg .u64 %rd<9>;
  .reg .u32 %r<9>;
  .reg .pred %p<3>;
  ld.param.u64 %rd0, [a];
  ld.param.u64 %rd1, [b];
  ld.param.u64 %rd2, [n];
  ld.param.u32 %r0, [byte];
  ld.param.u64 %rd3, [count];
  cvta.to.global.u64 %rd0, %rd0;
  cvta.to.global.u64 %rd3, %rd3;
  setp.eq.u64 %p2, %rd1, 0;
  mov.u32 %r1, %ctaid.x;
  mov.u32 %r2, %ntid.x;
  mov.u32 %r3, %tid.x;
  mov.u32 %r4, %nctaid.x;
  mad.lo.u32 %r5, %r1, %r2, %r3;
  cvt.u64.u32 %rd4, %r5;
  mul.lo.u32 %r6, %r2, %r4;
  cvt.u64.u32 %rd5, %r6;
  mov.u64 %rd6, 0;
NEXT:
  setp.ge.u64 %p0, %rd4, %rd2;
  @%p0 bra DONE;
  add.u64 %rd7, %rd0, %rd4;
  ld.global.u8 %r7, [%rd7];
  mov.u32 %r8, %r0;
  @%p2 bra COMPARE;
  add.u64 %rd8, %rd1, %rd4;
  ld.global.u8 %r8, [%rd8];
COMPARE:
  setp.ne.u32 %p1, %r7, %r8;
  @%p1 add.u64 %rd6, %rd6, 1;
  add.u64 %rd4, %rd4, %rd5;
  bra NEXT;
DONE:
  setp.eq.u64 %p0, %rd6, 0;
  @%p0 bra END;
  red.global.add.u64 [%rd3], %rd6;
END:
  ret;
}

.visible .entry ke_hash(.param .u64 p, .param .u64 n, .param .u64 seed, .param .u64 sum) {
  .reg .u64 %rd<10>;
  .reg .u32 %r<7>;
  .reg .pred %p<1>;
  ld.param.u64 %rd0, [p];
  ld.param.u64 %rd1, [n];
  ld.param.u64 %rd2, [seed];
  ld.param.u64 %rd3, [sum];
  cvta.to.global.u64 %rd0, %rd0;
  cvta.to.global.u64 %rd3, %rd3;
  mov.u32 %r1, %ctaid.x;
  mov.u32 %r2, %ntid.x;
  mov.u32 %r3, %tid.x;
  mov.u32 %r4, %nctaid.x;
  mad.lo.u32 %r5, %r1, %r2, %r3;
  cvt.u64.u32 %rd4, %r5;
  mul.lo.u32 %r6, %r2, %r4;
  cvt.u64.u32 %rd5, %r6;
  mov.u64 %rd6, 0;
NEXT:
  setp.ge.u64 %p0, %rd4, %rd1;
  @%p0 bra DONE;
  add.u64 %rd7, %rd0, %rd4;
  ld.global.u8 %rd8, [%rd7];
  mad.lo.u64 %rd9, %rd4, 0x9E3779B97F4A7C15, %rd2;
  shl.b64 %rd8, %rd8, 56;
  xor.b64 %rd9, %rd9, %rd8;
  shr.u64 %rd8, %rd9, 30;
  xor.b64 %rd9, %rd9, %rd8;
  mul.lo.u64 %rd9, %rd9, 0xBF58476D1CE4E5B9;
  shr.u64 %rd8, %rd9, 27;
  xor.b64 %rd9, %rd9, %rd8;
  mul.lo.u64 %rd9, %rd9, 0x94D049BB133111EB;
  shr.u64 %rd8, %rd9, 31;
  xor.b64 %rd9, %rd9, %rd8;
  add.u64 %rd6, %rd6, %rd9;
  add.u64 %rd4, %rd4, %rd5;
  bra NEXT;
DONE:
  red.global.add.u64 [%rd3], %rd6;
  ret;
}

.extern .shared .align 16 .b8 room[];

.visible .entry ke_scrub(.param .u32 words) {
  .reg .u32 %r<6>;
  .reg .u64 %rd<1>;
  .reg .pred %p<1>;
  ld.param.u32 %r0, [words];
  mov.u32 %r1, %tid.x;
  mov.u32 %r2, %ntid.x;
  mov.u32 %r3, room;
  mov.u32 %r5, 0xA5A5A5A5;
NEXT:
  setp.ge.u32 %p0, %r1, %r0;
  @%p0 bra DONE;
  shl.b32 %r4, %r1, 2;
  add.u32 %r4, %r3, %r4;
  st.shared.u32 [%r4], %r5;
  add.u32 %r1, %r1, %r2;
  bra NEXT;
DONE:
  ret;
}
)";

}  // namespace kernel_evolve::replay
