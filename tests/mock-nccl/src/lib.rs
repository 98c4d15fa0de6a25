//! A mock of NCCL (`libnccl.so.2`) and of NVIDIA's CUDA driver (`libcuda.so.1`) in one library, for tests.
//!
//! It has the functions of `mock-driver`, the driver's `cuStreamQuery`, and the functions of NCCL that warpweft calls. Tests
//! put the library into a folder under one name, and link the other name to it, so that a process loads it once. The ranks
//! are threads of the process. They find each other by the id of their communicator. The functions check their callers, and
//! the results are real. As with NCCL, calls go on in the background, and the work of a collective is done only when all
//! ranks take part. A missing wait is therefore noticed. Environment variables configure the mock:
//!
//! | variable | meaning |
//! | --- | --- |
//! | `MOCK_NCCL_RECORD` | a file that gets a line for each call and violation |
//! | `MOCK_NCCL_FAIL` | calls that fail, see below |
//! | `MOCK_NCCL_ASYNC` | `1:3:6`: the communicator of rank 1 fails after its third collective, with code 6 |
//! | `MOCK_NCCL_HANG` | a function whose work is never done |
//! | `MOCK_NCCL_VERSION` | the version, 21800 if missing |
//!
//! `MOCK_NCCL_FAIL=ncclAllReduce:1:2:5` makes calls of a function fail: the rank, the number of the first call of this rank
//! that fails, and the code. The variables of `mock-driver` configure the driver. A violation makes the call fail, and its line
//! in the record begins with `violation`.

#![allow(non_snake_case)]

mod mock;

use mock::{call, Call, Config, Id, Mock};
use mock_driver::out::Out;
use std::ffi::{c_char, CStr};

/// Declares an exported function of NCCL: its parameters, the communicator or 0, and what it does.
macro_rules! exports {
    ($($name:ident($($argument:ident: $type:ty),*) of $communicator:expr, |$mock:ident| $body:expr;)*) => {
        $(
            /// NCCL's function of this name.
            // SAFETY: no other code of a process that loads this library has a function of this name.
            #[unsafe(no_mangle)]
            pub extern "C" fn $name($($argument: $type),*) -> u32 {
                call(stringify!($name), $communicator, |$mock: &mut Mock| $body)
            }
        )*
    };
}

exports! {
    ncclGetVersion(version: Out<i32>) of 0, |mock| Mock::put(&version, mock.version());
    ncclGetUniqueId(id: Out<Id>) of 0, |mock| Mock::put(&id, mock.new_id());
    ncclCommInitRankConfig(communicator: Out<usize>, size: i32, id: Id, rank: i32, config: Out<Config>) of 0, |mock| {
        mock.start(&communicator, &id, [rank, size], &config)
    };
    ncclCommGetAsyncError(communicator: usize, code: Out<u32>) of communicator, |mock| {
        let state = mock.state(communicator)?;
        Mock::put(&code, state)
    };
    ncclCommFinalize(communicator: usize) of communicator, |mock| mock.finalize(communicator);
    ncclCommDestroy(communicator: usize) of communicator, |mock| mock.destroy(communicator);
    ncclCommAbort(communicator: usize) of communicator, |mock| mock.abort(communicator);
    ncclAllReduce(from: u64, to: u64, count: usize, of: u32, reduction: u32, communicator: usize, stream: usize)
        of communicator, |mock| {
        let call = Call { name: "ncclAllReduce", count, of, reduction, root: 0 };
        mock.collective(communicator, call, [from, to], stream)
    };
    ncclBroadcast(from: u64, to: u64, count: usize, of: u32, root: i32, communicator: usize, stream: usize)
        of communicator, |mock| {
        let call = Call { name: "ncclBroadcast", count, of, reduction: 0, root };
        mock.collective(communicator, call, [from, to], stream)
    };
    ncclAllGather(from: u64, to: u64, count: usize, of: u32, communicator: usize, stream: usize) of communicator, |mock| {
        let call = Call { name: "ncclAllGather", count, of, reduction: 0, root: 0 };
        mock.collective(communicator, call, [from, to], stream)
    };
    ncclReduceScatter(from: u64, to: u64, count: usize, of: u32, reduction: u32, communicator: usize, stream: usize)
        of communicator, |mock| {
        let call = Call { name: "ncclReduceScatter", count, of, reduction, root: 0 };
        mock.collective(communicator, call, [from, to], stream)
    };
    cuStreamQuery(stream: usize) of 0, |mock| mock.query(stream);
}

/// NCCL's function of this name.
// SAFETY: see above.
#[unsafe(no_mangle)]
pub extern "C" fn ncclGetErrorString(code: u32) -> *const c_char {
    let text: &CStr = match code {
        0 => c"no error",
        1 => c"unhandled cuda error",
        2 => c"unhandled system error",
        4 => c"invalid argument",
        5 => c"invalid usage",
        6 => c"remote process exited or there was a network error",
        7 => c"NCCL operation in progress",
        _ => c"unknown result code",
    };
    text.as_ptr()
}
