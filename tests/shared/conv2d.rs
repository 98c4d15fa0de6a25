//! Tests 2-D convolution.

use super::array::{each, integers, random, Array};
use super::check::{near, Suite};
use super::tolerance::Tolerance;
use warpweft::tensor::{Conv2dOptions, Padding};

type Pads = [(usize, usize); 2];

/// Computes a convolution by its definition.
pub fn convolve(
    x: &Array<f64>,
    w: &Array<f64>,
    stride: [usize; 2],
    pads: Pads,
    dilation: [usize; 2],
    groups: usize,
) -> Array<f64> {
    let [out, per_group, kh, kw] = w.shape[..] else { panic!("rank 4") };
    let extent = |i: usize, kernel: usize| {
        let padded = x.shape[2 + i] + pads[i].0 + pads[i].1;
        (padded - dilation[i] * (kernel - 1) - 1) / stride[i] + 1
    };
    let padded = x.pad(&[(0, 0), (0, 0), pads[0], pads[1]], 0.0);
    let shape = [x.shape[0], out, extent(0, kh), extent(1, kw)];
    Array::from_fn(&shape, |at| {
        let first = at[1] / (out / groups) * per_group;
        let mut sum = 0.0;
        each(&[per_group, kh, kw], |tap| {
            let row = at[2] * stride[0] + tap[1] * dilation[0];
            let column = at[3] * stride[1] + tap[2] * dilation[1];
            sum += padded.at(&[at[0], first + tap[0], row, column])
                * w.at(&[at[1], tap[0], tap[1], tap[2]]);
        });
        sum
    })
}

/// A convolution to test: the shapes of x and w, and the parameters.
struct Shape {
    name: &'static str,
    x: [usize; 4],
    w: [usize; 4],
    stride: [usize; 2],
    pads: Pads,
    dilation: [usize; 2],
    groups: usize,
}

const NO: Pads = [(0, 0), (0, 0)];

const PLAIN: Shape = Shape {
    name: "plain",
    x: [1, 1, 5, 5],
    w: [1, 1, 3, 3],
    stride: [1, 1],
    pads: NO,
    dilation: [1, 1],
    groups: 1,
};

const SHAPES: &[Shape] = &[
    PLAIN,
    Shape { name: "channels", x: [2, 3, 7, 9], w: [4, 3, 3, 3], ..PLAIN },
    Shape { name: "one by one", x: [2, 5, 6, 7], w: [9, 5, 1, 1], ..PLAIN },
    Shape { name: "one by one, wide", x: [1, 33, 8, 8], w: [65, 33, 1, 1], ..PLAIN },
    Shape { name: "stride 2", x: [1, 3, 9, 10], w: [4, 3, 3, 3], stride: [2, 2], ..PLAIN },
    Shape { name: "strides 3 and 1", x: [1, 2, 11, 6], w: [3, 2, 2, 4], stride: [3, 1], ..PLAIN },
    Shape { name: "padding 1", x: [2, 2, 5, 5], w: [3, 2, 3, 3], pads: [(1, 1), (1, 1)], ..PLAIN },
    Shape {
        name: "uneven padding",
        x: [1, 2, 4, 5],
        w: [3, 2, 3, 2],
        pads: [(2, 0), (0, 3)],
        ..PLAIN
    },
    Shape { name: "dilation 2", x: [1, 2, 9, 9], w: [3, 2, 3, 3], dilation: [2, 2], ..PLAIN },
    Shape {
        name: "dilations 1 and 3",
        x: [1, 2, 5, 12],
        w: [2, 2, 2, 3],
        dilation: [1, 3],
        ..PLAIN
    },
    Shape { name: "groups", x: [2, 6, 5, 5], w: [4, 3, 3, 3], groups: 2, ..PLAIN },
    Shape {
        name: "depthwise",
        x: [2, 8, 6, 6],
        w: [8, 1, 3, 3],
        pads: [(1, 1), (1, 1)],
        groups: 8,
        ..PLAIN
    },
    Shape { name: "depthwise, two each", x: [1, 4, 6, 6], w: [8, 1, 3, 3], groups: 4, ..PLAIN },
    Shape {
        name: "all at once",
        x: [2, 6, 13, 11],
        w: [9, 2, 3, 2],
        stride: [2, 3],
        pads: [(2, 1), (0, 2)],
        dilation: [2, 1],
        groups: 3,
    },
    Shape { name: "a kernel as large as the input", x: [1, 3, 4, 6], w: [2, 3, 4, 6], ..PLAIN },
    Shape {
        name: "padding beyond the kernel",
        x: [1, 1, 2, 2],
        w: [1, 1, 2, 2],
        pads: [(3, 3), (3, 3)],
        ..PLAIN
    },
    Shape {
        name: "rows of one",
        x: [1, 3, 1, 40],
        w: [5, 3, 1, 5],
        pads: [(0, 0), (2, 2)],
        ..PLAIN
    },
    Shape {
        name: "33 by 33",
        x: [1, 4, 33, 33],
        w: [33, 4, 3, 3],
        pads: [(1, 1), (1, 1)],
        ..PLAIN
    },
    Shape {
        name: "65 channels out",
        x: [1, 17, 9, 9],
        w: [65, 17, 3, 3],
        pads: [(1, 1), (1, 1)],
        ..PLAIN
    },
    Shape { name: "windows larger than the result", x: [3, 7, 17, 17], w: [9, 7, 15, 15], ..PLAIN },
    Shape {
        name: "windows larger than the result, all at once",
        x: [2, 10, 24, 25],
        w: [18, 5, 19, 13],
        stride: [2, 1],
        pads: [(1, 2), (2, 0)],
        dilation: [1, 2],
        groups: 2,
    },
    Shape { name: "a window over all", x: [1, 70, 4, 4], w: [20, 70, 4, 4], ..PLAIN },
    Shape {
        name: "depthwise, windows larger than the result",
        x: [1, 150, 9, 9],
        w: [6, 50, 7, 7],
        groups: 3,
        ..PLAIN
    },
    Shape { name: "no images", x: [0, 2, 5, 5], w: [3, 2, 3, 3], ..PLAIN },
    Shape { name: "no channels", x: [1, 0, 5, 5], w: [3, 0, 3, 3], ..PLAIN },
];

pub fn cases() -> Suite {
    let mut suite = Suite::new("conv2d");
    for shape in SHAPES {
        let Shape { stride, pads, dilation, groups, .. } = *shape;
        suite.add(shape.name, move |device| {
            let (x, w) = (integers(&shape.x, -4, 4, 1), integers(&shape.w, -4, 4, 2));
            let padding = Padding::Explicit(pads);
            let options = Conv2dOptions { stride, padding, dilation, groups };
            let got = x.f32(device)?.conv2d(&w.f32(device)?, None, options)?;
            let want = convolve(&x, &w, stride, pads, dilation, groups);
            Ok(vec![near("conv2d", got, want, Tolerance::EXACT)])
        });
    }
    windows(&mut suite);
    paddings(&mut suite);
    fused(&mut suite);
    suite
}

/// Tests windows of many sizes, each with a few more outputs than one thread computes.
fn windows(suite: &mut Suite) {
    suite.add("windows from 1 x 1 to 16 x 16", |device| {
        let sizes = [[1, 1], [1, 16], [16, 1], [2, 7], [7, 2], [12, 13], [12, 14], [13, 13]];
        let mut checks = Vec::new();
        for [height, width] in sizes.into_iter().chain([[14, 12], [14, 14], [3, 15], [16, 16]]) {
            let x = integers(&[1, 1, height + 3, width + 10], -4, 4, 14);
            let w = integers(&[1, 1, height, width], -4, 4, 15);
            let got = x.f32(device)?.conv2d(&w.f32(device)?, None, Conv2dOptions::default())?;
            let want = convolve(&x, &w, [1, 1], NO, [1, 1], 1);
            checks.push(near(format!("{height} x {width}"), got, want, Tolerance::EXACT));
        }
        Ok(checks)
    });
}

fn paddings(suite: &mut Suite) {
    suite.add("valid and same", |device| {
        let mut checks = Vec::new();
        for (size, kernel, stride, dilation) in [
            (5, 3, 1, 1),
            (6, 3, 2, 1),
            (7, 2, 1, 1),
            (8, 4, 3, 1),
            (9, 3, 1, 2),
            (4, 1, 2, 1),
            (5, 3, 2, 2),
        ] {
            let x = integers(&[1, 2, size, size + 1], -4, 4, 3);
            let w = integers(&[3, 2, kernel, kernel], -4, 4, 4);
            let (a, b) = (x.f32(device)?, w.f32(device)?);
            // As in TensorFlow: ceil(size / stride) outputs, with an odd zero at the end.
            let same = |size: usize| {
                let reach = dilation * (kernel - 1) + 1;
                let missing = ((size.div_ceil(stride) - 1) * stride + reach).saturating_sub(size);
                (missing / 2, missing - missing / 2)
            };
            let options = Conv2dOptions {
                stride: [stride; 2],
                padding: Padding::Same,
                dilation: [dilation; 2],
                groups: 1,
            };
            let reference = |pads| convolve(&x, &w, [stride; 2], pads, [dilation; 2], 1);
            let what = |name| format!("{name} {size} {kernel} {stride} {dilation}");
            let want = reference([same(size), same(size + 1)]);
            checks.push(near(what("same"), a.conv2d(&b, None, options)?, want, Tolerance::EXACT));
            if size > dilation * (kernel - 1) {
                let options = Conv2dOptions { padding: Padding::Valid, ..options };
                let got = a.conv2d(&b, None, options)?;
                checks.push(near(what("valid"), got, reference(NO), Tolerance::EXACT));
            }
        }
        Ok(checks)
    });
}

fn fused(suite: &mut Suite) {
    suite.add("bias, relu, residual, views", |device| {
        let (x, w) = (integers(&[2, 3, 6, 7], -4, 4, 5), integers(&[4, 3, 3, 3], -4, 4, 6));
        let (b, r) = (integers(&[4], -9, 9, 7), integers(&[2, 4, 6, 7], -9, 9, 8));
        let options = Conv2dOptions { padding: Padding::Same, ..Conv2dOptions::default() };
        let pads = [(1, 1), (1, 1)];
        let plain = convolve(&x, &w, [1, 1], pads, [1, 1], 1);
        let sum = plain.zip(&b.reshape(&[4, 1, 1]), |p, b| p + b);
        let (a, k, bias) = (x.f32(device)?, w.f32(device)?, b.f32(device)?);
        let turned = x.permute(&[0, 1, 3, 2]);
        let channels_last = x.permute(&[0, 2, 3, 1]).f32(device)?.permute(&[0, 3, 1, 2])?;
        let check = |what, got, want| near(what, got, want, Tolerance::EXACT);
        Ok(vec![
            check("bias", a.conv2d(&k, Some(&bias), options)?, sum.clone()),
            check(
                "bias and relu",
                a.conv2d(&k, Some(&bias), options)?.relu(),
                sum.map(|v| v.max(0.0)),
            ),
            check(
                "residual",
                a.conv2d(&k, Some(&bias), options)?.add(&r.f32(device)?)?,
                sum.zip(&r, |s, r| s + r),
            ),
            check(
                "a transpose",
                a.transpose(2, 3)?.conv2d(&k, None, options)?,
                convolve(&turned, &w, [1, 1], pads, [1, 1], 1),
            ),
            check("channels last", channels_last.conv2d(&k, None, options)?, plain.clone()),
            check("doubled before", a.mul(2.0)?.conv2d(&k, None, options)?, plain.map(|v| 2.0 * v)),
            check(
                "a negative input is not read for padding",
                a.add(1.0)?.conv2d(&k, None, options)?,
                convolve(&x.map(|x| x + 1.0), &w, [1, 1], pads, [1, 1], 1),
            ),
        ])
    });
    suite.add("fractions", |device| {
        let (x, w) = (random(&[1, 8, 12, 12], -1.0, 1.0, 9), random(&[16, 8, 3, 3], -1.0, 1.0, 10));
        let got = x.f32(device)?.conv2d(&w.f32(device)?, None, Conv2dOptions::default())?;
        let want = convolve(&x, &w, [1, 1], NO, [1, 1], 1);
        Ok(vec![near("conv2d", got, want, Tolerance::sum(72, 1.0))])
    });
    suite.add("two layers with a stride", |device| {
        let x = integers(&[2, 3, 12, 12], -2, 2, 11);
        let (w, v) = (integers(&[8, 3, 3, 3], -1, 1, 12), integers(&[4, 8, 3, 3], -1, 1, 13));
        let options = Conv2dOptions { stride: [2, 2], ..Conv2dOptions::default() };
        let got = x.f32(device)?.conv2d(&w.f32(device)?, None, options)?.relu();
        let got = got.conv2d(&v.f32(device)?, None, Conv2dOptions::default())?.mean(&[2, 3])?;
        let first = convolve(&x, &w, [2, 2], NO, [1, 1], 1).map(|v| v.max(0.0));
        let second = convolve(&first, &v, [1, 1], NO, [1, 1], 1);
        let want = second.reduce(&[2, 3], |x| x.iter().sum::<f64>() / x.len() as f64);
        Ok(vec![near("pooled", got, want.squeeze(&[2, 3]), Tolerance::ROUNDED)])
    });
}
