//! Runs the CUDA backend without a GPU. An interpreter executes the PTX of its kernels, and detects accesses out of bounds,
//! races and barriers that some threads miss. The suite runs cases on it (`on_cuda_interpreter`).

use crate::shaders::{kernels, samples, source};
use crate::suite::{every, required_name, say};
use ptx_interpreter::{Argument, Launch, Memory, Module};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use warpweft::backend::{Backend, DeviceKind, Info};
use warpweft::device::Device;
use warpweft::dtype::DType;
use warpweft::error::{Error, Result};
use warpweft::kernel::{KernelConfig, Limits};
use warpweft_native::cuda::ptx::{self, Bounds, Kernel, Options};
use warpweft_native::cuda::{self, CudaBackend, Stream};
use warpweft_native::TensorBlocking;

/// The architecture that kernels are translated for.
const SM: u32 = 90;

/// The kernels on tensor cores that the suite has loaded so far.
pub static TENSOR_CORE_KERNELS: AtomicUsize = AtomicUsize::new(0);

/// A stream whose kernels an interpreter runs.
struct Interpreter {
    memory: Mutex<Memory>,
    /// Counts the loaded kernels that use tensor cores.
    tensor_core_kernels: &'static AtomicUsize,
}

/// A kernel, and the name of its entry point.
struct Function {
    module: Module,
    name: String,
    dynamic_shared_bytes: usize,
}

impl Interpreter {
    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Converts an error of the interpreter. The case that caused it must fail.
fn failed(error: ptx_interpreter::Error) -> Error {
    Error::state(format!("interpreter: {error}"))
}

impl Stream for Interpreter {
    type Function = Function;
    type Download = Vec<u8>;

    fn allocate(&self, bytes: u64) -> Result<u64> {
        Ok(self.memory().alloc(bytes as usize))
    }

    fn free(&self, address: u64) {
        self.memory().free(address);
    }

    fn write(&self, address: u64, data: &[u8]) -> Result<()> {
        self.memory().write(address, data).map_err(failed)
    }

    fn read(&self, address: u64, len: usize) -> Result<Vec<u8>> {
        self.memory().read(address, len).map_err(failed)
    }

    fn finish(&self, download: Vec<u8>) -> Result<Vec<u8>> {
        Ok(download)
    }

    fn load(&self, kernel: &Kernel) -> Result<Function> {
        let module = Module::parse(&kernel.ptx).map_err(failed)?;
        let on_tensor_cores = kernel.ptx.contains("mma.sync");
        self.tensor_core_kernels.fetch_add(usize::from(on_tensor_cores), Ordering::Relaxed);
        let dynamic_shared_bytes = kernel.dynamic_shared_bytes as usize;
        Ok(Function { module, name: kernel.symbol.clone(), dynamic_shared_bytes })
    }

    fn launch(&self, function: &Function, launch: &cuda::Launch) -> Result<()> {
        let arguments: Vec<Argument> = launch
            .bindings
            .iter()
            .flat_map(|&(address, bytes)| [Argument::Pointer(address), Argument::U64(bytes)])
            .collect();
        // All invocations of a WGSL shader may write one value to one place.
        let run = Launch::new(launch.grid, launch.workgroup_size)
            .with_shared(function.dynamic_shared_bytes)
            .with(|options| options.allow_equal_writes = true);
        let ran = function.module.run(&function.name, &run, &mut self.memory(), &arguments);
        ran.map(drop).map_err(failed)
    }

    fn synchronize(&self) -> Result<()> {
        Ok(())
    }
}

/// Opens a backend on the interpreter, with these kernels.
pub fn interpreter(config: KernelConfig) -> Box<dyn Backend> {
    counting(config, &TENSOR_CORE_KERNELS)
}

/// Like [`interpreter`], with another counter of kernels on tensor cores.
fn counting(config: KernelConfig, tensor_core_kernels: &'static AtomicUsize) -> Box<dyn Backend> {
    let info = Info {
        backend: "cuda",
        name: format!("interpreter of sm_{SM}"),
        vendor: String::new(),
        kind: DeviceKind::Software,
        driver: String::new(),
    };
    let limits = Limits { config, ..CudaBackend::<Interpreter>::limits_of(SM) };
    let stream = Interpreter { memory: Mutex::default(), tensor_core_kernels };
    Box::new(CudaBackend::new(stream, info, limits, SM))
}

/// The architectures that kernels are assembled for: Turing, Ampere, Hopper and two of Blackwell.
const ARCHITECTURES: [u32; 5] = [75, 80, 90, 100, 120];

/// Returns the path of NVIDIA's assembler. If it is missing, a message says so, or the test fails if `WARPWEFT_REQUIRE` names
/// it.
fn ptxas() -> Option<PathBuf> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(".tools/ptxas");
    if path.exists() {
        return Some(path);
    }
    assert!(!required_name("ptxas"), "WARPWEFT_REQUIRE names ptxas; `npm run setup` gets it");
    say("cuda: kernels NOT ASSEMBLED, because there is no ptxas; `npm run setup` gets it");
    None
}

/// Assembles a kernel, and returns what `ptxas` says of its registers and spills.
fn assemble(ptxas: &Path, folder: &Path, ptx: &str, sm: u32) -> String {
    let file = folder.join("kernel.ptx");
    std::fs::write(&file, ptx).expect("a writable folder");
    let mut command = Command::new(ptxas);
    command.arg("-v").arg(format!("-arch=sm_{sm}")).args(["-o", "/dev/null"]).arg(&file);
    let output = command.output().expect("ptxas starts");
    let report = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "sm_{sm}: {report}\n{ptx}");
    report
}

/// Tests that all kernels are translated, and that NVIDIA's assembler accepts them without spilling registers to memory.
#[test]
fn every_kernel_is_translated_and_assembled() {
    let (ptxas, mut texts) = (ptxas(), BTreeSet::new());
    let folder = std::env::temp_dir().join(format!("warpweft-ptx-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a writable folder");
    let (mut assembled, mut spilled) = (0, Vec::new());
    for (name, kernel) in samples() {
        for config in kernels::configs() {
            let text = source(&kernel, config).text;
            if text.contains("coop_mat") || !texts.insert(text.clone()) {
                continue;
            }
            let sm = ARCHITECTURES[texts.len() % ARCHITECTURES.len()];
            let (bounds, max_registers) = (Bounds::Checked, Some(255));
            let options = Options { sm, bounds, max_registers, ..Options::default() };
            let translated = ptx::translate_entry(&text, "main", &options);
            let translated = translated.unwrap_or_else(|error| panic!("{name}: {error}\n{text}"));
            // `ptxas` takes a tenth of a second for a kernel.
            let Some(ptxas) = ptxas.as_ref().filter(|_| texts.len() % (4 * every()) == 0) else {
                continue;
            };
            let report = assemble(ptxas, &folder, &translated.ptx, sm);
            assembled += 1;
            if !report.contains(" 0 bytes spill stores") {
                spilled.push(format!("{name}, sm_{sm}: {report}"));
            }
        }
    }
    std::fs::remove_dir_all(&folder).expect("the folder is there");
    assert!(texts.len() > 400, "{} kernels", texts.len());
    assert!(ptxas.is_none() || assembled * 5 * every() > texts.len(), "{assembled} assembled");
    assert!(spilled.is_empty(), "{}", spilled.join("\n"));
}

/// Runs a loop with changing sizes that reads only sometimes, drops results, and has failing calls in between.
#[test]
fn nothing_grows_in_a_loop() {
    let device = Device::from_backend(interpreter(kernels::configs()[0]), None);
    let mut flat = None;
    for step in 0..2000 / every() {
        let n = 1 + step % 24;
        let x = device.full(&[n, 8], step as f64, DType::F32).expect("x");
        let y = x.mul(2).and_then(|y| y.sum(&[1])).expect("y");
        x.matmul(&device.ones(&[9, 2]).expect("ones")).expect_err("another extent");
        match step % 3 {
            0 => {
                assert_eq!(y.read_blocking::<f32>().expect("numbers"), vec![16.0 * step as f32; n])
            }
            1 => y.run().expect("it runs"),
            _ => {}
        }
        if step > 150 && n == 24 {
            let stats = device.stats();
            let held = (stats.buffers, stats.pipelines_held, stats.used_bytes);
            assert_eq!(*flat.get_or_insert(held), held, "step {step}");
        }
    }
    assert!(flat.is_some());
}

/// Tests that matmuls of `f16` tensors use tensor cores, and that matmuls of `f32` do not.
#[test]
fn f16_matmuls_use_tensor_cores() {
    static USED: AtomicUsize = AtomicUsize::new(0);
    let config = CudaBackend::<Interpreter>::limits_of(SM).config;
    let device = Device::from_backend(counting(config, &USED), None);
    for (dtype, is_used) in [(DType::F32, false), (DType::F16, true)] {
        let number = |i: usize| (i % 7) as f32 - 3.0;
        let tensor = |rows: usize, columns: usize| {
            let numbers: Vec<f32> = (0..rows * columns).map(number).collect();
            device.tensor(&numbers, &[rows, columns]).and_then(|x| x.cast(dtype)).expect("numbers")
        };
        let product = tensor(33, 40).matmul(&tensor(40, 50)).expect("a product");
        let sum = product.relu().cast(DType::F32).expect("numbers");
        let got = sum.read_blocking::<f32>().expect("numbers");
        for (i, got) in got.iter().enumerate() {
            let (row, column) = (i / 50, i % 50);
            let want = (0..40).map(|k| number(40 * row + k) * number(50 * k + column)).sum::<f32>();
            assert_eq!(*got, want.max(0.0), "{dtype:?}: {i}");
        }
        assert_eq!(USED.load(Ordering::Relaxed) > 0, is_used, "{dtype:?}");
    }
}
