//! Tests sharing a wgpu device with an app. The tests act as the app.

use pollster::block_on;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use warpweft::backend::wgpu::{open, AdapterOptions};
use warpweft::device::{Device, Preference};
use warpweft::dtype::DType;
use warpweft::error::{Error, ErrorKind, Result};
use warpweft::interop::wgpu::{self, BufferUsages as Uses};
use warpweft::tensor::{Tensor, Variable};

/// An app, and the errors that it has received.
struct App {
    adapter: wgpu::Adapter,
    device: wgpu::Device,
    queue: wgpu::Queue,
    errors: Arc<Mutex<Vec<String>>>,
    lost: Arc<AtomicBool>,
}

const ALL: Uses = Uses::STORAGE.union(Uses::COPY_SRC).union(Uses::COPY_DST);

impl App {
    fn new() -> Option<App> {
        App::with(|_, _| {})
    }

    /// Opens an app with changed device requirements.
    fn with(change: impl FnOnce(&wgpu::Adapter, &mut wgpu::DeviceDescriptor)) -> Option<App> {
        let adapter = App::adapter()?;
        Some(App::on(adapter, change))
    }

    fn adapter() -> Option<wgpu::Adapter> {
        let instance = wgpu::Instance::new(wgpu::InstanceDescriptor::new_without_display_handle());
        match block_on(instance.request_adapter(&Default::default())) {
            Ok(adapter) => Some(adapter),
            Err(error) => {
                let required = std::env::var("WARPWEFT_REQUIRE").unwrap_or_default();
                assert!(!required.contains("wgpu"), "WARPWEFT_REQUIRE={required}, but {error}");
                None
            }
        }
    }

    fn on(
        adapter: wgpu::Adapter,
        change: impl FnOnce(&wgpu::Adapter, &mut wgpu::DeviceDescriptor),
    ) -> App {
        let mut descriptor = wgpu::DeviceDescriptor::default();
        change(&adapter, &mut descriptor);
        let (device, queue) = block_on(adapter.request_device(&descriptor)).expect("it opens");
        let (errors, lost) = (Arc::<Mutex<Vec<String>>>::default(), Arc::<AtomicBool>::default());
        let (reported, lost_flag) = (errors.clone(), lost.clone());
        device.on_uncaptured_error(Arc::new(move |error| {
            reported.lock().unwrap().push(error.to_string());
        }));
        device.set_device_lost_callback(move |_, _| lost_flag.store(true, Ordering::Relaxed));
        App { adapter, device, queue, errors, lost }
    }

    fn share(&self) -> Result<Device> {
        Device::from_wgpu(&self.adapter, self.device.clone(), self.queue.clone())
    }

    fn buffer(&self, size: u64, usage: Uses) -> wgpu::Buffer {
        let descriptor =
            wgpu::BufferDescriptor { label: None, size, usage, mapped_at_creation: false };
        self.device.create_buffer(&descriptor)
    }

    /// Returns a buffer with these numbers.
    fn filled(&self, numbers: &[f32]) -> wgpu::Buffer {
        let buffer = self.buffer(4 * numbers.len() as u64, ALL);
        self.write(&buffer, numbers);
        buffer
    }

    fn write(&self, buffer: &wgpu::Buffer, numbers: &[f32]) {
        let bytes: Vec<u8> = numbers.iter().flat_map(|n| n.to_le_bytes()).collect();
        self.queue.write_buffer(buffer, 0, &bytes);
    }

    /// Reads a buffer as the app does.
    fn read(&self, buffer: &wgpu::Buffer, count: usize) -> Vec<f32> {
        let bytes = 4 * count as u64;
        let target = self.buffer(bytes, Uses::MAP_READ | Uses::COPY_DST);
        let mut encoder = self.device.create_command_encoder(&Default::default());
        encoder.copy_buffer_to_buffer(buffer, 0, &target, 0, bytes);
        self.queue.submit([encoder.finish()]);
        target.map_async(wgpu::MapMode::Read, .., |mapped| mapped.expect("it can be mapped"));
        self.device.poll(wgpu::PollType::wait_indefinitely()).expect("it is done some time");
        let bytes = target.get_mapped_range(..).expect("it is mapped").to_vec();
        let numbers = bytes.chunks_exact(4).map(|word| word.try_into().expect("four bytes"));
        numbers.map(f32::from_le_bytes).collect()
    }

    /// Checks that the app has received no errors.
    fn is_undisturbed(&self) {
        assert_eq!(self.errors.lock().unwrap().as_slice(), [] as [&str; 0]);
        assert!(!self.lost.load(Ordering::Relaxed), "its device is lost");
    }
}

fn read(tensor: &Tensor) -> Vec<f32> {
    block_on(tensor.read()).expect("it is computed")
}

fn refused<T>(outcome: Result<T>, kind: ErrorKind, words: &[&str]) -> Error {
    let Err(error) = outcome else { panic!("{words:?} was not refused") };
    assert_eq!(error.kind(), kind, "{error}");
    for word in words {
        assert!(error.message().contains(word), "no {word} in: {error}");
    }
    error
}

#[test]
fn tensors_live_on_the_apps_device() {
    let Some(app) = App::new() else { return };
    let device = app.share().unwrap();
    let compute = |device: &Device| {
        let x = device.linspace(-1.0, 1.0, 48).unwrap().reshape(&[6, 8]).unwrap();
        read(&x.matmul(&x.transpose(0, 1).unwrap()).unwrap().softmax(1).unwrap())
    };
    let expected = compute(&block_on(Device::with(Preference::Cpu)).unwrap());
    let near = |(a, b): (&f32, &f32)| (a - b).abs() < 1e-5;
    assert!(compute(&device).iter().zip(&expected).all(near));
    assert!(device.info().name == app.adapter.get_info().name && device.fallback().is_none());
    app.is_undisturbed();
}

#[test]
fn limits_and_features_are_what_the_app_asked_for() {
    let Some(app) = App::with(|_, descriptor| {
        descriptor.required_limits.max_storage_buffer_binding_size = 1 << 20;
        descriptor.required_limits.max_storage_buffers_per_shader_stage = 4;
    }) else {
        return;
    };
    let device = app.share().unwrap();
    let limits = device.limits();
    assert_eq!((limits.binding_bytes, limits.buffers_per_kernel), (1 << 20, 4));
    assert!(!limits.f16 && !limits.subgroups && !limits.cooperative);
    let half = device.zeros((&[2], DType::F16));
    refused(half, ErrorKind::Unsupported, &["f16"]);
    refused(device.tensor(&vec![0.0f32; 1 << 19], &[1 << 19]), ErrorKind::Limit, &["1048576"]);
    // Six operands, three at a time.
    let parts: Vec<Tensor> = (0..6).map(|n| device.tensor(&[n as f32; 5], &[5]).unwrap()).collect();
    let sum = parts[1..].iter().fold(parts[0].clone(), |sum, part| sum.add(part).unwrap());
    assert_eq!(read(&sum), [15.0; 5]);
    app.is_undisturbed();

    let more = wgpu::Features::SHADER_F16 | wgpu::Features::SUBGROUP;
    let Some(app) = App::with(|adapter, descriptor| {
        descriptor.required_features = adapter.features() & more;
    }) else {
        return;
    };
    let (device, has) = (app.share().unwrap(), app.device.features());
    assert_eq!(device.limits().f16, has.contains(wgpu::Features::SHADER_F16));
    assert_eq!(device.limits().subgroups, has.contains(wgpu::Features::SUBGROUP));
    let sums = read(&device.ones(&[3, 70]).unwrap().softmax(1).unwrap().sum(1).unwrap());
    assert!(sums.iter().all(|sum| (sum - 1.0).abs() < 1e-5), "{sums:?}");
}

#[test]
fn a_device_with_too_little_is_refused() {
    let lacking = |change: fn(&mut wgpu::Limits), kind, word: &str| {
        let opened = App::with(|_, descriptor| change(&mut descriptor.required_limits));
        let Some(app) = opened else { return };
        refused(app.share(), kind, &["from_wgpu", word]);
        // The app's device still works.
        let buffer = app.filled(&[1.0, 2.0]);
        assert_eq!(app.read(&buffer, 2), [1.0, 2.0]);
        app.is_undisturbed();
    };
    use ErrorKind::{Limit, NoDevice};
    let buffers = "4 storage buffers per shader stage, got 3";
    lacking(|limits| limits.max_storage_buffers_per_shader_stage = 3, Limit, buffers);
    lacking(|limits| limits.max_compute_workgroup_storage_size = 8192, Limit, "got 8192");
    let invocations = "256 invocations per workgroup, got 64";
    lacking(|limits| limits.max_compute_invocations_per_workgroup = 64, Limit, invocations);
    lacking(|limits| limits.max_compute_workgroup_size_x = 64, Limit, invocations);
    lacking(|limits| limits.max_uniform_buffer_binding_size = 16 << 10, NoDevice, "16384 bytes");
}

#[test]
fn a_tensor_is_shown_without_a_copy() {
    let Some(app) = App::new() else { return };
    let device = app.share().unwrap();
    let x = device.tensor(&[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0], &[2, 3]).unwrap();
    let y = x.mul(2.0).unwrap().transpose(0, 1).unwrap();
    let before = device.stats();
    let shown = y.wgpu_buffer().unwrap();
    assert_eq!((shown.shape(), shown.dtype(), shown.byte_len()), (&[3, 2][..], DType::F32, 24));
    assert!(shown.usage().contains(ALL) && shown.size() >= 24);
    let after = device.stats();
    // One kernel writes one buffer, which is the one that the app gets.
    assert_eq!(after.submits - before.submits, 1);
    assert_eq!((after.kernels - before.kernels, after.buffers - before.buffers), (1, 1));
    assert_eq!(app.read(&shown, 6), [2.0, 8.0, 4.0, 10.0, 6.0, 12.0]);
    assert!(*y.wgpu_buffer().unwrap() == *shown, "another buffer the second time");
    assert_eq!(device.stats(), after);
    // Uploaded data already has a buffer. Tensors without elements have buffers, too.
    assert_eq!(app.read(&x.wgpu_buffer().unwrap(), 6), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    assert_eq!(device.zeros(&[0]).unwrap().wgpu_buffer().unwrap().byte_len(), 0);
    assert_eq!(device.zeros(&[0]).unwrap().add(1.0).unwrap().wgpu_buffer().unwrap().byte_len(), 0);
    app.is_undisturbed();
}

/// Tests that a device that the library opened also gives out its buffers.
#[test]
fn any_gpu_shows_its_buffers() {
    let Ok(backend) =
        block_on(open(AdapterOptions { software: true, ..AdapterOptions::default() }))
    else {
        return;
    };
    let device = Device::from_backend(Box::new(backend), None);
    let shown = device.ones(&[5]).unwrap().wgpu_buffer().unwrap();
    assert!(shown.byte_len() == 20 && shown.size() >= 20);
}

#[test]
fn what_is_shown_stays_as_long_as_it_is() {
    let Some(app) = App::new() else { return };
    let device = app.share().unwrap();
    let full = |value: f32| device.tensor(&[value; 1000], &[1000]).unwrap().add(0.5).unwrap();
    let shown = full(1.0).wgpu_buffer().unwrap();
    let again = shown.clone();
    device.trim();
    drop(shown);
    // Each of these would reuse a free buffer of this size.
    let others: Vec<Tensor> = (2..6).map(|n| full(n as f32)).collect();
    others.iter().for_each(|other| other.run().unwrap());
    device.trim();
    assert_eq!(app.read(&again, 1000), [1.5; 1000]);
    let made = device.stats().buffers;
    drop(again);
    full(7.0).wgpu_buffer().unwrap();
    // One buffer for the number, and the one that is free now.
    assert!(device.stats().buffers <= made + 1, "it was not given back");
    app.is_undisturbed();
}

#[test]
fn a_buffer_of_the_apps_is_a_tensor_without_a_copy() {
    let Some(app) = App::new() else { return };
    let device = app.share().unwrap();
    let buffer = app.filled(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 0.0, 0.0]);
    let before = device.stats();
    let x = device.tensor_from_wgpu(&buffer, DType::F32, &[2, 3]).unwrap();
    let stats = device.stats();
    let memory = |stats: &warpweft::device::Stats| {
        [stats.buffers, stats.bytes, stats.used_bytes, stats.submits]
    };
    assert_eq!(memory(&stats), memory(&before));
    assert_eq!(read(&x), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    assert_eq!(read(&x.sum(1).unwrap()), [6.0, 15.0]);
    let last = block_on(x.slice(1, 2..).unwrap().read::<f32>()).unwrap();
    assert_eq!(last, [3.0, 6.0]);
    assert!(*x.wgpu_buffer().unwrap() == buffer, "the tensor lies elsewhere");
    let words = device.tensor_from_wgpu(&buffer, DType::U32, &[2]).unwrap();
    assert_eq!(block_on(words.read::<u32>()).unwrap(), [1.0f32.to_bits(), 2.0f32.to_bits()]);
    app.is_undisturbed();
}

#[test]
fn what_the_app_writes_is_seen_by_tensors_made_afterwards() {
    let Some(app) = App::new() else { return };
    let device = app.share().unwrap();
    let buffer = app.filled(&[0.0; 8]);
    let tensor = || device.tensor_from_wgpu(&buffer, DType::F32, &[8]).unwrap();
    let seen = Variable::new(&tensor());
    let mut settled = None;
    for frame in 0..20 {
        app.write(&buffer, &[frame as f32; 8]);
        seen.assign(&tensor()).unwrap();
        let sum = seen.value().sum(()).unwrap();
        assert_eq!(block_on(sum.item::<f32>()).unwrap(), 8.0 * frame as f32);
        drop(sum);
        let stats = device.stats();
        // The buffer is already registered, so nothing new is created.
        let made = [stats.plans, stats.pipelines, stats.buffers, stats.bind_groups, stats.nodes];
        if frame > 2 {
            assert_eq!(*settled.get_or_insert(made), made, "frame {frame}");
        }
    }
    app.is_undisturbed();
}

#[test]
fn what_is_the_apps_is_not_destroyed() {
    let Some(app) = App::new() else { return };
    let buffer = app.filled(&[1.0, 2.0, 3.0, 4.0]);
    for _ in 0..2 {
        let device = app.share().unwrap();
        let x = device.tensor_from_wgpu(&buffer, DType::F32, &[4]).unwrap();
        let twice = x.mul(2.0).unwrap();
        assert_eq!(read(&twice), [2.0, 4.0, 6.0, 8.0]);
        let again = device.tensor_from_wgpu(&buffer, DType::F32, &[4]).unwrap();
        drop(x);
        device.trim();
        // One of the two tensors of the buffer is dropped.
        assert_eq!(read(&again.add(1.0).unwrap()), [2.0, 3.0, 4.0, 5.0]);
        drop((again, device));
        assert_eq!(app.read(&buffer, 4), [1.0, 2.0, 3.0, 4.0]);
        app.is_undisturbed();
        // A read works after its device is dropped. The app's device continues.
        block_on(twice.read::<f32>()).unwrap();
    }
    app.write(&buffer, &[5.0; 4]);
    assert_eq!(app.read(&buffer, 4), [5.0; 4]);
    app.is_undisturbed();
}

/// Tests that destroying the backend directly also frees only the library's resources.
#[test]
fn the_backend_ends_and_the_apps_device_goes_on() {
    use warpweft::backend::{wgpu::WgpuBackend, Backend};
    let Some(app) = App::new() else { return };
    let (device, queue) = (app.device.clone(), app.queue.clone());
    let backend = WgpuBackend::lent(&app.adapter, device, queue).unwrap();
    backend.destroy();
    refused(backend.allocate(16).map(|_| ()), ErrorKind::DeviceLost, &["destroyed"]);
    assert_eq!(app.read(&app.filled(&[3.0]), 1), [3.0]);
    app.is_undisturbed();
}

#[test]
fn buffers_that_can_not_be_tensors() {
    let Some(app) = App::new() else { return };
    let other = App::on(app.adapter.clone(), |_, _| {});
    let device = app.share().unwrap();
    let make = |buffer: &wgpu::Buffer, dtype, shape: &[usize]| {
        device.tensor_from_wgpu(buffer, dtype, shape).map(|_| ())
    };
    let lacks = |usage, words: &[&str]| {
        let buffer = app.buffer(64, usage);
        refused(make(&buffer, DType::F32, &[4]), ErrorKind::InvalidArgument, words);
    };
    lacks(Uses::STORAGE, &["tensor_from_wgpu", "must have the usage COPY_SRC"]);
    lacks(Uses::COPY_SRC | Uses::COPY_DST, &["must have the usage STORAGE"]);
    let small = app.buffer(20, ALL);
    refused(
        make(&small, DType::F32, &[5]),
        ErrorKind::InvalidArgument,
        &["at least 32 bytes", "got 20"],
    );
    refused(
        make(&small, DType::F32, &[6]),
        ErrorKind::InvalidArgument,
        &["at least 32 bytes", "got 20"],
    );
    assert!(make(&small, DType::F32, &[4]).is_ok());
    refused(make(&small, DType::F16, &[2]), ErrorKind::Unsupported, &["f16"]);
    refused(make(&small, DType::F32, &[1; 9]), ErrorKind::Shape, &["tensor_from_wgpu"]);
    let foreign = other.buffer(64, ALL);
    refused(
        make(&foreign, DType::F32, &[4]),
        ErrorKind::InvalidArgument,
        &["tensor_from_wgpu", "evice"],
    );
    let gone = app.buffer(64, ALL);
    gone.destroy();
    refused(make(&gone, DType::F32, &[4]), ErrorKind::InvalidArgument, &["destroyed"]);
    let cpu = block_on(Device::with(Preference::Cpu)).unwrap();
    let made = cpu.tensor_from_wgpu(&small, DType::F32, &[4]).map(|_| ());
    refused(made, ErrorKind::Unsupported, &["tensor_from_wgpu: ", "must be a GPU"]);
    let shown = cpu.ones(&[4]).unwrap().wgpu_buffer().map(|_| ());
    refused(shown, ErrorKind::Unsupported, &["wgpu_buffer", "must be a GPU"]);
    // Errors that tensors carry are returned here, too.
    let odd = device.tensor(&[1i32, 2], &[2]).unwrap().exp().wgpu_buffer().map(|_| ());
    refused(odd, ErrorKind::DType, &["exp"]);
    assert_eq!(read(&device.ones(&[3]).unwrap().add(1.0).unwrap()), [2.0; 3]);
    app.is_undisturbed();
    other.is_undisturbed();
}

/// Tests that destroying a shared buffer causes errors only for work that reads it.
#[test]
fn a_buffer_destroyed_later() {
    let Some(app) = App::new() else { return };
    let device = app.share().unwrap();
    let buffer = app.filled(&[1.0; 8]);
    let x = device.tensor_from_wgpu(&buffer, DType::F32, &[8]).unwrap();
    assert_eq!(read(&x.sum(()).unwrap()), [8.0]);
    buffer.destroy();
    let y = x.mul(3.0).unwrap();
    refused(block_on(y.read::<f32>()), ErrorKind::Unsupported, &["destroyed"]);
    refused(block_on(x.read::<f32>()), ErrorKind::Unsupported, &["destroyed"]);
    refused(y.wgpu_buffer().map(|_| ()), ErrorKind::Unsupported, &["destroyed"]);
    assert_eq!(read(&device.ones(&[8]).unwrap().mul(3.0).unwrap()), [3.0; 8]);
    app.is_undisturbed();
}

#[test]
fn the_app_goes_on_hearing_of_its_errors_and_of_the_loss() {
    let Some(app) = App::new() else { return };
    let device = app.share().unwrap();
    let x = device.tensor(&[1.0f32, 2.0], &[2]).unwrap().exp();
    read(&x);
    app.buffer(16, Uses::MAP_READ | Uses::MAP_WRITE);
    assert_eq!(app.errors.lock().unwrap().len(), 1, "the app's own error");
    let waiting = device.ones(&[1000]).unwrap().add(1.0).unwrap().read::<f32>();
    app.device.destroy();
    // This read was submitted before. It may succeed or fail, but it must end.
    match block_on(waiting) {
        Ok(values) => assert_eq!(values, [2.0; 1000]),
        Err(error) => assert_eq!(error.kind(), ErrorKind::DeviceLost, "{error}"),
    }
    refused(block_on(x.read::<f32>()), ErrorKind::DeviceLost, &["lost"]);
    refused(block_on(device.synchronize()), ErrorKind::DeviceLost, &["lost"]);
    refused(device.tensor(&[1.0f32], &[1]).map(|_| ()), ErrorKind::DeviceLost, &["lost"]);
    // wgpu reports the loss when the app polls the device.
    for _ in 0..100 {
        let _ = app.device.poll(wgpu::PollType::Poll);
        if app.lost.load(Ordering::Relaxed) {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    assert!(app.lost.load(Ordering::Relaxed), "the app was not told");
    assert_eq!(app.errors.lock().unwrap().len(), 1);
}

#[test]
fn a_lost_device_is_found_out_by_waiting() {
    let Some(app) = App::new() else { return };
    let device = app.share().unwrap();
    read(&device.ones(&[3]).unwrap());
    app.device.destroy();
    refused(block_on(device.synchronize()), ErrorKind::DeviceLost, &["lost"]);
}
