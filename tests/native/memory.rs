//! Tests memory reports, against sizes counted by hand and against the counters of the backends.

use crate::suite::{absent, Place};
use pollster::block_on;
use warpweft::device::{Device, MemoryReport};
use warpweft::dtype::DType;
use warpweft::error::{ErrorKind, Result};
use warpweft::nn::{
    Conv2d, CrossEntropyOptions, Generator, Layer, Linear, Lstm, Module, RecurrentOptions,
    Sequential,
};
use warpweft::op::{PackedArithmetic, PackedFormat};
use warpweft::optim::{Adam, Optimizer};
use warpweft::tensor::{ConvOptions, PackedTensor, Padding, PoolOptions, Tensor, Variable};

const PLACES: [Place; 3] = [Place::Cpu, Place::Wgpu, Place::Plain];

fn devices(test: &str) -> Vec<Device> {
    let open = |place: Place| place.open().map_err(|error| absent(place, test, &error)).ok();
    PLACES.into_iter().filter_map(open).collect()
}

/// Returns the report. Checks that its parts add up to the memory of the backend.
fn report(device: &Device) -> MemoryReport {
    let (memory, stats) = (device.memory(), device.stats());
    let MemoryReport { tensors, variables, constants, pending, temporaries, pooled, .. } = memory;
    let used = tensors + variables + constants + pending + temporaries;
    assert_eq!((memory.allocated, used + pooled), (stats.bytes, stats.bytes), "{memory}");
    assert_eq!((used, memory.peak), (stats.used_bytes, stats.peak_bytes), "{memory}");
    let MemoryReport { peak_uploaded, peak_computed, peak_temporaries, .. } = memory;
    assert_eq!(peak_uploaded + peak_computed + peak_temporaries, memory.peak, "{memory}");
    memory
}

/// Returns a tensor of `bytes` bytes, which must be a size class of the pool.
fn data(device: &Device, bytes: usize) -> warpweft::tensor::Tensor {
    device.tensor(&vec![1.0f32; bytes / 4], &[bytes / 4]).expect("data")
}

#[test]
fn each_holder_has_its_bytes() {
    for device in devices("memory/holders") {
        let a = data(&device, 1 << 12);
        let variable = Variable::new(&data(&device, 1 << 13));
        // The program keeps this constant after its handle is dropped.
        let kept = data(&device, 1 << 14);
        let shape: &[usize] = &[1 << 12];
        let program = device
            .compile(&[(shape, DType::F32)], |x| Ok(vec![x[0].add(&kept)?]))
            .expect("it is compiled");
        assert_eq!(report(&device).tensors, (1 << 12) + (1 << 14));
        drop(kept);
        // The square is still pending.
        let x = a.exp();
        x.run().expect("computed");
        let y = x.square();
        drop(x);
        let memory = report(&device);
        let held = (memory.tensors, memory.variables, memory.constants, memory.pending);
        assert_eq!(held, (1 << 12, 1 << 13, 1 << 14, 1 << 12), "{memory}");
        assert_eq!(memory.temporaries, 0);
        let listed: Vec<(u64, &str, &str)> =
            memory.largest.iter().map(|held| (held.bytes, held.op, held.holder)).collect();
        let expected = [
            (1 << 14, "data", "constant"),
            (1 << 13, "data", "variable"),
            (1 << 12, "data", "tensor"),
            (1 << 12, "exp", "pending"),
        ];
        assert_eq!(listed, expected, "{memory}");
        assert_eq!(memory.largest[0].shape, [1 << 12]);
        let printed = memory.to_string();
        assert!(printed.contains("16.00 KiB  f32 [4096] data (constant)"), "{printed}");
        drop((a, y, program, variable));
        let memory = report(&device);
        assert_eq!(memory.allocated, memory.pooled, "{memory}");
        device.trim();
        assert_eq!(report(&device).allocated, 0);
    }
}

#[test]
fn a_value_belongs_to_its_variable_while_that_is_there() {
    for device in devices("memory/variables") {
        let (first, second) = (data(&device, 1 << 12), data(&device, 1 << 12));
        let variable = Variable::new(&first);
        let held = |device: &Device| {
            let memory = report(device);
            (memory.tensors, memory.variables)
        };
        assert_eq!(held(&device), (1 << 12, 1 << 12));
        variable.assign(&second).expect("assigned");
        assert_eq!(held(&device), (1 << 12, 1 << 12));
        let other = Variable::new(&second);
        drop(variable);
        assert_eq!(held(&device), (1 << 12, 1 << 12));
        drop(other);
        assert_eq!(held(&device), (2 << 12, 0));
        // Steps of a loop leave no memory behind.
        let variable = Variable::new(&second);
        for _ in 0..10 {
            let next = variable.value().mul(0.5).expect("recorded");
            variable.assign(&next).expect("assigned");
            device.submit().expect("computed");
        }
        drop((first, second));
        assert_eq!(held(&device), (0, 1 << 12));
    }
}

#[test]
fn the_peak_says_what_it_was() {
    for device in devices("memory/peak") {
        let x = data(&device, 1 << 16);
        let memory = report(&device);
        assert_eq!((memory.peak, memory.peak_uploaded), (1 << 16, 1 << 16));
        assert_eq!(memory.peak_by, "an upload of f32 [16384]");
        let y = x.reshape(&[128, 128]).expect("recorded");
        let y = y.matmul(&y).expect("recorded").softmax(-1).expect("recorded");
        y.matmul(&y).expect("recorded").run().expect("computed");
        let memory = report(&device);
        let plan = device.last_plan().expect("it was run");
        let [temporaries, results] =
            [&plan.temporaries, &plan.outputs].map(|all| all.iter().sum::<u64>());
        let of = (memory.peak_uploaded, memory.peak_computed, memory.peak_temporaries);
        assert!(temporaries > 0, "{plan}");
        assert_eq!(of, (1 << 16, results, temporaries), "{memory}");
        let first = &plan.dispatches[0].label;
        let by = format!("a batch of {} kernels from {first} on", plan.dispatches.len());
        assert_eq!(memory.peak_by, by);
        // Later batches that need less memory do not change the peak.
        drop(block_on(x.read::<f32>()).expect("read"));
        assert_eq!(report(&device).peak, memory.peak);
    }
}

#[test]
fn what_goes_through_is_staging() {
    let Ok(device) = Place::Wgpu.open() else { return };
    let x = data(&device, 8 << 20);
    block_on(x.exp().read::<f32>()).expect("read");
    let memory = report(&device);
    assert!((8 << 20..64 << 20).contains(&memory.staging), "{memory}");
    let cpu = Place::Cpu.open().expect("the CPU is there");
    block_on(data(&cpu, 1 << 16).exp().read::<f32>()).expect("read");
    assert_eq!(report(&cpu).staging, 0);
}

/// Tests ten thousand products that are not awaited, of 1 to 11 rows, exact and with activations of 8 bits. Lookups,
/// assignments, gradients and failed calls are in between.
#[test]
fn a_long_loop_of_packed_products_stays_flat() {
    for device in devices("memory/packed") {
        let rounds = if device.info().backend == "cpu" { 10_000 } else { 2_000 };
        packed_products(&device, rounds).expect("the products");
    }
}

fn packed_products(device: &Device, rounds: usize) -> Result<()> {
    let words = vec![0x3c3c_3c3c; 5 * PackedFormat::Q4_1.row_words(64)];
    let exact = PackedTensor::new(device, PackedFormat::Q4_1, [5, 64], &words)?;
    let rounded = exact.clone().with_arithmetic(PackedArithmetic::Int8);
    let want: f32 = block_on(exact.dequantize()?.read::<f32>())?[..64].iter().sum();
    let is_right = |x: &Tensor, factor: f32| -> Result<()> {
        for got in block_on(x.read::<f32>())? {
            let error = (got - factor * want).abs();
            assert!(error < 1e-4 * factor * want, "{got}, not {factor} x {want}");
        }
        Ok(())
    };
    let last = Variable::new(&device.zeros(&[5])?);
    let index = device.tensor(&[4, 0], &[2])?;
    let mut early = None;
    for n in 0..rounds {
        let matrix = if n % 2 == 0 { &exact } else { &rounded };
        let x = device.full(&[1 + n % 11, 64], 2.0, DType::F32)?;
        let product = matrix.linear(&x)?;
        match n % 20 {
            3 => last.assign(&product.slice(0, 0..1)?.squeeze(0)?.detach())?,
            7 => drop(matrix.rows(&index)?.add(&x.slice(0, 0..1)?)?),
            11 => drop(product.sum(())?.grad(&[&x])?),
            13 => {
                let refused = matrix.linear(&x.slice(1, 0..63)?).map(drop);
                assert_eq!(refused.expect_err("63 columns").kind(), ErrorKind::Shape);
            }
            _ => product.run()?,
        }
        if n + 1 == rounds / 5 || n + 1 == rounds {
            is_right(&product, 2.0)?;
            is_right(&last.value(), 2.0)?;
            drop((x, product));
            let stats = device.stats();
            let now = (stats.plans, stats.used_bytes, stats.peak_bytes, stats.nodes);
            let before = *early.get_or_insert(now);
            assert_eq!(now, before, "plans, bytes in use, most bytes, nodes");
        }
    }
    Ok(())
}

fn relu(x: &Tensor) -> Result<Tensor> {
    Ok(x.relu())
}

/// Returns the network 784 -> 512 -> 256 -> 10, and the number of elements per image that the backward pass needs from the
/// forward pass.
fn dense(generator: &Generator) -> Result<(Sequential, usize)> {
    let model = Sequential::new()
        .push(|x: &Tensor| x.flatten(1..))
        .push(Linear::new(generator, 784, 512)?)
        .push(relu)
        .push(Linear::new(generator, 512, 256)?)
        .push(relu)
        .push(Linear::new(generator, 256, 10)?);
    Ok((model, 784 + 512 + 256 + 10))
}

/// Returns a network of two convolutions and two dense layers. The backward pass needs the inputs and the results of pooling.
fn convolutions(generator: &Generator) -> Result<(Sequential, usize)> {
    let same = ConvOptions { padding: Padding::Same, ..ConvOptions::default() };
    let pool = |x: &Tensor| x.max_pool(PoolOptions::new([2, 2]));
    let model = Sequential::new()
        .push(Conv2d::new(generator, 1, 16, [3, 3], same)?)
        .push(relu)
        .push(pool)
        .push(Conv2d::new(generator, 16, 32, [3, 3], same)?)
        .push(relu)
        .push(pool)
        .push(|x: &Tensor| x.flatten(1..))
        .push(Linear::new(generator, 32 * 49, 128)?)
        .push(relu)
        .push(Linear::new(generator, 128, 10)?);
    let (first, second) = (16 * 784, 32 * 196);
    // The operand and the result of each pooling, which say which elements were the largest.
    let pooled = first + first / 4 + second + second / 4;
    Ok((model, 784 + pooled + first + 128 + 10))
}

/// Returns an LSTM over the rows of an image. The backward pass needs the four gates of each step, their gradients, the cell,
/// its `tanh` and the result.
fn recurrent(generator: &Generator) -> Result<(Sequential, usize)> {
    let model = Sequential::new()
        .push(|x: &Tensor| x.reshape(&[-1, 28, 28]))
        .push(Lstm::new(generator, 28, 128, RecurrentOptions::default())?)
        .push(|x: &Tensor| x.select(1, -1))
        .push(Linear::new(generator, 128, 10)?);
    Ok((model, 784 + 28 * 11 * 128 + 10))
}

#[test]
fn a_step_of_training_takes_what_its_parts_take() {
    type Make = fn(&Generator) -> Result<(Sequential, usize)>;
    // The mask of the largest elements of a window is computed before it is needed, so convolutions take more memory.
    let models: [(&str, Make, usize, u64); 4] = [
        ("dense", dense, 64, 120),
        ("dense", dense, 512, 120),
        ("convolutions", convolutions, 64, 160),
        ("recurrent", recurrent, 64, 120),
    ];
    for (name, make, count, percent) in models {
        for place in [Place::Cpu, Place::Wgpu] {
            let device = match place.open() {
                Ok(device) => device,
                Err(error) => {
                    absent(place, "memory/training", &error);
                    continue;
                }
            };
            let peak = || -> Result<[u64; 2]> {
                let (model, saved) = make(&Generator::new(&device, 0))?;
                let x = device.normal(&[count, 1, 28, 28], 0.0, 1.0, 1)?;
                let y = device.arange(count as f64)?.cast(DType::I32)?.remainder(10)?;
                let mut optimizer = Optimizer::new(Adam::new(1e-4), &model.parameters())?;
                let size = |w: &Variable| w.shape().iter().product::<usize>();
                let elements: usize = model.parameters().iter().map(size).sum();
                // Parameters, gradients and two averages.
                let parts = 4 * (4 * elements + count * saved);
                for _ in 0..4 {
                    let scores = model.forward(&x)?;
                    let loss = scores.cross_entropy(&y, CrossEntropyOptions::default())?;
                    optimizer.minimize(&loss)?;
                    assert!(block_on(loss.item::<f32>())?.is_finite());
                }
                Ok([device.stats().peak_bytes, parts as u64])
            };
            let [peak, parts] = peak().expect("it trains");
            let report = device.memory();
            assert!(
                100 * peak <= percent * parts,
                "{name} {count} {place:?}: {peak} of {parts}, {report}"
            );
        }
    }
}
