//! Tests scaled dot-product attention.

use super::array::{random, Array};
use super::check::{near, Suite};
use super::tolerance::Tolerance;
use warpweft::dtype::DType;
use warpweft::tensor::AttentionOptions;

/// Computes attention by its definition. A query that may attend to no key gives zeros.
pub fn attend(
    q: &Array<f64>,
    k: &Array<f64>,
    v: &Array<f64>,
    causal: bool,
    mask: Option<&Array<f64>>,
    scale: f64,
) -> Array<f64> {
    let [batch, heads, queries, size] = q.shape[..] else { panic!("rank 4") };
    let [_, kv_heads, keys, _] = k.shape[..] else { panic!("rank 4") };
    let width = v.shape[3];
    let mut data = Vec::new();
    for row in 0..batch * heads * queries {
        let (b, h, i) = (row / queries / heads, row / queries % heads, row % queries);
        let kv = h / (heads / kv_heads);
        let score = |j: usize| {
            if causal && (j as isize) > i as isize + keys as isize - queries as isize {
                return f64::NEG_INFINITY;
            }
            let dot: f64 = (0..size).map(|d| q.at(&[b, h, i, d]) * k.at(&[b, kv, j, d])).sum();
            dot * scale + mask.map_or(0.0, |mask| mask.at(&[b, h, i, j]))
        };
        let scores: Vec<f64> = (0..keys).map(score).collect();
        let max = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let weights: Vec<f64> = scores
            .iter()
            .map(|s| if max == f64::NEG_INFINITY { 0.0 } else { (s - max).exp() })
            .collect();
        let total: f64 = weights.iter().sum();
        for d in 0..width {
            let sum: f64 = weights.iter().enumerate().map(|(j, w)| w * v.at(&[b, kv, j, d])).sum();
            data.push(if total == 0.0 { 0.0 } else { sum / total });
        }
    }
    Array::new(&[batch, heads, queries, width], data)
}

/// The extents of an attention.
#[derive(Clone, Copy)]
struct Sizes {
    batch: usize,
    heads: usize,
    kv_heads: usize,
    queries: usize,
    keys: usize,
    size: usize,
    width: usize,
}

const SMALL: Sizes =
    Sizes { batch: 1, heads: 2, kv_heads: 2, queries: 5, keys: 5, size: 8, width: 8 };

impl Sizes {
    fn data(&self) -> [Array<f64>; 3] {
        let Sizes { batch, heads, kv_heads, queries, keys, size, width } = *self;
        [
            random(&[batch, heads, queries, size], -1.0, 1.0, 1),
            random(&[batch, kv_heads, keys, size], -1.0, 1.0, 2),
            random(&[batch, kv_heads, keys, width], -1.0, 1.0, 3),
        ]
    }

    fn scale(&self) -> f64 {
        1.0 / (self.size as f64).sqrt()
    }

    /// Scores are sums of `size` products with magnitudes below 1.
    fn tolerance(&self) -> Tolerance {
        Tolerance::exponential(2.0 * Tolerance::sum(self.size, self.scale()).absolute)
    }
}

pub fn cases() -> Suite {
    let mut suite = Suite::new("attention");
    for size in [1, 8, 64, 65, 128, 256] {
        plain(
            &mut suite,
            format!("heads of {size}"),
            Sizes { size, width: size, queries: 9, keys: 11, ..SMALL },
        );
    }
    for length in [1, 31, 33, 65, 257] {
        let sizes = Sizes { queries: length, keys: length, heads: 1, kv_heads: 1, ..SMALL };
        plain(&mut suite, format!("length {length}"), sizes);
    }
    for (queries, keys) in [(1, 33), (1, 257), (3, 65), (65, 3), (33, 1), (7, 129)] {
        plain(
            &mut suite,
            format!("{queries} queries of {keys} keys"),
            Sizes { queries, keys, ..SMALL },
        );
    }
    for (heads, kv_heads) in [(4, 2), (6, 3), (4, 1), (8, 2), (1, 1)] {
        let sizes = Sizes { batch: 2, heads, kv_heads, queries: 7, keys: 9, ..SMALL };
        plain(&mut suite, format!("{heads} heads on {kv_heads}"), sizes);
    }
    // Decoding: few queries, many keys, and heads that share keys and values.
    for (heads, kv_heads, queries, keys) in
        [(8, 2, 1, 2049), (3, 1, 4, 1030), (2, 2, 2, 1024), (12, 4, 5, 1100)]
    {
        plain(
            &mut suite,
            format!("{queries} queries of {keys} keys, {heads} heads on {kv_heads}"),
            Sizes { batch: 2, heads, kv_heads, queries, keys, ..SMALL },
        );
    }
    for (size, width) in [(8, 5), (5, 8), (64, 1), (3, 130)] {
        plain(
            &mut suite,
            format!("values of {width}, heads of {size}"),
            Sizes { size, width, ..SMALL },
        );
    }
    masks(&mut suite);
    windows(&mut suite);
    lengths(&mut suite);
    limits(&mut suite);
    options(&mut suite);
    empty(&mut suite);
    blocks(&mut suite);
    rotary(&mut suite);
    suite
}

/// Adds a case without and with the causal mask.
fn plain(suite: &mut Suite, name: String, sizes: Sizes) {
    suite.add(name, move |device| {
        let [q, k, v] = sizes.data();
        let (a, b, c) = (q.f32(device)?, k.f32(device)?, v.f32(device)?);
        let mut checks = Vec::new();
        for causal in [false, true] {
            let got =
                a.attention(&b, &c, AttentionOptions { is_causal: causal, ..Default::default() })?;
            let want = attend(&q, &k, &v, causal, None, sizes.scale());
            checks.push(near(format!("causal: {causal}"), got, want, sizes.tolerance()));
        }
        Ok(checks)
    });
}

/// Returns the numbers that a sliding window adds to the scores. They hide keys that are too far away.
pub fn window_mask(queries: usize, keys: usize, window: usize) -> Array<f64> {
    Array::from_fn(&[1, 1, queries, keys], |at| {
        let own = at[2] as isize + keys as isize - queries as isize;
        let near = (at[3] as isize - own).unsigned_abs() < window;
        if near {
            0.0
        } else {
            f64::NEG_INFINITY
        }
    })
}

fn windows(suite: &mut Suite) {
    const SIZES: &[(usize, usize, usize)] = &[
        (5, 5, 1),
        (40, 40, 7),
        (33, 70, 33),
        (3, 300, 270),
        (1, 300, 5),
        (70, 20, 9),
        (65, 65, 500),
    ];
    for &(queries, keys, window) in SIZES {
        let sizes = Sizes { queries, keys, heads: 4, ..SMALL };
        suite.add(
            format!("{queries} queries of {keys} keys, a window of {window}"),
            move |device| {
                let [q, k, v] = sizes.data();
                let (a, b, c) = (q.f32(device)?, k.f32(device)?, v.f32(device)?);
                let mask = window_mask(queries, keys, window).expand(&[1, 4, queries, keys]);
                let mut checks = Vec::new();
                for causal in [false, true] {
                    let window = Some(window);
                    let options =
                        AttentionOptions { is_causal: causal, window, ..Default::default() };
                    let want = attend(&q, &k, &v, causal, Some(&mask), sizes.scale());
                    let got = a.attention(&b, &c, options)?;
                    checks.push(near(format!("causal: {causal}"), got, want, sizes.tolerance()));
                }
                Ok(checks)
            },
        );
    }
}

/// Tests limited lengths of keys. The keys after the length are NaN.
fn lengths(suite: &mut Suite) {
    const SIZES: &[(usize, usize, &[usize])] = &[
        (1, 300, &[0, 1, 5, 256, 257, 300]),
        (3, 70, &[1, 2, 33]),
        (5, 70, &[0, 3, 5, 32, 33, 70]),
        (40, 40, &[7, 39]),
        (70, 300, &[69, 150, 299]),
    ];
    for &(queries, keys, lengths) in SIZES {
        let sizes = Sizes { batch: 2, heads: 4, queries, keys, ..SMALL };
        for &length in lengths {
            let name = format!("{queries} queries of {keys} keys, {length} of which count");
            suite.add(name, move |device| {
                let [q, mut k, mut v] = sizes.data();
                let [first, values] = [&k, &v].map(|x| x.slice(2, 0, length, 1));
                for (n, x) in k.data.iter_mut().enumerate() {
                    *x = if n / sizes.size % keys < length { *x } else { f64::NAN };
                }
                for (n, x) in v.data.iter_mut().enumerate() {
                    *x = if n / sizes.width % keys < length { *x } else { f64::INFINITY };
                }
                let (a, b, c) = (q.f32(device)?, k.f32(device)?, v.f32(device)?);
                let added = random(&[queries, keys], -1.0, 1.0, 9);
                let mask = added.f32(device)?;
                let added = added.slice(1, 0, length, 1).reshape(&[1, 1, queries, length]);
                let added = added.expand(&[2, 4, queries, length]);
                let mut checks = Vec::new();
                for causal in [false, true] {
                    let plain = AttentionOptions {
                        is_causal: causal,
                        kv_length: Some(length),
                        ..Default::default()
                    };
                    let want = attend(&q, &first, &values, causal, None, sizes.scale());
                    let got = a.attention(&b, &c, plain)?;
                    checks.push(near(format!("causal: {causal}"), got, want, sizes.tolerance()));
                    let options = AttentionOptions { attn_mask: Some(&mask), ..plain };
                    let want = attend(&q, &first, &values, causal, Some(&added), sizes.scale());
                    let got = a.attention(&b, &c, options)?;
                    checks.push(near(format!("masked: {causal}"), got, want, sizes.tolerance()));
                    let options = AttentionOptions { window: Some(6), ..plain };
                    let near_by = window_mask(queries, length, 6).expand(&[2, 4, queries, length]);
                    let want = attend(&q, &first, &values, causal, Some(&near_by), sizes.scale());
                    let got = a.attention(&b, &c, options)?;
                    checks.push(near(format!("window: {causal}"), got, want, sizes.tolerance()));
                }
                Ok(checks)
            });
        }
    }
}

/// Tests that a key counts only if the length, the mask, `is_causal` and the window all allow it.
fn limits(suite: &mut Suite) {
    for (queries, keys, length, window) in [(5, 40, 33, 9), (1, 300, 257, 100), (40, 70, 50, 12)] {
        let sizes = Sizes { batch: 2, heads: 4, queries, keys, ..SMALL };
        suite.add(format!("all limits, {queries} queries of {keys} keys"), move |device| {
            let [q, k, v] = sizes.data();
            let [first, values] = [&k, &v].map(|x| x.slice(2, 0, length, 1));
            // The mask has all keys, and shows those after the length.
            let seen = random(&[queries, keys], -1.0, 2.0, 10);
            let seen = Array::from_fn(&[queries, keys], |at| {
                f64::from(u8::from(at[1] >= length || seen.at(at) > 0.0))
            });
            let near_by = window_mask(queries, length, window);
            let hidden = Array::from_fn(&[1, 1, queries, length], |at| match seen.at(&at[2..]) {
                0.0 => f64::NEG_INFINITY,
                _ => near_by.at(at),
            });
            let hidden = hidden.expand(&[2, 4, queries, length]);
            let mask = seen.on(device, DType::Bool)?;
            let options = AttentionOptions {
                is_causal: true,
                window: Some(window),
                attn_mask: Some(&mask),
                kv_length: Some(length),
                ..Default::default()
            };
            let got = q.f32(device)?.attention(&k.f32(device)?, &v.f32(device)?, options)?;
            let want = attend(&q, &first, &values, true, Some(&hidden), sizes.scale());
            Ok(vec![near("attention", got, want, sizes.tolerance())])
        });
    }
}

fn masks(suite: &mut Suite) {
    const SHAPES: &[&[usize]] = &[
        &[],
        &[6],
        &[5, 6],
        &[5, 1],
        &[3, 5, 6],
        &[3, 1, 1],
        &[2, 1, 5, 6],
        &[2, 3, 5, 6],
        &[2, 1, 1, 6],
    ];
    let sizes = Sizes { batch: 2, heads: 3, kv_heads: 3, queries: 5, keys: 6, ..SMALL };
    for &shape in SHAPES {
        suite.add(format!("masks of {shape:?}"), move |device| {
            let [q, k, v] = sizes.data();
            let (a, b, c) = (q.f32(device)?, k.f32(device)?, v.f32(device)?);
            let added = random(shape, -2.0, 2.0, 4);
            let seen = random(shape, -2.0, 3.0, 5).map(|x| f64::from(x > 0.0));
            let hidden = seen.map(|s| if s > 0.0 { 0.0 } else { f64::NEG_INFINITY });
            let mut checks = Vec::new();
            for causal in [false, true] {
                let mask = added.f32(device)?;
                let options = AttentionOptions {
                    is_causal: causal,
                    attn_mask: Some(&mask),
                    ..Default::default()
                };
                let want = attend(&q, &k, &v, causal, Some(&added), sizes.scale());
                checks.push(near("added", a.attention(&b, &c, options)?, want, sizes.tolerance()));
                let mask = seen.on(device, DType::Bool)?;
                let options = AttentionOptions {
                    is_causal: causal,
                    attn_mask: Some(&mask),
                    ..Default::default()
                };
                let want = attend(&q, &k, &v, causal, Some(&hidden), sizes.scale());
                checks.push(near("bool", a.attention(&b, &c, options)?, want, sizes.tolerance()));
            }
            Ok(checks)
        });
    }
    suite.add("queries that see nothing give zeros", |device| {
        let sizes = Sizes { queries: 40, keys: 70, ..SMALL };
        let [q, k, v] = sizes.data();
        let seen = Array::from_fn(&[40, 70], |at| f64::from(at[0] % 3 != 0 && at[1] >= 65));
        let hidden = seen.map(|s| if s > 0.0 { 0.0 } else { f64::NEG_INFINITY });
        let mask = seen.on(device, DType::Bool)?;
        let options = AttentionOptions { attn_mask: Some(&mask), ..Default::default() };
        let got = q.f32(device)?.attention(&k.f32(device)?, &v.f32(device)?, options)?;
        let want = attend(&q, &k, &v, false, Some(&hidden), sizes.scale());
        Ok(vec![near("attention", got, want, sizes.tolerance())])
    });
    suite.add("more queries than keys, causal", |device| {
        let sizes = Sizes { queries: 9, keys: 4, ..SMALL };
        let [q, k, v] = sizes.data();
        let options = AttentionOptions { is_causal: true, ..Default::default() };
        let got = q.f32(device)?.attention(&k.f32(device)?, &v.f32(device)?, options)?;
        let want = attend(&q, &k, &v, true, None, sizes.scale());
        Ok(vec![near("attention", got, want, sizes.tolerance())])
    });
}

fn options(suite: &mut Suite) {
    suite.add("scales and large scores", |device| {
        let [q, k, v] = SMALL.data();
        let (a, b, c) = (q.f32(device)?, k.f32(device)?, v.f32(device)?);
        let mut checks = Vec::new();
        for scale in [0.0, 1.0, -0.5, 100.0] {
            let options = AttentionOptions { scale: Some(scale), ..Default::default() };
            let want = attend(&q, &k, &v, false, None, scale);
            let by = Tolerance::exponential(2.0 * Tolerance::sum(8, scale.abs()).absolute);
            checks.push(near(format!("{scale}"), a.attention(&b, &c, options)?, want, by));
        }
        Ok(checks)
    });
}

fn empty(suite: &mut Suite) {
    suite.add("no keys give zeros", |device| {
        let q = random(&[1, 2, 3, 4], -1.0, 1.0, 6).f32(device)?;
        let none = device.zeros(&[1, 2, 0, 4])?;
        let got = q.attention(&none, &none, AttentionOptions::default())?;
        Ok(vec![near("zeros", got, Array::new(&[1, 2, 3, 4], vec![0.0; 24]), Tolerance::EXACT)])
    });
    suite.add("no queries", |device| {
        let k = random(&[1, 2, 3, 4], -1.0, 1.0, 6).f32(device)?;
        let none = device.zeros(&[1, 2, 0, 4])?;
        let got = none.attention(&k, &k, AttentionOptions::default())?;
        Ok(vec![near("nothing", got, Array::new(&[1, 2, 0, 4], vec![]), Tolerance::EXACT)])
    });
}

fn blocks(suite: &mut Suite) {
    suite.add("heads as views of one projection", |device| {
        let (batch, length, heads, size) = (2, 10, 3, 8);
        let x = random(&[batch, length, 3 * heads * size], -1.0, 1.0, 7);
        let pieces = x.f32(device)?.split(&[heads * size; 3], -1)?;
        let head =
            |n: usize| pieces[n].reshape(&[batch, length, heads, size])?.permute(&[0, 2, 1, 3]);
        let options = AttentionOptions { is_causal: true, ..Default::default() };
        let got = head(0)?.attention(&head(1)?, &head(2)?, options)?;
        let got = got.permute(&[0, 2, 1, 3])?.reshape(&[batch, length, heads * size])?;
        let part = |n: usize| {
            let part = x.slice(2, n * heads * size, heads * size, 1);
            part.reshape(&[batch, length, heads, size]).permute(&[0, 2, 1, 3])
        };
        let scale = 1.0 / (size as f64).sqrt();
        let want = attend(&part(0), &part(1), &part(2), true, None, scale);
        let want = want.permute(&[0, 2, 1, 3]).reshape(&[batch, length, heads * size]);
        Ok(vec![near("joined", got, want, Sizes { size, ..SMALL }.tolerance())])
    });
    suite.add("work before and after", |device| {
        let [q, k, v] = SMALL.data();
        let (a, b, c) = (q.f32(device)?, k.f32(device)?, v.f32(device)?);
        let got = a.mul(2.0)?.attention(&b, &c.add(1.0)?, AttentionOptions::default())?.mul(3.0)?;
        let (q, v) = (q.map(|x| 2.0 * x), v.map(|x| x + 1.0));
        let want = attend(&q, &k, &v, false, None, SMALL.scale()).map(|x| 3.0 * x);
        Ok(vec![near("attention", got, want, Tolerance::exponential(1e-5))])
    });
}

/// Rotates pairs of the last axis by angles whose cosines and sines are given.
pub fn turned(x: &Array<f64>, cos: &Array<f64>, sin: &Array<f64>, interleaved: bool) -> Array<f64> {
    let half = *cos.shape.last().expect("an axis");
    Array::from_fn(&x.shape, |at| {
        let (last, before) = at.split_last().expect("an axis");
        if *last >= 2 * half {
            return x.at(at);
        }
        let (pair, second) =
            if interleaved { (last / 2, last % 2) } else { (last % half, last / half) };
        let place = |n: usize| if interleaved { 2 * pair + n } else { pair + n * half };
        let of = |array: &Array<f64>, last: usize| array.at(&[before, &[last]].concat());
        let (a, b) = (of(x, place(0)), of(x, place(1)));
        let (c, s) = (of(cos, pair), of(sin, pair));
        if second == 0 {
            a * c - b * s
        } else {
            b * c + a * s
        }
    })
}

fn rotary(suite: &mut Suite) {
    const SHAPES: &[(&[usize], &[usize])] = &[
        (&[2], &[1]),
        (&[5, 8], &[5, 4]),
        (&[2, 3, 33, 8], &[33, 4]),
        (&[2, 3, 5, 9], &[5, 3]),
        (&[2, 3, 5, 6], &[2, 1, 5, 2]),
        (&[0, 4], &[2]),
    ];
    for &(shape, angles) in SHAPES {
        suite.add(format!("rotary of {shape:?} by {angles:?}"), move |device| {
            let (x, angle) = (random(shape, -2.0, 2.0, 21), random(angles, -3.0, 3.0, 22));
            let (cos, sin) = (angle.map(f64::cos), angle.map(f64::sin));
            let (a, c, s) = (x.f32(device)?, cos.f32(device)?, sin.f32(device)?);
            let check = |name, interleaved| {
                let want = turned(&x, &cos, &sin, interleaved);
                let by = Tolerance { absolute: 1e-6, ..Tolerance::F32 };
                Ok(near(name, a.rotary(&c, &s, interleaved)?, want, by))
            };
            Ok(vec![check("halves", false)?, check("neighbours", true)?])
        });
    }
}
