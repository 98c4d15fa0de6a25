//! The attention block of the demo: the words of a sentence attend to each other.
//!
//! `www/demo/attention.js` has the same block. Its weights are random, so the pattern has no linguistic meaning. But queries
//! and keys are computed in similar ways. So words attend to themselves, to their repetitions and to nearby words.

use super::picture::hash;
use warpweft_native::prelude::*;
use warpweft_native::tensor::Program;

/// The sentence for the figures.
pub const SENTENCE: &str = "the boat sails on the lake because the wind moves the boat";

const MODEL: usize = 64;
const HEADS: usize = 4;
const HEAD: usize = MODEL / HEADS;
const WORDS: usize = 256;

/// Hashes the words of a sentence to rows of the embedding.
pub fn words(sentence: &str) -> Vec<u32> {
    sentence.split(' ').map(|word| hash(word.as_bytes()) % WORDS as u32).collect()
}

/// Compiles a program with the input `u32 [count]`, which has the ids of `count` words. The results are the attention weights
/// `[heads, count, count]`, their product with the values `[1, heads, count, head size]`, and the same product computed by
/// [`Tensor::attention`].
///
/// # Errors
/// The errors of the operations.
pub fn program(device: &Device, count: usize, causal: bool) -> Result<Program> {
    let deviation = 1.0 / (MODEL as f64).sqrt();
    let weight = |seed| device.normal(&[MODEL, MODEL], 0.0, deviation, seed);
    let table = device.normal(&[WORDS, MODEL], 0.0, 1.0, 1)?;
    let (query, own, value) = (weight(2)?, weight(3)?, weight(4)?);
    let key = query.mul(0.9)?.add(&own.mul(0.4)?)?;
    let mut batch = device.batch();
    for tensor in [&table, &query, &key, &value] {
        batch.add(tensor)?;
    }
    batch.run()?;
    device.compile(&[(&[count], DType::U32)], |inputs| {
        let x = table.index_select(0, &inputs[0])?.add(&positions(device, count)?)?;
        let heads = |weight: &Tensor| {
            let split = x.matmul(weight)?.reshape(&[1, count, HEADS, HEAD])?;
            split.permute(&[0, 2, 1, 3])
        };
        let (q, k, v) = (heads(&query)?, heads(&key)?, heads(&value)?);
        let mut scores = q.matmul(&k.transpose(-2, -1)?)?.mul(1.0 / (HEAD as f64).sqrt())?;
        if causal {
            let (row, column) =
                (device.iota(&[count, count], 0)?, device.iota(&[count, count], 1)?);
            scores = row.ge(&column)?.where_cond(&scores, -1e9)?;
        }
        let weights = scores.softmax(-1)?;
        let options = AttentionOptions { is_causal: causal, ..Default::default() };
        Ok(vec![
            weights.reshape(&[HEADS, count, count])?,
            weights.matmul(&v)?,
            q.attention(&k, &v, options)?,
        ])
    })
}

/// Returns sines and cosines of the positions at decreasing frequencies (Vaswani et al. 2017), `[count, MODEL]`.
fn positions(device: &Device, count: usize) -> Result<Tensor> {
    let shape = [count, MODEL];
    let column = device.iota(&shape, 1)?;
    let odd = column.fmod(2)?;
    let exponent = column.sub(&odd)?.cast(DType::F32)?.mul(-(1e4f64.ln()) / MODEL as f64)?;
    let angle = device.iota(&shape, 0)?.cast(DType::F32)?.mul(&exponent.exp())?;
    odd.eq(0)?.where_cond(&angle.sin(), &angle.cos())
}
