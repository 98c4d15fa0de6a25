//! Tests the CUDA backend on a mock of NVIDIA's driver library (`tests/mock-driver`), which checks all calls and interprets the
//! kernels. Each test starts child processes that load the library.

#![cfg(target_os = "linux")]

mod library;
mod tasks;
#[allow(dead_code)]
#[path = "../../../tests/native/model/toy_reference.rs"]
mod toy_reference;

use library::{count, mock, Library, TASK};
use serde_json::Value;
use std::fs;
use std::io::Write as _;

/// The child process that the tests start.
#[test]
fn child() {
    if let Ok(task) = std::env::var(TASK) {
        tasks::run(&task);
    }
}

/// Returns the entries of CUDA in the list of devices.
fn entries(library: &Library) -> Vec<Value> {
    let all: Value = serde_json::from_str(&library.warpweft(&["devices", "--json"])).expect("JSON");
    let all = all.as_array().expect("a list").iter();
    all.filter(|it| it["backend"] == "cuda").cloned().collect()
}

/// Returns the reason why CUDA is absent.
fn reason(library: &Library) -> String {
    let entries = entries(library);
    assert_eq!(entries.len(), 1, "{entries:?}");
    assert_eq!(entries[0]["available"], false, "{entries:?}");
    entries[0]["reason"].as_str().expect("a reason").to_string()
}

#[test]
fn a_missing_library_is_named() {
    let library = Library::new(None);
    if entries(&library).iter().any(|entry| entry["available"] == true) {
        let text = "cuda: a missing library NOT TESTED, because NVIDIA's driver is installed";
        let _ = writeln!(std::io::stderr(), "{text}");
        assert!(std::env::var_os("CI").is_none(), "{text}");
        return;
    }
    let reason = reason(&library);
    assert_eq!(reason, "NVIDIA's driver is not installed (libcuda.so.1 was not found)");
    let table = library.warpweft(&["devices"]);
    assert!(table.contains("NVIDIA's driver is not installed"), "{table}");
}

#[test]
fn a_broken_library_is_named() {
    for (bytes, what) in [(&b""[..], "file too short"), (&[7u8; 9999][..], "invalid ELF header")] {
        let reason = reason(&Library::new(Some(bytes)));
        assert!(reason.starts_with("libcuda.so.1 was found, but cannot be loaded: "), "{reason}");
        assert!(reason.contains(what), "{reason}");
    }
    // A library without one of the functions: its name is another one.
    let mut bytes = mock();
    let name = b"\0cuMemAllocAsync\0";
    let at = bytes.windows(name.len()).position(|window| window == name).expect("the name");
    bytes[at + 1] = b'x';
    let reason = reason(&Library::new(Some(&bytes)));
    assert_eq!(reason, "libcuda.so.1 has no function cuMemAllocAsync; update NVIDIA's driver");
}

#[test]
fn a_driver_that_does_not_work_is_named() {
    let failing = |fail: &str| reason(&Library::mock().with("MOCK_CUDA_FAIL", fail));
    let start = failing("cuInit:1:803");
    let code = "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH (803): an error of the mock";
    assert_eq!(start, format!("libcuda.so.1 does not start: cuInit returned {code}"));
    assert_eq!(failing("cuInit:1:4242"), "libcuda.so.1 does not start: cuInit returned code 4242");
    let count = failing("cuDeviceGetCount:1:999");
    assert!(count.contains("cuDeviceGetCount returned CUDA_ERROR_UNKNOWN (999)"), "{count}");
    let name = failing("cuDeviceGetName:1:101");
    assert!(name.contains("cuDeviceGetName returned CUDA_ERROR_INVALID_DEVICE (101)"), "{name}");
    let none = reason(&Library::mock().with("MOCK_CUDA_DEVICES", "0"));
    assert_eq!(none, "NVIDIA's driver is installed, but it finds no GPU");
    let old = reason(&Library::mock().with("MOCK_CUDA_CAPABILITY", "61"));
    let must = "the GPU must have a compute capability of at least 7.5";
    assert_eq!(old, format!("{must}, but Mock GPU 0 has 6.1"));
}

#[test]
fn gpus_are_listed_and_chosen_first() {
    let library = Library::mock().with("MOCK_CUDA_DEVICES", "2").with("WARPWEFT_DEVICE", "gpu 1");
    let entries = entries(&library);
    assert_eq!(entries.len(), 2, "{entries:?}");
    for (n, entry) in entries.iter().enumerate() {
        assert_eq!(entry["name"], format!("Mock GPU {n}"), "{entry}");
        assert_eq!(entry["driver"], "CUDA 12.9", "{entry}");
        assert_eq!(entry["memory"], 1u64 << 30, "{entry}");
        assert_eq!(entry["available"], true, "{entry}");
        assert_eq!(entry["recommended"], n == 0, "{entry}");
    }
    library.task("select");
}

#[test]
fn a_network_is_trained_with_and_without_memory_pools() {
    for pools in ["1", "0"] {
        let record = Library::mock().with("MOCK_CUDA_POOLS", pools).task("train");
        let calls = ["cuMemAllocAsync", "cuMemAlloc_v2"].map(|name| count(&record, name) > 0);
        assert_eq!(calls, [pools == "1", pools == "0"]);
    }
}

#[test]
fn a_language_model_generates_tokens() {
    Library::mock().task("generate");
}

#[test]
fn copies_are_staged_in_bounded_memory() {
    let record = Library::mock().task("copies");
    assert!((1..=4).contains(&count(&record, "cuMemHostAlloc")), "{record}");
}

#[test]
fn too_little_memory_is_an_error_after_which_work_goes_on() {
    let library = Library::mock().with("MOCK_CUDA_MEMORY", "100000000");
    let record = library.task("memory");
    assert!(count(&record, "cuMemPoolTrimTo") > 0);
}

#[test]
fn a_lost_device_stays_lost() {
    // The fault of an earlier kernel is often returned by a later call.
    for call in ["cuLaunchKernel:2:700:1", "cuEventSynchronize:2:700:1"] {
        Library::mock().with("MOCK_CUDA_FAIL", call).task("lost");
    }
}

#[test]
fn a_refused_kernel_is_an_error_with_the_compiler_log() {
    Library::mock().with("MOCK_CUDA_FAIL", "cuLinkAddData_v2:2:218:1").task("refused");
    Library::mock().with("MOCK_CUDA_ASSEMBLER", "80").task("log");
}

#[test]
fn another_device_is_chosen_if_the_gpu_does_not_open() {
    let calls =
        ["cuDevicePrimaryCtxRetain:1:2", "cuStreamCreate:1:999", "cuMemPoolSetAttribute:1:1"];
    let checks = ["cuModuleGetFunction:1:500", "cuLaunchKernel:1:719:1"];
    for call in calls.iter().chain(&checks) {
        Library::mock().with("MOCK_CUDA_FAIL", call).task("fallback");
    }
}

#[test]
fn kernels_are_timed() {
    Library::mock().task("profile");
}

#[test]
fn evicted_kernels_are_unloaded() {
    let record = Library::mock().task("evict");
    let [loaded, unloaded] =
        ["cuModuleLoadDataEx", "cuModuleUnload"].map(|name| count(&record, name));
    assert!(loaded > 80 && loaded == unloaded, "{loaded} loaded, {unloaded} unloaded");
}

#[test]
fn compiled_kernels_are_stored_on_disk() {
    let library = Library::mock();
    let calls =
        |record: &str| ["cuLinkCreate_v2", "cuModuleLoadDataEx"].map(|name| count(record, name));
    let first = calls(&library.task("train"));
    assert!(first[0] > 3 && first[0] == first[1], "{first:?}");
    assert_eq!(calls(&library.task("train")), [0, first[1]]);
    let files = || {
        let entries = fs::read_dir(library.cache().join("cuda")).expect("a folder");
        let files = entries.map(|entry| entry.expect("an entry").path());
        let mut files: Vec<_> =
            files.map(|path| (fs::read(&path).expect("a file"), path)).collect();
        files.sort_by(|a, b| a.1.cmp(&b.1));
        files
    };
    let stored = files();
    assert_eq!(stored.len(), first[0]);
    // Damaged files, and one of something else, are ignored and replaced.
    for (n, (bytes, path)) in stored.iter().take(3).enumerate() {
        let mut bytes = bytes.clone();
        match n {
            0 => *bytes.last_mut().expect("bytes") ^= 1,
            1 => bytes.truncate(100),
            _ => bytes = b"something else".to_vec(),
        }
        fs::write(path, bytes).expect("written");
    }
    assert_eq!(calls(&library.task("train")), [3, first[1]]);
    assert!(files() == stored, "they are replaced");
    // The driver refuses the stored kernels, for example after a change that its version does not show.
    let refusing = library.with("MOCK_CUDA_FAIL", "cuModuleLoadDataEx:1:200:1");
    let [linked, loaded] = calls(&refusing.task("train"));
    assert_eq!([linked, loaded], [1, first[1] + 1]);
    // An empty variable disables caches.
    let library = Library::mock().with("WARPWEFT_CACHE", "");
    assert_eq!(calls(&library.task("sum"))[0], calls(&library.task("sum"))[0]);
    assert!(!library.cache().exists());
}
