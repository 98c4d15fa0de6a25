//! A mock of NVIDIA's CUDA driver library (`libcuda.so.1`), for tests.
//!
//! It has the functions that warpweft calls. They check their callers, and the kernels run on the interpreter of PTX, so that
//! results are real. Work is done as late as NVIDIA's library may do it: when the host waits. A missing wait is therefore
//! noticed. Environment variables configure the mock:
//!
//! | variable | meaning |
//! | --- | --- |
//! | `MOCK_CUDA_RECORD` | a file that gets a line for each call, violation and release of a device |
//! | `MOCK_CUDA_FAIL` | calls that fail, see below |
//! | `MOCK_CUDA_DEVICES` | the number of GPUs, 1 if missing |
//! | `MOCK_CUDA_CAPABILITY` | the compute capability, 90 if missing |
//! | `MOCK_CUDA_ASSEMBLER` | the newest architecture that the compiler knows |
//! | `MOCK_CUDA_MEMORY` | the bytes of memory of a GPU |
//! | `MOCK_CUDA_POOLS` | 0 if the GPU has no memory pools |
//!
//! `MOCK_CUDA_FAIL=cuInit:1:999,cuMemAllocAsync:3:2:5` has, for each function, the number of the first call that fails, the
//! code, and how many calls fail (all, if missing). A violation makes the call fail, and its line in the record begins with
//! `violation`.

#![allow(non_snake_case)]

mod codes;
mod mock;
pub mod out;
mod work;

use codes::{Code, INVALID_VALUE};
use mock::{call, stack, Mock};
use out::{Bytes, Out, Text};
use std::ffi::c_char;

/// Declares an exported function: whether it needs a current context, its parameters, and what it does.
macro_rules! exports {
    ($($needs:ident $name:ident($($argument:ident: $type:ty),*) |$mock:ident| $body:expr;)*) => {
        $(
            /// NVIDIA's function of this name.
            // SAFETY: no other code of a process that loads this library has a function of this name.
            #[unsafe(no_mangle)]
            pub extern "C" fn $name($($argument: $type),*) -> u32 {
                call(stringify!($name), stringify!($needs) == "context", |$mock: &mut Mock| $body)
            }
        )*
    };
}

exports! {
    nothing cuInit(flags: u32) |mock| mock.init(flags);
    nothing cuDriverGetVersion(version: Out<i32>) |_mock| version.put(12_090);
    nothing cuDeviceGetCount(count: Out<i32>) |mock| count.put(mock.devices() as i32);
    nothing cuDeviceGet(device: Out<i32>, number: i32) |mock| {
        mock.device(number)?;
        device.put(number)
    };
    nothing cuDeviceGetName(name: Bytes, len: i32, device: i32) |mock| {
        mock.device(device)?;
        name.write_text(len as usize, &format!("Mock GPU {device}"))
    };
    nothing cuDeviceTotalMem_v2(bytes: Out<usize>, device: i32) |mock| {
        mock.device(device)?;
        bytes.put(mock.total_bytes())
    };
    nothing cuDeviceGetAttribute(value: Out<i32>, attribute: u32, device: i32) |mock| {
        mock.device(device)?;
        value.put(mock.attribute(attribute)?)
    };
    nothing cuDeviceGetDefaultMemPool(pool: Out<usize>, device: i32) |mock| {
        mock.device(device)?;
        pool.put(mock.pool()?)
    };
    nothing cuDevicePrimaryCtxRetain(context: Out<usize>, device: i32) |mock| context.put(mock.retain(device)?);
    nothing cuDevicePrimaryCtxRelease_v2(device: i32) |mock| mock.release(device);
    nothing cuCtxPushCurrent_v2(context: usize) |mock| {
        mock.context(context)?;
        stack(|stack| stack.push(context));
        Ok(())
    };
    context cuCtxPopCurrent_v2(context: Out<usize>) |_mock| context.put(stack(|stack| stack.pop()).unwrap_or_default());
    context cuStreamCreate(stream: Out<usize>, flags: u32) |mock| stream.put(mock.create_stream(flags)?);
    context cuStreamDestroy_v2(stream: usize) |mock| mock.destroy_stream(stream);
    context cuStreamSynchronize(stream: usize) |mock| mock.synchronize(stream);
    context cuEventCreate(event: Out<usize>, flags: u32) |mock| event.put(mock.create_event(flags));
    context cuEventDestroy_v2(event: usize) |mock| mock.destroy_event(event);
    context cuEventRecord(event: usize, stream: usize) |mock| mock.record_event(event, stream);
    context cuEventSynchronize(event: usize) |mock| mock.synchronize_event(event);
    context cuEventElapsedTime(milliseconds: Out<f32>, start: usize, end: usize) |mock| {
        milliseconds.put(mock.elapsed(start, end)?)
    };
    context cuMemPoolSetAttribute(pool: usize, attribute: u32, value: Out<u64>) |mock| {
        mock.is_pool(pool)?;
        match (attribute, value.get()) {
            // CU_MEMPOOL_ATTR_RELEASE_THRESHOLD.
            (4, Some(_)) => Ok(()),
            _ => Err(INVALID_VALUE),
        }
    };
    context cuMemPoolTrimTo(pool: usize, _bytes: usize) |mock| mock.is_pool(pool);
    context cuMemAllocAsync(address: Out<u64>, bytes: usize, stream: usize) |mock| {
        mock.is_stream(stream)?;
        address.put(mock.allocate(bytes, true)?)
    };
    context cuMemFreeAsync(address: u64, stream: usize) |mock| mock.free(address, Some(stream));
    context cuMemAlloc_v2(address: Out<u64>, bytes: usize) |mock| address.put(mock.allocate(bytes, false)?);
    context cuMemFree_v2(address: u64) |mock| mock.free(address, None);
    context cuMemHostAlloc(pointer: Out<usize>, bytes: usize, _flags: u32) |mock| pointer.put(mock.pin(bytes)?);
    context cuMemFreeHost(pointer: usize) |mock| mock.unpin(pointer);
    context cuMemcpyHtoDAsync_v2(to: u64, from: Bytes, bytes: usize, stream: usize) |mock| {
        mock.upload(to, from, bytes, stream)
    };
    context cuMemcpyDtoHAsync_v2(to: Bytes, from: u64, bytes: usize, stream: usize) |mock| {
        mock.download(to, from, bytes, stream)
    };
    context cuLinkCreate_v2(count: u32, options: Out<u32>, values: Out<usize>, link: Out<usize>) |mock| {
        let all = (0..count as usize).map(|n| Some((options.at(n)?, values.at(n)?)));
        let options = all.collect::<Option<Vec<(u32, usize)>>>().ok_or(INVALID_VALUE)?;
        link.put(mock.create_link(&options))
    };
    context cuLinkAddData_v2(link: usize, kind: u32, data: Bytes, bytes: usize, _name: Text, _count: u32, _options: usize,
        _values: usize) |mock| mock.add_to_link(link, kind, data.read(bytes)?);
    context cuLinkComplete(link: usize, cubin: Out<usize>, bytes: Out<usize>) |mock| {
        let (start, len) = mock.complete_link(link)?;
        cubin.put(start)?;
        bytes.put(len)
    };
    context cuLinkDestroy(link: usize) |mock| mock.destroy_link(link);
    context cuModuleLoadDataEx(module: Out<usize>, image: Bytes, _count: u32, _options: usize, _values: usize) |mock| {
        module.put(mock.load_module(image)?)
    };
    context cuModuleUnload(module: usize) |mock| mock.unload_module(module);
    context cuModuleGetFunction(function: Out<usize>, module: usize, name: Text) |mock| {
        function.put(mock.function(module, &name.get()?)?)
    };
    context cuFuncSetAttribute(function: usize, attribute: u32, value: i32) |mock| {
        mock.set_attribute(function, attribute, value)
    };
    context cuLaunchKernel(function: usize, grid_x: u32, grid_y: u32, grid_z: u32, block_x: u32, block_y: u32, block_z: u32,
        shared_bytes: u32, stream: usize, parameters: Out<Out<u64>>, _extra: usize) |mock| {
        let (grid, block) = ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]);
        mock.launch(function, [grid, block], shared_bytes as usize, stream, &parameters)
    };
}

/// NVIDIA's function of this name.
// SAFETY: see above.
#[unsafe(no_mangle)]
pub extern "C" fn cuGetErrorName(code: u32, text: Out<*const c_char>) -> u32 {
    put_text(codes::name(code), text)
}

/// NVIDIA's function of this name.
// SAFETY: see above.
#[unsafe(no_mangle)]
pub extern "C" fn cuGetErrorString(code: u32, text: Out<*const c_char>) -> u32 {
    put_text(codes::name(code).map(|_| c"an error of the mock"), text)
}

fn put_text(found: Option<&'static std::ffi::CStr>, text: Out<*const c_char>) -> u32 {
    let put = || -> Result<(), Code> { text.put(found.ok_or(INVALID_VALUE)?.as_ptr()) };
    put().err().unwrap_or_default()
}
