//! What is read: elements as JavaScript's arrays.

use super::host::host;
use crate::dtype::{f16_to_f32, DType};
use crate::error::{Error, Result};
use crate::tensor::Tensor;
use js_sys::{Float32Array, Int32Array, Uint32Array, Uint8Array};
use std::future::Future;
use wasm_bindgen::prelude::*;

/// So many elements are read in one piece: WebAssembly's memory grows by a piece, and never shrinks.
const PIECE: usize = 1 << 24;

/// The only element of stored bytes.
pub fn number(dtype: DType, bytes: &[u8]) -> JsValue {
    let word = |bytes: &[u8]| bytes.iter().rev().fold(0, |word, &byte| word << 8 | u32::from(byte));
    let bits = word(bytes);
    JsValue::from_f64(match dtype {
        DType::F32 => f32::from_bits(bits).into(),
        DType::F16 => f16_to_f32(bits as u16).into(),
        DType::I32 => (bits as i32).into(),
        DType::U32 | DType::Bool => bits.into(),
    })
}

/// Stored elements as they are.
pub fn stored(tensor: &Tensor) -> impl Future<Output = Result<JsValue>> + 'static {
    let size = tensor.dtype().size();
    let read = pieces(tensor, 0, tensor.numel(), size, |_, bytes| Bytes::Own(bytes));
    async move { Ok(read.await?.into()) }
}

/// Bytes that JavaScript is to get: the stored ones, or what they stand for.
enum Bytes {
    Own(Vec<u8>),
    Halves(Vec<f32>),
}

/// Elements as what JavaScript reads a type into. All is submitted at once.
pub fn elements(
    tensor: &Tensor,
    start: usize,
    length: usize,
) -> impl Future<Output = Result<JsValue>> + 'static {
    let dtype = tensor.dtype();
    let size = if dtype == DType::Bool { 1 } else { 4 };
    let read = pieces(tensor, start, length, size, |dtype, bytes| match dtype {
        DType::F16 => {
            let halves = bytes.chunks_exact(2).map(|half| u16::from_le_bytes([half[0], half[1]]));
            Bytes::Halves(halves.map(f16_to_f32).collect())
        }
        DType::Bool => Bytes::Own(bytes.chunks_exact(4).map(|word| word[0]).collect()),
        _ => Bytes::Own(bytes),
    });
    async move {
        let bytes = read.await?;
        let buffer = bytes.buffer();
        Ok(match dtype {
            DType::F32 | DType::F16 => Float32Array::new(&buffer).into(),
            DType::I32 => Int32Array::new(&buffer).into(),
            DType::U32 => Uint32Array::new(&buffer).into(),
            DType::Bool => bytes.into(),
        })
    }
}

/// Stored elements, each piece made into bytes of JavaScript's as soon as it is there.
fn pieces(
    tensor: &Tensor,
    start: usize,
    length: usize,
    size: usize,
    made: fn(DType, Vec<u8>) -> Bytes,
) -> impl Future<Output = Result<Uint8Array>> + 'static {
    let dtype = tensor.dtype();
    let mut reads = Vec::new();
    for from in (0..length.max(1)).step_by(PIECE) {
        let count = PIECE.min(length - from);
        reads.push((from * size, tensor.read_bytes_range(start + from, count)));
    }
    async move {
        let mut whole = None;
        for (at, read) in reads {
            let bytes = made(dtype, read.await?);
            let whole = match &whole {
                Some(whole) => whole,
                None => whole.insert(room(length * size)?),
            };
            match &bytes {
                Bytes::Own(bytes) => put(whole, at, bytes),
                Bytes::Halves(halves) => put(whole, at, bytemuck::cast_slice(halves)),
            }
        }
        whole.map_or_else(|| room(0), Ok)
    }
}

fn put(whole: &Uint8Array, at: usize, bytes: &[u8]) {
    whole.subarray(at as u32, (at + bytes.len()) as u32).copy_from(bytes);
}

/// An array of JavaScript's.
fn room(bytes: usize) -> Result<Uint8Array> {
    let room = host(|host| host.room(bytes));
    room.ok_or_else(|| {
        let message = format!("read: JavaScript has no room for {bytes} bytes");
        Error::new(crate::error::ErrorKind::Memory, message)
    })
}
