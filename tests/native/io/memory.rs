//! Tests files that are larger than the free memory. Each test runs in a separate process with a limit of memory.
#![cfg(target_os = "linux")]

use pollster::block_on;
use std::collections::BTreeMap;
use std::process::Command;
use warpweft::backend::cpu::CpuBackend;
use warpweft::device::Device;
use warpweft::dtype::DType;
use warpweft::error::{ErrorKind, Result};
use warpweft::io;
use warpweft::tensor::Tensor;

const CHILD: &str = "WARPWEFT_TEST_IO_MEMORY";

/// Runs `work` in a process that runs only the test of this name, with a limit of memory.
fn alone(test: &str, megabytes: u64, work: impl FnOnce()) {
    let test = format!("io::memory::{test}");
    if std::env::var(CHILD).is_ok_and(|child| child == test) {
        return work();
    }
    let limit = megabytes << 10;
    let script =
        format!("ulimit -v {limit}; exec \"$0\" --exact {test} --nocapture --test-threads=1");
    let program = std::env::current_exe().expect("it runs");
    let child = Command::new("sh").args(["-c", &script]).arg(program).env(CHILD, &test).output();
    let child = child.expect("there is a shell");
    let stdout = String::from_utf8_lossy(&child.stdout);
    let passed = child.status.success() && stdout.contains("1 passed");
    assert!(passed, "{stdout}{}", String::from_utf8_lossy(&child.stderr));
}

/// Returns a device with one thread, because each thread reserves addresses.
fn cpu() -> Device {
    Device::from_backend(Box::new(CpuBackend::with_threads(1)), None)
}

/// Returns a computed tensor of 1 GiB.
fn large() -> (Device, Tensor) {
    let device = cpu();
    let x = device.full(&[1 << 28], 7.0, DType::F32).expect("it is recorded");
    x.run().expect("there is room for one");
    (device, x)
}

/// Checks that a file is rejected because memory is short, in the name of an operation.
fn lacks_memory<T>(name: &str, file: Result<T>) {
    let Err(error) = file else { panic!("{name}: there was memory for it") };
    assert_eq!(error.kind(), ErrorKind::Memory, "{error}");
    let (begin, must) = (format!("{name}: "), "must fit into memory, got ");
    assert!(error.message().starts_with(&begin) && error.message().contains(must), "{error}");
}

/// Tests that there is memory for the tensor and its elements, but not for the file.
#[test]
fn files_that_do_not_fit_into_memory_are_errors() {
    alone("files_that_do_not_fit_into_memory_are_errors", 2700, || {
        let (_device, x) = large();
        lacks_memory("save_npy", block_on(io::save_npy(&x)));
        let tensors = BTreeMap::from([("x".to_string(), x)]);
        lacks_memory(
            "save_safetensors",
            block_on(io::save_safetensors(&tensors, &BTreeMap::new())),
        );
        for compressed in [false, true] {
            lacks_memory("save_npz", block_on(io::save_npz(&tensors, compressed)));
        }
    });
}

/// Returns an `.npy` file of 1 GiB of zeros.
fn file(fortran: bool) -> Vec<u8> {
    let order = if fortran { "True" } else { "False" };
    let shape = "(2, 536870912)";
    let header = format!("{{'descr': '|u1', 'fortran_order': {order}, 'shape': {shape}, }}\n");
    let mut file = vec![0; 10 + header.len() + (1 << 30)];
    file[..8].copy_from_slice(b"\x93NUMPY\x01\x00");
    file[8..10].copy_from_slice(&(header.len() as u16).to_le_bytes());
    file[10..][..header.len()].copy_from_slice(header.as_bytes());
    file
}

#[test]
fn arrays_that_do_not_fit_into_memory_are_errors() {
    alone("arrays_that_do_not_fit_into_memory_are_errors", 1900, || {
        let device = cpu();
        for fortran in [true, false] {
            lacks_memory("load_npy", io::load_npy(&device, &file(fortran)));
        }
    });
}
