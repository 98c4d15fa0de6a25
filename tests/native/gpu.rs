//! Tests the wgpu backend with hand-written kernels, on any adapter, including a software GPU.

#[path = "../shared/wgsl_kernels.rs"]
mod wgsl_kernels;

use pollster::block_on;
use std::io::Write as _;
use std::slice::from_ref;
use std::sync::{Arc, Once};
use std::time::{Duration, Instant};
use warpweft::backend::cpu::CpuBackend;
use warpweft::backend::wgpu::{adapters, open, AdapterOptions, PowerPreference, WgpuBackend};
use warpweft::backend::{Backend, BufferId, DeviceKind};
use warpweft::codegen::fold;
use warpweft::device::Device;
use warpweft::error::{ErrorKind, Result};
use wgsl_kernels::{batch, busy, pattern, source, to_words, two};

/// Opens a separate device. Reports its absence to standard error. The absence is a failure if `WARPWEFT_REQUIRE` names wgpu.
fn device() -> Option<WgpuBackend> {
    static PRINTED: Once = Once::new();
    match block_on(open(AdapterOptions { software: true, ..AdapterOptions::default() })) {
        Ok(backend) => Some(backend),
        Err(error) => {
            let required = std::env::var("WARPWEFT_REQUIRE").unwrap_or_default();
            assert!(!required.contains("wgpu"), "WARPWEFT_REQUIRE={required}, but {error}");
            PRINTED.call_once(|| {
                let _ = writeln!(
                    std::io::stderr(),
                    "wgpu: no adapter, {CASES} cases not run ({error})"
                );
            });
            None
        }
    }
}

/// Defines tests that each need a device, and their number.
macro_rules! cases {
    ($($name:ident)*) => {
        const CASES: usize = [$(stringify!($name)),*].len();
        $(
            #[test]
            fn $name() {
                if let Some(backend) = device() {
                    cases::$name(backend);
                }
            }
        )*
    };
}

cases! {
    describes_itself
    bytes_come_back
    parts_of_a_buffer
    sizes_that_cannot_be
    scalars_arrive
    many_workgroups
    nothing_new_the_second_time
    freed_buffers_take_their_bind_groups
    params_outgrow_the_uniform_buffer
    a_broken_shader_is_told_once_per_run
    a_missing_f16_is_told
    wrong_calls_are_errors_of_their_kind
    an_earlier_read_does_not_hear_of_a_later_error
    a_destroyed_device_answers
    reads_under_tokio
    a_thousand_reads_at_once
    eight_threads
    dropped_with_reads_in_flight
    dropped_futures
    memory_comes_and_goes
    planned_batches
}

#[test]
fn folding_wastes_little() {
    for limit in [1, 3, 65_535] {
        for count in [1, 2, 3, 7, 65_535, 65_536, 70_000, 131_071, 1 << 26, 4_294_836_225] {
            let Some([x, y, 1]) = fold(count, limit) else {
                assert!(count > u64::from(limit).pow(2), "{count} fits into {limit} squared");
                continue;
            };
            let made = u64::from(x) * u64::from(y);
            assert!(x <= limit && y <= limit && made >= count && made - count < u64::from(y));
        }
    }
}

#[test]
fn no_such_device() {
    let choice = AdapterOptions { index: Some(1000), ..AdapterOptions::default() };
    let Err(error) = block_on(open(choice)) else { panic!("there is no thousandth GPU") };
    assert_eq!(error.kind(), ErrorKind::NoDevice);
    assert!(error.message().contains("number 1000"), "{error}");
}

/// Reads the first words of a buffer.
fn words(backend: &WgpuBackend, buffer: BufferId, count: u64) -> Result<Vec<u32>> {
    Ok(to_words(&block_on(backend.read(buffer, 0, count * 4))?))
}

mod cases {
    use super::*;

    pub fn describes_itself(backend: WgpuBackend) {
        let listed = block_on(adapters(PowerPreference::High));
        let info = backend.info();
        assert!(listed.iter().any(|adapter| adapter.info == *info), "{info:?} in {listed:?}");
        assert!(["vulkan", "metal", "dx12"].contains(&info.backend));
        assert!(!info.name.is_empty() && info.kind != DeviceKind::Cpu, "{info:?}");
        let mut kinds: Vec<DeviceKind> = listed.iter().map(|adapter| adapter.info.kind).collect();
        let sorted = kinds.is_sorted();
        kinds.retain(|&kind| kind != DeviceKind::Software);
        assert!(sorted);
        // A software GPU is opened only on request.
        match block_on(open(AdapterOptions::default())) {
            Ok(other) => assert_ne!(other.info().kind, DeviceKind::Software),
            Err(error) => {
                assert!(kinds.is_empty() && error.kind() == ErrorKind::NoDevice);
                assert!(error.message().contains(&info.name), "{error}");
            }
        }
        let limits = backend.limits();
        assert!(limits.binding_bytes >= 128 << 20 && limits.binding_bytes.is_multiple_of(16));
        assert!(limits.buffers_per_kernel >= 8 && limits.workgroup_size >= 256);
        assert!(limits.workgroups >= 65_535 && limits.workgroup_bytes >= 16 << 10);
    }

    pub fn bytes_come_back(backend: WgpuBackend) {
        for len in [4, 20, (1 << 20) - 4, 1 << 20, (1 << 20) + 4, (9 << 20) + 4, 40 << 20] {
            let buffer = backend.allocate(len as u64).unwrap();
            let data = pattern(len);
            for _ in 0..2 {
                backend.write(buffer, 0, &data).unwrap();
                assert!(block_on(backend.read(buffer, 0, len as u64)).unwrap() == data, "{len}");
            }
            backend.free(buffer);
        }
        let live = backend.counters();
        assert_eq!((live.buffers, live.bytes, live.submits), (7, 0, 0));
    }

    pub fn parts_of_a_buffer(backend: WgpuBackend) {
        let len = 24 << 20;
        let buffer = backend.allocate(len as u64).unwrap();
        let mut mirror = vec![0; len];
        backend.write(buffer, 0, &mirror).unwrap();
        // Small and large overlapping writes, in order.
        for (offset, size) in
            [(4, 8), (1 << 20, 17 << 20), ((1 << 20) + 8, 4), (len - 4, 4), (0, 4)]
        {
            let data = &pattern(size + offset)[offset..];
            backend.write(buffer, offset as u64, data).unwrap();
            mirror[offset..offset + size].copy_from_slice(data);
        }
        for (offset, size) in [(0, 16), (4, 4), (len - 8, 8), ((1 << 20) - 4, 16 << 20), (8, 0)] {
            let read = block_on(backend.read(buffer, offset as u64, size as u64)).unwrap();
            assert!(read == mirror[offset..offset + size], "{size} bytes from {offset}");
        }
    }

    pub fn sizes_that_cannot_be(backend: WgpuBackend) {
        let most = backend.limits().binding_bytes;
        let error = backend.allocate(most + 4).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Limit);
        let (wanted, most) = ((most + 4).to_string(), most.to_string());
        assert!(error.message().contains(&wanted) && error.message().contains(&most), "{error}");
        assert_eq!(backend.allocate(0).unwrap_err().kind(), ErrorKind::InvalidArgument);
        assert_eq!(backend.allocate(6).unwrap_err().kind(), ErrorKind::InvalidArgument);
        // Two more workgroups than two dimensions of a dispatch hold, and more params than can be bound.
        let buffers = two(&backend, 64).unwrap();
        let mut source = source(64, 0, "o[i] = a[i];");
        source.workgroups = u64::from(backend.limits().workgroups).pow(2) + 2;
        let one = batch(256, &[&[]], 0);
        let error = backend.run_sources(&one, &[source.clone()], &buffers, &[]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Limit);
        assert!(error.message().contains(&source.workgroups.to_string()), "{error}");
        let many = vec![0; 5000];
        let two = batch(256, &[&many], 1);
        let error = backend.run_sources(&two, &[source], &buffers, &[1]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Limit);
        assert!(block_on(backend.synchronize()).is_ok());
    }

    pub fn scalars_arrive(backend: WgpuBackend) {
        let buffers = two(&backend, 64).unwrap();
        // The words of the header, and then the scalars that the dispatch chose.
        let head = source(64, 0, "if (i < 4u) { o[i] = params[0][i]; }");
        let rest = source(64, 5, "if (i >= 4u && i < 9u) { o[i] = params[i / 4u][i % 4u]; }");
        let last = source(64, 1, "if (i == 9u) { o[i] = a[i] + params[1].x; }");
        let batch = batch(256, &[&[], &[2, 0, 1, 1, 2], &[1]], 3);
        for scalars in [[7, 8, 9], [0xffff_ffff, 1, 0x7fc0_0000], [7, 8, 9], [7, 8, 9]] {
            let [x, y, z] = scalars;
            let sources = [head.clone(), rest.clone(), last.clone()];
            backend.run_sources(&batch, &sources, &buffers, &scalars).unwrap();
            let expected = [0, 0xff80_0000, 0x7f80_0000, 0x7fc0_0000, z, x, y, y, z, 9 + y];
            assert_eq!(words(&backend, buffers[1], 10).unwrap(), expected);
        }
        assert_eq!(backend.counters().pipelines, 3);
    }

    pub fn many_workgroups(backend: WgpuBackend) {
        // 70,000 workgroups of 64 threads. The last one has 3 active threads.
        let count: u32 = 69_999 * 64 + 3;
        let bytes = u64::from(count) * 4;
        let buffers = two(&backend, count).unwrap();
        let source = source(u64::from(count), 0, "o[i] = a[i] * 3u + 1u;");
        assert_eq!(source.workgroups, 70_000);
        backend.run_sources(&batch(bytes, &[&[]], 0), &[source], &buffers, &[]).unwrap();
        let read = words(&backend, buffers[1], u64::from(count)).unwrap();
        assert!(read.iter().enumerate().all(|(i, &x)| x == i as u32 * 3 + 1));
    }

    pub fn nothing_new_the_second_time(backend: WgpuBackend) {
        let buffers = two(&backend, 1000).unwrap();
        let one = source(1000, 0, "o[i] = a[i] + 1u;");
        let other = source(1000, 1, "o[i] += params[1].x;");
        let sources = [one.clone(), other.clone(), one, other];
        let batch = batch(4000, &[&[], &[0], &[], &[1]], 2);
        backend.run_sources(&batch, &sources, &buffers, &[5, 6]).unwrap();
        let first = backend.counters();
        assert_eq!((first.pipelines, first.submits, first.dispatches), (2, 1, 4));
        assert_eq!((first.buffers, first.bytes, first.bind_groups), (2, 8000, 1));
        for round in 0..50 {
            // An empty slice of sources works, because the kernels are already compiled.
            backend.run_sources(&batch, &[], &buffers, &[round, round + 1]).unwrap();
            let read = words(&backend, buffers[1], 1000).unwrap();
            assert!(read.iter().enumerate().all(|(i, &x)| x == i as u32 + 2 + round));
        }
        let last = backend.counters();
        assert_eq!((last.submits, last.dispatches), (51, 204));
        let made =
            |c: warpweft::backend::Counters| (c.pipelines, c.bind_groups, c.buffers, c.bytes);
        assert_eq!(made(first), made(last));
        // After `release`, the batch compiles nothing, because the sources are cached.
        backend.release(&batch);
        backend.run_sources(&batch, &sources, &buffers, &[1, 2]).unwrap();
        assert_eq!(made(first), made(backend.counters()));
    }

    pub fn freed_buffers_take_their_bind_groups(backend: WgpuBackend) {
        let source = [source(64, 0, "o[i] = a[i] + 1u;")];
        let batch = batch(256, &[&[]], 0);
        let input = two(&backend, 64).unwrap()[0];
        for round in 1..=20 {
            let output = backend.allocate(256).unwrap();
            backend.run_sources(&batch, &source, &[input, output], &[]).unwrap();
            // Freed while work is in flight. The work and the read still use it.
            let read = backend.read(output, 0, 256);
            backend.free(output);
            let read = to_words(&block_on(read).unwrap());
            assert!(read.iter().enumerate().all(|(i, &x)| x == i as u32 + 1));
            assert_eq!(backend.counters().bind_groups, round);
            assert_eq!(backend.counters().bytes, 512);
            let error = backend.run_sources(&batch, &source, &[input, output], &[]).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidState);
        }
    }

    pub fn params_outgrow_the_uniform_buffer(backend: WgpuBackend) {
        let buffers = two(&backend, 64).unwrap();
        let add = source(64, 1, "o[i] += params[1].x;");
        let copy = source(64, 0, "o[i] = a[i];");
        for many in [1, 100, 1000, 10] {
            let mut params: Vec<&[usize]> = vec![&[]];
            params.resize(many + 1, &[0]);
            let mut sources = vec![copy.clone()];
            sources.resize(many + 1, add.clone());
            let batch = batch(256, &params, 1);
            backend.run_sources(&batch, &sources, &buffers, &[3]).unwrap();
            let read = words(&backend, buffers[1], 64).unwrap();
            assert!(read.iter().enumerate().all(|(i, &x)| x == (i + 3 * many) as u32));
        }
        assert_eq!(backend.counters().dispatches, 1115);
        assert_eq!(backend.counters().submits, 4);
    }

    pub fn a_broken_shader_is_told_once_per_run(backend: WgpuBackend) {
        let buffers = two(&backend, 64).unwrap();
        let good = source(64, 0, "o[i] = a[i] + 1u;");
        let copy = batch(256, &[&[]], 0);
        // A source that does not parse, one with a type error, and one whose entry point has another name.
        let mut nameless = good.clone();
        nameless.text = nameless.text.replace("fn main", "fn other");
        for bad in [source(64, 0, "o[i] = ;"), source(64, 0, "o[i] = 1.5f;"), nameless] {
            let batch = batch(256, &[&[], &[]], 0);
            let sources = [good.clone(), bad];
            let submits = backend.counters().submits;
            for _ in 0..2 {
                backend.run_sources(&batch, &sources, &buffers, &[]).unwrap();
                let error = words(&backend, buffers[1], 64).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Unsupported);
                assert!(error.message().starts_with("map: "), "{error}");
                assert!(error.message().contains("by hand"), "{error}");
                // The error was reported once. Uncomputed results, and results computed from them, still fail.
                assert!(words(&backend, buffers[0], 64).is_ok());
                assert!(block_on(backend.synchronize()).is_ok());
                assert_eq!(words(&backend, buffers[1], 64).unwrap_err(), error);
            }
            assert_eq!(backend.counters().submits, submits);
            let next = backend.allocate(256).unwrap();
            let [input, output] = buffers;
            backend.run_sources(&copy, from_ref(&good), &[output, next], &[]).unwrap();
            assert_eq!(words(&backend, next, 64).unwrap_err().kind(), ErrorKind::Unsupported);
            backend.run_sources(&copy, from_ref(&good), &[input, next], &[]).unwrap();
            assert_eq!(words(&backend, next, 3).unwrap(), [1, 2, 3]);
            backend.write(output, 0, &[1; 256]).unwrap();
            assert!(words(&backend, output, 64).is_ok());
        }
        let error = {
            let batch = batch(256, &[&[]], 0);
            let bad = source(64, 0, "o[i] = no_such_thing;");
            backend.run_sources(&batch, &[bad], &buffers, &[]).unwrap();
            block_on(backend.synchronize()).unwrap_err()
        };
        // The message of the compiler, with the line.
        assert!(error.message().contains("no_such_thing"), "{error}");
        assert!(error.message().contains(":12:"), "{error}");
        backend.run_sources(&batch(256, &[&[]], 0), &[good], &buffers, &[]).unwrap();
        assert_eq!(words(&backend, buffers[1], 3).unwrap(), [1, 2, 3]);
    }

    pub fn a_missing_f16_is_told(backend: WgpuBackend) {
        let buffers = two(&backend, 64).unwrap();
        let mut source = source(64, 0, "o[i] = u32(f16(a[i]) * 2.0h);");
        source.text = format!("enable f16;\n{}", source.text);
        source.features.f16 = true;
        backend.run_sources(&batch(256, &[&[]], 0), &[source], &buffers, &[]).unwrap();
        let read = words(&backend, buffers[1], 4);
        if backend.limits().f16 {
            assert_eq!(read.unwrap(), [0, 2, 4, 6]);
        } else {
            assert_eq!(read.unwrap_err().kind(), ErrorKind::Unsupported);
        }
    }

    pub fn wrong_calls_are_errors_of_their_kind(backend: WgpuBackend) {
        let buffers = two(&backend, 64).unwrap();
        let gone = backend.allocate(256).unwrap();
        backend.free(gone);
        backend.free(gone);
        let copy = [source(64, 0, "o[i] = a[i];")];
        let one = batch(256, &[&[]], 0);
        let asks = batch(256, &[&[4]], 0);
        let large = batch(4096, &[&[]], 0);
        let freed = [
            backend.write(gone, 0, &[0; 4]).unwrap_err(),
            block_on(backend.read(gone, 0, 4)).unwrap_err(),
            backend.run_sources(&one, &copy, &[buffers[0], gone], &[]).unwrap_err(),
        ];
        for error in freed {
            assert_eq!(error.kind(), ErrorKind::InvalidState, "{error}");
        }
        let errors = [
            backend.write(buffers[0], 0, &[0; 6]).unwrap_err(),
            backend.write(buffers[0], 2, &[0; 4]).unwrap_err(),
            backend.write(buffers[0], 256, &[0; 4]).unwrap_err(),
            backend.write(buffers[0], u64::MAX - 3, &[0; 8]).unwrap_err(),
            block_on(backend.read(buffers[0], 0, 260)).unwrap_err(),
            block_on(backend.read(buffers[0], 1, 4)).unwrap_err(),
            backend.run_sources(&one, &copy, &buffers[..1], &[]).unwrap_err(),
            backend.run_sources(&asks, &copy, &buffers, &[1]).unwrap_err(),
            backend.run_sources(&large, &copy, &buffers, &[]).unwrap_err(),
        ];
        for error in errors {
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        }
        assert!(block_on(backend.synchronize()).is_ok());
    }

    pub fn an_earlier_read_does_not_hear_of_a_later_error(backend: WgpuBackend) {
        let buffers = two(&backend, 64).unwrap();
        let earlier = backend.read(buffers[0], 0, 8);
        let bad = [source(64, 0, "o[i] = ;")];
        backend.run_sources(&batch(256, &[&[]], 0), &bad, &buffers, &[]).unwrap();
        let later = backend.read(buffers[0], 0, 8);
        assert_eq!(to_words(&block_on(earlier).unwrap()), [0, 1]);
        assert_eq!(block_on(later).unwrap_err().kind(), ErrorKind::Unsupported);
    }

    pub fn a_destroyed_device_answers(backend: WgpuBackend) {
        let buffers = two(&backend, 64).unwrap();
        let work = batch(256, &[&[]], 0);
        backend.run_sources(&work, &[busy(100_000_000)], &buffers, &[]).unwrap();
        let waiting = [backend.read(buffers[1], 0, 256), backend.read(buffers[0], 0, 4)];
        let synced = backend.synchronize();
        let start = Instant::now();
        backend.destroy();
        for read in waiting {
            assert_eq!(block_on(read).unwrap_err().kind(), ErrorKind::DeviceLost);
        }
        let errors = [
            block_on(synced).unwrap_err(),
            block_on(backend.read(buffers[0], 0, 4)).unwrap_err(),
            block_on(backend.synchronize()).unwrap_err(),
            backend.write(buffers[0], 0, &[0; 4]).unwrap_err(),
            backend.write(buffers[0], 0, &[0; 256]).unwrap_err(),
            backend.allocate(64).unwrap_err(),
            backend.run_sources(&work, &[busy(1)], &buffers, &[]).unwrap_err(),
        ];
        assert!(start.elapsed() < Duration::from_secs(2), "took {:?}", start.elapsed());
        for error in errors {
            assert_eq!(error.kind(), ErrorKind::DeviceLost, "{error}");
        }
        backend.free(buffers[0]);
        // A new device works.
        let Some(next) = device() else { panic!("there was one before") };
        let buffers = two(&next, 64).unwrap();
        assert_eq!(words(&next, buffers[0], 3).unwrap(), [0, 1, 2]);
    }

    pub fn reads_under_tokio(backend: WgpuBackend) {
        let backend = Arc::new(backend);
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(4).build().unwrap();
        let tasks: Vec<_> = (0..32u32)
            .map(|number| {
                let backend = backend.clone();
                runtime.spawn(async move {
                    let buffer = backend.allocate(4096)?;
                    backend.write(buffer, 0, bytemuck::cast_slice(&vec![number; 1024]))?;
                    backend.synchronize().await?;
                    let read = backend.read(buffer, 0, 4096).await?;
                    backend.free(buffer);
                    Result::Ok(to_words(&read))
                })
            })
            .collect();
        for (number, task) in tasks.into_iter().enumerate() {
            assert_eq!(runtime.block_on(task).unwrap().unwrap(), vec![number as u32; 1024]);
        }
        assert_eq!(backend.counters().bytes, 0);
    }

    pub fn a_thousand_reads_at_once(backend: WgpuBackend) {
        let buffers = two(&backend, 1000).unwrap();
        let reads: Vec<_> = (0..1000).map(|i| backend.read(buffers[0], i * 4, 4)).collect();
        for (i, read) in reads.into_iter().enumerate().rev() {
            assert_eq!(to_words(&block_on(read).unwrap()), [i as u32]);
        }
    }

    pub fn eight_threads(backend: WgpuBackend) {
        std::thread::scope(|scope| {
            for thread in 0..8u32 {
                let backend = &backend;
                scope.spawn(move || {
                    let buffers = two(backend, 5000).unwrap();
                    let body = format!("o[i] = a[i] * {}u + params[1].x;", thread + 1);
                    let source = [source(5000, 1, &body)];
                    let batch = batch(20_000, &[&[0]], 1);
                    for round in 0..20 {
                        backend.run_sources(&batch, &source, &buffers, &[round]).unwrap();
                        let read = words(backend, buffers[1], 5000).unwrap();
                        let expected = |i: usize| i as u32 * (thread + 1) + round;
                        assert!(read.iter().enumerate().all(|(i, &x)| x == expected(i)));
                    }
                    buffers.into_iter().for_each(|buffer| backend.free(buffer));
                });
            }
        });
        let counters = backend.counters();
        assert_eq!((counters.submits, counters.dispatches), (160, 160));
        assert_eq!((counters.pipelines, counters.bind_groups), (8, 8));
        assert_eq!((counters.buffers, counters.bytes), (16, 0));
    }

    pub fn dropped_with_reads_in_flight(backend: WgpuBackend) {
        let buffers = two(&backend, 64).unwrap();
        let work = batch(256, &[&[]], 0);
        backend.run_sources(&work, &[busy(5_000_000)], &buffers, &[]).unwrap();
        let reads = [backend.read(buffers[1], 0, 256), backend.read(buffers[0], 0, 256)];
        let synced = backend.synchronize();
        drop(backend);
        let [first, second] = reads;
        assert_eq!(to_words(&block_on(second).unwrap()), (0..64).collect::<Vec<u32>>());
        assert!(to_words(&block_on(first).unwrap()).iter().any(|&x| x != 0));
        block_on(synced).unwrap();
    }

    pub fn dropped_futures(backend: WgpuBackend) {
        let buffers = two(&backend, 1 << 20).unwrap();
        for round in 0..200 {
            drop(backend.read(buffers[0], 0, 4 << (round % 20)));
            drop(backend.synchronize());
        }
        assert_eq!(words(&backend, buffers[0], 3).unwrap(), [0, 1, 2]);
        let bad = [source(64, 0, "o[i] = ;")];
        backend.run_sources(&batch(256, &[&[]], 0), &bad, &buffers, &[]).unwrap();
        // A dropped read reports no error, so the next call does.
        drop(backend.read(buffers[0], 0, 4));
        assert_eq!(block_on(backend.synchronize()).unwrap_err().kind(), ErrorKind::Unsupported);
    }

    pub fn memory_comes_and_goes(backend: WgpuBackend) {
        // 6 GiB in total, on a device that may have 2.
        let source = [source(64, 0, "o[i] = a[i];")];
        let small = two(&backend, 64).unwrap()[0];
        for _ in 0..96 {
            let large = backend.allocate(64 << 20).unwrap();
            backend.run_sources(&batch(256, &[&[]], 0), &source, &[small, large], &[]).unwrap();
            backend.free(large);
        }
        block_on(backend.synchronize()).unwrap();
        let counters = backend.counters();
        assert_eq!((counters.bytes, counters.buffers, counters.pipelines), (512, 98, 1));
    }

    pub fn planned_batches(backend: WgpuBackend) {
        let device = Device::from_backend(Box::new(backend), None);
        let cpu = Device::from_backend(Box::new(CpuBackend::new()), None);
        let numbers = |len: usize| -> Vec<f32> {
            pattern(len).into_iter().map(|byte| f32::from(byte) / 128.0 - 1.0).collect()
        };
        let compute = |device: &Device, scale: f64| -> Result<Vec<f32>> {
            let x = device.tensor(&numbers(65 * 130), &[65, 130])?;
            let w = device.tensor(&numbers(130 * 33), &[130, 33])?;
            block_on(x.matmul(&w)?.mul(scale)?.softmax(-1)?.read())
        };
        let mut made = None;
        for scale in [0.5, 1.0, 2.0, 3.0] {
            let (gpu, cpu) = (compute(&device, scale).unwrap(), compute(&cpu, scale).unwrap());
            let worst = gpu.iter().zip(&cpu).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            assert!(gpu.len() == 65 * 33 && worst < 1e-4, "off by {worst}");
            let stats = device.stats();
            let now = (stats.plans, stats.pipelines, stats.buffers, stats.bind_groups);
            // From the second run on, the pool has all needed buffers.
            if scale > 1.0 {
                assert_eq!(made, Some(now));
            }
            made = Some(now);
        }
        assert_eq!(device.stats().submits, 4);
    }
}
