//! Instructions that NVRTC rarely emits, in PTX written by hand. Each case computes in one thread or one warp.

use crate::common::run_text;
use ptx_interpreter::{Argument, Launch, Memory};

/// Runs a body in one warp that stores words with `st.global.u32 [%rd1+N], ...` and returns the words of lane 0.
///
/// `%rd1` points to 128 bytes of each lane, `%r1` is the lane.
fn warp(body: &str) -> Vec<Vec<u32>> {
    let text = format!(
        ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry kernel(.param .u64 p) {{\n\
         .reg .pred %p<8>; .reg .b16 %h<12>; .reg .b32 %r<24>; .reg .b64 %rd<12>; .reg .f32 %f<16>; .reg .f64 %fd<8>;\n\
         .shared .align 16 .b8 data[1024]; .local .align 8 .b8 own[32];\n\
         ld.param.u64 %rd1, [p]; cvta.to.global.u64 %rd1, %rd1; mov.u32 %r1, %laneid;\n\
         mul.wide.u32 %rd2, %r1, 128; add.u64 %rd1, %rd1, %rd2;\n{body}\nret;\n}}\n"
    );
    if let Ok(path) = std::env::var("PTXRUN_DUMP") {
        let name = format!(
            "{path}/{:016x}.ptx",
            text.bytes().fold(7u64, |h, b| h.wrapping_mul(31).wrapping_add(u64::from(b)))
        );
        std::fs::write(name, &text).unwrap();
    }
    let mut memory = Memory::new();
    let out = memory.alloc(32 * 128);
    run_text(&text, &Launch::linear(1, 32), &mut memory, &[Argument::Pointer(out)])
        .unwrap_or_else(|e| panic!("{e}"));
    memory.read_u32(out, 1024).unwrap().chunks(32).map(<[u32]>::to_vec).collect()
}

/// The words of lane 0 after `%rN = ...` lines, each stored in order.
fn words(lines: &[&str]) -> Vec<u32> {
    let body: String = lines
        .iter()
        .enumerate()
        .map(|(i, line)| format!("{line} st.global.u32 [%rd1+{}], %r2;\n", 4 * i))
        .collect();
    warp(&body)[0][..lines.len()].to_vec()
}

/// Compares each line, which writes `%r2`, with a word.
fn check(cases: &[(&str, u32)]) {
    for part in cases.chunks(32) {
        let lines: Vec<&str> = part.iter().map(|(line, _)| *line).collect();
        for (got, (line, want)) in words(&lines).into_iter().zip(part) {
            assert_eq!(got, *want, "{line}: got {got:#x}, want {want:#x}");
        }
    }
}

#[test]
fn integers() {
    check(&[
        ("mul24.lo.s32 %r2, 0x00ffffff, 5;", (-5i32) as u32),
        ("mul24.hi.u32 %r2, 0x00ffffff, 0x00ffffff;", ((0xff_ffffu64 * 0xff_ffff) >> 16) as u32),
        ("mad.hi.u32 %r2, 0xffffffff, 0xffffffff, 3;", 1),
        ("mad.lo.s32 %r2, -7, 6, 100;", 58),
        ("mad.wide.s32 %rd3, -7, 6, 100; cvt.u32.u64 %r2, %rd3;", 58),
        ("mul.wide.s32 %rd3, -1, 5; shr.u64 %rd3, %rd3, 32; cvt.u32.u64 %r2, %rd3;", u32::MAX),
        ("mul.wide.u32 %rd3, -1, 5; shr.u64 %rd3, %rd3, 32; cvt.u32.u64 %r2, %rd3;", 4),
        ("mov.b16 %h1, 0x8001; mul.wide.s16 %r2, %h1, 2;", (-65534i32) as u32),
        ("add.sat.s32 %r2, 0x7fffffff, 5;", 0x7fff_ffff),
        ("sub.sat.s32 %r2, 0x80000000, 5;", 0x8000_0000),
        ("shl.b32 %r2, 1, 32;", 0),
        ("shl.b32 %r2, 1, 31;", 1 << 31),
        ("mov.u64 %rd3, 5; shl.b64 %rd3, %rd3, 64; cvt.u32.u64 %r2, %rd3;", 0),
        ("mov.u64 %rd3, 5; shr.u64 %rd3, %rd3, 64; cvt.u32.u64 %r2, %rd3;", 0),
        ("mov.b16 %h1, 5; shl.b16 %h1, %h1, 16; cvt.u32.u16 %r2, %h1;", 0),
        ("shr.u32 %r2, 0x80000000, 40;", 0),
        ("shr.s32 %r2, 0x80000000, 40;", u32::MAX),
        ("shf.l.wrap.b32 %r2, 0x80000001, 0x12345678, 36;", 0x2345_6788),
        ("shf.l.clamp.b32 %r2, 0x80000001, 0x12345678, 36;", 0x8000_0001),
        ("shf.r.wrap.b32 %r2, 0x80000001, 0x12345678, 36;", 0x8800_0000),
        ("shf.r.clamp.b32 %r2, 0x80000001, 0x12345678, 36;", 0x1234_5678),
        ("cnot.b32 %r2, 0;", 1),
        ("cnot.b32 %r2, 9;", 0),
        ("not.b32 %r2, 0xf0;", !0xf0),
        ("prmt.b32 %r2, 0x33221100, 0x77665544, 0x7531;", 0x7755_3311),
        ("prmt.b32 %r2, 0x33228100, 0x77665544, 0x0989;", 0x00ff_00ff),
        ("prmt.b32.f4e %r2, 0x33221100, 0x77665544, 1;", 0x4433_2211),
        ("prmt.b32.b4e %r2, 0x33221100, 0x77665544, 1;", 0x6677_0011),
        ("prmt.b32.rc8 %r2, 0x33221100, 0x77665544, 2;", 0x2222_2222),
        ("prmt.b32.ecl %r2, 0x33221100, 0x77665544, 2;", 0x3322_2222),
        ("prmt.b32.ecr %r2, 0x33221100, 0x77665544, 2;", 0x2222_1100),
        ("prmt.b32.rc16 %r2, 0x33221100, 0x77665544, 1;", 0x3322_3322),
        ("bfind.shiftamt.u32 %r2, 0x00010000;", 15),
        ("sad.u32 %r2, 3, 10, 5;", 12),
        ("dp2a.lo.s32.s32 %r2, 0x0003fffe, 0x04030201, 10;", 10 - 2 + 6),
        ("dp2a.hi.u32.u32 %r2, 0x00030002, 0x04030201, 10;", 10 + 6 + 12),
        ("bmsk.clamp.b32 %r2, 4, 8;", 0xff0),
        ("szext.clamp.s32 %r2, 0xff80, 8;", 0xffff_ff80),
        ("szext.clamp.u32 %r2, 0xff80, 8;", 0x80),
        (
            "mov.b16 %h1, 0xfffe; mov.b16 %h2, 3; div.s16 %h3, %h1, %h2; rem.s16 %h4, %h1, %h2; mov.b32 %r2, {%h3, %h4};",
            0xfffe_0000,
        ),
        (
            "mov.b16 %h1, 0xfffe; mov.b16 %h2, 3; min.s16 %h3, %h1, %h2; max.u16 %h4, %h1, %h2; mov.b32 %r2, {%h3, %h4};",
            0xfffe_fffe,
        ),
        ("mov.b32 {%h1, %h2}, 0x12345678; mov.b32 %r2, {%h2, %h1};", 0x5678_1234),
        ("mov.b64 %rd3, {7, 9}; mov.b64 {%r3, %r2}, %rd3;", 9),
        ("mov.b64 {_, %r2}, 0x500000004;", 5),
        ("popc.b64 %r2, 0xf0f0f0f0f0f0f0f0;", 32),
        ("clz.b64 %r2, 0x10;", 59),
        ("brev.b64 %rd3, 1; shr.u64 %rd3, %rd3, 60; cvt.u32.u64 %r2, %rd3;", 8),
        ("bfe.s64 %rd3, 0xf0, 4, 4; cvt.u32.u64 %r2, %rd3;", u32::MAX),
        ("add.cc.u64 %rd3, -1, 1; addc.u64 %rd4, 0, 0; cvt.u32.u64 %r2, %rd4;", 1),
        ("sub.cc.u32 %r3, 1, 2; subc.u32 %r2, 5, 1;", 3),
        ("mov.b32 %r3, 5; abs.s32 %r2, -5; neg.s32 %r3, %r2; add.u32 %r2, %r2, %r3;", 0),
    ]);
}

#[test]
fn comparisons() {
    let set = |text: &str| format!("{text} selp.b32 %r2, 1, 0, %p1;");
    let cases = [
        ("setp.lt.s32 %p1, -1, 0;", 1),
        ("setp.lt.u32 %p1, -1, 0;", 0),
        ("setp.lo.u32 %p1, 3, 4;", 1),
        ("setp.hs.u32 %p1, 3, 4;", 0),
        ("setp.eq.f32 %p1, 0f7fc00000, 0f7fc00000;", 0),
        ("setp.ne.f32 %p1, 0f7fc00000, 0f00000000;", 0),
        ("setp.neu.f32 %p1, 0f7fc00000, 0f00000000;", 1),
        ("setp.ltu.f32 %p1, 0f7fc00000, 0f00000000;", 1),
        ("setp.geu.f32 %p1, 0f3f800000, 0f40000000;", 0),
        ("setp.num.f32 %p1, 0f3f800000, 0f40000000;", 1),
        ("setp.nan.f32 %p1, 0f3f800000, 0f7fc00000;", 1),
        ("setp.eq.f32 %p1, 0f00000001, 0f00000000;", 0),
        ("setp.eq.ftz.f32 %p1, 0f00000001, 0f00000000;", 1),
        ("setp.eq.f64 %p1, 0d3ff0000000000000, 0d3ff0000000000000;", 1),
        ("setp.lt.s64 %p1, -5, 3;", 1),
        ("setp.eq.u32 %p2, 1, 1; setp.lt.and.u32 %p1, 1, 2, %p2;", 1),
        ("setp.eq.u32 %p2, 1, 1; setp.lt.and.u32 %p1, 1, 2, !%p2;", 0),
        ("setp.eq.u32 %p2, 1, 0; setp.gt.or.u32 %p1, 1, 2, !%p2;", 1),
        ("setp.eq.u32 %p2, 1, 1; setp.lt.xor.u32 %p1, 1, 2, %p2;", 0),
        ("setp.lt.u32 %p2|%p1, 1, 2;", 0),
        ("setp.lt.u32 %p1|%p2, 1, 2;", 1),
        ("setp.eq.u32 %p2, 1, 1; and.pred %p1, %p2, %p2; not.pred %p1, %p1;", 0),
        ("setp.eq.u32 %p2, 1, 1; mov.pred %p1, %p2; xor.pred %p1, %p1, 0;", 1),
        ("mov.b16 %h1, 0x3c00; mov.b16 %h2, 0x4000; setp.lt.f16 %p1, %h1, %h2;", 1),
        ("setp.lt.f16x2 %p2|%p1, %r5, %r6;", 1),
        ("setp.lt.f16x2 %p1|%p2, %r5, %r6;", 0),
        ("setp.gt.bf16 %p1, %h5, %h6;", 1),
        ("testp.finite.f32 %p1, 0f7f800000;", 0),
        ("testp.infinite.f32 %p1, 0fff800000;", 1),
        ("testp.notanumber.f32 %p1, 0f7fc00000;", 1),
        ("testp.number.f32 %p1, 0f3f800000;", 1),
        ("testp.normal.f32 %p1, 0f00000001;", 0),
        ("testp.subnormal.f32 %p1, 0f00000001;", 1),
        ("isspacep.shared %p1, %rd5;", 1),
        ("isspacep.global %p1, %rd5;", 0),
        ("isspacep.local %p1, %rd6;", 1),
        ("isspacep.global %p1, %rd1;", 1),
    ];
    let prepare = "mov.b32 %r5, 0x40004000; mov.b32 %r6, 0x44003c00; mov.b16 %h5, 0x4000; mov.b16 %h6, 0x3f80; \
                   mov.u64 %rd5, data; cvta.shared.u64 %rd5, %rd5; mov.u64 %rd6, own; cvta.local.u64 %rd6, %rd6; ";
    let texts: Vec<(String, u32)> =
        cases.iter().map(|(text, want)| (set(&format!("{prepare}{text}")), *want)).collect();
    check(&texts.iter().map(|(text, want)| (text.as_str(), *want)).collect::<Vec<_>>());
    check(&[
        ("set.lt.u32.s32 %r2, -1, 0;", u32::MAX),
        ("set.lt.f32.s32 %f1, -1, 0; mov.b32 %r2, %f1;", 1f32.to_bits()),
        ("set.gt.u32.f32 %r2, 0f3f800000, 0f40000000;", 0),
        (
            "mov.b32 %r5, 0x40004000; mov.b32 %r6, 0x44003c00; set.lt.f16x2.f16x2 %r2, %r5, %r6;",
            0x3c00_0000,
        ),
        ("slct.u32.s32 %r2, 7, 8, -1;", 8),
        ("slct.u32.s32 %r2, 7, 8, 0;", 7),
        ("slct.f32.f32 %f1, 0f3f800000, 0f40000000, 0fbf800000; mov.b32 %r2, %f1;", 2f32.to_bits()),
        ("slct.u32.f32 %r2, 7, 8, 0f7fc00000;", 8),
    ]);
}

#[test]
fn floats() {
    let f = |text: &str| format!("{text} mov.b32 %r2, %f1;");
    let tiny = f32::from_bits(1);
    let cases: Vec<(String, u32)> = [
        ("add.ftz.f32 %f1, 0f00000001, 0f00000001;", 0.0),
        ("add.f32 %f1, 0f00000001, 0f00000001;", tiny + tiny),
        ("mul.ftz.f32 %f1, 0f00800000, 0f3f000000;", 0.0),
        ("mul.ftz.f32 %f1, 0f80800000, 0f3f000000;", -0.0),
        ("add.sat.f32 %f1, 0f3f800000, 0f3f800000;", 1.0),
        ("add.sat.f32 %f1, 0fbf800000, 0f00000000;", 0.0),
        ("mul.sat.f32 %f1, 0f7f800000, 0f00000000;", 0.0),
        ("min.f32 %f1, 0f7fc00000, 0f3f800000;", 1.0),
        ("max.f32 %f1, 0f3f800000, 0f7fc00000;", 1.0),
        ("min.f32 %f1, 0f00000000, 0f80000000;", -0.0),
        ("max.f32 %f1, 0f80000000, 0f00000000;", 0.0),
        ("abs.f32 %f1, 0fbf800000;", 1.0),
        ("abs.ftz.f32 %f1, 0f80000001;", 0.0),
        ("neg.f32 %f1, 0f3f800000;", -1.0),
        ("copysign.f32 %f1, 0fbf800000, 0f40000000;", -2.0),
        ("add.rm.f32 %f1, 0f3f800000, 0fbf800000;", -0.0),
        ("add.rn.f32 %f1, 0f3f800000, 0fbf800000;", 0.0),
        ("rcp.approx.f32 %f1, 0f40800000;", 0.25),
        ("rcp.approx.f32 %f1, 0f80000000;", f32::NEG_INFINITY),
        ("rsqrt.approx.f32 %f1, 0f40800000;", 0.5),
        ("sqrt.approx.f32 %f1, 0f40800000;", 2.0),
        ("sqrt.rn.f32 %f1, 0f40000000;", 2f32.sqrt()),
        ("ex2.approx.f32 %f1, 0f40400000;", 8.0),
        ("ex2.approx.ftz.f32 %f1, 0fc3480000;", 0.0),
        ("lg2.approx.f32 %f1, 0f41000000;", 3.0),
        ("lg2.approx.f32 %f1, 0f00000000;", f32::NEG_INFINITY),
        ("sin.approx.f32 %f1, 0f00000000;", 0.0),
        ("cos.approx.f32 %f1, 0f00000000;", 1.0),
        ("tanh.approx.f32 %f1, 0f41a00000;", 1.0),
        ("div.approx.f32 %f1, 0f40c00000, 0f40000000;", 3.0),
        ("div.approx.f32 %f1, 0f7f000000, 0f7f000000;", 0.0),
        ("div.full.f32 %f1, 0f7f000000, 0f7f000000;", 1.0),
        ("fma.rn.f32 %f1, 0f3f800001, 0f3f800001, 0fbf800002;", 2f32.powi(-46)),
        ("fma.rn.sat.f32 %f1, 0f3f800000, 0f40000000, 0f3f800000;", 1.0),
        ("mad.rn.f32 %f1, 0f40000000, 0f40400000, 0f3f800000;", 7.0),
    ]
    .iter()
    .map(|(text, want)| (f(text), f32::to_bits(*want)))
    .collect();
    check(&cases.iter().map(|(text, want)| (text.as_str(), *want)).collect::<Vec<_>>());
    check(&[
        ("min.NaN.f32 %f1, 0f7fc00000, 0f3f800000; mov.b32 %r2, %f1;", 0x7fff_ffff),
        ("max.f32 %f1, 0f7fc00000, 0fffc00000; mov.b32 %r2, %f1;", 0x7fff_ffff),
        ("sub.f32 %f1, 0f7f800000, 0f7f800000; mov.b32 %r2, %f1;", 0x7fff_ffff),
        ("sqrt.rn.f32 %f1, 0fbf800000; mov.b32 %r2, %f1;", 0x7fff_ffff),
        ("mul.rn.f64 %fd1, 0d3ff8000000000000, 0d4000000000000000; cvt.rzi.s32.f64 %r2, %fd1;", 3),
        ("rcp.rn.f64 %fd1, 0d4010000000000000; mul.f64 %fd1, %fd1, 0d4059000000000000; cvt.rni.s32.f64 %r2, %fd1;", 25),
        ("rcp.approx.ftz.f64 %fd1, 0d4008000000000000; mov.b64 {%r2, %r3}, %fd1;", 0),
        ("rcp.approx.ftz.f64 %fd1, 0d4008000000000000; mov.b64 {%r3, %r2}, %fd1;", 0x3fd5_5555),
        ("rsqrt.approx.ftz.f64 %fd1, 0d4010000000000000; mov.b64 {%r3, %r2}, %fd1;", 0x3fe0_0000),
    ]);
}

#[test]
fn half_precision() {
    check(&[
        ("mov.b32 %r3, 0x3c004000; mov.b32 %r4, 0x38003c00; add.f16x2 %r2, %r3, %r4;", 0x3e00_4200),
        ("mov.b32 %r3, 0x3c004000; mov.b32 %r4, 0x38003c00; fma.rn.f16x2 %r2, %r3, %r4, %r3;", 0x3e00_4400),
        ("mov.b32 %r3, 0xbc004000; mov.b32 %r4, 0x38003c00; fma.rn.relu.f16x2 %r2, %r3, %r4, %r3;", 0x0000_4400),
        ("mov.b32 %r3, 0x3f804000; mov.b32 %r4, 0x3f803f80; fma.rn.bf16x2 %r2, %r3, %r4, %r3;", 0x4000_4080),
        ("mov.b32 %r3, 0x3c00c000; neg.f16x2 %r2, %r3;", 0xbc00_4000),
        ("mov.b32 %r3, 0xbc00c000; abs.f16x2 %r2, %r3;", 0x3c00_4000),
        ("mov.b32 %r3, 0x7e003c00; mov.b32 %r4, 0x3c007e00; min.f16x2 %r2, %r3, %r4;", 0x3c00_3c00),
        ("mov.b32 %r3, 0x7e003c00; mov.b32 %r4, 0x3c003800; max.NaN.f16x2 %r2, %r3, %r4;", 0x7fff_3c00),
        ("mov.b32 %r3, 0x00013c00; mov.b32 %r4, 0x3c003c00; mul.ftz.f16x2 %r2, %r3, %r4;", 0x0000_3c00),
        ("mov.b32 %r3, 0x42003c00; mov.b32 %r4, 0x3c003800; mul.sat.f16x2 %r2, %r3, %r4;", 0x3c00_3800),
        ("mov.b16 %h1, 0x4000; ex2.approx.f16 %h2, %h1; cvt.u32.u16 %r2, %h2;", 0x4400),
        ("mov.b16 %h1, 0x0000; tanh.approx.f16 %h2, %h1; cvt.u32.u16 %r2, %h2;", 0),
        ("mov.b32 %r3, 0x40003c00; ex2.approx.f16x2 %r2, %r3;", 0x4400_4000),
        ("mov.b32 %r3, 0x40003f80; ex2.approx.ftz.bf16x2 %r2, %r3;", 0x4080_4000),
        ("cvt.rn.f16x2.f32 %r2, 0f3f800000, 0f40000000;", 0x3c00_4000),
        ("cvt.rn.bf16x2.f32 %r2, 0f3f800000, 0f40000000;", 0x3f80_4000),
        ("cvt.rn.relu.f16x2.f32 %r2, 0fbf800000, 0f40000000;", 0x4000),
        ("cvt.rn.f16.f32 %h1, 0f477ff000; cvt.u32.u16 %r2, %h1;", 0x7c00),
        ("cvt.rz.f16.f32 %h1, 0f477ff000; cvt.u32.u16 %r2, %h1;", 0x7bff),
        ("cvt.rn.bf16.f32 %h1, 0f3f808000; cvt.u32.u16 %r2, %h1;", 0x3f80),
        ("cvt.rn.bf16.f32 %h1, 0f3f818000; cvt.u32.u16 %r2, %h1;", 0x3f82),
        ("cvt.rna.tf32.f32 %r2, 0f3f801000;", 0x3f80_2000),
        ("mov.b16 %h1, 0x3e00; cvt.f32.f16 %f1, %h1; mov.b32 %r2, %f1;", 1.5f32.to_bits()),
        ("mov.b16 %h1, 0x0001; cvt.f32.f16 %f1, %h1; mov.b32 %r2, %f1;", 2f32.powi(-24).to_bits()),
        ("mov.b16 %h1, 0x3fc0; cvt.f32.bf16 %f1, %h1; mov.b32 %r2, %f1;", 1.5f32.to_bits()),
        ("mov.b16 %h1, 0xfc00; cvt.rni.s32.f16 %r2, %h1;", 0x8000_0000),
        ("mov.b16 %h1, 0x4100; cvt.rni.f16.f16 %h2, %h1; cvt.u32.u16 %r2, %h2;", 0x4000),
        ("cvt.rn.f16.s32 %h1, 2049; cvt.u32.u16 %r2, %h1;", 0x6800),
        ("cvt.rn.f16.u32 %h1, 70000; cvt.u32.u16 %r2, %h1;", 0x7c00),
    ]);
}

#[test]
fn conversions() {
    check(
        &[
            ("cvt.sat.u8.s32 %r2, 300;", 255),
            ("cvt.sat.u8.s32 %r2, -3;", 0),
            ("cvt.sat.s8.s32 %r2, -300;", (-128i32) as u32),
            ("cvt.u8.u32 %r2, 0x1ff;", 0xff),
            ("cvt.s8.s32 %r2, 0xff;", u32::MAX),
            ("cvt.s32.s8 %r2, %r8;", (-2i32) as u32),
            ("cvt.sat.s32.s64 %r2, %rd8;", 0x7fff_ffff),
            ("cvt.rzi.s32.f32 %r2, 0fc0200000;", (-2i32) as u32),
            ("cvt.rmi.s32.f32 %r2, 0fc0200000;", (-3i32) as u32),
            ("cvt.rpi.s32.f32 %r2, 0fc0200000;", (-2i32) as u32),
            ("cvt.rni.s32.f32 %r2, 0f40200000;", 2),
            ("cvt.rzi.u32.f32 %r2, 0fbf800000;", 0),
            ("cvt.rzi.u32.f32 %r2, 0f7f800000;", u32::MAX),
            ("cvt.rzi.s32.f32 %r2, 0f7fc00000;", 0),
            ("cvt.rzi.u8.f32 %r2, 0f43c80000;", 255),
            ("cvt.rzi.s64.f32 %rd3, 0f7fc00000; shr.u64 %rd3, %rd3, 32; cvt.u32.u64 %r2, %rd3;", 0x8000_0000),
            ("cvt.rzi.ftz.s32.f32 %r2, 0f00000001;", 0),
            ("cvt.rpi.f32.f32 %f1, 0f3fc00000; mov.b32 %r2, %f1;", 2f32.to_bits()),
            ("cvt.rzi.f32.f32 %f1, 0fbf000000; mov.b32 %r2, %f1;", (-0f32).to_bits()),
            ("cvt.sat.f32.f32 %f1, 0f40000000; mov.b32 %r2, %f1;", 1f32.to_bits()),
            ("cvt.ftz.f32.f32 %f1, 0f80000001; mov.b32 %r2, %f1;", 0x8000_0000),
            ("cvt.rn.f32.u32 %f1, -1; mov.b32 %r2, %f1;", 2f32.powi(32).to_bits()),
            ("cvt.rz.f32.u32 %f1, -1; mov.b32 %r2, %f1;", 0x4f7f_ffff),
            ("cvt.rn.f32.s32 %f1, -1; mov.b32 %r2, %f1;", (-1f32).to_bits()),
            ("cvt.rn.f32.u64 %f1, %rd9; mov.b32 %r2, %f1;", 0x5f80_0000),
            ("cvt.rp.f32.u64 %f1, %rd10; mov.b32 %r2, %f1;", 0x4b80_0001),
            ("cvt.rm.f32.f64 %f1, 0d3ff0000000000001; mov.b32 %r2, %f1;", 1f32.to_bits()),
            ("cvt.rp.f32.f64 %f1, 0d3ff0000000000001; mov.b32 %r2, %f1;", 1f32.to_bits() + 1),
            ("cvt.f64.f32 %fd1, 0f3fc00000; mov.b64 {%r3, %r2}, %fd1;", 0x3ff8_0000),
        ]
        .map(|(text, want)| {
            (
                format!(
                    "mov.b32 %r8, 0xfe; mov.u64 %rd8, 0x700000000; mov.u64 %rd9, -1; mov.u64 %rd10, 16777217; {text}"
                ),
                want,
            )
        })
        .iter()
        .map(|(text, want)| (text.as_str(), *want))
        .collect::<Vec<_>>(),
    );
}

#[test]
fn memory_forms() {
    check(&[
        ("st.global.u8 [%rd1+64], 0x80; ld.global.s8 %r2, [%rd1+64];", 0xffff_ff80),
        ("st.global.u8 [%rd1+64], 0x80; ld.global.u8 %r2, [%rd1+64];", 0x80),
        ("st.global.u16 [%rd1+64], 0x8000; ld.global.s16 %r2, [%rd1+64];", 0xffff_8000),
        ("st.global.v2.u32 [%rd1+64], {3, 4}; ld.global.v2.u32 {%r3, %r2}, [%rd1+64];", 4),
        ("st.global.v4.u32 [%rd1+64], {3, 4, 5, 6}; ld.global.v4.u32 {%r3, _, %r2, _}, [%rd1+64];", 5),
        ("st.local.v2.b64 [own], {7, 8}; ld.local.b64 %rd3, [own+8]; cvt.u32.u64 %r2, %rd3;", 8),
        ("mov.u64 %rd3, own; cvta.local.u64 %rd3, %rd3; st.u32 [%rd3+4], 11; ld.local.u32 %r2, [own+4];", 11),
        ("mov.u64 %rd3, own; add.u64 %rd3, %rd3, 8; st.local.u32 [%rd3], 12; ld.local.u32 %r2, [own+8];", 12),
        (
            "shl.b32 %r3, %r1, 2; mov.u32 %r4, data; add.u32 %r3, %r3, %r4; st.shared.u32 [%r3], 13; ld.shared.u32 %r2, [%r3];",
            13,
        ),
        ("st.global.u32 [%rd1+64], 5; atom.global.add.u32 %r2, [%rd1+64], 6;", 5),
        ("st.global.u32 [%rd1+64], 5; atom.global.cas.b32 %r2, [%rd1+64], 5, 9; ld.global.u32 %r2, [%rd1+64];", 9),
        ("st.global.u32 [%rd1+64], 5; atom.global.max.s32 %r2, [%rd1+64], -9; ld.global.u32 %r2, [%rd1+64];", 5),
        ("st.global.u32 [%rd1+64], 5; red.global.max.u32 [%rd1+64], -9; ld.global.u32 %r2, [%rd1+64];", (-9i32) as u32),
        (
            "st.global.f32 [%rd1+64], 0f3f800000; red.global.add.f32 [%rd1+64], 0f40000000; ld.global.u32 %r2, [%rd1+64];",
            3f32.to_bits(),
        ),
        (
            "st.global.u32 [%rd1+64], 0x3c004000; mov.b32 %r3, 0x3c003c00; atom.global.add.noftz.f16x2 %r2, [%rd1+64], %r3; \
             ld.global.u32 %r2, [%rd1+64];",
            0x4000_4200,
        ),
        ("st.global.u64 [%rd1+64], 5; atom.global.exch.b64 %rd3, [%rd1+64], 6; cvt.u32.u64 %r2, %rd3;", 5),
        ("st.relaxed.gpu.global.u32 [%rd1+64], 5; ld.acquire.gpu.global.u32 %r2, [%rd1+64];", 5),
        ("ld.global.nc.L1::no_allocate.L2::128B.u32 %r2, [%rd1+124];", 0),
        ("membar.gl; fence.acq_rel.gpu; prefetch.global.L2 [%rd1]; mov.u32 %r2, 1;", 1),
        ("mov.u32 %r2, %ntid.x;", 32),
        ("mov.u32 %r2, %lanemask_ge;", u32::MAX),
        ("mov.u32 %r2, %lanemask_lt;", 0),
        ("mov.u32 %r2, %lanemask_le;", 1),
        ("mov.u32 %r2, %nctaid.z;", 1),
        ("mov.u32 %r2, WARP_SZ;", 32),
        ("{ .reg .b32 %r3; mov.b32 %r3, 21; mov.b32 %r2, %r3; }", 21),
    ]);
}

#[test]
fn control() {
    check(&[
        (
            "mov.u32 %r3, 2; T: .branchtargets A, B, C; brx.idx %r3, T; A: mov.u32 %r2, 1; bra D; \
             B: mov.u32 %r2, 2; bra D; C: mov.u32 %r2, 3; D:",
            3,
        ),
        ("setp.eq.u32 %p1, 1, 1; @%p1 bra.uni E; mov.u32 %r2, 1; bra F; E: mov.u32 %r2, 2; F:", 2),
        ("mov.u32 %r2, 0; setp.eq.u32 %p1, 1, 2; @%p1 add.u32 %r2, %r2, 5; @!%p1 add.u32 %r2, %r2, 7;", 7),
    ]);
    let lanes = warp(
        "and.b32 %r3, %r1, 3; T: .branchtargets A, B, C, D; brx.idx %r3, T;\n\
         A: mov.u32 %r2, 10; bra E; B: mov.u32 %r2, 11; bra E; C: activemask.b32 %r2; bra E; D: exit;\n\
         E: st.global.u32 [%rd1], %r2;",
    );
    for (lane, words) in lanes.iter().enumerate() {
        assert_eq!(words[0], [10, 11, 0x4444_4444, 0][lane & 3]);
    }
}

#[test]
fn functions() {
    let text = ".version 7.0\n.target sm_80\n.address_size 64\n\
        .func (.reg .u32 result) twice(.reg .u32 x) { add.u32 result, x, x; ret; }\n\
        .func (.param .b32 out) deep(.param .b32 a, .param .align 8 .b8 s[16]) {\n\
          .reg .b32 %r<4>; .reg .b64 %d; .reg .pred %p;\n\
          ld.param.u32 %r0, [a]; ld.param.u64 %d, [s+8]; cvt.u32.u64 %r1, %d; setp.gt.u32 %p, %r0, 20; @%p bra BIG;\n\
          call (%r0), twice, (%r0); add.u32 %r0, %r0, %r1; st.param.b32 [out], %r0; ret;\n\
          BIG: st.param.b32 [out], 7; ret; }\n\
        .visible .entry k(.param .u64 p) {\n\
          .reg .b32 %r<8>; .reg .b64 %rd<4>; ld.param.u64 %rd1, [p]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd2, %r1, 4;\n\
          add.u64 %rd1, %rd1, %rd2;\n\
          { .param .b32 q0; .param .align 8 .b8 q1[16]; .param .b32 r0; st.param.b32 [q0], %r1; st.param.b64 [q1+8], 100;\n\
            call.uni (r0), deep, (q0, q1); ld.param.b32 %r2, [r0]; }\n\
          st.global.u32 [%rd1], %r2; ret; }\n";
    let mut memory = Memory::new();
    let out = memory.alloc(128);
    run_text(text, &Launch::linear(1, 32), &mut memory, &[Argument::Pointer(out)])
        .unwrap_or_else(|e| panic!("{e}"));
    let want: Vec<u32> = (0..32).map(|t| if t > 20 { 7 } else { 2 * t + 100 }).collect();
    assert_eq!(memory.read_u32(out, 32).unwrap(), want);
}

/// Lanes that return from a call meet lanes that did not call.
#[test]
fn lanes_meet_after_a_call() {
    let text = ".version 7.0\n.target sm_80\n.address_size 64\n\
        .func (.reg .u32 result) twice(.reg .u32 x) { add.u32 result, x, x; ret; }\n\
        .visible .entry k(.param .u64 p) {\n\
          .reg .b32 %r<8>; .reg .b64 %rd<4>; .reg .pred %p<2>; ld.param.u64 %rd1, [p]; mov.u32 %r1, %tid.x;\n\
          mul.wide.u32 %rd2, %r1, 4; add.u64 %rd1, %rd1, %rd2; mov.u32 %r2, 5; setp.lt.u32 %p1, %r1, 7;\n\
          @%p1 call (%r2), twice, (%r1);\n\
          shfl.sync.bfly.b32 %r3, %r2, 31, 31, 0xffffffff; st.global.u32 [%rd1], %r3; ret; }\n";
    let mut memory = Memory::new();
    let out = memory.alloc(128);
    run_text(text, &Launch::linear(1, 32), &mut memory, &[Argument::Pointer(out)])
        .unwrap_or_else(|e| panic!("{e}"));
    let want: Vec<u32> = (0..32).map(|t| if 31 - t < 7 { 2 * (31 - t) } else { 5 }).collect();
    assert_eq!(memory.read_u32(out, 32).unwrap(), want);
}

#[test]
fn warp_forms() {
    let lanes = warp(
        "setp.gt.u32 %p1, %r1, 3; vote.sync.ballot.b32 %r2, !%p1, -1; st.global.u32 [%rd1], %r2;\n\
         vote.sync.uni.pred %p2, %p1, -1; selp.u32 %r2, 1, 0, %p2; st.global.u32 [%rd1+4], %r2;\n\
         shfl.sync.up.b32 %r2|%p3, %r1, 4, 0, -1; selp.u32 %r3, 1, 0, %p3; st.global.v2.u32 [%rd1+8], {%r2, %r3};\n\
         elect.sync %r2|%p4, 0xffffffff; selp.u32 %r3, 1, 0, %p4; st.global.v2.u32 [%rd1+16], {%r2, %r3};\n\
         bar.red.popc.u32 %r2, 0, %p1; st.global.u32 [%rd1+24], %r2;\n\
         barrier.cta.red.or.aligned.pred %p5, 0, %p1; selp.u32 %r2, 1, 0, %p5; st.global.u32 [%rd1+28], %r2;\n\
         bar.red.and.pred %p5, 0, !%p1; selp.u32 %r2, 1, 0, %p5; st.global.u32 [%rd1+32], %r2;\n\
         and.b32 %r3, %r1, 16; setp.eq.u32 %p6, %r3, 0; selp.b32 %r4, 0xffff, 0xffff0000, %p6;\n\
         vote.sync.all.pred %p5, %p6, %r4; selp.u32 %r2, 1, 0, %p5; st.global.u32 [%rd1+36], %r2;\n\
         vote.sync.any.pred %p5, !%p6, %r4; selp.u32 %r2, 1, 0, %p5; st.global.u32 [%rd1+40], %r2;\n\
         redux.sync.min.s32 %r2, %r1, %r4; st.global.u32 [%rd1+44], %r2;",
    );
    for (lane, words) in lanes.iter().enumerate() {
        let lane = lane as u32;
        let shifted = if lane < 4 { [lane, 0] } else { [lane - 4, 1] };
        assert_eq!(
            words[..9],
            [15, 0, shifted[0], shifted[1], 0, u32::from(lane == 0), 28, 1, 0],
            "{lane}"
        );
        assert_eq!(
            words[9..12],
            [u32::from(lane < 16), u32::from(lane >= 16), lane & 16],
            "{lane}"
        );
    }
}

/// The identity as one operand shows the layout of the other. The element at row r and column c is 16 r + c.
#[test]
fn matrix_loads_and_stores() {
    let lanes = warp(
        "mov.u32 %r4, data; shl.b32 %r5, %r1, 4; add.u32 %r4, %r4, %r5;\n\
         shl.b32 %r6, %r1, 4; or.b32 %r7, %r6, 0x10000; or.b32 %r7, %r7, %r6; shl.b32 %r8, %r6, 16; add.u32 %r7, %r7, %r8;\n\
         add.u32 %r9, %r7, 0x20002; add.u32 %r10, %r7, 0x40004; add.u32 %r11, %r7, 0x60006;\n\
         st.shared.v4.u32 [%r4], {%r7, %r9, %r10, %r11}; bar.sync 0;\n\
         ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r12, %r13, %r14, %r15}, [%r4];\n\
         st.global.v4.u32 [%rd1], {%r12, %r13, %r14, %r15};\n\
         ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%r12, %r13}, [%r4]; st.global.v2.u32 [%rd1+16], {%r12, %r13};\n\
         bar.sync 0; stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%r4], {%r12, %r13}; bar.sync 0;\n\
         ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r12}, [%r4]; st.global.u32 [%rd1+24], %r12;",
    );
    let element = |row: u32, column: u32| 16 * row + column;
    for (lane, words) in lanes.iter().enumerate() {
        let (g, p) = (lane as u32 / 4, lane as u32 % 4 * 2);
        for m in 0..4 {
            assert_eq!(words[m as usize], element(8 * m + g, p) | element(8 * m + g, p + 1) << 16);
        }
        for m in 0..2 {
            assert_eq!(
                words[4 + m as usize],
                element(8 * m + p, g) | element(8 * m + p + 1, g) << 16
            );
        }
        assert_eq!(words[6], words[0]);
    }
}
