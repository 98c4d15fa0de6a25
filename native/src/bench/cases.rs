//! The cases of the benchmark. They have the names and numbers of the browser's cases (`www/bench/cases.js`). Copies and
//! sorts are only native.

use crate::error::Result;
use crate::tensor::{
    AttentionOptions, Conv2dOptions, NormOptions, Padding, RmsNormOptions, Tensor,
};
use std::iter::once;

/// A case, with its name and its computation.
#[derive(Clone, Debug)]
pub struct Case {
    pub name: String,
    pub kind: Kind,
    /// Whether the case runs only if it is named.
    pub heavy: bool,
}

/// The computation of a case, and its size.
#[derive(Clone, Debug)]
pub enum Kind {
    /// `batch` products of `[m, k]` and `[k, n]`. `turned` is whether each operand is stored transposed.
    Matmul {
        m: usize,
        k: usize,
        n: usize,
        batch: usize,
        turned: [bool; 2],
    },
    /// A convolution of `[1, channels, size, size]` with `[filters, channels / groups, window, window]`, padded by half a
    /// window.
    Conv {
        channels: usize,
        size: usize,
        filters: usize,
        window: usize,
        stride: usize,
        groups: usize,
    },
    Attention {
        heads: usize,
        queries: usize,
        keys: usize,
        width: usize,
        causal: bool,
    },
    Softmax {
        rows: usize,
        columns: usize,
    },
    LayerNorm {
        rows: usize,
        columns: usize,
    },
    RmsNorm {
        rows: usize,
        columns: usize,
    },
    /// A sum over one axis of a table, or over all of it.
    Sum {
        rows: usize,
        columns: usize,
        axis: Option<usize>,
    },
    /// Sorting of each row of a table.
    Sort {
        rows: usize,
        columns: usize,
    },
    /// The largest numbers of a row.
    TopK {
        count: usize,
        k: usize,
    },
    /// Eight operations on each number.
    Pointwise {
        count: usize,
    },
    /// One operation on each number, which measures the device's memory.
    Copy {
        count: usize,
    },
    Permute {
        shape: Vec<usize>,
        order: Vec<usize>,
    },
    /// `times` dependent additions, recorded again in each step.
    Adds {
        count: usize,
        times: usize,
    },
    /// Layers of these widths, with relu between them.
    Mlp {
        rows: usize,
        widths: Vec<usize>,
    },
    /// An upload to the device, one addition, and a read.
    Transfer {
        count: usize,
    },
}

/// An input: its shape, the scale of its numbers, and whether a compiled program keeps it as a weight.
pub struct Input {
    pub shape: Vec<usize>,
    pub scale: f64,
    pub weight: bool,
}

fn input(shape: &[usize]) -> Input {
    Input { shape: shape.to_vec(), scale: 1.0, weight: false }
}

fn weight(shape: &[usize]) -> Input {
    Input { weight: true, ..input(shape) }
}

/// Returns all cases.
pub fn all() -> Vec<Case> {
    let case = |name: &str, kind| Case { name: name.to_string(), kind, heavy: false };
    let matmul = |m, k, n| Kind::Matmul { m, k, n, batch: 1, turned: [false; 2] };
    let turned = |turned| Kind::Matmul { m: 512, k: 512, n: 512, batch: 1, turned };
    let conv = |channels, size, filters, window, stride, groups| Kind::Conv {
        channels,
        size,
        filters,
        window,
        stride,
        groups,
    };
    let attention =
        |queries, keys, width, causal| Kind::Attention { heads: 8, queries, keys, width, causal };
    let mut cases: Vec<Case> = vec![case("copy", Kind::Copy { count: 1 << 24 })];
    for n in [256, 512, 1024, 2048] {
        cases.push(case(&format!("matmul-{n}"), matmul(n, n, n)));
    }
    let batched = Kind::Matmul { m: 256, k: 256, n: 256, batch: 16, turned: [false; 2] };
    cases.extend([
        case("matmul-1x4096x4096", matmul(1, 4096, 4096)),
        case("matmul-16x4096x4096", matmul(16, 4096, 4096)),
        case("matmul-16x256", batched),
        case("matmul-ta", turned([true, false])),
        case("matmul-tb", turned([false, true])),
        case("matmul-tatb", turned([true, true])),
        case("conv-3x3", conv(64, 56, 64, 3, 1, 1)),
        case("conv-1x1", conv(256, 56, 256, 1, 1, 1)),
        case("conv-depthwise", conv(128, 56, 128, 3, 1, 128)),
        case("conv-stride2", conv(64, 56, 128, 3, 2, 1)),
        case("conv-7x7", conv(3, 224, 64, 7, 2, 1)),
        case("attention-512", attention(512, 512, 64, false)),
        case("attention-causal", attention(512, 512, 64, true)),
        case("attention-wide", attention(512, 512, 128, false)),
        case("attention-decode", attention(1, 2048, 64, false)),
        Case { heavy: true, ..case("attention-2048", attention(2048, 2048, 64, false)) },
    ]);
    let sizes = [("4096x1024", 4096, 1024), ("64x32768", 64, 32768), ("1x1M", 1, 1 << 20)];
    for (size, rows, columns) in sizes {
        cases.push(case(&format!("softmax-{size}"), Kind::Softmax { rows, columns }));
    }
    for (size, rows, columns) in sizes {
        cases.push(case(&format!("layernorm-{size}"), Kind::LayerNorm { rows, columns }));
    }
    for (size, rows, columns) in sizes {
        cases.push(case(&format!("rmsnorm-{size}"), Kind::RmsNorm { rows, columns }));
    }
    for (name, axis) in [("sum-0", Some(0)), ("sum-1", Some(1)), ("sum-all", None)] {
        cases.push(case(name, Kind::Sum { rows: 4096, columns: 1024, axis }));
    }
    let permute = |shape: &[usize], order: &[usize]| Kind::Permute {
        shape: shape.to_vec(),
        order: order.to_vec(),
    };
    cases.extend([
        case("sort-1M", Kind::Sort { rows: 1, columns: 1_000_000 }),
        case("sort-1000x1000", Kind::Sort { rows: 1000, columns: 1000 }),
        case("topk-64-of-262144", Kind::TopK { count: 262_144, k: 64 }),
        case("pointwise-8", Kind::Pointwise { count: 1 << 22 }),
        case("transpose", permute(&[4096, 1024], &[1, 0])),
        case("permute", permute(&[64, 128, 512], &[2, 0, 1])),
        case("adds-200", Kind::Adds { count: 16, times: 200 }),
        case("mlp", Kind::Mlp { rows: 64, widths: vec![784, 512, 512, 10] }),
        case("transfer", Kind::Transfer { count: 1 << 24 }),
    ]);
    cases
}

impl Kind {
    /// Returns the inputs.
    pub fn inputs(&self) -> Vec<Input> {
        match self {
            &Kind::Matmul { m, k, n, batch, turned } => {
                let lie = |turned: bool, shape: [usize; 2]| match turned {
                    true => [shape[1], shape[0]],
                    false => shape,
                };
                let operand = |turned, shape| {
                    let [rows, columns] = lie(turned, shape);
                    match batch {
                        1 => input(&[rows, columns]),
                        _ => input(&[batch, rows, columns]),
                    }
                };
                vec![operand(turned[0], [m, k]), operand(turned[1], [k, n])]
            }
            &Kind::Conv { channels, size, filters, window, groups, .. } => {
                let w = [filters, channels / groups, window, window];
                vec![input(&[1, channels, size, size]), weight(&w)]
            }
            &Kind::Attention { heads, queries, keys, width, .. } => {
                let operand = |length| input(&[1, heads, length, width]);
                vec![operand(queries), operand(keys), operand(keys)]
            }
            &Kind::Softmax { rows, columns } => {
                vec![Input { scale: 4.0, ..input(&[rows, columns]) }]
            }
            &Kind::LayerNorm { rows, columns } => {
                vec![input(&[rows, columns]), weight(&[columns]), weight(&[columns])]
            }
            &Kind::RmsNorm { rows, columns } => {
                vec![input(&[rows, columns]), weight(&[columns])]
            }
            &Kind::Sum { rows, columns, .. } | &Kind::Sort { rows, columns } => {
                vec![input(&[rows, columns])]
            }
            &Kind::TopK { count, .. } => vec![input(&[count])],
            &Kind::Pointwise { count } | &Kind::Copy { count } | &Kind::Transfer { count } => {
                vec![input(&[count])]
            }
            Kind::Permute { shape, .. } => vec![input(shape)],
            &Kind::Adds { count, .. } => vec![input(&[count]), input(&[count])],
            Kind::Mlp { rows, widths } => {
                let layer = |pair: &[usize]| {
                    let scale = 1.0 / (pair[0] as f64).sqrt();
                    [Input { scale, ..weight(pair) }, weight(&pair[1..])]
                };
                once(input(&[*rows, widths[0]])).chain(widths.windows(2).flat_map(layer)).collect()
            }
        }
    }

    /// Returns the shape of the result.
    pub fn output(&self) -> Vec<usize> {
        match self {
            &Kind::Matmul { m, n, batch: 1, .. } => vec![m, n],
            &Kind::Matmul { m, n, batch, .. } => vec![batch, m, n],
            &Kind::Conv { size, filters, window, stride, .. } => {
                let out = (size + 2 * (window / 2) - window) / stride + 1;
                vec![1, filters, out, out]
            }
            &Kind::Attention { heads, queries, width, .. } => vec![1, heads, queries, width],
            &Kind::Softmax { rows, columns }
            | &Kind::LayerNorm { rows, columns }
            | &Kind::RmsNorm { rows, columns }
            | &Kind::Sort { rows, columns } => vec![rows, columns],
            &Kind::TopK { k, .. } => vec![k],
            &Kind::Sum { rows, columns, axis } => match axis {
                Some(0) => vec![columns],
                Some(_) => vec![rows],
                None => vec![],
            },
            &Kind::Pointwise { count }
            | &Kind::Copy { count }
            | &Kind::Transfer { count }
            | &Kind::Adds { count, .. } => vec![count],
            Kind::Permute { shape, order } => order.iter().map(|&axis| shape[axis]).collect(),
            Kind::Mlp { rows, widths } => vec![*rows, widths.last().copied().unwrap_or(0)],
        }
    }

    /// Returns the number of additions and multiplications, or `None` if they do not limit the case.
    pub fn operations(&self) -> Option<f64> {
        let multiplications: usize = match self {
            &Kind::Matmul { m, k, n, batch, .. } => m * k * n * batch,
            &Kind::Conv { channels, window, groups, .. } => {
                self.output().iter().product::<usize>() * channels / groups * window * window
            }
            &Kind::Attention { heads, queries, keys, width, causal } => {
                2 * heads * queries * keys * width / if causal { 2 } else { 1 }
            }
            Kind::Mlp { rows, widths } => {
                widths.windows(2).map(|pair| rows * pair[0] * pair[1]).sum()
            }
            _ => return None,
        };
        Some(2.0 * multiplications as f64)
    }

    /// Returns the least bytes that must be read and written.
    pub fn bytes(&self) -> usize {
        let size = |shape: &[usize]| shape.iter().product::<usize>();
        let read: usize = self.inputs().iter().map(|input| size(&input.shape)).sum();
        4 * (read + size(&self.output()))
    }

    /// Generates the numbers of the inputs from `seed`, equal in every run (Steele's and Vigna's splitmix, 32 bits).
    pub fn data(&self, seed: &str) -> Vec<Vec<f32>> {
        let start = |hash: u32, byte: u8| hash.wrapping_mul(31).wrapping_add(u32::from(byte));
        let mut state = seed.bytes().fold(7, start);
        let mut next = |scale: f64| {
            state = state.wrapping_add(0x9e37_79b9);
            let mut z = (state ^ state >> 16).wrapping_mul(0x21f0_aaad);
            z = (z ^ z >> 15).wrapping_mul(0x735a_2d97);
            let unit = f64::from((z ^ z >> 15) >> 8) / f64::from(1 << 23) - 1.0;
            (unit * scale) as f32
        };
        let fill = |input: Input| {
            let count = input.shape.iter().product::<usize>();
            (0..count).map(|_| next(input.scale)).collect()
        };
        self.inputs().into_iter().map(fill).collect()
    }

    /// Records the result from the inputs.
    ///
    /// # Errors
    /// The errors of the operations.
    pub fn record(&self, x: &[Tensor]) -> Result<Tensor> {
        match self {
            Kind::Matmul { turned, .. } => {
                let operand = |i: usize| match turned[i] {
                    true => x[i].transpose(-2, -1),
                    false => Ok(x[i].clone()),
                };
                operand(0)?.matmul(&operand(1)?)
            }
            &Kind::Conv { window, stride, groups, .. } => {
                let padding = Padding::Explicit([(window / 2, window / 2); 2]);
                let stride = [stride; 2];
                let options = Conv2dOptions { stride, groups, padding, ..Default::default() };
                x[0].conv2d(&x[1], None, options)
            }
            &Kind::Attention { causal, .. } => x[0].attention(
                &x[1],
                &x[2],
                AttentionOptions { is_causal: causal, ..Default::default() },
            ),
            Kind::Softmax { .. } => x[0].softmax(-1),
            Kind::LayerNorm { .. } => x[0].layer_norm(
                &[-1],
                NormOptions { weight: Some(&x[1]), bias: Some(&x[2]), ..Default::default() },
            ),
            Kind::RmsNorm { .. } => {
                x[0].rms_norm(&[-1], RmsNormOptions { weight: Some(&x[1]), eps: 1e-6 })
            }
            Kind::Sum { axis: Some(axis), .. } => x[0].sum(&[*axis as isize]),
            Kind::Sum { axis: None, .. } => x[0].sum(&[]),
            Kind::Sort { .. } => x[0].sort(-1, false).map(|(values, _)| values),
            &Kind::TopK { k, .. } => x[0].topk(k, -1, true).map(|(values, _)| values),
            Kind::Pointwise { .. } => {
                let inner = x[0].mul(1.1)?.add(0.1)?.relu().mul(0.5)?.sigmoid();
                inner.sub(0.25)?.square().add(1)
            }
            Kind::Copy { .. } => Ok(x[0].neg()),
            Kind::Permute { order, .. } => {
                let order: Vec<isize> = order.iter().map(|&axis| axis as isize).collect();
                x[0].permute(&order)
            }
            Kind::Adds { times, .. } => (0..*times).try_fold(x[0].clone(), |sum, _| sum.add(&x[1])),
            Kind::Mlp { widths, .. } => {
                let mut value = x[0].clone();
                for layer in 1..widths.len() {
                    value = value.matmul(&x[2 * layer - 1])?.add(&x[2 * layer])?;
                    if layer + 1 < widths.len() {
                        value = value.relu();
                    }
                }
                Ok(value)
            }
            Kind::Transfer { .. } => x[0].add(1),
        }
    }
}
