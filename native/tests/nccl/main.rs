//! Tests NCCL's engine on mocks of NCCL and of NVIDIA's driver (`tests/mock-nccl`), which check all calls. Each test starts
//! child processes that load the mocks. The ranks are threads of a child process.

#![cfg(target_os = "linux")]

#[allow(dead_code)]
#[path = "../cuda_driver/library.rs"]
mod library;
mod tasks;
#[path = "../../../tests/native/distributed/threads.rs"]
mod threads;

use library::{count, Library, TASK};
use std::env::current_exe;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::symlink;

/// The names of the library with both mocks.
const DRIVER: &str = "libcuda.so.1";
const NCCL: &str = "libnccl.so.2";

/// The child process that the tests start.
#[test]
fn child() {
    if let Ok(task) = std::env::var(TASK) {
        tasks::run(&task);
    }
}

/// The results of a child process.
struct Outcome {
    /// The error of each rank, or an empty text.
    errors: Vec<String>,
    /// The record of NCCL's mock.
    record: String,
}

/// Returns the library with both mocks, which Cargo builds because this package depends on it.
fn bytes() -> Vec<u8> {
    let this = current_exe().expect("a test knows where it is");
    let file = this.parent().expect("a folder").join("libmock_nccl.so");
    fs::read(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

/// Creates a folder with the bytes as the driver's library, if there are any.
fn folder(bytes: Option<&[u8]>) -> Library {
    let library = Library::new(bytes).with("MOCK_CUDA_DEVICES", "4");
    let [record, errors] = ["nccl", "errors"].map(|name| library.folder.join(name));
    let text = |path: &std::path::Path| path.to_str().expect("a text").to_string();
    library.with("MOCK_NCCL_RECORD", &text(&record)).with(tasks::ERRORS, &text(&errors))
}

/// Creates a folder with mocks of both libraries.
fn mocks() -> Library {
    let library = folder(Some(&bytes()));
    symlink(DRIVER, library.folder.join(NCCL)).expect("linked");
    library
}

/// Runs a task in a child process. Communicators must be freed.
fn outcome(library: &Library, task: &str) -> Outcome {
    library.task(task);
    let text = |name: &str| fs::read_to_string(library.folder.join(name)).unwrap_or_default();
    let (record, errors) = (text("nccl"), text("errors"));
    let [created, destroyed, aborted] = ends(&record);
    assert_eq!(created, destroyed + aborted, "{task}: {record}");
    Outcome { errors: errors.lines().map(str::to_string).collect(), record }
}

/// Returns how many communicators were created, destroyed and aborted.
fn ends(record: &str) -> [usize; 3] {
    let lines = ["ncclCommInitRankConfig 7", "ncclCommDestroy 0", "ncclCommAbort 0"];
    lines.map(|line| record.lines().filter(|it| *it == line).count())
}

/// Runs a task in which no rank fails.
fn succeeds(library: &Library, task: &str) -> String {
    let Outcome { errors, record } = outcome(library, task);
    assert!(errors.iter().all(String::is_empty) && !errors.is_empty(), "{task}: {errors:?}");
    assert!(!record.contains("violation"), "{task}: {record}");
    record
}

/// Runs a task in which both ranks fail. The error of rank `rank` must contain `own`, and the other one `other`.
fn fails(library: &Library, task: &str, rank: usize, [own, other]: [&str; 2]) -> String {
    let Outcome { errors, record } = outcome(library, task);
    assert_eq!(errors.len(), 2, "{task}: {errors:?}");
    assert!(errors[rank].contains(own), "{task}: {errors:?}");
    assert!(errors[1 - rank].contains(other), "{task}: {errors:?}");
    assert_eq!(ends(&record)[1], 0, "{task}: a communicator that failed is aborted");
    record
}

#[test]
fn collectives_have_the_values_of_plain_loops() {
    for size in 1..=4 {
        let record = succeeds(&mocks(), &format!("values {size}"));
        let ranks = if size == 1 { 0 } else { size };
        assert_eq!(ends(&record), [ranks, ranks, 0], "{size}: {record}");
    }
}

#[test]
fn large_values_pass_in_pieces_through_bounded_memory() {
    let library = mocks().with("MOCK_CUDA_MEMORY", &(2 * (32 << 20)).to_string());
    let record = succeeds(&library, "pieces 2");
    // Two pieces for each rank, and the lengths of the parts of an all-gather.
    let calls = [
        ("ncclAllReduce", 4),
        ("ncclBroadcast", 4),
        ("ncclAllGather", 6),
        ("ncclReduceScatter", 4),
    ];
    for (name, calls) in calls {
        assert_eq!(count(&record, name), calls, "{name}");
    }
}

#[test]
fn empty_values_need_no_calls_of_nccl() {
    let record = succeeds(&mocks(), "empty 2");
    let names = ["ncclAllReduce", "ncclBroadcast", "ncclReduceScatter"];
    assert_eq!(names.map(|name| count(&record, name)), [0; 3], "{record}");
}

#[test]
fn a_missing_library_is_named() {
    let one = outcome(&folder(Some(&bytes())), "reduce 2").errors;
    if one.iter().any(String::is_empty) {
        let text = "nccl: a missing library NOT TESTED, because NCCL is installed";
        let _ = writeln!(std::io::stderr(), "{text}");
        assert!(std::env::var_os("CI").is_none(), "{text}");
        return;
    }
    let must = "Unsupported: nccl: NCCL must be installed as libnccl.so.2 or libnccl.so, got: ";
    assert!(one.iter().all(|error| error.starts_with(must)), "{one:?}");
    assert!(one.iter().all(|error| error.contains("No such file")), "{one:?}");
    let library = folder(None);
    fs::write(library.folder.join(NCCL), bytes()).expect("written");
    let other = outcome(&library, "reduce 2").errors;
    let must =
        "Unsupported: nccl: NVIDIA's driver must work, got: NVIDIA's driver is not installed";
    assert!(other.len() == 2 && other.iter().all(|error| error.starts_with(must)), "{other:?}");
}

#[test]
fn an_old_library_is_named() {
    for (number, version) in [("21706", "2.17.6"), ("2804", "2.8.4")] {
        let errors = outcome(&mocks().with("MOCK_NCCL_VERSION", number), "reduce 2").errors;
        let error = format!("Unsupported: nccl: NCCL must be 2.18 or later, got {version}");
        assert_eq!(errors, [&*error; 2]);
    }
    let mut bytes = bytes();
    let name = b"\0ncclCommFinalize\0";
    let at = bytes.windows(name.len()).position(|window| window == name).expect("the name");
    bytes[at + 1] = b'x';
    let library = folder(Some(&bytes));
    symlink(DRIVER, library.folder.join(NCCL)).expect("linked");
    let errors = outcome(&library, "reduce 2").errors;
    let error = "Unsupported: nccl: NCCL must be 2.18 or later, got one without ncclCommFinalize";
    assert_eq!(errors, [error; 2]);
}

#[test]
fn all_ranks_learn_that_one_is_not_prepared() {
    let library = mocks().with("MOCK_CUDA_DEVICES", "1");
    let own = "NoDevice: nccl: the GPU of rank 1 of 2 must be below 1, got 1";
    let other = "InvalidState: nccl: rank 1 must be prepared, got: nccl: the GPU of rank 1";
    fails(&library, "reduce 2", 1, [own, other]);
    let library = mocks().with("MOCK_NCCL_FAIL", "ncclGetUniqueId:0:1:2");
    let own = "nccl: ncclGetUniqueId must succeed on rank 0 of 2, got unhandled system error (2)";
    fails(
        &library,
        "reduce 2",
        0,
        [own, "nccl: rank 0 must be prepared, got: nccl: ncclGetUniqueId"],
    );
}

#[test]
fn all_ranks_return_the_error_of_a_call_that_fails() {
    let calls = ["ncclCommGetAsyncError:1:2", "ncclCommInitRankConfig:1:5", "ncclAllReduce:3:1"];
    let others = ["ncclBroadcast:1:2", "ncclAllGather:1:1", "ncclReduceScatter:1:4"];
    for asked in calls.iter().chain(&others) {
        let (name, rest) = asked.split_once(':').expect("a name");
        let library = mocks().with("MOCK_NCCL_FAIL", &format!("{name}:1:{rest}"));
        let own = format!("InvalidState: nccl: {name} must succeed on rank 1 of 2, got ");
        let other = format!("rank 1 failed: nccl: {name} must succeed on rank 1 of 2, got ");
        let record = fails(&library, "all 2", 1, [&own, &other]);
        assert!(!record.contains("violation"), "{record}");
    }
}

#[test]
fn all_ranks_return_the_error_of_the_driver() {
    for (call, kind) in [
        ("cuMemAlloc_v2:1:2:1", "Memory: nccl: cuMemAlloc must succeed on rank "),
        (
            "cuMemcpyHtoDAsync_v2:1:1:1",
            "InvalidState: nccl: cuMemcpyHtoDAsync must succeed on rank ",
        ),
        ("cuStreamCreate:2:1:1", "InvalidState: nccl: cuStreamCreate must succeed on rank "),
    ] {
        let errors = outcome(&mocks().with("MOCK_CUDA_FAIL", call), "reduce 2").errors;
        let own = errors.iter().position(|error| error.starts_with(kind)).expect(kind);
        let reason = errors[own].split_once(": ").expect("a kind").1;
        assert!(errors[1 - own].contains(reason), "{errors:?}");
    }
}

#[test]
fn a_communicator_that_fails_is_noticed() {
    let library = mocks().with("MOCK_NCCL_ASYNC", "0:3:6");
    let text = "nccl: ncclAllReduce must succeed on rank 0 of 2, got remote process exited or there was a network error (6)";
    fails(&library, "reduce 2", 0, [text, text]);
}

#[test]
fn work_that_is_never_done_is_a_timeout() {
    for (hang, call) in
        [("ncclAllReduce", "all_reduce"), ("ncclCommInitRankConfig", "ncclCommInitRankConfig")]
    {
        let Outcome { errors, record } = outcome(&mocks().with("MOCK_NCCL_HANG", hang), "short 2");
        let text = format!("nccl: {call} must be done after 1s, got no result of NCCL");
        assert!(
            errors.len() == 2 && errors.iter().all(|error| error.contains(&text)),
            "{errors:?}"
        );
        assert_eq!(ends(&record), [2, 0, 2], "{record}");
    }
    let Outcome { errors, record } =
        outcome(&mocks().with("MOCK_NCCL_HANG", "ncclCommFinalize"), "short 2");
    assert_eq!(errors, ["", ""]);
    assert_eq!(ends(&record), [2, 0, 2], "{record}");
}

#[test]
fn a_rank_that_makes_no_call_is_named() {
    let text = "nccl: all_reduce must be done after 1s, got no call of rank 1";
    fails(&mocks(), "late 2", 0, [text, text]);
}

#[test]
fn all_ranks_return_the_reason_of_a_rank_that_fails() {
    let own = "nccl: rank 1 of 2 must not fail, got: the data are missing";
    fails(&mocks(), "fail 2", 1, [own, "rank 1 failed: the data are missing"]);
}

#[test]
fn a_rank_that_ends_early_is_named() {
    let Outcome { errors, record } = outcome(&mocks(), "early 2");
    let text = "nccl: rank 1 must make call 3 of its world, got the end after 2 calls";
    assert!(errors[0].contains(text) && errors[1].is_empty(), "{errors:?}");
    assert_eq!(ends(&record), [2, 0, 2], "{record}");
}

#[test]
fn different_lengths_are_an_error() {
    let text = "got invalid usage (5)";
    let record = fails(&mocks(), "lengths 2", 0, [text, text]);
    assert!(record.contains("violation: rank "), "{record}");
}
