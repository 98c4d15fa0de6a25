//! Tests that the mock notices callers that break the rules of CUDA.

use mock_driver::*;

const INVALID_VALUE: u32 = 1;
const NOT_INITIALIZED: u32 = 3;
const INVALID_CONTEXT: u32 = 201;
const INVALID_HANDLE: u32 = 400;

/// Calls a function whose only result is a value.
fn got<T: Default>(call: impl FnOnce(out::Out<T>) -> u32) -> T {
    let mut value = T::default();
    assert_eq!(call((&mut value).into()), 0);
    value
}

/// Tests that objects are freed once, while nothing uses them, and that calls in the wrong order or thread fail. The library
/// has one state, so this is one test.
#[test]
fn violations_are_noticed() {
    assert_eq!(cuDeviceGetCount((&mut 0).into()), NOT_INITIALIZED);
    assert_eq!(cuInit(0), 0);
    let context = got(|context| cuDevicePrimaryCtxRetain(context, 0));
    assert_eq!(cuStreamCreate((&mut 0).into(), 0), INVALID_CONTEXT);
    assert_eq!(cuCtxPushCurrent_v2(context + 1), INVALID_CONTEXT);
    assert_eq!(cuCtxPushCurrent_v2(context), 0);
    let in_another_thread = std::thread::spawn(|| cuStreamCreate((&mut 0).into(), 0)).join();
    assert_eq!(in_another_thread.expect("no panic"), INVALID_CONTEXT);
    let stream = got(|stream| cuStreamCreate(stream, 0));

    let address = got(|address| cuMemAllocAsync(address, 16, stream));
    let mut bytes = [5u8; 32];
    let mut upload = |bytes_to_copy| {
        cuMemcpyHtoDAsync_v2(address, bytes.as_mut_slice().into(), bytes_to_copy, stream)
    };
    assert_eq!([upload(16), upload(17)], [0, INVALID_VALUE]);
    assert_eq!(cuMemFree_v2(address), INVALID_VALUE);
    assert_eq!([0, 1].map(|_| cuMemFreeAsync(address, stream)), [0, INVALID_VALUE]);
    assert_eq!(upload(16), INVALID_VALUE);
    assert_eq!(cuStreamSynchronize(stream), 0);
    assert_eq!(cuStreamSynchronize(stream + 1), INVALID_HANDLE);

    let pinned = got(|pinned| cuMemHostAlloc(pinned, 16, 0));
    assert_eq!(cuMemFreeHost(pinned + 1), INVALID_VALUE);
    let event = got(|event| cuEventCreate(event, 2));
    assert_eq!(cuEventRecord(event, stream), 0);
    let untimed = cuEventElapsedTime((&mut 0.0).into(), event, event);
    assert_eq!(untimed, INVALID_HANDLE);
    assert_eq!(cuModuleUnload(5), INVALID_HANDLE);
    assert_eq!(cuLinkDestroy(5), INVALID_HANDLE);

    assert_eq!(cuDevicePrimaryCtxRelease_v2(1), 101);
    assert_eq!(cuCtxPopCurrent_v2((&mut 0).into()), 0);
    // The stream, the event and the pinned memory are left.
    assert_eq!(cuDevicePrimaryCtxRelease_v2(0), INVALID_VALUE);
    assert_eq!(cuDevicePrimaryCtxRelease_v2(0), INVALID_CONTEXT);
}
