//! The tasks of child processes, which compute on the mock of NVIDIA's driver.

use crate::toy_reference::Toy;
use std::io::Cursor;
use warpweft_native::error::ErrorKind;
use warpweft_native::model::{GenerateOptions, LanguageModel, LoadOptions};
use warpweft_native::nn::{Generator, Layer, Linear, LossReduction, Module, Sequential};
use warpweft_native::optim::{Adam, Optimizer};
use warpweft_native::prelude::*;

/// The bytes of a chunk of pinned memory of the backend.
const CHUNK: usize = 4 << 20;

/// Opens the mock.
fn cuda() -> Device {
    let device = Device::with_blocking(Preference::parse("cuda")).expect("the mock");
    assert_eq!((device.info().backend, &*device.info().vendor), ("cuda", "NVIDIA"));
    device
}

/// Runs a task by its name.
pub fn run(task: &str) {
    match task {
        "train" => train(),
        "generate" => generate(),
        "select" => select(),
        "copies" => copies(),
        "memory" => memory(),
        "lost" => lost(),
        "refused" => refused(),
        "profile" => profile(),
        "sum" => sum(&cuda()),
        "evict" => evict(),
        "log" => log(),
        "fallback" => fallback(),
        task => panic!("there is no task {task}"),
    }
}

/// Compares numbers with an error relative to the largest one.
fn assert_close(got: &[f32], want: &[f32]) {
    assert_eq!(got.len(), want.len());
    let scale = want.iter().fold(1e-3f32, |most, x| most.max(x.abs()));
    for (n, (got, want)) in got.iter().zip(want).enumerate() {
        assert!((got - want).abs() <= 1e-4 * scale, "number {n}: {got}, not {want}");
    }
}

/// Trains a small network with Adam. Returns the losses and the parameters.
fn trained(device: &Device) -> Result<Vec<f32>> {
    let generator = Generator::new(device, 7);
    let model = Sequential::new()
        .push(Linear::new(&generator, 3, 8)?)
        .push(|x: &Tensor| Ok(x.tanh()))
        .push(Linear::new(&generator, 8, 2)?);
    let numbers: Vec<f32> = (0..30).map(|n| (n as f32 * 0.7).sin()).collect();
    let x = device.tensor(&numbers, &[10, 3])?;
    let y = device.tensor(&numbers[..20], &[10, 2])?;
    let mut optimizer = Optimizer::new(Adam::new(0.05), &model.parameters())?;
    let mut all = Vec::new();
    for _ in 0..4 {
        let loss = model.forward(&x)?.mse_loss(&y, LossReduction::Mean)?;
        optimizer.minimize(&loss)?;
        all.push(loss.item_blocking::<f32>()?);
    }
    assert!(all[3] < all[0], "{all:?}");
    for parameter in model.parameters() {
        all.extend(parameter.value().read_blocking::<f32>()?);
    }
    Ok(all)
}

fn train() {
    let cpu = Device::with_blocking(Preference::Cpu).expect("the CPU");
    assert_close(&trained(&cuda()).expect("on CUDA"), &trained(&cpu).expect("on the CPU"));
}

/// Continues a text with a model of random weights. The expected logits come from plain loops.
fn generate() {
    let toy = Toy::new(false, None, true);
    let options = LoadOptions { context: Some(16), ..LoadOptions::default() };
    let model = LanguageModel::load(&cuda(), Cursor::new(toy.file()), options).expect("a model");
    let mut context = model.context().expect("a context");
    let mut seen = vec![3, 14, 15];
    let options = GenerateOptions { max_tokens: Some(4), ..GenerateOptions::default() };
    for token in context.generate(&seen.clone(), options).expect("a generation").tokens_blocking() {
        let logits = toy.logits(&seen).pop().expect("logits");
        let likeliest = (0..logits.len()).max_by(|&a, &b| logits[a].total_cmp(&logits[b]));
        let token = token.expect("a token").id;
        assert_eq!(Some(token as usize), likeliest);
        seen.push(token);
    }
    assert_eq!(seen.len(), 7);
}

/// Opens two GPUs in all ways. Without a name, CUDA comes first.
fn select() {
    let found = Device::discover_blocking();
    let names: Vec<&str> = found.iter().take(2).map(|found| &*found.info.name).collect();
    assert_eq!(names, ["Mock GPU 0", "Mock GPU 1"]);
    assert!(found[0].recommended);
    for (word, name) in [
        ("auto", "Mock GPU 0"),
        ("gpu", "Mock GPU 0"),
        ("cuda", "Mock GPU 0"),
        ("1", "Mock GPU 1"),
        ("mock gpu 1", "Mock GPU 1"),
    ] {
        let device = Device::with_blocking(Preference::parse(word)).expect(word);
        assert_eq!((device.info().backend, &*device.info().name), ("cuda", name), "{word}");
        sum(&device);
    }
    // The variable of the test is for the whole process.
    let device = Device::new_blocking().expect("the device of WARPWEFT_DEVICE");
    assert_eq!(device.info().name, "Mock GPU 1");
    let cpu = Device::with_blocking(Preference::Cpu).expect("the CPU");
    assert_eq!(cpu.info().backend, "cpu");
}

/// Adds numbers up.
fn sum(device: &Device) {
    let x = device.tensor(&[1.0f32, 2.0, 3.5], &[3]).expect("a tensor");
    let sum = x.sum(&[]).and_then(|sum| sum.item_blocking::<f32>()).expect("a number");
    assert_eq!(sum, 6.5);
}

/// Copies data of several sizes, with reads that wait for others, are finished in another order, or are dropped.
fn copies() {
    let device = cuda();
    for len in [1, CHUNK / 4, CHUNK / 4 + 1, 5 * CHUNK / 4 + 3] {
        let numbers: Vec<u32> = (0..len as u32).map(|n| n.wrapping_mul(2_654_435_761)).collect();
        let x = device.tensor(&numbers, &[len]).expect("a tensor");
        // The numbers may be changed after the call.
        let expected = numbers.clone();
        drop(numbers);
        assert!(x.read_blocking::<u32>().expect("numbers") == expected, "{len} numbers");
    }
    let tensors: Vec<Tensor> =
        (0..5).map(|n| device.full(&[100], f64::from(n), DType::I32).expect("a tensor")).collect();
    let mut reads: Vec<_> = tensors.iter().map(|tensor| tensor.read::<i32>()).collect();
    drop(reads.remove(0));
    for (n, read) in reads.into_iter().enumerate().rev() {
        assert_eq!(pollster::block_on(read).expect("numbers"), vec![n as i32 + 1; 100]);
    }
    let staging = device.memory().staging as usize;
    assert!((1..=4 * CHUNK).contains(&staging), "{staging}");
    // A read that is alive is finished after its device was dropped.
    let read = tensors[3].read::<i32>();
    drop((tensors, device));
    assert_eq!(pollster::block_on(read).expect("numbers"), [3; 100]);
}

/// Allocates more memory than the GPU has. The error must be `Memory`, and later operations must work.
fn memory() {
    let device = cuda();
    let kept = device.tensor(&[1.5f32; 100], &[100]).expect("a small tensor");
    let large = device.full(&[64 << 20], 1.0, DType::F32).and_then(|x| x.read_blocking::<f32>());
    let error = large.expect_err("more than there is");
    assert_eq!(error.kind(), ErrorKind::Memory, "{error}");
    assert!(error.message().contains("CUDA_ERROR_OUT_OF_MEMORY (2)"), "{error}");
    assert_eq!(kept.read_blocking::<f32>().expect("numbers"), [1.5; 100]);
    sum(&device);
}

/// Loses the device, which stays lost. Another device of the process is not.
fn lost() {
    let device = cuda();
    let x = device.tensor(&[1.0f32, 2.0], &[2]).expect("a tensor");
    let error = x.exp().read_blocking::<f32>().expect_err("the launch fails");
    assert_eq!(error.kind(), ErrorKind::DeviceLost, "{error}");
    assert!(error.message().contains("CUDA_ERROR_ILLEGAL_ADDRESS (700)"), "{error}");
    for _ in 0..2 {
        let errors = [
            x.read_blocking::<f32>().map(drop),
            x.sin().read_blocking::<f32>().map(drop),
            device.tensor(&[0.0f32; 999], &[999]).map(drop),
            device.synchronize_blocking(),
        ];
        for error in errors {
            let error = error.expect_err("the device is lost");
            assert_eq!(error.kind(), ErrorKind::DeviceLost, "{error}");
        }
    }
    drop(x);
    let again = pollster::block_on(device.reopen()).map(drop).expect_err("the context is shared");
    assert_eq!(again.kind(), ErrorKind::NoDevice, "{again}");
    drop(device);
    sum(&cuda());
}

/// Computes although one kernel is refused.
fn refused() {
    let device = cuda();
    let x = device.tensor(&[1.0f32, 2.0], &[2]).expect("a tensor");
    let error = x.exp().read_blocking::<f32>().expect_err("the kernel is refused");
    assert_eq!(error.kind(), ErrorKind::InvalidState, "{error}");
    assert!(error.message().contains("CUDA_ERROR_INVALID_PTX (218)"), "{error}");
    sum(&device);
}

/// Fails with the log of a compiler that does not know the GPU.
fn log() {
    let error = Device::with_blocking(Preference::parse("cuda")).expect_err("no kernel compiles");
    assert_eq!(error.kind(), ErrorKind::NoDevice, "{error}");
    let log = "CUDA_ERROR_INVALID_PTX (218): an error of the mock; its log: the target must be at most sm_80";
    assert!(error.message().contains(log), "{error}");
}

/// Opens the best device that works.
fn fallback() {
    let found = Device::discover_blocking();
    assert_eq!(found[0].info.backend, "cuda");
    let device = Device::with_blocking(Preference::Auto).expect("another device");
    assert_ne!(device.info().backend, "cuda");
    sum(&device);
}

/// Measures times of kernels.
fn profile() {
    let device = cuda();
    let x = device.uniform(&[8, 8], 0.0, 1.0, 1).expect("a tensor");
    let work = || x.matmul(&x)?.softmax(-1)?.read_blocking::<f32>();
    let (_, profile) = device.profile_blocking(work).expect("a profile");
    let kernels = profile.kernels();
    assert!(kernels.len() > 1, "{profile}");
    assert!(profile.to_string().contains("timestamps"), "{profile}");
    // The mock's clock counts operations, so each kernel takes a microsecond or two.
    for kernel in kernels {
        assert!((1000..10_000).contains(&kernel.mean().as_nanos()), "{profile}");
    }
    sum(&device);
}

/// Compiles more kernels than are kept.
fn evict() {
    let device = cuda();
    let limits = device.cache_limits();
    device.set_cache_limits(warpweft_native::device::CacheLimits { plans: 4, ..limits });
    for n in 1..90 {
        let x = device.full(&[n], 1.0, DType::F32).expect("a tensor");
        let x = (0..n % 9).fold(x, |x, _| x.sin());
        x.add(n as f64).and_then(|x| x.run()).expect("it runs");
    }
    device.synchronize_blocking().expect("it works");
}
