//! Tests gradients of convolutions, pooling and other operations with windows.

use super::super::array::{random, Array};
use super::super::attention::turned;
use super::super::check::Suite;
use super::super::conv_nd::{conv, conv_transpose, convolve, transposed, Window};
use super::super::norm::{layer_norm, rows};
use super::super::pool::{meaning, pool, resized, windows, Kind, MODES, POOLS};
use super::holds;
use warpweft::tensor::{NormOptions, PadMode};

/// Returns numbers between -1 and 1, different for each seed.
fn r(shape: &[usize], seed: u32) -> Array<f64> {
    random(shape, -1.0, 1.0, seed)
}

pub fn cases(suite: &mut Suite) {
    unfolds(suite);
    convolutions(suite);
    pools(suite);
    moved(suite);
    norms(suite);
}

fn unfolds(suite: &mut Suite) {
    const WINDOWS: &[(&[usize], usize, usize, usize, usize)] = &[
        (&[7], 0, 3, 1, 1),
        (&[7], 0, 3, 2, 2),
        (&[2, 9, 3], 1, 2, 3, 4),
        (&[9, 4], 0, 4, 1, 2),
        (&[2, 12], 1, 3, 5, 1),
        (&[3, 5], 1, 5, 1, 1),
    ];
    for &(shape, axis, size, step, dilation) in WINDOWS {
        let count = (shape[axis] - dilation * (size - 1) - 1) / step + 1;
        holds(
            suite,
            format!("unfold {shape:?} along {axis}: {size}, {step}, {dilation}"),
            vec![r(shape, 1)],
            move |x| x[0].unfold(axis as isize, size, step, dilation),
            move |x| {
                let mut wide = shape.to_vec();
                wide[axis] = count;
                wide.push(size);
                Array::from_fn(&wide, |at| {
                    let mut from = at[..shape.len()].to_vec();
                    from[axis] = at[axis] * step + at[shape.len()] * dilation;
                    x[0].at(&from)
                })
            },
        );
    }
}

fn convolutions(suite: &mut Suite) {
    let line = Window { stride: vec![2], pads: vec![(2, 1)], dilation: vec![3], groups: 2 };
    let body = Window {
        stride: vec![2, 1, 1],
        pads: vec![(1, 0), (0, 1), (0, 0)],
        dilation: vec![1, 2, 1],
        groups: 1,
    };
    for (name, x, w, window) in [
        ("conv1d", r(&[2, 4, 11], 2), r(&[6, 2, 3], 3), line.clone()),
        ("conv3d", r(&[1, 2, 4, 5, 3], 4), r(&[3, 2, 2, 2, 2], 5), body.clone()),
    ] {
        let same = window.clone();
        holds(
            suite,
            name,
            vec![x, w],
            move |x| conv(&x[0], &x[1], None, &window),
            move |x| convolve(&x[0], &x[1], &same),
        );
    }
    let plane =
        Window { stride: vec![2, 3], pads: vec![(1, 0), (1, 1)], dilation: vec![1, 2], groups: 1 };
    for (name, x, w, window, more) in [
        ("conv_transpose1d", r(&[1, 4, 3], 6), r(&[4, 3, 3], 7), line, vec![1]),
        ("conv_transpose2d", r(&[2, 3, 3, 2], 8), r(&[3, 2, 3, 2], 9), plane, vec![1, 0]),
        ("conv_transpose3d", r(&[1, 2, 2, 2, 3], 10), r(&[2, 2, 2, 2, 2], 11), body, vec![1, 0, 0]),
    ] {
        let (same, again) = (window.clone(), more.clone());
        holds(
            suite,
            name,
            vec![x, w],
            move |x| conv_transpose(&x[0], &x[1], None, &window, &more),
            move |x| transposed(&x[0], &x[1], &same, &again),
        );
    }
}

fn pools(suite: &mut Suite) {
    let kinds = [
        ("max", Kind::Max),
        ("average", Kind::Average),
        ("average of all", Kind::AverageOfAll),
        ("l2", Kind::L2),
    ];
    for n in [1, 4, 6, 9] {
        for (name, kind) in kinds {
            let (asked, same) = (windows(&POOLS[n]), windows(&POOLS[n]));
            holds(
                suite,
                format!("{name} of windows {n}"),
                vec![r(POOLS[n].0, 12)],
                move |x| pool(&x[0], &asked, kind),
                move |x| meaning(&x[0], &same, kind),
            );
        }
    }
}

fn moved(suite: &mut Suite) {
    for mode in MODES {
        for sizes in [[7, 3], [2, 8]] {
            holds(
                suite,
                format!("resize {mode:?} to {sizes:?}"),
                vec![r(&[2, 4, 5], 13)],
                move |x| x[0].resize(&sizes, mode),
                move |x| resized(&resized(&x[0], 1, sizes[0], mode), 2, sizes[1], mode),
            );
        }
    }
    holds(
        suite,
        "pad_with, reflected",
        vec![r(&[2, 5], 14)],
        |x| x[0].pad_with(&[(0, 0), (2, 3)], PadMode::Reflect),
        |x| {
            Array::from_fn(&[2, 10], |at| {
                let place = (at[1] as isize - 2).abs();
                let place = if place > 4 { 8 - place } else { place };
                x[0].at(&[at[0], place as usize])
            })
        },
    );
    for interleaved in [false, true] {
        holds(
            suite,
            format!("rotary, interleaved: {interleaved}"),
            vec![r(&[2, 3, 7], 15), r(&[3, 3], 16), r(&[3, 3], 17)],
            move |x| x[0].rotary(&x[1], &x[2], interleaved),
            move |x| turned(&x[0], &x[1], &x[2], interleaved),
        );
    }
}

fn norms(suite: &mut Suite) {
    let affine = || vec![r(&[2, 4, 5], 18), r(&[4], 19), r(&[4], 20)];
    holds(
        suite,
        "group_norm",
        affine(),
        |x| {
            x[0].group_norm(
                2,
                NormOptions { weight: Some(&x[1]), bias: Some(&x[2]), ..Default::default() },
            )
        },
        |x| {
            let normal = rows(&x[0].reshape(&[2, 2, 10]), &[2], layer_norm).reshape(&[2, 4, 5]);
            let scaled = normal.zip(&x[1].reshape(&[4, 1]), |x, w| x * w);
            scaled.zip(&x[2].reshape(&[4, 1]), |x, b| x + b)
        },
    );
    holds(
        suite,
        "batch_norm, with the batch's own mean and variance",
        affine()[..1].to_vec(),
        |x| {
            let (mean, variance) = (x[0].mean(&[0, 2])?, x[0].var(&[0, 2], 0.0)?);
            x[0].batch_norm(&mean, &variance, NormOptions::default())
        },
        |x| rows(&x[0], &[0, 2], layer_norm),
    );
}
