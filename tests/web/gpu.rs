//! The wgpu backend by itself in a browser, on WebGPU, also one computed by the CPU: errors come
//! late there, and nothing may wait.

#[path = "../by_hand/mod.rs"]
mod by_hand;

use by_hand::{batch, busy, pattern, source, to_words, two};
use warpweft::backend::wgpu::{adapters, open, Choice, WgpuBackend};
use warpweft::backend::{Backend, BufferId};
use warpweft::error::{ErrorKind, Result};
use wasm_bindgen_test::{console_log, wasm_bindgen_test};

/// An open device of the test's own.
async fn device() -> WgpuBackend {
    let choice = Choice { software: true, ..Choice::default() };
    open(choice).await.expect("this browser has no WebGPU: is it started with it?")
}

/// The first words of a buffer.
async fn words(backend: &WgpuBackend, buffer: BufferId, count: u64) -> Result<Vec<u32>> {
    Ok(to_words(&backend.read(buffer, 0, count * 4).await?))
}

#[wasm_bindgen_test]
async fn describes_itself() {
    let listed = adapters().await;
    let backend = device().await;
    console_log!("wgpu: {:?} {:?}", backend.info(), backend.limits());
    assert_eq!((listed.len(), backend.info().backend), (1, "webgpu"));
    assert_eq!(&listed[0].limits, backend.limits());
    assert!(backend.limits().binding_bytes >= 128 << 20);
}

#[wasm_bindgen_test]
async fn bytes_come_back() {
    let backend = device().await;
    for len in [4, (1 << 20) + 4, 40 << 20] {
        let buffer = backend.allocate(len as u64).unwrap();
        let data = pattern(len);
        backend.write(buffer, 0, &data).unwrap();
        assert!(backend.read(buffer, 0, len as u64).await.unwrap() == data, "{len}");
        backend.free(buffer);
    }
    assert_eq!(backend.counters().bytes, 0);
}

#[wasm_bindgen_test]
async fn dropped_with_reads_in_flight() {
    let backend = device().await;
    let buffers = two(&backend, 1000).unwrap();
    let read = backend.read(buffers[0], 8, 4);
    drop(backend);
    assert_eq!(to_words(&read.await.unwrap()), [2]);
}

#[wasm_bindgen_test]
async fn nothing_new_the_second_time() {
    let backend = device().await;
    // More workgroups than one dimension takes.
    let count: u32 = 69_999 * 64 + 3;
    let buffers = two(&backend, count).unwrap();
    let sources = [source(u64::from(count), 1, "o[i] = a[i] * 3u + params[1].x;")];
    let batch = batch(u64::from(count) * 4, &[&[0]], 1);
    for round in 0..10 {
        backend.run_sources(&batch, &sources, &buffers, &[round]).unwrap();
        let read = words(&backend, buffers[1], u64::from(count)).await.unwrap();
        assert!(read.iter().enumerate().all(|(i, &x)| x == i as u32 * 3 + round));
    }
    let made = backend.counters();
    assert_eq!((made.pipelines, made.bind_groups, made.buffers, made.submits), (1, 1, 2, 10));
}

#[wasm_bindgen_test]
async fn many_runs_without_a_pause() {
    let backend = device().await;
    let buffers = two(&backend, 64).unwrap();
    let sources = [source(64, 1, "o[i] = a[i] + params[1].x;")];
    let batch = batch(256, &[&[0]], 1);
    for round in 0..2000 {
        backend.run_sources(&batch, &sources, &buffers, &[round]).unwrap();
    }
    assert_eq!(words(&backend, buffers[1], 2).await.unwrap(), [1999, 2000]);
    assert_eq!(backend.counters().bind_groups, 1);
}

#[wasm_bindgen_test]
async fn a_refused_shader_is_told() {
    let backend = device().await;
    let buffers = two(&backend, 64).unwrap();
    let good = source(64, 0, "o[i] = a[i] + 1u;");
    let copy = batch(256, &[&[]], 0);
    let mut nameless = good.clone();
    nameless.text = nameless.text.replace("fn main", "fn other");
    // The last one naga would take: a barrier that not every thread reaches.
    let barrier = source(64, 0, "if (local == 0u) { return; } workgroupBarrier(); o[i] = 1u;");
    for bad in [source(64, 0, "o[i] = ;"), source(64, 0, "o[i] = 1.5f;"), nameless, barrier] {
        let batch = batch(256, &[&[], &[]], 0);
        let sources = [good.clone(), bad];
        for _ in 0..3 {
            let earlier = backend.read(buffers[0], 0, 8);
            backend.run_sources(&batch, &sources, &buffers, &[]).unwrap();
            let (first, second) = (backend.read(buffers[1], 0, 4), backend.read(buffers[1], 0, 4));
            let error = first.await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unsupported);
            assert!(error.message().starts_with("map: "), "{error}");
            assert!(error.message().contains("by hand"), "{error}");
            // What was not computed stays so; all the rest goes on.
            assert_eq!(second.await.unwrap_err(), error);
            assert_eq!(to_words(&earlier.await.unwrap()), [0, 1]);
            assert!(words(&backend, buffers[0], 64).await.is_ok());
            assert_eq!(words(&backend, buffers[1], 64).await.unwrap_err(), error);
        }
        let next = backend.allocate(256).unwrap();
        backend.run_sources(&copy, std::slice::from_ref(&good), &[buffers[1], next], &[]).unwrap();
        let error = words(&backend, next, 64).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        backend.run_sources(&copy, std::slice::from_ref(&good), &[buffers[0], next], &[]).unwrap();
        assert_eq!(words(&backend, next, 3).await.unwrap(), [1, 2, 3]);
    }
}

#[wasm_bindgen_test]
async fn what_comes_of_a_refused_shader_is_an_error_too() {
    let backend = device().await;
    let buffers = two(&backend, 64).unwrap();
    let next = backend.allocate(256).unwrap();
    let (first, second) = (batch(256, &[&[]], 0), batch(256, &[&[]], 0));
    // Nothing is known yet of the first kernel when the second one runs.
    backend.run_sources(&first, &[source(64, 0, "o[i] = ;")], &buffers, &[]).unwrap();
    let good = [source(64, 0, "o[i] = a[i] + 1u;")];
    backend.run_sources(&second, &good, &[buffers[1], next], &[]).unwrap();
    backend.sync().await.unwrap_err();
    backend.sync().await.unwrap();
    let error = words(&backend, next, 3).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
}

#[wasm_bindgen_test]
async fn a_destroyed_device_answers() {
    let backend = device().await;
    let buffers = two(&backend, 64).unwrap();
    let work = batch(256, &[&[]], 0);
    backend.run_sources(&work, &[busy(10_000_000)], &buffers, &[]).unwrap();
    let (read, synced) = (backend.read(buffers[1], 0, 4), backend.sync());
    backend.destroy();
    let errors = [
        read.await.unwrap_err(),
        synced.await.unwrap_err(),
        words(&backend, buffers[1], 1).await.unwrap_err(),
        backend.allocate(4).unwrap_err(),
        backend.write(buffers[0], 0, &[0; 4]).unwrap_err(),
        backend.run_sources(&work, &[], &buffers, &[]).unwrap_err(),
    ];
    for error in errors {
        assert_eq!(error.kind(), ErrorKind::DeviceLost, "{error}");
    }
    let next = device().await;
    let buffers = two(&next, 64).unwrap();
    assert_eq!(words(&next, buffers[0], 3).await.unwrap(), [0, 1, 2]);
}

#[wasm_bindgen_test]
async fn too_much_memory_is_told_and_the_device_goes_on() {
    let backend = device().await;
    let size = backend.limits().binding_bytes;
    let held: Vec<BufferId> = (0..24).map(|_| backend.allocate(size).unwrap()).collect();
    let told = backend.sync().await;
    // A machine with enough memory has nothing to tell.
    if let Err(error) = told {
        assert_eq!(error.kind(), ErrorKind::Memory);
        assert!(error.message().contains(&size.to_string()), "{error}");
        let last = held[held.len() - 1];
        assert_eq!(backend.read(last, 0, 4).await.unwrap_err().kind(), ErrorKind::Memory);
        assert_eq!(backend.write(last, 0, &[0; 4]).unwrap_err().kind(), ErrorKind::Memory);
    }
    held.into_iter().for_each(|buffer| backend.free(buffer));
    let buffers = two(&backend, 64).unwrap();
    assert_eq!(words(&backend, buffers[0], 3).await.unwrap(), [0, 1, 2]);
}

#[wasm_bindgen_test]
async fn many_reads_some_dropped() {
    let backend = device().await;
    let buffers = two(&backend, 1 << 20).unwrap();
    for round in 0..100 {
        drop(backend.read(buffers[0], 0, 4 << (round % 20)));
        drop(backend.sync());
    }
    let reads: Vec<_> = (0..300).map(|i| backend.read(buffers[0], i * 4, 4)).collect();
    for (i, read) in reads.into_iter().enumerate().rev() {
        assert_eq!(to_words(&read.await.unwrap()), [i as u32]);
    }
}
