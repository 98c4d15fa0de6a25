//! Tests small operations that are composed of others: values and gradients, compared with plain Rust.

use super::array::{integers, random, Array};
use super::check::{exact, near, said, Suite};
use super::grad::holds;
use super::tolerance::Tolerance;
use std::rc::Rc;
use warpweft::dtype::DType;
use warpweft::error::Result;
use warpweft::tensor::{
    Axes, Conv2dOptions, ConvTransposeOptions, Padding, PoolOptions, Reduction, ScatterReduction,
    Tensor,
};

pub fn cases() -> Suite {
    let mut suite = Suite::new("composed");
    norms(&mut suite);
    activations(&mut suite);
    moved(&mut suite);
    chosen(&mut suite);
    scattered(&mut suite);
    pixels(&mut suite);
    windows(&mut suite);
    suite
}

/// Adds cases that compare `build` with `meaning`: the value, and the gradient by each input.
pub fn both(
    suite: &mut Suite,
    name: &str,
    inputs: Vec<Array<f64>>,
    build: impl Fn(&[Tensor]) -> Result<Tensor> + 'static,
    meaning: impl Fn(&[Array<f64>]) -> Array<f64> + 'static,
) {
    let (build, meaning, inputs) = (Rc::new(build), Rc::new(meaning), Rc::new(inputs));
    let (of, held, given) = (build.clone(), meaning.clone(), inputs.clone());
    suite.add(name, move |device| {
        let tensors: Result<Vec<Tensor>> = given.iter().map(|x| x.f32(device)).collect();
        let by = Tolerance { absolute: 2e-6, ..Tolerance::F32 };
        Ok(vec![near(name_of(&given), of(&tensors?)?, held(&given), by)])
    });
    let name = format!("the gradient of {name}");
    let inputs = inputs.to_vec();
    holds(suite, name, inputs, move |x| build(x), move |x| meaning(x));
}

fn name_of(inputs: &[Array<f64>]) -> String {
    let shapes: Vec<&[usize]> = inputs.iter().map(|x| &x.shape[..]).collect();
    format!("of {shapes:?}")
}

/// Returns numbers that differ from each other and are not close to 0.
fn apart(shape: &[usize], seed: u32) -> Array<f64> {
    let mut n = 0.0;
    random(shape, -2.0, 2.0, seed).map(|x| {
        n += 1.0;
        let x = (x * 50.0).round() / 50.0 + n * 1e-3;
        x + 0.2 * x.signum()
    })
}

fn norm(p: f64, x: &[f64]) -> f64 {
    let size = x.iter().map(|x| x.abs());
    if p == f64::INFINITY {
        size.fold(0.0, f64::max)
    } else if p == f64::NEG_INFINITY {
        size.fold(f64::INFINITY, f64::min)
    } else if p == 0.0 {
        x.iter().filter(|x| **x != 0.0).count() as f64
    } else {
        size.map(|x| x.powf(p)).sum::<f64>().powf(1.0 / p)
    }
}

fn norms(suite: &mut Suite) {
    for p in [1.0, 2.0, 3.0, 0.5, -1.0, 0.0, f64::INFINITY, f64::NEG_INFINITY] {
        both(
            suite,
            &format!("the norm of {p}"),
            vec![apart(&[3, 4], 1)],
            move |x| x[0].norm(p, -1),
            move |x| x[0].reduce(&[1], |x| norm(p, x)).squeeze(&[1]),
        );
    }
    suite.add("norms of zeros, of large numbers and over all", |device| {
        let zeros = device.zeros(&[3])?;
        let large = Array::new(&[2], vec![3e20, 4e20]);
        let one = |v: f64| Array::new(&[], vec![v]);
        let kept = large.f32(device)?.norm(3.0, Axes::from(()).keepdim(true))?;
        let want = Array::new(&[1], vec![(27f64 + 64.0).cbrt() * 1e20]);
        let grad = zeros.norm(3.0, ())?.grad(&[&zeros])?.remove(0);
        Ok(vec![
            near("zeros", zeros.norm(3.0, ())?, one(0.0), Tolerance::EXACT),
            near("zeros, below 0", zeros.norm(-2.0, ())?, one(0.0), Tolerance::EXACT),
            near("the gradient at 0", grad, Array::new(&[3], vec![0.0; 3]), Tolerance::EXACT),
            near("large", kept, want, Tolerance::F32),
        ])
    });
    suite.add("norms and distances over no elements", |device| {
        let (none, others) = (device.zeros(&[2, 0])?, device.zeros(&[3, 0])?);
        let all =
            |shape: &[usize], value: f64| Array::new(shape, vec![value; shape.iter().product()]);
        let mut checks = Vec::new();
        for p in [0.0, 0.5, 1.0, 2.0, 3.0, f64::INFINITY, -2.0, f64::NEG_INFINITY] {
            let want = if p < 0.0 { f64::INFINITY } else { 0.0 };
            let by = Tolerance::EXACT;
            checks.push(near(format!("norm {p}"), none.norm(p, 1)?, all(&[2], want), by));
            let kept = none.norm(p, Axes::from(1).keepdim(true))?;
            checks.push(near(format!("kept {p}"), kept, all(&[2, 1], want), by));
            let distances = none.cdist(&others, p)?;
            checks.push(near(format!("cdist {p}"), distances, all(&[2, 3], want), by));
        }
        checks.push(near("linf", none.norm_linf(())?, all(&[], 0.0), Tolerance::EXACT));
        Ok(checks)
    });
    both(
        suite,
        "cosine_similarity",
        vec![apart(&[3, 4], 2), apart(&[4], 3)],
        |x| x[0].cosine_similarity(&x[1], -1, 1e-8),
        |x| {
            let sum = |x: Array<f64>| x.reduce(&[1], |x| x.iter().sum::<f64>()).squeeze(&[1]);
            let dot = sum(x[0].zip(&x[1], |x, y| x * y));
            let (a, b) = (x[0].reduce(&[1], |x| norm(2.0, x)).squeeze(&[1]), norm(2.0, &x[1].data));
            dot.zip(&a, |dot, a| dot / (a * b))
        },
    );
}

fn activations(suite: &mut Suite) {
    both(
        suite,
        "prelu of one weight",
        vec![apart(&[2, 3], 4), apart(&[1], 5)],
        |x| x[0].prelu(&x[1]),
        |x| x[0].zip(&x[1], |x, w| if x > 0.0 { x } else { w * x }),
    );
    both(
        suite,
        "prelu of channels",
        vec![apart(&[2, 3, 2], 6), apart(&[3], 7)],
        |x| x[0].prelu(&x[1]),
        |x| x[0].zip(&x[1].reshape(&[3, 1]), |x, w| if x > 0.0 { x } else { w * x }),
    );
    both(
        suite,
        "glu",
        vec![apart(&[3, 4, 2], 8)],
        |x| x[0].glu(1),
        |x| {
            let (a, b) = (x[0].slice(1, 0, 2, 1), x[0].slice(1, 2, 2, 1));
            a.zip(&b, |a, b| a / (1.0 + (-b).exp()))
        },
    );
    both(
        suite,
        "clamp_min and clamp_max",
        vec![apart(&[7], 9)],
        |x| x[0].clamp_min(-0.9)?.clamp_max(1.1),
        |x| x[0].map(|x| x.clamp(-0.9, 1.1)),
    );
}

fn moved(suite: &mut Suite) {
    for diagonal in [0, 1, -2, 5, -5] {
        both(
            suite,
            &format!("the diagonal {diagonal} of a matrix"),
            vec![apart(&[4, 3], 10)],
            move |x| x[0].diag(diagonal),
            move |x| {
                let places = (0..4i32).map(|row| (row, row + diagonal));
                let inside = places.filter(|(_, column)| (0..3).contains(column));
                let all: Vec<f64> =
                    inside.map(|(r, c)| x[0].at(&[r as usize, c as usize])).collect();
                Array::new(&[all.len()], all)
            },
        );
    }
    for diagonal in [0, 2, -1] {
        both(
            suite,
            &format!("a matrix of the diagonal {diagonal}"),
            vec![apart(&[3], 11)],
            move |x| x[0].diag(diagonal),
            move |x| {
                let count = 3 + diagonal.unsigned_abs() as usize;
                let from = diagonal.min(0).unsigned_abs() as usize;
                Array::from_fn(&[count, count], |at| {
                    let here = at[0] as i32 + diagonal == at[1] as i32;
                    if here {
                        x[0].data[at[0] - from]
                    } else {
                        0.0
                    }
                })
            },
        );
    }
    for k in -1..5 {
        both(
            suite,
            &format!("rot90 by {k}"),
            vec![apart(&[2, 3, 2], 12)],
            move |x| x[0].rot90(k, (0, 1)),
            move |x| {
                // A quarter turn moves the last column to the first row.
                let turn = |x: &Array<f64>| {
                    let (rows, columns) = (x.shape[0], x.shape[1]);
                    Array::from_fn(&[columns, rows, 2], |at| {
                        x.at(&[at[1], columns - 1 - at[0], at[2]])
                    })
                };
                (0..k.rem_euclid(4)).fold(x[0].clone(), |x, _| turn(&x))
            },
        );
    }
    both(
        suite,
        "roll of several axes",
        vec![apart(&[3, 4], 13)],
        |x| x[0].roll([1, -5], [0, 1]),
        |x| Array::from_fn(&[3, 4], |at| x[0].at(&[(at[0] + 2) % 3, (at[1] + 5) % 4])),
    );
    both(
        suite,
        "roll of all elements",
        vec![apart(&[3, 4], 14)],
        |x| x[0].roll(-3, ()),
        |x| Array::from_fn(&[3, 4], |at| x[0].data[(at[0] * 4 + at[1] + 3) % 12]),
    );
    both(
        suite,
        "pad with less than nothing",
        vec![apart(&[3, 4], 15)],
        |x| x[0].pad(&[(-1, 2), (1, -2)], 0.5),
        |x| x[0].slice(0, 1, 2, 1).slice(1, 0, 2, 1).pad(&[(0, 2), (1, 0)], 0.5),
    );
}

fn chosen(suite: &mut Suite) {
    both(
        suite,
        "take",
        vec![apart(&[2, 3], 16)],
        |x| x[0].take(&x[0].device().tensor(&[5i32, 0, 5, 9], &[2, 2])?),
        |x| Array::new(&[2, 2], vec![x[0].data[5], x[0].data[0], x[0].data[5], 0.0]),
    );
    for k in 1..=5 {
        both(
            suite,
            &format!("kthvalue {k}"),
            vec![apart(&[3, 5], 17)],
            move |x| Ok(x[0].kthvalue(k, 1)?.0),
            move |x| {
                let sorted = |x: &[f64]| {
                    let mut x = x.to_vec();
                    x.sort_by(f64::total_cmp);
                    x[k - 1]
                };
                x[0].reduce(&[1], sorted).squeeze(&[1])
            },
        );
    }
    suite.add("positions of kthvalue", |device| {
        let x = Array::new(&[4], vec![3.0, 1.0, 2.0, 1.0]).f32(device)?;
        let at = |k| Ok(x.kthvalue(k, 0)?.1);
        let one = |v: f64| Array::new(&[], vec![v]);
        Ok(vec![
            exact("the second of two equal ones", at(2)?, DType::I32, one(3.0)),
            exact("the largest", at(4)?, DType::I32, one(0.0)),
        ])
    });
    suite.steps("masked_select", |device| async move {
        let x = integers(&[4, 5], -9, 9, 18);
        let mask = integers(&[5], 0, 1, 19);
        let (a, m) = (x.f32(&device).map_err(said)?, mask.on(&device, DType::Bool).map_err(said)?);
        let got = a.masked_select(&m).await.map_err(said)?;
        let mut want = Vec::new();
        for row in x.data.chunks(5) {
            want.extend(row.iter().zip(&mask.data).filter(|(_, m)| **m != 0.0).map(|(x, _)| *x));
        }
        near("chosen", got, Array::new(&[want.len()], want), Tolerance::EXACT).run().await?;
        let none = a.masked_select(&m.logical_and(m.logical_not()).map_err(said)?).await;
        near("none", none.map_err(said)?, Array::new(&[0], vec![]), Tolerance::EXACT).run().await
    });
}

/// Computes `scatter_reduce` along the first axis.
fn reduced(
    x: &Array<f64>,
    index: &[Vec<usize>],
    source: &Array<f64>,
    include: bool,
    combine: fn(&[f64]) -> f64,
) -> Array<f64> {
    Array::from_fn(&x.shape, |at| {
        let mut all = if include { vec![x.at(at)] } else { Vec::new() };
        for (row, columns) in index.iter().enumerate() {
            if columns.get(at[1]) == Some(&at[0]) {
                all.push(source.at(&[row, at[1]]));
            }
        }
        if all.is_empty() {
            x.at(at)
        } else {
            combine(&all)
        }
    })
}

fn scattered(suite: &mut Suite) {
    type Way = (&'static str, fn() -> ScatterReduction, fn(&[f64]) -> f64);
    const WAYS: [Way; 4] = [
        ("mean", ScatterReduction::mean, |x| x.iter().sum::<f64>() / x.len() as f64),
        ("sum", || Reduction::Sum.into(), |x| x.iter().sum()),
        ("max", || Reduction::Max.into(), |x| x.iter().copied().fold(f64::NEG_INFINITY, f64::max)),
        ("prod", || Reduction::Prod.into(), |x| x.iter().product()),
    ];
    // Two of three columns, from a source of three rows and three columns.
    let index = [vec![0usize, 3], vec![0, 1], vec![2, 1]];
    for (name, way, combine) in WAYS {
        for include in [true, false] {
            let (numbers, index) = (index.concat(), index.clone());
            both(
                suite,
                &format!("scatter_reduce by {name}, with what is there {include}"),
                vec![apart(&[4, 3], 20), apart(&[3, 3], 21)],
                move |x| {
                    let numbers: Vec<i32> = numbers.iter().map(|&n| n as i32).collect();
                    let index = x[0].device().tensor(&numbers, &[3, 2])?;
                    x[0].scatter_reduce(0, &index, &x[1], way().include_self(include))
                },
                move |x| reduced(&x[0], &index, &x[1], include, combine),
            );
        }
    }
    both(
        suite,
        "gather with a shorter index",
        vec![apart(&[4, 3, 2], 22)],
        |x| x[0].gather(0, &x[0].device().tensor(&[3i32, 0, 1, 1, 2, 7], &[3, 2, 1])?),
        |x| {
            let index = [3, 0, 1, 1, 2, 7];
            Array::from_fn(&[3, 2, 1], |at| match index[at[0] * 2 + at[1]] {
                7 => 0.0,
                n => x[0].at(&[n, at[1], 0]),
            })
        },
    );
}

fn pixels(suite: &mut Suite) {
    both(
        suite,
        "pixel_shuffle",
        vec![apart(&[2, 3, 12, 2, 5], 24)],
        |x| x[0].pixel_shuffle(2),
        |x| {
            Array::from_fn(&[2, 3, 3, 4, 10], |at| {
                let channel = 4 * at[2] + 2 * (at[3] % 2) + at[4] % 2;
                x[0].at(&[at[0], at[1], channel, at[3] / 2, at[4] / 2])
            })
        },
    );
    both(
        suite,
        "pixel_unshuffle",
        vec![apart(&[2, 6, 9], 25)],
        |x| x[0].pixel_unshuffle(3),
        |x| {
            Array::from_fn(&[18, 2, 3], |at| {
                let (row, column) = (at[0] / 3 % 3, at[0] % 3);
                x[0].at(&[at[0] / 9, 3 * at[1] + row, 3 * at[2] + column])
            })
        },
    );
    suite.add("pixels of eight axes, and of none", |device| {
        let x = apart(&[1, 2, 1, 2, 1, 4, 3, 1], 26);
        let there = x.f32(device)?.pixel_shuffle(2)?;
        let none = device.zeros(&[0, 3, 2, 2])?.pixel_unshuffle(2)?;
        let back = there.pixel_unshuffle(2)?;
        Ok(vec![
            exact("there and back", back, DType::F32, x.rounded(DType::F32)),
            exact("none", none, DType::F32, Array::new(&[0, 12, 1, 1], Vec::new())),
        ])
    });
}

fn windows(suite: &mut Suite) {
    let options = Conv2dOptions {
        stride: [2, 1],
        padding: [(1, 0), (2, 1)].into(),
        dilation: [1, 2],
        groups: 1,
    };
    both(
        suite,
        "im2col",
        vec![apart(&[2, 2, 4, 3], 23)],
        move |x| x[0].im2col([2, 2], options),
        |x| {
            let padded = x[0].pad(&[(0, 0), (0, 0), (1, 0), (2, 1)], 0.0);
            Array::from_fn(&[2, 8, 8], |at| {
                let (c, i, j) = (at[1] / 4, at[1] / 2 % 2, at[1] % 2);
                let (row, column) = (at[2] / 4, at[2] % 4);
                padded.at(&[at[0], c, 2 * row + i, column + 2 * j])
            })
        },
    );
    // The same operations on a batch of one. Other files compare those with loops.
    type Same = (&'static str, &'static [usize], fn(&Tensor) -> Result<Tensor>);
    const SAME: &[Same] = &[
        ("conv1d", &[2, 5], |x| x.conv1d(&weight(x, &[3, 2, 2])?, None, Default::default())),
        ("conv2d", &[2, 5, 4], |x| {
            x.conv2d(&weight(x, &[3, 2, 2, 2])?, Some(&weight(x, &[3])?), Default::default())
        }),
        ("conv3d", &[2, 3, 3, 3], |x| {
            x.conv3d(&weight(x, &[1, 2, 2, 2, 2])?, None, Default::default())
        }),
        ("conv_transpose2d", &[2, 3, 3], |x| {
            x.conv_transpose2d(&weight(x, &[2, 3, 2, 2])?, None, Default::default())
        }),
        ("max_pool", &[2, 5], |x| x.max_pool(PoolOptions::new([2]))),
        ("max_pool_indices", &[2, 4, 4], |x| {
            x.max_pool_indices(PoolOptions::new([2, 2]))?.cast(DType::F32)
        }),
        ("avg_pool", &[2, 5, 4], |x| x.avg_pool(PoolOptions::new([2, 2]))),
        ("l2_pool", &[2, 4, 4, 4], |x| x.l2_pool(PoolOptions::new([2, 2, 2]))),
    ];
    for &(name, shape, work) in SAME {
        suite.add(format!("{name} without a batch"), move |device| {
            let x = apart(shape, 24).f32(device)?;
            let apart = work(&x)?.sub(work(&x.unsqueeze(0)?)?.squeeze(0)?)?;
            let want = Array::from_fn(apart.shape(), |_| 0.0);
            Ok(vec![near(name, apart, want, Tolerance::EXACT)])
        });
    }
    suite.add("a transposed convolution as long as the input times the stride", |device| {
        let mut checks = Vec::new();
        for (size, stride, dilation) in [(3, 2, 1), (4, 2, 1), (2, 3, 1), (3, 1, 2), (1, 4, 1)] {
            let (x, w) = (apart(&[1, 1, 5], 25), apart(&[1, 1, size], 26));
            let whole = (5 - 1) * stride + dilation * (size - 1) + 1;
            let cut = whole.saturating_sub(5 * stride) / 2;
            let options = ConvTransposeOptions {
                stride: [stride],
                padding: Padding::Same,
                dilation: [dilation],
                ..Default::default()
            };
            let got = x.f32(device)?.conv_transpose1d(&w.f32(device)?, None, options)?;
            let want = Array::from_fn(&[1, 1, 5 * stride], |at| {
                let place = at[2] + cut;
                let part = |n: usize| {
                    let k = place.checked_sub(n * stride)?;
                    (k % dilation == 0 && k / dilation < size)
                        .then(|| x.data[n] * w.data[k / dilation])
                };
                (0..5).filter_map(part).sum()
            });
            let what = format!("{size} by {stride}, dilation {dilation}");
            checks.push(near(what, got, want, Tolerance::sum(size, 8.0)));
        }
        Ok(checks)
    });
}

fn weight(x: &Tensor, shape: &[usize]) -> Result<Tensor> {
    random(shape, -1.0, 1.0, 27).f32(x.device())
}
