//! Tests the routines of the CPU backend, compared with plain loops in `f64`, and their invalid calls.

use super::*;

/// Returns a view of an input as an operand.
fn view(input: u32, offset: i64, strides: &[i64]) -> Operand {
    let mut b = Builder::default();
    let value = load(&mut b, input, offset, strides);
    Operand { program: b.finish(), value }
}

/// Returns twice a view plus one, as an operand.
fn computed(input: u32, strides: &[i64]) -> Operand {
    let mut b = Builder::default();
    let x = load(&mut b, input, 0, strides);
    let (one, two) = (b.number(DType::F32, 1.0), b.number(DType::F32, 2.0));
    let double = b.push(Inst::Binary(Binary::Mul, x, two));
    let value = b.push(Inst::Binary(Binary::Add, double, one));
    Operand { program: b.finish(), value }
}

/// Returns an epilogue that stores the result unchanged.
fn plain(dims: &[usize]) -> Program {
    let mut b = Builder::default();
    let result = b.push(Inst::Accumulator);
    put(&mut b, 0, &row_major(dims), result);
    b.finish()
}

/// Returns the epilogue max(result + bias, 0), with the bias along the last axis.
fn bias_relu(dims: &[usize], input: u32) -> Builder {
    let mut b = Builder::default();
    let result = b.push(Inst::Accumulator);
    let mut strides = vec![0; dims.len()];
    strides[dims.len() - 1] = 1;
    let bias = load(&mut b, input, 0, &strides);
    let sum = b.push(Inst::Binary(Binary::Add, result, bias));
    let zero = b.number(DType::F32, 0.0);
    let positive = b.push(Inst::Binary(Binary::Max, sum, zero));
    put(&mut b, 0, &row_major(dims), positive);
    b
}

struct Product {
    batch: Vec<usize>,
    size: [usize; 3],
    a: Vec<i64>,
    b: Vec<i64>,
}

impl Product {
    fn dims(&self) -> Vec<usize> {
        [&self.batch[..], &self.size[..2]].concat()
    }

    fn kernel(&self, a: Operand, b: Operand, epilogue: Program) -> Kernel {
        let [m, n, k] = self.size;
        Kernel::Matmul(Matmul { batch: self.batch.clone(), m, n, k, a, b, epilogue })
    }

    fn wanted(&self, x: &[f32], y: &[f32], prologue: impl Fn(f64) -> f64) -> Vec<f64> {
        let mut wanted = Vec::new();
        each(&self.dims(), |at| {
            let (batch, [i, j]) = (&at[..at.len() - 2], [at[at.len() - 2], at[at.len() - 1]]);
            let term = |k: usize| {
                let u = x[dot(&[batch, &[i, k]].concat(), &self.a)];
                prologue(f64::from(u)) * f64::from(y[dot(&[batch, &[k, j]].concat(), &self.b)])
            };
            wanted.push((0..self.size[2]).map(term).sum());
        });
        wanted
    }
}

#[test]
fn matmuls_of_every_layout() {
    // The `gemm` crate adds up to 512 products one after the other.
    const TOLERANCE: f64 = 2e-5;
    let product = |batch: &[usize], size, a: &[i64], b: &[i64]| Product {
        batch: batch.to_vec(),
        size,
        a: a.to_vec(),
        b: b.to_vec(),
    };
    let cases = [
        product(&[], [1, 1, 1], &[1, 1], &[1, 1]),
        product(&[], [33, 65, 31], &[31, 1], &[65, 1]),
        product(&[], [257, 129, 100], &[1, 257], &[1, 100]),
        product(&[], [1, 300, 70], &[70, 1], &[300, 1]),
        product(&[], [300, 1, 70], &[70, 1], &[1, 1]),
        product(&[], [5, 7, 0], &[0, 1], &[7, 1]),
        product(&[], [40, 30, 20], &[0, 1], &[30, 1]),
        // Few rows or columns, with a large matrix in either memory order.
        product(&[], [1, 1100, 30], &[0, 1], &[1100, 1]),
        product(&[], [7, 70, 501], &[501, 1], &[1, 501]),
        product(&[], [8, 613, 65], &[1, 8], &[613, 1]),
        product(&[], [90, 3, 402], &[402, 1], &[3, 1]),
        product(&[], [650, 5, 61], &[1, 650], &[1, 61]),
        product(&[5], [2, 100, 64], &[128, 64, 1], &[6400, 1, 64]),
        // Contiguous columns that collide in the cache: in several panels, between other numbers, and in a batch.
        product(&[], [35, 1100, 512], &[512, 1], &[1, 512]),
        product(&[], [70, 40, 17], &[17, 1], &[1, 512]),
        product(&[2], [40, 33, 512], &[20_480, 512, 1], &[16_896, 1, 512]),
        product(&[], [30, 33, 512], &[1, 30], &[1, 512]),
        // The batch shares `b`; it shares `a`; each operand has separate batch axes; many tiny products.
        product(&[6], [10, 12, 14], &[140, 14, 1], &[0, 12, 1]),
        product(&[6], [10, 12, 14], &[0, 14, 1], &[168, 12, 1]),
        product(&[3, 4], [9, 8, 7], &[63, 0, 7, 1], &[0, 56, 8, 1]),
        product(&[3, 4], [9, 8, 7], &[252, 63, 7, 1], &[0, 0, 8, 1]),
        product(&[4, 3], [9, 8, 7], &[63, 252, 7, 1], &[0, 0, 8, 1]),
        product(&[500], [3, 3, 3], &[9, 3, 1], &[9, 1, 3]),
        product(&[0], [3, 3, 3], &[9, 3, 1], &[9, 1, 3]),
        product(&[2], [0, 3, 3], &[9, 3, 1], &[9, 1, 3]),
    ];
    for case in &cases {
        let (x, y) = (noise(41_000, 20), noise(620_000, 21));
        let count = case.dims().iter().product();
        let kernel = case.kernel(view(0, 0, &case.a), view(1, 0, &case.b), plain(&case.dims()));
        close(&run(kernel, &[&x, &y], count), &case.wanted(&x, &y, |x| x), TOLERANCE);

        let kernel = case.kernel(computed(0, &case.a), view(1, 0, &case.b), plain(&case.dims()));
        let wanted = case.wanted(&x, &y, |x| 2.0 * x + 1.0);
        close(&run(kernel, &[&x, &y], count), &wanted, TOLERANCE);

        let n = case.size[1];
        let bias = noise(n, 22);
        let epilogue = bias_relu(&case.dims(), 2).finish();
        let kernel = case.kernel(view(0, 0, &case.a), view(1, 0, &case.b), epilogue);
        let wanted = case.wanted(&x, &y, |x| x).into_iter().enumerate();
        let wanted: Vec<f64> = wanted.map(|(i, x)| (x + f64::from(bias[i % n])).max(0.0)).collect();
        close(&run(kernel, &[&x, &y, &bias], count), &wanted, TOLERANCE);
    }
}

/// Tests each small number of rows or columns, with a large matrix in either memory order that contains an infinity.
#[test]
fn matmuls_of_few_rows() {
    const MOST: usize = 33;
    // The `gemm` crate computes the larger numbers of rows. It adds 1,700 products one after the other.
    const TOLERANCE: f64 = 3e-5;
    let sizes =
        [(16, 257), (33, 300), (64, 64), (130, 63), (193, 100), (400, 49), (17, 2100), (1700, 37)];
    for (k, n) in sizes {
        let (mut x, mut y) = (noise(MOST * k, 30), noise(k * n, 31));
        x[2 * k + 3] = f32::NAN;
        y[5 * n + 7] = f32::INFINITY;
        let turned: Vec<f32> = (0..n * k).map(|at| y[at % k * n + at / k]).collect();
        let mut wanted = vec![0f64; MOST * n];
        for (row, sums) in wanted.chunks_mut(n).enumerate() {
            for (&x, y) in x[row * k..][..k].iter().zip(y.chunks(n)) {
                sums.iter_mut().zip(y).for_each(|(sum, &y)| *sum += f64::from(x) * f64::from(y));
            }
        }
        for m in 1..=MOST {
            for (y, [down, across]) in [(&y, [n as i64, 1]), (&turned, [1, k as i64])] {
                let product = |size, a: &[i64], b: &[i64]| Product {
                    batch: Vec::new(),
                    size,
                    a: a.to_vec(),
                    b: b.to_vec(),
                };
                let few = product([m, n, k], &[k as i64, 1], &[down, across]);
                let kernel = few.kernel(view(0, 0, &few.a), view(1, 0, &few.b), plain(&[m, n]));
                close(&run(kernel, &[&x[..m * k], y], m * n), &wanted[..m * n], TOLERANCE);

                let few = product([n, m, k], &[across, down], &[1, k as i64]);
                let kernel = few.kernel(view(0, 0, &few.a), view(1, 0, &few.b), plain(&[n, m]));
                let wanted: Vec<f64> = (0..n * m).map(|at| wanted[at % m * n + at / m]).collect();
                close(&run(kernel, &[y, &x[..m * k]], n * m), &wanted, TOLERANCE);
            }
        }
    }
}

/// Tests operands that are reversed along each of their axes.
#[test]
fn matmuls_of_what_is_read_backwards() {
    for (m, n, k) in [(33, 65, 31), (130, 1, 70)] {
        let (x, y) = (noise(m * k, 23), noise(k * n, 24));
        for backwards in 1..16 {
            let along = |axis: usize| backwards >> axis & 1 == 1;
            // The view of the operand, and the position of a row and column in its data.
            let operand = |input: u32, [rows, columns]: [usize; 2]| {
                let flips = [along(2 * input as usize), along(2 * input as usize + 1)];
                let sign = |flip: bool| if flip { -1 } else { 1 };
                let strides = [sign(flips[0]) * columns as i64, sign(flips[1])];
                let down = if flips[0] { (rows - 1) * columns } else { 0 };
                let offset = down + if flips[1] { columns - 1 } else { 0 };
                let at = move |row: usize, column: usize| {
                    let row = if flips[0] { rows - 1 - row } else { row };
                    row * columns + if flips[1] { columns - 1 - column } else { column }
                };
                (view(input, offset as i64, &strides), at)
            };
            let ((a, a_at), (b, b_at)) = (operand(0, [m, k]), operand(1, [k, n]));
            let sum = |i: usize, j: usize| -> f64 {
                (0..k).map(|t| f64::from(x[a_at(i, t)]) * f64::from(y[b_at(t, j)])).sum()
            };
            let wanted: Vec<f64> = (0..m * n).map(|at| sum(at / n, at % n)).collect();
            let epilogue = plain(&[m, n]);
            let kernel = Kernel::Matmul(Matmul { batch: Vec::new(), m, n, k, a, b, epilogue });
            close(&run(kernel, &[&x, &y], m * n), &wanted, 1e-5);
        }
    }
}

#[test]
fn matmuls_in_halves() {
    let (m, n, k) = (20, 30, 40);
    let halves = |count, seed| -> Vec<u16> {
        noise(count, seed).into_iter().map(|x| f16::from_f32(x).to_bits()).collect()
    };
    let (x, y) = (halves(m * k, 23), halves(k * n, 24));
    let operand = |input, stride| {
        let mut b = Builder::default();
        let index = index(0, &[stride, 1]);
        let value = b.push(Inst::Load { input, index, dtype: DType::F16 });
        Operand { program: b.finish(), value }
    };
    let mut epilogue = plain(&[m, n]);
    epilogue.stores[0].dtype = DType::F16;
    let (a, b) = (operand(0, k as i64), operand(1, n as i64));
    let kernel = Kernel::Matmul(Matmul { batch: vec![], m, n, k, a, b, epilogue });
    let words = |halves: &[u16]| -> Vec<u32> { bytemuck::pod_collect_to_vec(halves) };
    let found = run_words(kernel, &[&words(&x), &words(&y)], m * n / 2);
    let found: &[u16] = bytemuck::cast_slice(&found);
    let found: Vec<f32> = found.iter().map(|&h| f16::from_bits(h).to_f32()).collect();
    let mut wanted = Vec::new();
    each(&[m, n], |at| {
        let value = |half: u16| f16::from_bits(half).to_f64();
        let term = |l: usize| value(x[at[0] * k + l]) * value(y[l * n + at[1]]);
        wanted.push((0..k).map(term).sum());
    });
    close(&found, &wanted, 1e-3);
}

fn convolution(shape: [usize; 5], kernel: [usize; 2], params: Conv2d) -> Convolution {
    let [batch, channels, height, width, out] = shape;
    let (oh, ow) =
        (params.extent(0, height, kernel[0]).unwrap(), params.extent(1, width, kernel[1]).unwrap());
    let x = [batch, channels, height, width];
    let w = [out, channels / params.groups, kernel[0], kernel[1]];
    Convolution {
        params,
        batch,
        channels,
        height,
        width,
        out,
        kernel,
        out_height: oh,
        out_width: ow,
        x: view(0, 0, &row_major(&x)),
        w: view(1, 0, &row_major(&w)),
        epilogue: plain(&[batch, out, oh, ow]),
    }
}

fn convolve(c: &Convolution, x: &[f32], w: &[f32]) -> Vec<f64> {
    let mut wanted = Vec::new();
    let per_group = c.channels / c.params.groups;
    each(&[c.batch, c.out, c.out_height, c.out_width], |at| {
        let group = at[1] / (c.out / c.params.groups);
        let mut sum = 0.0;
        each(&[per_group, c.kernel[0], c.kernel[1]], |tap| {
            let place =
                |i: usize| at[2 + i] * c.params.stride[i] + tap[1 + i] * c.params.dilation[i];
            let y = place(0).checked_sub(c.params.padding[0].0).filter(|&y| y < c.height);
            let x_at = place(1).checked_sub(c.params.padding[1].0).filter(|&x| x < c.width);
            if let (Some(y), Some(x_at)) = (y, x_at) {
                let channel = group * per_group + tap[0];
                let x = x[((at[0] * c.channels + channel) * c.height + y) * c.width + x_at];
                let w =
                    w[((at[1] * per_group + tap[0]) * c.kernel[0] + tap[1]) * c.kernel[1] + tap[2]];
                sum += f64::from(x) * f64::from(w);
            }
        });
        wanted.push(sum);
    });
    wanted
}

#[test]
fn convolutions() {
    let params = |stride, padding, dilation, groups| Conv2d { stride, padding, dilation, groups };
    let none = [(0, 0), (0, 0)];
    let around = [(1, 1), (1, 1)];
    let cases = [
        convolution([1, 1, 5, 5, 1], [3, 3], params([1, 1], none, [1, 1], 1)),
        convolution([2, 3, 17, 19, 8], [3, 3], params([1, 1], around, [1, 1], 1)),
        convolution([1, 4, 16, 15, 6], [3, 2], params([2, 3], [(1, 2), (0, 3)], [1, 1], 1)),
        convolution([3, 4, 20, 20, 6], [3, 3], params([1, 1], [(2, 2), (2, 2)], [2, 2], 2)),
        convolution([2, 6, 12, 13, 6], [3, 3], params([1, 1], around, [1, 1], 6)),
        convolution([2, 6, 12, 13, 12], [5, 3], params([2, 1], [(2, 2), (1, 1)], [1, 2], 6)),
        convolution([9, 16, 7, 7, 32], [1, 1], params([1, 1], none, [1, 1], 1)),
        convolution([1, 64, 40, 41, 32], [3, 3], params([1, 1], around, [1, 1], 1)),
        convolution([1, 2, 3, 3, 2], [3, 3], params([1, 1], [(4, 4), (4, 4)], [1, 1], 1)),
        convolution([0, 2, 3, 3, 2], [3, 3], params([1, 1], none, [1, 1], 1)),
    ];
    for case in &cases {
        let (x, w) = (noise(200_000, 30), noise(60_000, 31));
        let count = case.batch * case.out * case.out_height * case.out_width;
        let wanted = convolve(case, &x, &w);
        // The longest sums have 576 terms and partial sums of about 8. Their rounding error is at most 1.5e-5.
        close(&run(Kernel::Conv2d(case.clone()), &[&x, &w], count), &wanted, 3e-5);

        // Computed operands, and an epilogue.
        let mut case = case.clone();
        let per_group = case.channels / case.params.groups;
        let dims = [case.batch, case.channels, case.height, case.width];
        case.x = computed(0, &row_major(&dims));
        case.w = computed(1, &row_major(&[case.out, per_group, case.kernel[0], case.kernel[1]]));
        let result = [case.batch, case.out, case.out_height, case.out_width];
        case.epilogue = bias_relu(&result, 2).finish();
        let bias = noise(50, 32);
        let double = |x: &[f32]| -> Vec<f32> { x.iter().map(|x| 2.0 * x + 1.0).collect() };
        let wanted = convolve(&case, &double(&x), &double(&w)).into_iter().enumerate();
        let wanted = wanted.map(|(i, x)| (x + f64::from(bias[i % case.out_width])).max(0.0));
        let wanted: Vec<f64> = wanted.collect();
        // Sums of up to 576 terms of magnitude up to 9, of both signs.
        close(&run(Kernel::Conv2d(case), &[&x, &w, &bias], count), &wanted, 1e-4);
    }
}

#[test]
fn convolutions_of_permuted_operands() {
    // The channels are the last axis of the image and the first axis of the weights.
    let params = Conv2d { stride: [2, 1], padding: [(1, 1), (1, 0)], dilation: [1, 1], groups: 1 };
    let mut case = convolution([2, 3, 10, 11, 4], [3, 3], params);
    let (x, w) = (noise(660, 33), noise(108, 34));
    let wanted = convolve(&case, &x, &w);
    let mut last = vec![0.0; 660];
    each(&[2, 3, 10, 11], |at| {
        last[dot(at, &[330, 1, 33, 3])] = x[dot(at, &row_major(&[2, 3, 10, 11]))];
    });
    let mut first = vec![0.0; 108];
    each(&[4, 3, 3, 3], |at| {
        first[dot(at, &[1, 4, 12, 36])] = w[dot(at, &row_major(&[4, 3, 3, 3]))];
    });
    case.x = view(0, 0, &[330, 1, 33, 3]);
    case.w = view(1, 0, &[1, 4, 12, 36]);
    let count = wanted.len();
    close(&run(Kernel::Conv2d(case), &[&last, &first], count), &wanted, 1e-5);
}

struct Heads {
    batch: usize,
    heads: usize,
    kv_heads: usize,
    queries: usize,
    keys: usize,
    size: [usize; 2],
    causal: bool,
    mask: Option<[i64; 4]>,
}

impl Heads {
    fn kernel(&self) -> Attention {
        let &Heads { batch, heads, kv_heads, queries, keys, size: [d, dv], causal, mask } = self;
        let dims =
            |heads: usize, length: usize, size: usize| row_major(&[batch, heads, length, size]);
        Attention {
            causal,
            window: None,
            batch,
            heads,
            kv_heads,
            queries,
            keys,
            head_size: d,
            value_size: dv,
            q: view(0, 0, &dims(heads, queries, d)),
            k: view(1, 0, &dims(kv_heads, keys, d)),
            v: view(2, 0, &dims(kv_heads, keys, dv)),
            mask: mask.map(|strides| view(4, 0, &strides)),
            scale: view(3, 0, &[]),
            length: None,
            epilogue: plain(&[batch, heads, queries, dv]),
        }
    }

    fn wanted(&self, [q, k, v, scale, mask]: [&[f32]; 5]) -> Vec<f64> {
        let &Heads { batch, heads, kv_heads, queries, keys, size: [d, dv], .. } = self;
        let mut wanted = Vec::new();
        each(&[batch, heads, queries], |at| {
            let query = &q[((at[0] * heads + at[1]) * queries + at[2]) * d..][..d];
            let kv = at[0] * kv_heads + at[1] / (heads / kv_heads);
            let score = |j: usize| {
                if self.causal && j + queries > at[2] + keys {
                    return f64::NEG_INFINITY;
                }
                let key = &k[(kv * keys + j) * d..][..d];
                let product = query.iter().zip(key).map(|(&x, &y)| f64::from(x) * f64::from(y));
                let added = self.mask.map_or(0.0, |strides| {
                    f64::from(mask[dot(&[at[0], at[1], at[2], j], &strides)])
                });
                product.sum::<f64>() * f64::from(scale[0]) + added
            };
            let scores: Vec<f64> = (0..keys).map(score).collect();
            let maximum = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let weight = |x: f64| if x == f64::NEG_INFINITY { 0.0 } else { (x - maximum).exp() };
            let sum: f64 = scores.iter().map(|&x| weight(x)).sum();
            for c in 0..dv {
                let value = |j: usize| f64::from(v[(kv * keys + j) * dv + c]);
                let total: f64 = (0..keys).map(|j| weight(scores[j]) * value(j)).sum();
                wanted.push(if sum == 0.0 { 0.0 } else { total / sum });
            }
        });
        wanted
    }
}

#[test]
fn attention_of_every_kind() {
    let case = |[batch, heads, kv_heads, queries, keys]: [usize; 5], size, causal, mask| Heads {
        batch,
        heads,
        kv_heads,
        queries,
        keys,
        size,
        causal,
        mask,
    };
    let cases = [
        case([1, 1, 1, 1, 1], [4, 4], false, None),
        case([2, 3, 3, 33, 65], [16, 8], false, None),
        case([2, 4, 2, 70, 70], [32, 32], true, None),
        case([1, 8, 1, 1, 300], [64, 64], true, None),
        // More queries than keys, so the first queries may attend to no key.
        case([1, 2, 2, 40, 30], [8, 8], true, None),
        case([2, 2, 1, 31, 257], [8, 24], false, Some([0, 0, 257, 1])),
        case([2, 2, 2, 20, 140], [8, 8], true, Some([140, 0, 0, 1])),
        case([1, 2, 2, 20, 130], [8, 8], false, Some([0, 0, 1, 20])),
        case([1, 2, 2, 5, 0], [8, 8], false, None),
        case([1, 2, 2, 0, 5], [8, 8], false, None),
    ];
    for case in &cases {
        let inputs = [noise(40_000, 40), noise(40_000, 41), noise(40_000, 42)];
        let inputs = inputs.map(|x| x.into_iter().map(|x| 3.0 * x).collect::<Vec<f32>>());
        let mut mask = noise(20_000, 43);
        mask.iter_mut().enumerate().filter(|m| m.0 % 3 == 1).for_each(|m| *m.1 = f32::NEG_INFINITY);
        // One query that may attend to no key.
        if case.mask.is_some_and(|m| m[2] == 257) {
            mask[257 * 7..257 * 8].fill(f32::NEG_INFINITY);
        }
        let scale = [0.3f32];
        let all = [&inputs[0][..], &inputs[1], &inputs[2], &scale, &mask];
        let count = case.batch * case.heads * case.queries * case.size[1];
        let wanted = case.wanted(all);
        let found = run(Kernel::Attention(Box::new(case.kernel())), &all, count);
        close(&found, &wanted, 1e-5);

        let mut attend = case.kernel();
        let dims = [case.batch, case.heads, case.queries, case.size[1]];
        attend.epilogue = bias_relu(&dims, 4).finish();
        let size = case.size[1];
        let wanted = wanted.iter().enumerate();
        let wanted = wanted.map(|(i, x)| (x + f64::from(mask[i % size])).max(0.0));
        let wanted: Vec<f64> = wanted.collect();
        close(&run(Kernel::Attention(Box::new(attend)), &all, count), &wanted, 1e-5);
    }
}

#[test]
fn senseless_calls_are_errors() {
    let backend = CpuBackend::new();
    let copy = || {
        let mut b = Builder::default();
        let x = load(&mut b, 0, 0, &[1]);
        put(&mut b, 0, &[1], x);
        kernel(&[100], 1, b)
    };
    let batch = batch_of(copy(), &[100], &[100], 0);
    let (a, b) = (backend.allocate(400).unwrap(), backend.allocate(400).unwrap());
    let small = backend.allocate(396).unwrap();
    let kind = |buffers: &[BufferId]| backend.run(&batch, buffers, &[]).map_err(|e| e.kind());
    assert_eq!(kind(&[a, b]), Ok(()));
    assert_eq!(kind(&[a, BufferId(999)]), Err(ErrorKind::InvalidState));
    for buffers in [&[a, small][..], &[small, a], &[a, a], &[a], &[a, b, b]] {
        assert_eq!(kind(buffers), Err(ErrorKind::InvalidArgument), "{buffers:?}");
    }
    assert_eq!(kind(&[a, b]), Ok(()), "what failed left the buffers in place");
    backend.free(b);
    assert_eq!(kind(&[a, b]), Err(ErrorKind::InvalidState));
    let read = |id, offset, len| pollster::block_on(backend.read(id, offset, len));
    assert_eq!(read(a, 0, 400).unwrap().len(), 400);
    assert!(read(a, 4, 400).is_err() && read(b, 0, 4).is_err() && read(a, u64::MAX, 8).is_err());
    assert!(backend.write(a, 400, &[0; 4]).is_err() && backend.write(b, 0, &[0; 4]).is_err());
    assert_eq!(backend.allocate(1 << 60).unwrap_err().kind(), ErrorKind::Memory);
    assert_eq!(backend.allocate(u64::MAX).unwrap_err().kind(), ErrorKind::Memory);
    backend.free(BufferId(12345));

    // A store beyond its output, an input that does not exist, a value that is used before it is computed.
    let refused = |kernel| try_run(&backend, kernel, &[&[0; 100]], &[50], &[]).unwrap_err();
    assert_eq!(refused(copy()).kind(), ErrorKind::InvalidState);
    let program = |insts: Vec<Inst>| {
        let types = vec![DType::F32; insts.len()];
        let store = Store { output: 0, index: index(0, &[1]), value: 0, dtype: DType::F32 };
        let program = Program { insts, types, stores: vec![store] };
        Kernel::Loop { space: Space { dims: vec![50], outer: 1 }, program }
    };
    for inst in [
        Inst::Load { input: 3, index: index(0, &[1]), dtype: DType::F32 },
        Inst::Load { input: 0, index: index(0, &[1, 1]), dtype: DType::F32 },
        Inst::Param { word: 0, dtype: DType::F32 },
        Inst::Coord(1),
        Inst::Accumulator,
        Inst::Unary(Unary::Neg, 0),
    ] {
        assert_eq!(refused(program(vec![inst])).kind(), ErrorKind::InvalidState);
    }
    assert_eq!(refused(program(vec![])).kind(), ErrorKind::InvalidState);
}

#[test]
fn counters_stay_flat() {
    let backend = CpuBackend::new();
    let mut b = Builder::default();
    let x = load(&mut b, 0, 0, &[1]);
    put(&mut b, 0, &[1], x);
    let batch = batch_of(kernel(&[64], 1, b), &[64], &[64], 0);
    let (x, y) = (backend.allocate(256).unwrap(), backend.allocate(256).unwrap());
    for _ in 0..100 {
        backend.run(&batch, &[x, y], &[]).unwrap();
    }
    let counters = backend.counters();
    assert_eq!((counters.pipelines, counters.submits, counters.dispatches), (1, 100, 100));
    assert_eq!((counters.buffers, counters.bytes), (2, 512));
    backend.release(&batch);
    backend.run(&batch, &[x, y], &[]).unwrap();
    assert_eq!(backend.counters().pipelines, 1, "the kernel was kept");
    backend.free(x);
    backend.free(y);
    assert_eq!(backend.counters().bytes, 0);
    pollster::block_on(backend.synchronize()).unwrap();
    println!("{:?}", backend.info());
}
