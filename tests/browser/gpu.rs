//! Tests the WebGPU backend directly in a browser, also on a software GPU. Errors arrive late there, and nothing may block.

#[path = "../shared/wgsl_kernels.rs"]
mod wgsl_kernels;

use warpweft::backend::wgpu::{
    adapters, is_available, open, AdapterOptions, PowerPreference, WgpuBackend,
};
use warpweft::backend::{Backend, BufferId, DeviceKind};
use warpweft::device::{Device, Preference};
use warpweft::error::{ErrorKind, Result};
use warpweft::tensor::{Tensor, Variable};
use wasm_bindgen_test::{console_log, wasm_bindgen_test};
use wgsl_kernels::{batch, busy, pattern, source, to_words, two};

/// The name of an adapter without a name.
const UNNAMED: &str = "WebGPU adapter (the browser does not name it)";

/// Opens a separate device.
async fn device() -> WgpuBackend {
    let choice = AdapterOptions { software: true, ..AdapterOptions::default() };
    open(choice).await.expect("this browser has no WebGPU: is it started with it?")
}

/// Reads the first words of a buffer.
async fn words(backend: &WgpuBackend, buffer: BufferId, count: u64) -> Result<Vec<u32>> {
    Ok(to_words(&backend.read(buffer, 0, count * 4).await?))
}

#[wasm_bindgen_test]
async fn describes_itself() {
    let listed = adapters(PowerPreference::High).await;
    let backend = device().await;
    console_log!("webgpu: {:?} {:?}", backend.info(), backend.limits());
    assert_eq!((listed.len(), backend.info().backend), (1, "webgpu"));
    assert_eq!(&listed[0].limits, backend.limits());
    assert!(backend.limits().binding_bytes >= 128 << 20);
}

#[wasm_bindgen_test]
async fn the_browser_hears_how_much_power_is_wanted() {
    let patch = "
        const real = GPU.prototype.requestAdapter;
        globalThis.asked = [];
        GPU.prototype.requestAdapter = function (options) {
            // None at the first time of asking, as browsers do it now and then.
            if (asked.push(options.powerPreference) === 1) return Promise.resolve(null);
            return real.call(this, options);
        };
        globalThis.undo = () => { GPU.prototype.requestAdapter = real; };";
    js_sys::eval(patch).unwrap();
    let (low, high) = (adapters(PowerPreference::Low).await, adapters(PowerPreference::High).await);
    let device = Device::with(Preference::LowPower).await;
    let asked = js_sys::eval("undo(); asked.join()").unwrap().as_string().unwrap();
    assert_eq!(asked, "low-power,low-power,high-performance,low-power");
    assert_eq!((low.len(), high.len()), (1, 1));
    assert_eq!(device.is_ok(), is_available().await);
}

#[wasm_bindgen_test]
async fn without_webgpu_there_is_nothing() {
    for none in ["undefined", "{ requestAdapter() { throw new TypeError('denied'); } }"] {
        let hide = "Object.defineProperty(navigator, 'gpu', { configurable: true, value: ";
        js_sys::eval(&[hide, none, " })"].concat()).unwrap();
        let found = adapters(PowerPreference::High).await;
        let opened = open(AdapterOptions { software: true, ..AdapterOptions::default() }).await;
        js_sys::eval("delete navigator.gpu").unwrap();
        assert!(found.is_empty());
        let Err(error) = opened else { panic!("there was one") };
        assert_eq!(error.kind(), ErrorKind::NoDevice);
    }
    assert_eq!(adapters(PowerPreference::High).await.len(), 1);
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
    // More workgroups than one dimension of a dispatch allows.
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
async fn steps_share_what_they_can() {
    let backend = device().await;
    let [input, output] = two(&backend, 1000).unwrap();
    let one = source(1000, 0, "o[i] = a[i] + 1u;");
    let other = source(1000, 5, "o[i] += params[1].x + params[2].x;");
    let sources = [one.clone(), other.clone(), one, other];
    let words_of = [3, 3, 3, 3, 1];
    let batch = batch(4000, &[&[], &[0; 5], &[], &words_of], 4);
    let second = backend.allocate(4000).unwrap();
    let mut made = None;
    for round in 0..20 {
        let output = if round % 2 == 0 { output } else { second };
        backend.run_sources(&batch, &sources, &[input, output], &[round, 7, 0, 10]).unwrap();
        assert_eq!(words(&backend, output, 2).await.unwrap(), [1 + 17, 2 + 17]);
        let now = backend.counters();
        let now = (now.pipelines, now.bind_groups, now.buffers, now.bytes);
        if round > 1 {
            assert_eq!(made, Some(now));
        }
        made = Some(now);
    }
    // All steps bind the same buffers, so there is one group for each output.
    assert_eq!(made, Some((2, 2, 3, 12_000)));
    assert_eq!(backend.counters().dispatches, 80);
    // After `release`, running the batch again still creates nothing.
    backend.release(&batch);
    backend.run_sources(&batch, &sources, &[input, output], &[0; 4]).unwrap();
    assert_eq!(backend.counters().bind_groups, 2);
}

#[wasm_bindgen_test]
async fn freed_buffers_take_their_bind_groups() {
    let backend = device().await;
    let source = [source(64, 0, "o[i] = a[i] + 1u;")];
    let batch = batch(256, &[&[]], 0);
    let input = two(&backend, 64).unwrap()[0];
    for round in 1..=20 {
        let output = backend.allocate(256).unwrap();
        backend.run_sources(&batch, &source, &[input, output], &[]).unwrap();
        // Freed while work is in flight. The work and the read still use it.
        let read = backend.read(output, 0, 256);
        backend.free(output);
        assert_eq!(to_words(&read.await.unwrap())[..3], [1, 2, 3]);
        assert_eq!((backend.counters().bind_groups, backend.counters().bytes), (round, 512));
        let error = backend.run_sources(&batch, &source, &[input, output], &[]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidState);
    }
    let error = backend.write(input, 2, &[0; 4]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert_eq!(backend.read(input, 0, 260).await.unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert!(backend.read(input, 0, 0).await.unwrap().is_empty());
}

#[wasm_bindgen_test]
async fn params_outgrow_the_uniform_buffer() {
    let backend = device().await;
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
        let read = words(&backend, buffers[1], 64).await.unwrap();
        assert!(read.iter().enumerate().all(|(i, &x)| x == (i + 3 * many) as u32));
    }
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

/// Trains four variables without a pause. Each step starts from results whose errors are not yet known.
async fn trained(device: &Device, steps: usize) -> Result<Vec<f32>> {
    let wave = |count: usize| -> Vec<f32> { (0..count).map(|i| (i as f32).sin()).collect() };
    let x = device.tensor(&wave(32), &[8, 4])?;
    let starts: [Tensor; 4] = [
        device.tensor(&wave(64), &[4, 16])?,
        device.zeros(&[16])?,
        device.tensor(&wave(16), &[16, 1])?,
        device.zeros(&[1])?,
    ];
    let [w, b, v, c] = starts.each_ref().map(Variable::new);
    for _ in 0..steps {
        let hidden = x.matmul(&w.value())?.add(&b.value())?.tanh();
        let loss = hidden.matmul(&v.value())?.add(&c.value())?.sub(0.5)?.square().mean(&[])?;
        loss.backward(&[&w, &b, &v, &c])?;
        for variable in [&w, &b, &v, &c] {
            let gradient = variable.take_gradient().expect("backward left one");
            variable.assign(&variable.value().sub(&gradient.mul(0.1)?)?)?;
        }
        device.submit()?;
    }
    let mut all = Vec::new();
    for variable in [&w, &b, &v, &c] {
        all.extend(variable.value().read::<f32>().await?);
    }
    Ok(all)
}

#[wasm_bindgen_test]
async fn training_without_a_pause() {
    let gpu = Device::from_backend(Box::new(device().await), None);
    let cpu = Device::with(Preference::Cpu).await.unwrap();
    let steps = 60;
    let (got, want) = (trained(&gpu, steps).await.unwrap(), trained(&cpu, steps).await.unwrap());
    let worst = got.iter().zip(&want).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    assert!(got.len() == 97 && worst < 1e-4, "off by {worst}");
}

#[wasm_bindgen_test]
async fn a_refused_shader_is_told() {
    let backend = device().await;
    let buffers = two(&backend, 64).unwrap();
    let good = source(64, 0, "o[i] = a[i] + 1u;");
    let copy = batch(256, &[&[]], 0);
    let mut nameless = good.clone();
    nameless.text = nameless.text.replace("fn main", "fn other");
    let mut wrong = vec![source(64, 0, "o[i] = ;"), source(64, 0, "o[i] = 1.5f;"), nameless];
    // A barrier that not every thread reaches. naga accepts it (Firefox's bug 1850044).
    if !crate::in_firefox() {
        wrong.push(source(64, 0, "if (local == 0u) { return; } workgroupBarrier(); o[i] = 1u;"));
    }
    for bad in wrong {
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
            // Uncomputed results stay invalid. All other work continues.
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
    // When the second kernel runs, the result of the first is not yet known.
    backend.run_sources(&first, &[source(64, 0, "o[i] = ;")], &buffers, &[]).unwrap();
    let good = [source(64, 0, "o[i] = a[i] + 1u;")];
    backend.run_sources(&second, &good, &[buffers[1], next], &[]).unwrap();
    backend.synchronize().await.unwrap_err();
    backend.synchronize().await.unwrap();
    let error = words(&backend, next, 3).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
}

#[wasm_bindgen_test]
async fn a_destroyed_device_answers() {
    let backend = device().await;
    let buffers = two(&backend, 64).unwrap();
    let work = batch(256, &[&[]], 0);
    backend.run_sources(&work, &[busy(10_000_000)], &buffers, &[]).unwrap();
    let (read, synced) = (backend.read(buffers[1], 0, 4), backend.synchronize());
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
    let synchronized = backend.synchronize().await;
    // With enough memory, there is no error.
    if let Err(error) = synchronized {
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
        drop(backend.synchronize());
    }
    let reads: Vec<_> = (0..300).map(|i| backend.read(buffers[0], i * 4, 4)).collect();
    for (i, read) in reads.into_iter().enumerate().rev() {
        assert_eq!(to_words(&read.await.unwrap()), [i as u32]);
    }
}

/// Runs JavaScript. Calls `undo()` in it when the guard is dropped.
struct Patch;

impl Patch {
    fn new(script: &str) -> Patch {
        // A failed test has not dropped its guard.
        js_sys::eval("globalThis.undo?.()").expect("what was patched is there");
        js_sys::eval(script).expect("the script runs");
        Patch
    }
}

impl Drop for Patch {
    fn drop(&mut self) {
        js_sys::eval("undo(), globalThis.undo = undefined").expect("what was patched is there");
    }
}

/// Returns a number from JavaScript.
fn number(script: &str) -> f64 {
    let value = js_sys::eval(script).expect("the script runs");
    value.as_f64().unwrap_or_else(|| panic!("{script}: {value:?}"))
}

#[wasm_bindgen_test]
async fn opening_leaves_no_trace() {
    let script = "
        globalThis.before ??= [Object.getOwnPropertyDescriptor(globalThis, 'navigator')?.get, navigator, navigator.gpu];
        const now = [Object.getOwnPropertyDescriptor(globalThis, 'navigator')?.get, navigator, navigator.gpu];
        Number(now.every((value, i) => value === before[i]) && !Object.hasOwn(navigator.gpu, 'requestAdapter'))";
    assert_eq!(number(script), 1.0);
    let backend = device().await;
    assert_eq!(number(script), 1.0);
    let own = "adapter => Math.min(adapter.limits.maxStorageBuffersPerShaderStage,
        adapter.limits.maxBindingsPerBindGroup - 1)";
    let asked = format!("navigator.gpu.requestAdapter().then({own})");
    let promise: js_sys::Promise = js_sys::eval(&asked).unwrap().into();
    let most = wasm_bindgen_futures::JsFuture::from(promise).await.unwrap();
    assert_eq!(most.as_f64(), Some(backend.limits().buffers_per_kernel as f64));
}

/// Tests adapters without a name. Firefox only reports whether an adapter is a CPU, and old browsers not even that.
#[wasm_bindgen_test]
async fn an_adapter_without_a_name() {
    let (gpu, software) = (DeviceKind::Gpu, DeviceKind::Software);
    for (fallback, kind) in [("undefined", gpu), ("false", gpu), ("true", software)] {
        let patch = Patch::new(&format!(
            "{{
                const real = Object.getOwnPropertyDescriptor(GPUAdapter.prototype, 'info');
                const none = {{ vendor: '', architecture: '', device: '', description: '' }};
                const info = {{ ...none, isFallbackAdapter: {fallback} }};
                Object.defineProperty(GPUAdapter.prototype, 'info', {{ ...real, get: () => info }});
                globalThis.undo = () => Object.defineProperty(GPUAdapter.prototype, 'info', real);
            }}"
        ));
        let found = adapters(PowerPreference::High).await;
        drop(patch);
        let info = &found[0].info;
        assert_eq!((info.name.as_str(), info.vendor.as_str()), (UNNAMED, ""));
        assert_eq!(info.kind, kind, "isFallbackAdapter: {fallback}");
    }
}

#[wasm_bindgen_test]
async fn a_device_that_is_refused_is_told() {
    for refusal in ["throw new TypeError('not today')", "return Promise.reject(Error('not today'))"]
    {
        let patch = Patch::new(&format!(
            "{{
                const real = GPUAdapter.prototype.requestDevice;
                globalThis.undo = () => {{ GPUAdapter.prototype.requestDevice = real; }};
                GPUAdapter.prototype.requestDevice = () => {{ {refusal}; }};
            }}"
        ));
        let opened = open(AdapterOptions { software: true, ..AdapterOptions::default() }).await;
        drop(patch);
        let Err(error) = opened else { panic!("it was opened") };
        assert_eq!(error.kind(), ErrorKind::NoDevice);
        assert!(error.message().contains("not today"), "{error}");
    }
}

/// Tests errors in error scopes that are neither invalid use nor lack of memory.
#[wasm_bindgen_test]
async fn an_internal_error_is_told_and_the_device_goes_on() {
    let backend = device().await;
    let buffers = two(&backend, 64).unwrap();
    let good = source(64, 0, "o[i] = a[i] + 1u;");
    backend.synchronize().await.unwrap();
    let patch = Patch::new(
        "{
            const real = GPUDevice.prototype.popErrorScope;
            let left = 2;
            globalThis.undo = () => { GPUDevice.prototype.popErrorScope = real; };
            GPUDevice.prototype.popErrorScope = function () {
                const answer = real.call(this);
                // The second of three: memory, internal, validation.
                return left-- === 1 ? answer.then(() => new GPUInternalError('it broke inside')) : answer;
            };
        }",
    );
    // The error belongs to this kernel.
    backend.run_sources(&batch(256, &[&[]], 0), &[good.clone()], &buffers, &[]).unwrap();
    let error = words(&backend, buffers[1], 3).await.unwrap_err();
    drop(patch);
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.message().contains("it broke inside"), "{error}");
    backend.write(buffers[1], 0, &[7; 256]).unwrap();
    assert_eq!(words(&backend, buffers[1], 1).await.unwrap(), [0x0707_0707]);
    assert_eq!(words(&backend, buffers[0], 3).await.unwrap(), [0, 1, 2]);
}

#[wasm_bindgen_test]
async fn scopes_that_throw_or_never_come_to_an_end() {
    for pop in ["throw new Error('no scope')", "return Promise.reject(Error('no scope'))"] {
        let backend = device().await;
        let buffers = two(&backend, 64).unwrap();
        let patch = Patch::new(&format!(
            "{{
                const real = GPUDevice.prototype.popErrorScope;
                globalThis.undo = () => {{ GPUDevice.prototype.popErrorScope = real; }};
                GPUDevice.prototype.popErrorScope = function () {{ real.call(this); {pop}; }};
            }}"
        ));
        assert_eq!(words(&backend, buffers[0], 3).await.unwrap(), [0, 1, 2]);
        drop(patch);
    }
    // If no answer arrives and the device is lost, waiting calls return an error.
    let backend = device().await;
    let buffers = two(&backend, 64).unwrap();
    let patch = Patch::new(
        "{
            const real = GPUDevice.prototype.popErrorScope;
            globalThis.undo = () => { GPUDevice.prototype.popErrorScope = real; };
            GPUDevice.prototype.popErrorScope = function () { real.call(this); return new Promise(() => {}); };
        }",
    );
    let (read, synced) = (backend.read(buffers[0], 0, 4), backend.synchronize());
    drop(patch);
    backend.destroy();
    assert_eq!(read.await.unwrap_err().kind(), ErrorKind::DeviceLost);
    assert_eq!(synced.await.unwrap_err().kind(), ErrorKind::DeviceLost);
}

/// Records the browser's devices in `opened`, and counts destroyed objects and submissions.
fn spy() -> Patch {
    Patch::new(
        "{
            const { requestDevice } = GPUAdapter.prototype, { destroy } = GPUBuffer.prototype;
            const { submit } = GPUQueue.prototype, { setTimeout } = globalThis;
            globalThis.opened = [];
            globalThis.destroyed = 0;
            globalThis.submitted = [];
            globalThis.pauses = [];
            globalThis.setTimeout = function (work, milliseconds) {
                pauses.push(milliseconds);
                return setTimeout.call(this, work, milliseconds);
            };
            GPUAdapter.prototype.requestDevice = async function (wanted) {
                const device = await requestDevice.call(this, wanted);
                device.lost.then(({ reason }) => { device.reason = reason; });
                opened.push(device);
                return device;
            };
            GPUBuffer.prototype.destroy = function () { destroyed++; destroy.call(this); };
            GPUQueue.prototype.submit = function (commands) {
                submitted.push(commands.length);
                submit.call(this, commands);
            };
            globalThis.undo = () => {
                GPUAdapter.prototype.requestDevice = requestDevice;
                GPUBuffer.prototype.destroy = destroy;
                GPUQueue.prototype.submit = submit;
                globalThis.setTimeout = setTimeout;
            };
        }",
    )
}

#[wasm_bindgen_test]
async fn a_device_lost_while_a_read_waits() {
    let _spy = spy();
    let backend = device().await;
    let buffers = two(&backend, 64).unwrap();
    let work = batch(256, &[&[]], 0);
    backend.run_sources(&work, &[busy(10_000_000)], &buffers, &[]).unwrap();
    let (read, synced) = (backend.read(buffers[1], 0, 4), backend.synchronize());
    // The page destroys the device, not the library.
    js_sys::eval("opened[0].destroy()").unwrap();
    assert_eq!(read.await.unwrap_err().kind(), ErrorKind::DeviceLost);
    assert_eq!(synced.await.unwrap_err().kind(), ErrorKind::DeviceLost);
    assert_eq!(backend.allocate(4).unwrap_err().kind(), ErrorKind::DeviceLost);
}

#[wasm_bindgen_test]
async fn what_is_dropped_is_destroyed_once_nothing_waits_for_it() {
    let _spy = spy();
    let backend = device().await;
    let buffers = two(&backend, 64).unwrap();
    backend.free(buffers[1]);
    assert_eq!(number("destroyed"), 1.0);
    let reads: Vec<_> = (0..20).map(|i| backend.read(buffers[0], i * 4, 4)).collect();
    let (synced, dropped) = (backend.synchronize(), backend.read(buffers[0], 0, 4));
    drop(backend);
    drop(dropped);
    for (i, read) in reads.into_iter().enumerate() {
        assert_eq!(to_words(&read.await.unwrap()), [i as u32]);
    }
    assert_eq!(number("opened.filter((device) => device.reason).length"), 0.0);
    synced.await.unwrap();
    let lost: js_sys::Promise = js_sys::eval("opened[0].lost").unwrap().into();
    wasm_bindgen_futures::JsFuture::from(lost).await.unwrap();
    let reason = js_sys::eval("opened[0].reason").unwrap();
    assert_eq!(reason.as_string().as_deref(), Some("destroyed"));
}

#[wasm_bindgen_test]
async fn a_batch_and_its_read_are_one_submission() {
    let _spy = spy();
    let device = Device::from_backend(Box::new(device().await), None);
    let x = device.tensor(&[1.0f32, 2.0], &[2]).unwrap();
    for round in 0..3 {
        js_sys::eval("submitted = []").unwrap();
        let y = x.mul(f64::from(round)).unwrap();
        assert_eq!(y.read::<f32>().await.unwrap(), [round as f32, 2.0 * round as f32]);
        // The first read creates its buffer first.
        let many = number("submitted.filter((many) => many).length");
        assert_eq!(many, if round == 0 { 2.0 } else { 1.0 });
    }
}

/// Tests that commands are submitted while something waits, because browsers check for finished work when commands arrive.
#[wasm_bindgen_test]
async fn while_something_waits_commands_come_in() {
    let _spy = spy();
    let backend = device().await;
    let buffers = two(&backend, 64).unwrap();
    let work = batch(256, &[&[]], 0);
    backend.run_sources(&work, &[busy(20_000_000)], &buffers, &[]).unwrap();
    backend.read(buffers[1], 0, 4).await.unwrap();
    let many = number("submitted.filter((many) => !many).length");
    console_log!("webgpu: {many} empty submissions while a read waited");
    assert!(many >= 1.0, "{many}");
    // The pauses between them grow. 60 of them would take an hour.
    assert_eq!(
        number("Number(pauses.every((pause, i) => i === 0 || pause >= pauses[i - 1]))"),
        1.0
    );
    assert_eq!(number("Number(pauses.length < 8 || pauses.at(-1) > 2 * pauses[0])"), 1.0);
    assert!(many < 60.0, "{many}");
    // Nothing waits any more, so no commands are submitted.
    let pause = "new Promise((resolve) => setTimeout(resolve, 300))";
    wasm_bindgen_futures::JsFuture::from(js_sys::Promise::from(js_sys::eval(pause).unwrap()))
        .await
        .unwrap();
    let before = number("submitted.length");
    wasm_bindgen_futures::JsFuture::from(js_sys::Promise::from(js_sys::eval(pause).unwrap()))
        .await
        .unwrap();
    assert_eq!(number("submitted.length"), before);
}
