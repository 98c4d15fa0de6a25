//! Reads: elements as JavaScript arrays, and bytes of JavaScript arrays.

use super::host::host;
use crate::device::{Device, Take};
use crate::dtype::DType;
use crate::error::{need_room, Error, ErrorKind, Result};
use crate::tensor::Tensor;
use half::f16;
use js_sys::{
    Float32Array, Int16Array, Int32Array, Int8Array, Uint16Array, Uint32Array, Uint8Array,
};
use std::cell::OnceCell;
use std::future::Future;
use std::rc::Rc;
use wasm_bindgen::prelude::*;

/// The number of elements that are read in one piece. WebAssembly's memory grows by a piece and never shrinks, so reading
/// everything at once would keep that memory forever.
const PIECE: usize = 1 << 24;

/// Returns the only element of stored bytes.
pub fn number(dtype: DType, bytes: &[u8]) -> JsValue {
    let stored = bytes.iter().rev().fold(0, |word, &byte| word << 8 | u32::from(byte));
    JsValue::from_f64(dtype.number(dtype.load(stored)))
}

/// A tensor, with the start and the number of the elements to read.
pub type Part<'a> = (&'a Tensor, usize, usize);

/// Reads all elements in their storage format.
pub fn stored(tensor: &Tensor) -> impl Future<Output = Result<JsValue>> + 'static + use<> {
    let all = [(tensor, 0, tensor.numel())];
    let read =
        pieces(tensor.device(), &all, DType::size, |_, whole, at, bytes| put(whole, at, bytes));
    async move { Ok(read.await?.remove(0).1.into()) }
}

/// Returns the bytes of an element in the JavaScript array.
fn size(dtype: DType) -> usize {
    match dtype {
        DType::Bool => 1,
        DType::F16 => 4,
        other => other.size(),
    }
}

/// Reads elements of tensors into the JavaScript arrays of their types. All reads are one submission.
pub fn elements(
    device: &Device,
    parts: &[Part<'_>],
) -> impl Future<Output = Result<Vec<JsValue>>> + 'static + use<> {
    let read = pieces(device, parts, size, |dtype, whole, at, bytes| match dtype {
        DType::F16 => {
            let halves = bytes.chunks_exact(2).map(|half| f16::from_le_bytes([half[0], half[1]]));
            put(whole, at, bytemuck::cast_slice(&halves.map(f16::to_f32).collect::<Vec<_>>()));
        }
        DType::Bool => {
            put(whole, at, &bytes.chunks_exact(4).map(|word| word[0]).collect::<Vec<_>>());
        }
        _ => put(whole, at, bytes),
    });
    async move {
        let mut arrays = Vec::new();
        for (dtype, bytes) in read.await? {
            let buffer = bytes.buffer();
            arrays.push(match dtype {
                DType::F32 | DType::F16 => Float32Array::new(&buffer).into(),
                DType::I32 => Int32Array::new(&buffer).into(),
                DType::U32 => Uint32Array::new(&buffer).into(),
                DType::I8 => Int8Array::new(&buffer).into(),
                DType::I16 => Int16Array::new(&buffer).into(),
                DType::U16 => Uint16Array::new(&buffer).into(),
                DType::U8 | DType::Bool => bytes.into(),
            });
        }
        Ok(arrays)
    }
}

/// Reads elements of one tensor.
pub fn elements_of(part: Part<'_>) -> impl Future<Output = Result<JsValue>> + 'static + use<> {
    let read = elements(part.0.device(), &[part]);
    async move { Ok(read.await?.remove(0)) }
}

/// Reads stored elements in pieces. `put` copies each piece into a JavaScript array as soon as it arrives. `size` returns the
/// bytes of an element in that array.
fn pieces(
    device: &Device,
    parts: &[Part<'_>],
    size: fn(DType) -> usize,
    put: fn(DType, &Uint8Array, usize, &[u8]),
) -> impl Future<Output = Result<Vec<(DType, Uint8Array)>>> + 'static + use<> {
    let begun = || {
        let (mut wanted, mut wholes) = (Vec::new(), Vec::new());
        for &(tensor, start, length) in parts {
            if !device.is_same(tensor.device()) {
                return Err(Error::wrong_device("read", "a tensor"));
            }
            let (dtype, whole) = (tensor.dtype(), Rc::new(OnceCell::new()));
            for from in (0..length.max(1)).step_by(PIECE) {
                let (array, size) = (whole.clone(), size(dtype));
                let take: Take = Box::new(move |bytes| {
                    if array.get().is_none() {
                        let _ = array.set(room(length as u64 * size as u64)?);
                    }
                    array.get().into_iter().for_each(|whole| put(dtype, whole, from * size, bytes));
                    Ok(())
                });
                wanted.push(tensor.wanted(start + from, PIECE.min(length - from), take)?);
            }
            wholes.push((dtype, whole));
        }
        Ok((device.read_nodes(wanted)?, wholes))
    };
    let begun = begun();
    async move {
        let (read, wholes) = begun?;
        read.await?;
        let mut arrays = Vec::new();
        for (dtype, whole) in wholes {
            arrays.push((dtype, whole.get().cloned().map_or_else(|| room(0), Ok)?));
        }
        Ok(arrays)
    }
}

fn put(whole: &Uint8Array, at: usize, bytes: &[u8]) {
    whole.subarray(at as u32, (at + bytes.len()) as u32).copy_from(bytes);
}

/// Copies the bytes of a JavaScript array.
///
/// # Errors
/// `Memory` if they do not fit into WebAssembly's memory. The error names `op`.
pub fn copied(op: &str, bytes: &Uint8Array) -> Result<Vec<u8>> {
    let length = byte_length(bytes);
    need_room(op, length)?;
    // The room was just checked, so it fits into `usize`.
    let mut copy = vec![0; length as usize];
    // A detached array has no bytes, and cannot be copied.
    if length > 0 {
        host(|host| host.copy(bytes, &mut copy));
    }
    Ok(copy)
}

/// Returns the length of a JavaScript array in bytes, which may be 4 GiB and more.
pub fn byte_length(bytes: &Uint8Array) -> u64 {
    host(|host| host.byte_length(bytes)) as u64
}

/// Allocates a JavaScript array of bytes.
pub fn room(bytes: u64) -> Result<Uint8Array> {
    let room = host(|host| host.room(bytes as f64));
    room.ok_or_else(|| {
        let message = format!("read: the bytes must fit into JavaScript's memory, got {bytes}");
        Error::new(ErrorKind::Memory, message)
    })
}
