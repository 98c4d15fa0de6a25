//! Tests choosing kernels by measurement: on a backend with simulated times, and on a GPU.

use crate::suite::{absent, Place};
use crate::wrapper::{self, Wrapper};
use pollster::block_on;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Instant;
use warpweft::backend::cpu::CpuBackend;
use warpweft::backend::{Backend, BufferId, Info};
use warpweft::device::{Device, F16Matmul, KernelConfig, Rows, Tile, Transpose};
use warpweft::error::{Error, ErrorKind, Result};
use warpweft::kernel::{self, Limits, Plan};
use warpweft::tune::{tune, Tuned};
use warpweft_native::tuned::Store;

/// The effect of a batch on the simulated backend, by the kernels that it was planned for.
#[derive(Clone, Copy)]
enum Act {
    /// Takes this number of microseconds.
    Takes(u64),
    /// Takes one microsecond and gives wrong results.
    Lies,
    Fails(ErrorKind),
}

/// The CPU as a GPU, whose clock advances by the simulated times of batches.
struct MadeUp {
    cpu: CpuBackend,
    info: Info,
    limits: Limits,
    act: fn(KernelConfig) -> Act,
    clock: Arc<AtomicU64>,
}

impl MadeUp {
    fn device(subgroups: bool, act: fn(KernelConfig) -> Act) -> (Device, Arc<AtomicU64>) {
        let cpu = CpuBackend::new();
        let info = Info { backend: "made-up", ..cpu.info().clone() };
        let config = KernelConfig::GPU;
        let limits = Limits { subgroups, cooperative: subgroups, config, ..cpu.limits().clone() };
        let clock = Arc::new(AtomicU64::new(0));
        let machine = MadeUp { cpu, info, limits, act, clock: clock.clone() };
        (wrapper::device(machine), clock)
    }
}

impl Wrapper for MadeUp {
    fn inner(&self) -> &dyn Backend {
        &self.cpu
    }
    fn info(&self) -> &Info {
        &self.info
    }
    fn limits(&self) -> &Limits {
        &self.limits
    }
    fn run(&self, batch: &Arc<Plan>, buffers: &[BufferId], scalars: &[u32]) -> Result<()> {
        // The creation of operands is not measured.
        if batch.inputs == 0 {
            return self.cpu.run(batch, buffers, scalars);
        }
        let takes = match (self.act)(batch.config) {
            Act::Takes(time) => time,
            Act::Lies => {
                self.clock.fetch_add(1, Ordering::Relaxed);
                self.cpu.run(batch, buffers, scalars)?;
                let written = batch.slots.iter().zip(buffers);
                let mut written = written
                    .filter(|(slot, _)| matches!(slot.storage, kernel::SlotStorage::Output(_)));
                return written.try_for_each(|(_, &buffer)| self.write(buffer, 0, &[0; 4]));
            }
            Act::Fails(kind) => return Err(Error::new(kind, "run: made to fail")),
        };
        self.clock.fetch_add(takes, Ordering::Relaxed);
        self.cpu.run(batch, buffers, scalars)
    }
}

fn tuned(subgroups: bool, act: fn(KernelConfig) -> Act) -> (Device, Result<Tuned>) {
    let (device, clock) = MadeUp::device(subgroups, act);
    let tuned = block_on(tune(&device, || clock.load(Ordering::Relaxed) as f64 / 1e3));
    (device, tuned)
}

#[test]
fn the_fastest_kernels_are_chosen() {
    let (device, tuned) = tuned(true, |config| {
        let mut time = 1000;
        time -= 100 * u64::from(config.rows == Rows::Subgroups);
        time -= 100 * u64::from(config.matmul_tiles[0] == Tile::Thread);
        // Too small an improvement for a change.
        time -= 10 * u64::from(config.matmul_tiles[1] == Tile::Large);
        time -= 100 * u64::from(config.conv_tiles[2] == Tile::Small);
        time -= 100 * u64::from(!config.split_k_matmul);
        time -= 100 * u64::from(!config.fuse_short_attention);
        time -= 100 * u64::from(config.transpose == Transpose::Direct);
        time -= 100 * u64::from(config.f16_matmul == F16Matmul::CooperativeMatrices);
        Act::Takes(time)
    });
    let tuned = tuned.expect("it can be measured");
    let expected = KernelConfig {
        rows: Rows::Subgroups,
        matmul_tiles: [Tile::Thread, Tile::Medium, Tile::Large],
        conv_tiles: [Tile::Small, Tile::Medium, Tile::Small],
        split_k_matmul: false,
        split_k_conv: true,
        fuse_short_attention: false,
        fuse_long_attention: true,
        f16_matmul: F16Matmul::CooperativeMatrices,
        transpose: Transpose::Direct,
    };
    assert_eq!(tuned.config, expected);
    assert_eq!(device.kernel_config(), expected);
    // Three ways for rows, four for each kind of product and convolution, two for all others.
    assert_eq!(tuned.figures.len(), 3 + 6 * 4 + 6 * 2);
    let first = &tuned.figures[0];
    assert_eq!((first.config, first.milliseconds), (KernelConfig::GPU, Some(1.0)));
}

#[test]
fn what_is_wrong_is_refused_or_takes_long_is_not_chosen() {
    let (device, tuned) = tuned(false, |config| match config {
        KernelConfig { rows: Rows::Thread, .. } => Act::Lies,
        KernelConfig { fuse_short_attention: true, fuse_long_attention: false, .. } => {
            Act::Fails(ErrorKind::Unsupported)
        }
        KernelConfig { matmul_tiles: [Tile::Large, ..], .. } => Act::Takes(9000),
        KernelConfig { matmul_tiles: [Tile::Small, ..], .. } => Act::Takes(1000),
        _ => Act::Takes(500),
    });
    let tuned = tuned.expect("it can be measured");
    let unmeasured = tuned.figures.iter().filter(|figure| figure.milliseconds.is_none());
    let unmeasured: Vec<&str> = unmeasured.map(|figure| figure.work).collect();
    assert_eq!(unmeasured, ["rows", "few products", "attention"]);
    let expected = KernelConfig {
        matmul_tiles: [Tile::Thread, Tile::Medium, Tile::Large],
        ..KernelConfig::GPU
    };
    assert_eq!(device.kernel_config(), expected);
    // Without subgroup support, no subgroup kernels are tried.
    assert!(tuned.figures.iter().all(|figure| figure.config.rows != Rows::Subgroups));
    assert!(tuned.figures.iter().all(|figure| figure.config.f16_matmul == F16Matmul::Tiles));
    let subgroups = KernelConfig { rows: Rows::Subgroups, ..expected };
    for config in
        [subgroups, KernelConfig { f16_matmul: F16Matmul::CooperativeMatrices, ..expected }]
    {
        let error = device.set_kernel_config(config).expect_err("there are none");
        assert_eq!(error.kind(), ErrorKind::Unsupported);
    }
}

#[test]
fn where_the_usual_kernels_fail_nothing_changes() {
    let (device, tuned) = tuned(true, |_| Act::Fails(ErrorKind::Memory));
    assert_eq!(tuned.expect_err("nothing runs").kind(), ErrorKind::Memory);
    assert_eq!(device.kernel_config(), KernelConfig::GPU);
}

#[test]
fn on_a_gpu() {
    let backend = match Place::Plain.backend() {
        Ok(backend) => backend,
        Err(error) => return absent(Place::Plain, "choosing kernels", &error),
    };
    let device = Device::from_backend(backend, None);
    let x = device.tensor(&[1.0f32, 2.0, 3.0, 4.0], &[2, 2]).expect("data");
    let program =
        device.compile(&[], |_| Ok(vec![x.matmul(&x)?.sum(&[0])?])).expect("it can be planned");
    let used = device.stats().used_bytes;
    let start = Instant::now();
    let tuned = block_on(tune(&device, || start.elapsed().as_secs_f64() * 1e3)).expect("it runs");
    assert_eq!(tuned.config, device.kernel_config());
    let measured = |figure: &&warpweft::tune::Figure| figure.milliseconds.is_some();
    assert!(tuned.figures.iter().filter(measured).count() >= 8, "{:?}", tuned.figures);
    assert_eq!(device.stats().used_bytes, used, "its operands are gone");
    // Plans that were compiled before keep their kernels.
    assert_eq!(program.plan().expect("it was compiled").config, KernelConfig::EMULATED);
    let result = program.run(&[]).expect("it runs");
    assert_eq!(block_on(result[0].read::<f32>()).expect("it is read"), [22.0, 32.0]);
}

#[test]
fn numbers_stand_for_kernels() {
    let all: Vec<KernelConfig> = (0..1 << 21).filter_map(KernelConfig::from_number).collect();
    assert_eq!(all.len(), 3 * 4usize.pow(6) * 2usize.pow(6));
    assert!(all.iter().all(|config| KernelConfig::from_number(config.number()) == Some(*config)));
    assert_eq!(KernelConfig::from_number(u32::MAX), None);
    assert_eq!(
        KernelConfig::GPU.to_string(),
        "rows: shared memory; products: 32 x 32, 64 x 64, 128 x 128, convolutions: 32 x 32, 64 x 64, 128 x 128, \
        split-K; attention: fused, fused, transpose: tiled"
    );
}

#[test]
fn a_file_keeps_them() {
    let folder = std::env::temp_dir().join(format!("warpweft-kernels-{}", std::process::id()));
    let store = Store { file: folder.join("deep").join("kernels") };
    let info = |name: &str| Info { name: name.to_string(), ..CpuBackend::new().info().clone() };
    assert_eq!(store.load(&info("a")), None);
    store.store(&info("a"), KernelConfig::EMULATED).expect("it can be written");
    store.store(&info("b\tc\n"), KernelConfig::GPU).expect("it can be written");
    store.store(&info("a"), KernelConfig::GPU).expect("it can be written");
    assert_eq!(store.load(&info("a")), Some(KernelConfig::GPU));
    assert_eq!(store.load(&info("b\tc\n")), Some(KernelConfig::GPU));
    assert_eq!(store.load(&info("c")), None);
    assert_eq!(std::fs::read_to_string(&store.file).expect("text").lines().count(), 2);
    // The file does not grow without limit.
    for n in 0..100 {
        store.store(&info(&n.to_string()), KernelConfig::EMULATED).expect("it can be written");
    }
    assert_eq!(store.load(&info("a")), None);
    assert_eq!(store.load(&info("99")), Some(KernelConfig::EMULATED));
    // A damaged file counts as empty.
    for damage in ["", "\n\t\n", "99999999999999999999\tx", "x\0\u{1}"] {
        std::fs::write(&store.file, damage).expect("it can be written");
        assert_eq!(store.load(&info("99")), None);
    }
    let key = |number: &str| format!("{number}\t{}", env!("CARGO_PKG_VERSION"));
    std::fs::write(&store.file, key("4294967295")).expect("it can be written");
    assert_eq!(store.load(&info("99")), None);
    std::fs::write(&store.file, vec![b'1'; 1 << 20]).expect("it can be written");
    store.store(&info("99"), KernelConfig::EMULATED).expect("it is written anew");
    assert_eq!(store.load(&info("99")), Some(KernelConfig::EMULATED));
    std::fs::remove_dir_all(folder).expect("it is ours");
}
