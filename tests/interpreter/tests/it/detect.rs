//! Each kind of undefined behavior is found, and the error names the place.

use crate::common::{golden, run_text, Random};
use ptx_interpreter::{Argument, Error, ErrorKind, Launch, Memory, Module, Schedule};

/// PTX of a kernel with one pointer parameter in `%rd1` and the thread number in `%r1`.
fn kernel(body: &str) -> String {
    format!(
        ".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry kernel(.param .u64 p) {{\n\
         .reg .pred %p<8>; .reg .b16 %h<8>; .reg .b32 %r<16>; .reg .b64 %rd<16>; .reg .f32 %f<8>;\n\
         .shared .align 16 .b8 data[256];\n.shared .align 16 .b8 other[64];\n.local .align 8 .b8 own[32];\n\
         ld.param.u64 %rd1, [p]; cvta.to.global.u64 %rd1, %rd1; mov.u32 %r1, %tid.x;\n\
         mul.wide.u32 %rd2, %r1, 4; add.u64 %rd3, %rd1, %rd2; shl.b32 %r2, %r1, 2; mov.u32 %r3, data; add.u32 %r4, %r3, %r2;\n\
         {body}\nret;\n}}\n"
    )
}

/// Runs a kernel body on a buffer of 256 bytes with a buffer before and after it.
fn launch(body: &str, launch: &Launch) -> Result<(), Error> {
    let mut memory = Memory::new();
    memory.alloc(256);
    let buffer = memory.alloc(256);
    memory.alloc(256);
    run_text(&kernel(body), launch, &mut memory, &[Argument::Pointer(buffer)]).map(|_| ())
}

fn fails(body: &str, kind: ErrorKind) -> Error {
    let error = launch(body, &Launch::linear(1, 64)).expect_err(body);
    assert_eq!(error.kind, kind, "{error}");
    if kind != ErrorKind::Parse {
        assert!(
            error.line > 0 && error.thread.is_some() && !error.instruction.is_empty(),
            "{error:?}"
        );
    }
    error
}

fn passes(body: &str) {
    launch(body, &Launch::linear(1, 64)).unwrap_or_else(|error| panic!("{body}: {error}"));
}

#[test]
fn out_of_bounds() {
    passes("st.global.u32 [%rd3], %r1;");
    let error = fails("st.global.u32 [%rd3+4], %r1;", ErrorKind::OutOfBounds);
    let text = error.to_string();
    assert!(
        text.contains("`st.global.u32 [%rd3+4], %r1;`") && text.contains("thread [63, 0, 0]"),
        "{text}"
    );
    assert!(text.contains("offset 256 of the buffer of 256 bytes"), "{text}");
    for body in [
        "ld.global.u32 %r5, [%rd1+-4];",
        "ld.global.v4.u32 {%r5,%r6,%r7,%r8}, [%rd1+256];",
        "mov.u64 %rd4, 0; ld.global.u32 %r5, [%rd4];",
        "st.shared.u32 [data+256], %r1;",
        "st.shared.u32 [other+-8], %r1;",
        "mov.u32 %r5, 0; st.shared.u32 [%r5], %r1;",
        "st.local.u32 [own+32], %r1;",
        "ld.param.u32 %r5, [p+8];",
        "atom.global.add.u32 %r5, [%rd1+256], 1;",
        "cvt.u64.u32 %rd4, %r3; ld.u32 %r5, [%rd4];",
        "cp.async.ca.shared.global [%r4], [%rd1+256], 4;",
        "cp.async.ca.shared.global [data+256], [%rd1], 4;",
    ] {
        fails(body, ErrorKind::OutOfBounds);
    }
}

#[test]
fn misaligned() {
    let error = fails("ld.global.u32 %r5, [%rd1+2];", ErrorKind::Misaligned);
    assert!(error.address.is_some());
    fails("ld.global.v4.u32 {%r5,%r6,%r7,%r8}, [%rd1+8];", ErrorKind::Misaligned);
    fails("ld.global.v2.u32 {%r5,%r6}, [%rd1+4];", ErrorKind::Misaligned);
    fails("st.shared.u64 [data+4], %rd1;", ErrorKind::Misaligned);
    fails("st.local.u16 [own+1], 3;", ErrorKind::Misaligned);
    fails("cp.async.cg.shared.global [data+8], [%rd1], 16;", ErrorKind::Misaligned);
    fails("cp.async.cg.shared.global [data], [%rd1+8], 16;", ErrorKind::Misaligned);
}

#[test]
fn uninitialized() {
    let error = fails("add.u32 %r5, %r6, 1;", ErrorKind::Uninitialized);
    assert!(error.message.contains("%r6"), "{error}");
    fails("ld.shared.u32 %r5, [%r4];", ErrorKind::Uninitialized);
    fails("ld.local.u32 %r5, [own];", ErrorKind::Uninitialized);
    fails("st.shared.u16 [%r4], 1; ld.shared.u32 %r5, [%r4];", ErrorKind::Uninitialized);
    fails(
        "setp.lt.u32 %p1, %r1, 5; @%p1 mov.u32 %r5, 1; st.global.u32 [%rd3], %r5;",
        ErrorKind::Uninitialized,
    );
    fails("@%p1 mov.u32 %r5, 1;", ErrorKind::Uninitialized);
    // Copies are allowed, and uses of the copies are not.
    passes("mov.u32 %r5, %r6; setp.lt.u32 %p1, %r1, 99; selp.b32 %r7, %r1, %r5, %p1; st.global.u32 [%rd3], %r7;");
    fails("mov.u32 %r5, %r6; st.global.u32 [%rd3], %r5;", ErrorKind::Uninitialized);
    let off = Launch::linear(1, 64).with(|options| options.check_uninitialized = false);
    launch("add.u32 %r5, %r6, 1; ld.shared.u32 %r5, [%r4];", &off).unwrap();
    // Lanes above the block size do not exist, so their values are undefined.
    let short = Launch::linear(1, 20);
    let shuffle = "shfl.sync.down.b32 %r5, %r1, 1, 31, 0xffffffff;";
    launch(shuffle, &short).unwrap();
    let error = launch(&format!("{shuffle} st.global.u32 [%rd3], %r5;"), &short)
        .expect_err("an undefined value");
    assert_eq!((error.kind, error.thread.unwrap().1), (ErrorKind::Uninitialized, [19, 0, 0]));
}

#[test]
fn missing_wait_of_a_copy() {
    let copy = "cp.async.ca.shared.global [%r4], [%rd3], 4; cp.async.commit_group;";
    passes(&format!("{copy} cp.async.wait_group 0; ld.shared.u32 %r5, [%r4];"));
    passes(&format!("{copy} cp.async.wait_all; ld.shared.u32 %r5, [%r4];"));
    fails(&format!("{copy} ld.shared.u32 %r5, [%r4];"), ErrorKind::Uninitialized);
    fails(
        &format!("{copy} cp.async.wait_group 1; ld.shared.u32 %r5, [%r4];"),
        ErrorKind::Uninitialized,
    );
    passes(&format!(
        "{copy} cp.async.commit_group; cp.async.wait_group 1; ld.shared.u32 %r5, [%r4];"
    ));
    // The bytes of other threads also need a barrier.
    let neighbor = "xor.b32 %r6, %r4, 4; ld.shared.u32 %r5, [%r6];";
    let far = "st.shared.u32 [%r4], 0; bar.sync 0;";
    let other = "xor.b32 %r6, %r2, 128; add.u32 %r6, %r6, %r3; ld.shared.u32 %r5, [%r6];";
    fails(&format!("{far} {copy} cp.async.wait_all; bar.warp.sync -1; {other}"), ErrorKind::Race);
    passes(&format!("{far} {copy} cp.async.wait_all; bar.sync 0; {other}"));
    passes(&format!("{copy} cp.async.wait_all; bar.sync 0; {neighbor}"));
    // A copy into bytes that other threads may still read.
    let reuse =
        "st.shared.u32 [%r4], 1; bar.sync 0; xor.b32 %r6, %r2, 128; add.u32 %r6, %r6, %r3; ld.shared.u32 %r5, [%r6];";
    // Depending on the order of warps, the copy meets an earlier read, or a later read meets the pending copy.
    let error =
        launch(&format!("{reuse} {copy}"), &Launch::linear(1, 64)).expect_err("an early copy");
    assert!(matches!(error.kind, ErrorKind::Race | ErrorKind::Uninitialized), "{error}");
    passes(&format!("{reuse} bar.sync 0; {copy}"));
}

#[test]
fn divergent_barriers() {
    passes("bar.sync 0;");
    let half = "setp.lt.u32 %p1, %r1, 32; ";
    let error = fails(&format!("{half} @%p1 bar.sync 0;"), ErrorKind::Barrier);
    assert!(error.message.contains("32 exited of 64"), "{error}");
    fails("setp.lt.u32 %p1, %r1, 5; @%p1 bar.sync 0;", ErrorKind::Barrier);
    fails("setp.lt.u32 %p1, %r1, 5; @%p1 exit; bar.sync 0;", ErrorKind::Barrier);
    fails(&format!("{half} @%p1 bra L; bar.sync 0; bra M; L: bar.sync 0; M:"), ErrorKind::Barrier);
    fails(&format!("{half} @%p1 bra L; bar.sync 0; bra M; L: bar.sync 1; M:"), ErrorKind::Barrier);
    fails(
        &format!("{half} @%p1 bra L; bar.sync 0, 32; bra M; L: bar.sync 0, 64; M:"),
        ErrorKind::Barrier,
    );
    fails("bar.sync 1, 48;", ErrorKind::Operand);
    fails("bar.sync 16;", ErrorKind::Operand);
    fails("bar.sync 0, 96;", ErrorKind::Barrier);
    // `bar` requires whole warps, and `barrier` does not.
    let parts = "and.b32 %r6, %r1, 16; setp.eq.u32 %p1, %r6, 0; ";
    fails(&format!("{parts} @%p1 bar.sync 1, 32;"), ErrorKind::Barrier);
    passes(&format!("{parts} @%p1 barrier.sync 1, 32;"));
    // Warps may use barriers of their own, and arrive without waiting.
    passes(&format!("{half} @%p1 bra L; bar.sync 1, 32; bra M; L: bar.sync 2, 32; M:"));
    passes(&format!("{half} @%p1 bra L; bar.sync 1, 64; bra M; L: bar.arrive 1, 64; M:"));
    let allow = Launch::linear(1, 64).with(|options| options.allow_exited_at_barrier = true);
    launch(&format!("{half} @%p1 exit; bar.sync 0;"), &allow).unwrap();
    let anywhere = Launch::linear(1, 64).with(|options| options.require_uniform_barriers = false);
    launch(&format!("{half} @%p1 bra L; bar.sync 0; bra M; L: bar.sync 0; M:"), &anywhere).unwrap();
}

#[test]
fn warp_synchronization() {
    fails(
        "setp.lt.u32 %p1, %r1, 5; @%p1 shfl.sync.bfly.b32 %r5, %r1, 1, 31, 0xfffffff0;",
        ErrorKind::Operand,
    );
    let stuck = "and.b32 %r6, %r1, 31; setp.lt.u32 %p1, %r6, 5; @%p1 bra L; \
                 vote.sync.any.pred %p2, %p1, 0xffffffff; bra M; L: bar.warp.sync 0xffffffff; M:";
    fails(stuck, ErrorKind::Barrier);
    // Lanes of one mask meet at one instruction, also when they come from different branches.
    passes(
        "and.b32 %r6, %r1, 31; setp.lt.u32 %p1, %r6, 5; @%p1 bra L; add.u32 %r6, %r6, 1; \
            L: shfl.sync.idx.b32 %r5, %r6, 0, 31, 0xffffffff; st.global.u32 [%rd3], %r5;",
    );
    // Exited lanes do not block the others.
    passes("and.b32 %r6, %r1, 31; setp.gt.u32 %p1, %r6, 5; @%p1 exit; bar.warp.sync 0xffffffff;");
    let partial = launch(
        "mov.u32 %r5, 0; ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r5}, [%r3];",
        &Launch::linear(1, 20),
    );
    assert_eq!(partial.expect_err("a partial warp").kind, ErrorKind::Barrier);
}

#[test]
fn races_in_shared_memory() {
    let write = "st.shared.u32 [%r4], %r1; ";
    let read = "xor.b32 %r5, %r2, 128; add.u32 %r5, %r5, %r3; ld.shared.u32 %r6, [%r5];";
    passes(&format!("{write} bar.sync 0; {read}"));
    let error =
        fails(&format!("{write} bar.sync 0; {write} bar.warp.sync -1; {read}"), ErrorKind::Race);
    assert!(error.message.contains("ordered after the read by thread"), "{error}");
    // A write after reads.
    fails(&format!("{write} bar.sync 0; {read} {write}"), ErrorKind::Race);
    passes(&format!("{write} bar.sync 0; {read} bar.sync 0; {write}"));
    // All threads read one cell, and one writes it.
    let broadcast = "st.shared.u32 [%r4], %r1; bar.sync 0; ld.shared.u32 %r6, [data]; setp.eq.u32 %p1, %r1, 0; ";
    fails(&format!("{broadcast} @%p1 st.shared.u32 [data], 5;"), ErrorKind::Race);
    passes(&format!("{broadcast} bar.sync 0; @%p1 st.shared.u32 [data], 5;"));
    // The writer can be the last reader, within a warp or of all warps.
    for (last, order) in [("0", "setp.eq.u32 %p1, %r1, 63;"), ("31", "setp.eq.u32 %p1, %r1, 31;")] {
        let read = format!("setp.le.u32 %p2, %r1, {last}; setp.gt.or.u32 %p2, %r1, 31, %p2;");
        let read = if last == "31" { "setp.le.u32 %p2, %r1, 31;".to_string() } else { read };
        let body = format!(
            "st.shared.u32 [%r4], %r1; bar.sync 0; {read} @%p2 ld.shared.u32 %r6, [data]; {order}"
        );
        fails(&format!("{body} @%p1 st.shared.u32 [data], 5;"), ErrorKind::Race);
        passes(&format!("{body} bar.sync 0; @%p1 st.shared.u32 [data], 5;"));
    }
    // Writes of all threads, also of one warp and in one instruction.
    fails("st.shared.u32 [data], %r1;", ErrorKind::Race);
    fails("st.shared.u32 [data], 7;", ErrorKind::Race);
    let equal = Launch::linear(1, 64).with(|options| options.allow_equal_writes = true);
    launch("st.shared.u32 [data], 7;", &equal).unwrap();
    assert_eq!(
        launch("st.shared.u32 [data], %r1;", &equal).expect_err("other values").kind,
        ErrorKind::Race
    );
    // Atomics race with plain accesses only.
    let start = "setp.eq.u32 %p1, %r1, 0; @%p1 st.shared.u32 [data], 0; ";
    passes(&format!("{start} bar.sync 0; atom.shared.add.u32 %r5, [data], 1;"));
    fails(&format!("{start} atom.shared.add.u32 %r5, [data], 1;"), ErrorKind::Race);
    fails(
        &format!("{start} bar.sync 0; red.shared.add.u32 [data], 1; ld.shared.u32 %r5, [data];"),
        ErrorKind::Race,
    );
    passes(&format!(
        "{start} bar.sync 0; red.shared.add.u32 [data], 1; ld.volatile.shared.u32 %r5, [data];"
    ));
    // Halves of a word are separate.
    passes("shl.b32 %r5, %r1, 1; add.u32 %r5, %r5, %r3; cvt.u16.u32 %h1, %r1; st.shared.u16 [%r5], %h1;");
    // A barrier of one warp only orders that warp.
    let own = "and.b32 %r6, %r1, 32; xor.b32 %r5, %r4, 4; setp.eq.u32 %p1, %r6, 0; ";
    passes(&format!("{own} {write} bar.warp.sync -1; ld.shared.u32 %r7, [%r5];"));
    // A named barrier of all threads orders as barrier 0.
    passes(&format!("{write} bar.sync 3, 64; {read}"));
    let off = Launch::linear(1, 64).with(|options| options.check_races = false);
    launch(&format!("{write} {read}"), &off).ok();
}

#[test]
fn races_through_named_barriers() {
    // Warp 0 produces, warp 1 consumes.
    let body = |arrive: &str, wait: &str| {
        format!(
            "setp.lt.u32 %p1, %r1, 32; @!%p1 bra C; st.shared.u32 [%r4], %r1; {arrive} bra M; \
             C: {wait} sub.u32 %r5, %r4, 128; ld.shared.u32 %r6, [%r5]; M:"
        )
    };
    passes(&body("bar.arrive 1, 64;", "bar.sync 1, 64;"));
    // A write after the arrival is not ordered.
    let late = "setp.lt.u32 %p1, %r1, 32; @!%p1 bra C; bar.arrive 1, 64; st.shared.u32 [%r4], %r1; bra M; \
                C: st.shared.u32 [%r4], 1; bar.sync 1, 64; sub.u32 %r5, %r4, 128; st.shared.u32 [%r5], 2; M:";
    fails(late, ErrorKind::Race);
}

#[test]
fn races_in_global_memory() {
    let two = Launch::linear(2, 64);
    let check = |body: &str, expected: Option<ErrorKind>| {
        let got = launch(body, &two).err().map(|error| (error.kind, error.to_string()));
        assert_eq!(got.as_ref().map(|(kind, _)| *kind), expected, "{body}: {got:?}");
    };
    check("st.global.u32 [%rd3], %r1;", Some(ErrorKind::Race));
    check("ld.global.u32 %r5, [%rd3];", None);
    check("red.global.add.u32 [%rd3], 1;", None);
    let first = "mov.u32 %r5, %ctaid.x; setp.eq.u32 %p1, %r5, 0; ";
    check(
        &format!("{first} @%p1 st.global.u32 [%rd3], %r1; @!%p1 ld.global.u32 %r6, [%rd3];"),
        Some(ErrorKind::Race),
    );
    check(
        &format!("{first} @!%p1 st.global.u32 [%rd3], %r1; @%p1 ld.global.u32 %r6, [%rd3];"),
        Some(ErrorKind::Race),
    );
    check(
        &format!("{first} @%p1 st.global.u32 [%rd3], %r1; @!%p1 red.global.add.u32 [%rd3], 1;"),
        Some(ErrorKind::Race),
    );
    check("red.global.add.u32 [%rd1], 1; bar.sync 0; ld.global.u32 %r5, [%rd1];", None);
    // Barriers do not order blocks.
    check(
        &format!("{first} @%p1 st.global.u32 [%rd3], %r1; bar.sync 0; ld.global.u32 %r6, [%rd3];"),
        Some(ErrorKind::Race),
    );
    // Within a block, barriers order.
    let one = |body: &str| launch(body, &Launch::linear(1, 64));
    let other = "xor.b32 %r5, %r2, 128; cvt.u64.u32 %rd4, %r5; add.u64 %rd4, %rd1, %rd4; ld.global.u32 %r6, [%rd4];";
    assert!(one(&format!("st.global.u32 [%rd3], %r1; bar.sync 0; {other}")).is_ok());
    assert_eq!(
        one(&format!("st.global.u32 [%rd3], %r1; {other}")).expect_err("a race").kind,
        ErrorKind::Race
    );
    // A read through the constant cache sees no write of its launch, also not after a barrier.
    let cached = one("st.global.u32 [%rd3], %r1; bar.sync 0; ld.global.nc.u32 %r6, [%rd3];")
        .expect_err("a cached read");
    assert_eq!(cached.kind, ErrorKind::Race, "{cached}");
    let cached = one("ld.global.nc.u32 %r6, [%rd3]; bar.sync 0; st.global.u32 [%rd3], %r1;")
        .expect_err("a later write");
    assert_eq!(cached.kind, ErrorKind::Race, "{cached}");
    assert!(one("ld.global.nc.u32 %r6, [%rd3]; bar.sync 0; ld.global.u32 %r6, [%rd3];").is_ok());
    let off = two.clone().with(|options| options.check_block_races = false);
    launch("st.global.u32 [%rd3], %r1;", &off).unwrap();
}

/// Removes the n-th barrier of a correct kernel. Each one is needed.
#[test]
fn every_barrier_of_the_matrix_product_is_needed() {
    let text = golden("shared", 80);
    let start = text.find(".entry matmul").expect("the kernel");
    let end = start + text[start..].find("\n}").expect("its end");
    let (mut at, mut count) = (start, 0);
    while let Some(found) =
        text[at..end].find("bar.sync \t0;").or_else(|| text[at..end].find("barrier.sync \t0;"))
    {
        let place = at + found;
        let stop = place + text[place..].find(';').expect("a semicolon");
        let without = format!("{}{}", &text[..place], &text[stop..]);
        let module = Module::parse(&without).unwrap();
        let mut memory = Memory::new();
        let values = Random(1).floats(32 * 48, -1.0, 1.0);
        let (a, b, c) =
            (memory.alloc_f32(&values), memory.alloc_f32(&values), memory.alloc(32 * 32 * 4));
        let mut arguments = vec![Argument::I32(32), Argument::I32(32), Argument::I32(48)];
        arguments.extend([a, b, c].map(Argument::Pointer));
        let launch = Launch::new([2, 2, 1], [16, 16, 1]);
        let error =
            module.run("matmul", &launch, &mut memory, &arguments).expect_err("a missing barrier");
        assert!(matches!(error.kind, ErrorKind::Race | ErrorKind::Uninitialized), "{error}");
        (at, count) = (stop, count + 1);
    }
    assert_eq!(count, 2);
}

#[test]
fn endless_loops() {
    let limited = Launch::linear(1, 64).with(|options| options.instruction_limit = 100_000);
    let error = launch("L: add.u32 %r1, %r1, 1; bra L;", &limited).expect_err("an endless loop");
    assert_eq!(error.kind, ErrorKind::Limit);
    let spin = "L: ld.volatile.shared.u32 %r5, [data]; setp.eq.u32 %p1, %r5, 0; @%p1 bra L;";
    let error = launch(&format!("st.volatile.shared.u32 [data], 0; {spin}"), &limited)
        .expect_err("an endless loop");
    assert_eq!(error.kind, ErrorKind::Limit);
}

#[test]
fn spinning_on_another_warp_ends() {
    let body = "setp.eq.u32 %p2, %r1, 63; @%p2 st.volatile.shared.u32 [data], 0; bar.sync 0; \
                @%p2 st.volatile.shared.u32 [data], 1; @%p2 bra M; \
                L: ld.volatile.shared.u32 %r5, [data]; setp.eq.u32 %p1, %r5, 0; @%p1 bra L; M:";
    for schedule in [Schedule::Converging, Schedule::Random(3)] {
        let launch_it = Launch::linear(1, 64).with(|options| options.schedule = schedule);
        launch(body, &launch_it).unwrap_or_else(|error| panic!("{error}"));
    }
}

#[test]
fn other_errors() {
    fails("trap;", ErrorKind::Trap);
    fails("L: mov.u32 %r5, 3; T: .branchtargets L, M; brx.idx %r5, T; M:", ErrorKind::Operand);
    for (body, part) in [
        ("foo.u32 %r5, %r1;", "`foo`"),
        ("add.u32 %r5, %rd1, 1;", "must have 32 bits"),
        ("add.u32 %r99, %r1, 1;", "%r99"),
        ("bra NOWHERE;", "NOWHERE"),
        ("add.u32 %r5, %r1;", "operands"),
        ("add.f32 %f1, %f2, 1;", "float literal"),
        ("ld.shared.u32 %r5, [p];", "the variable is in .param"),
        ("st.param.u32 [p], %r1;", "must not be written"),
        ("@%r1 add.u32 %r5, %r1, 1;", "predicate"),
        ("mov.u32 %r5, {%h1, %h2, %h3};", "do not fit"),
        ("call nothing;", "nothing"),
        ("cp.async.ca.shared.global [%r4], [%rd3], 5;", "size must be"),
        (
            "mma.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32 {%f1}, {%r1}, {%r1}, {%f1};",
            "not supported",
        ),
        (".reg .u32 %r<3>; .reg .pred %r1; add.u32 %r5, %r1, 1;", "must have 32 bits"),
    ] {
        let error = fails(body, ErrorKind::Parse);
        assert!(error.line > 0 && error.to_string().contains(part), "{body}: {error}");
    }
}

#[test]
fn launches_are_checked() {
    let module = Module::parse(&kernel("")).unwrap();
    let mut memory = Memory::new();
    let p = [Argument::Pointer(memory.alloc(4))];
    let mut kind = |entry: &str, launch: Launch, arguments: &[Argument]| {
        module.run(entry, &launch, &mut memory, arguments).err().map(|error| error.kind)
    };
    assert_eq!(kind("kernel", Launch::linear(1, 32), &p), None);
    let wrong = Some(ErrorKind::Launch);
    assert_eq!(kind("other", Launch::linear(1, 32), &p), wrong);
    assert_eq!(kind("kernel", Launch::linear(1, 0), &p), wrong);
    assert_eq!(kind("kernel", Launch::linear(0, 32), &p), wrong);
    assert_eq!(kind("kernel", Launch::linear(1, 1025), &p), wrong);
    assert_eq!(kind("kernel", Launch::linear(1, 32).with_shared(1 << 20), &p), wrong);
    assert_eq!(kind("kernel", Launch::linear(1, 32), &[]), wrong);
    assert_eq!(kind("kernel", Launch::linear(1, 32), &[Argument::U32(1)]), wrong);
    let text = kernel("").replace("(.param .u64 p) {", "(.param .u64 p) .reqntid 32, 2, 1 {");
    let module = Module::parse(&text).unwrap();
    assert!(module.run("kernel", &Launch::linear(1, 64), &mut memory, &p).is_err());
    module.run("kernel", &Launch::new([1; 3], [32, 2, 1]), &mut memory, &p).unwrap();
}

#[test]
fn recursion_is_rejected() {
    let text =
        ".version 7.0\n.target sm_80\n.address_size 64\n.func f() { call g; ret; }\n.func g() { call f; ret; }\n";
    let error = Module::parse(text).err().expect("recursion");
    assert!(error.message.contains("recursion"), "{error}");
}
