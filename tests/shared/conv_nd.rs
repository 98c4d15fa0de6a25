//! Tests convolutions over one, two and three axes, and transposed convolutions, by their definitions.

use super::array::{each, integers, Array};
use super::check::{near, Suite};
use super::tolerance::Tolerance;
use warpweft::device::Device;
use warpweft::error::Result;
use warpweft::tensor::{ConvOptions, ConvTransposeOptions, Padding, Tensor};

/// The stride, zeros before and after, and dilation of each axis, and the number of groups.
#[derive(Clone)]
pub struct Window {
    pub stride: Vec<usize>,
    pub pads: Vec<(usize, usize)>,
    pub dilation: Vec<usize>,
    pub groups: usize,
}

impl Window {
    pub fn plain(axes: usize) -> Window {
        let (stride, pads) = (vec![1; axes], vec![(0, 0); axes]);
        Window { stride, pads, dilation: vec![1; axes], groups: 1 }
    }
}

/// Computes a convolution over any number of axes by its definition.
pub fn convolve(x: &Array<f64>, w: &Array<f64>, window: &Window) -> Array<f64> {
    let axes = x.shape.len() - 2;
    let mut shape = vec![x.shape[0], w.shape[0]];
    let mut amounts = vec![(0, 0); 2];
    for i in 0..axes {
        let padded = x.shape[2 + i] + window.pads[i].0 + window.pads[i].1;
        let reach = window.dilation[i] * (w.shape[2 + i] - 1) + 1;
        shape.push((padded - reach) / window.stride[i] + 1);
        amounts.push(window.pads[i]);
    }
    let padded = x.pad(&amounts, 0.0);
    Array::from_fn(&shape, |at| {
        let first = at[1] / (w.shape[0] / window.groups) * w.shape[1];
        let mut sum = 0.0;
        each(&w.shape[1..], |tap| {
            let mut from = vec![at[0], first + tap[0]];
            let mut kernel = vec![at[1], tap[0]];
            for i in 0..axes {
                from.push(at[2 + i] * window.stride[i] + tap[1 + i] * window.dilation[i]);
                kernel.push(tap[1 + i]);
            }
            sum += padded.at(&from) * w.at(&kernel);
        });
        sum
    })
}

/// Computes a transposed convolution by its definition: each element of the input adds the kernel to the result.
pub fn transposed(x: &Array<f64>, w: &Array<f64>, window: &Window, more: &[usize]) -> Array<f64> {
    let axes = x.shape.len() - 2;
    let each_group = x.shape[1] / window.groups;
    let mut shape = vec![x.shape[0], w.shape[1] * window.groups];
    for (i, more) in more.iter().enumerate() {
        let whole =
            (x.shape[2 + i] - 1) * window.stride[i] + window.dilation[i] * (w.shape[2 + i] - 1);
        shape.push(whole + 1 + more - window.pads[i].0 - window.pads[i].1);
    }
    let mut sums = Array::new(&shape, vec![0.0; shape.iter().product()]);
    each(&x.shape, |at| {
        each(&w.shape[1..], |tap| {
            let group = at[1] / each_group;
            let mut to = vec![at[0], group * w.shape[1] + tap[0]];
            let mut kernel = vec![at[1]];
            kernel.extend(tap);
            for i in 0..axes {
                let place = at[2 + i] * window.stride[i] + tap[1 + i] * window.dilation[i];
                to.push(place.wrapping_sub(window.pads[i].0));
            }
            if to.iter().zip(&shape).all(|(c, d)| c < d) {
                let place = to.iter().zip(&shape).fold(0, |sum, (c, d)| sum * d + c);
                sums.data[place] += x.at(at) * w.at(&kernel);
            }
        });
    });
    sums
}

fn list<T: Copy, const N: usize>(items: &[T]) -> [T; N] {
    match items.try_into() {
        Ok(list) => list,
        Err(_) => panic!("{} items instead of {N}", items.len()),
    }
}

/// Calls the convolution for the number of axes.
pub fn conv(x: &Tensor, w: &Tensor, bias: Option<&Tensor>, window: &Window) -> Result<Tensor> {
    fn options<const N: usize>(window: &Window) -> ConvOptions<N> {
        let (stride, dilation) = (list(&window.stride), list(&window.dilation));
        let padding = Padding::Explicit(list(&window.pads));
        ConvOptions { stride, padding, dilation, groups: window.groups }
    }
    match x.rank() {
        3 => x.conv1d(w, bias, options(window)),
        4 => x.conv2d(w, bias, options(window)),
        _ => x.conv3d(w, bias, options(window)),
    }
}

pub fn conv_transpose(
    x: &Tensor,
    w: &Tensor,
    bias: Option<&Tensor>,
    window: &Window,
    more: &[usize],
) -> Result<Tensor> {
    fn options<const N: usize>(window: &Window, more: &[usize]) -> ConvTransposeOptions<N> {
        let (stride, dilation) = (list(&window.stride), list(&window.dilation));
        let pads: [(usize, usize); N] = list(&window.pads);
        let (padding, output_padding) = (pads.into(), list(more));
        ConvTransposeOptions { stride, padding, output_padding, dilation, groups: window.groups }
    }
    match x.rank() {
        3 => x.conv_transpose1d(w, bias, options(window, more)),
        4 => x.conv_transpose2d(w, bias, options(window, more)),
        _ => x.conv_transpose3d(w, bias, options(window, more)),
    }
}

type Asked = (
    &'static [usize],
    &'static [usize],
    &'static [usize],
    &'static [(usize, usize)],
    &'static [usize],
    usize,
);

/// Shapes of x and w, strides, zeros before and after, dilations, groups.
const CONVOLUTIONS: &[Asked] = &[
    (&[1, 1, 5], &[1, 1, 3], &[1], &[(0, 0)], &[1], 1),
    (&[2, 3, 33], &[5, 3, 4], &[2], &[(3, 0)], &[3], 1),
    (&[2, 6, 65], &[4, 3, 3], &[1], &[(1, 1)], &[1], 2),
    (&[1, 4, 9], &[8, 1, 3], &[1], &[(0, 2)], &[2], 4),
    (&[0, 2, 9], &[3, 2, 3], &[1], &[(0, 0)], &[1], 1),
    (&[2, 3, 7, 9], &[4, 3, 3, 2], &[2, 1], &[(1, 0), (0, 2)], &[1, 2], 1),
    (&[1, 1, 3, 4, 5], &[1, 1, 2, 3, 2], &[1, 1, 1], &[(0, 0), (0, 0), (0, 0)], &[1, 1, 1], 1),
    (&[2, 3, 5, 6, 7], &[4, 3, 3, 3, 3], &[1, 1, 1], &[(1, 1), (1, 1), (1, 1)], &[1, 1, 1], 1),
    (&[2, 4, 7, 6, 5], &[6, 2, 2, 3, 1], &[2, 3, 1], &[(2, 1), (0, 2), (1, 0)], &[3, 1, 2], 2),
    (&[1, 3, 1, 5, 5], &[2, 3, 1, 3, 3], &[1, 2, 2], &[(0, 0), (1, 1), (0, 0)], &[1, 1, 1], 1),
];

/// The same parameters, and the output padding of each axis.
const TRANSPOSED: &[(Asked, &[usize])] = &[
    ((&[1, 1, 4], &[1, 1, 3], &[1], &[(0, 0)], &[1], 1), &[0]),
    ((&[2, 3, 7], &[3, 4, 4], &[3], &[(1, 2)], &[2], 1), &[2]),
    ((&[1, 4, 5], &[4, 3, 2], &[2], &[(0, 0)], &[1], 2), &[1]),
    ((&[1, 1, 3, 3], &[1, 2, 3, 3], &[1, 1], &[(0, 0), (0, 0)], &[1, 1], 1), &[0, 0]),
    ((&[2, 3, 4, 5], &[3, 4, 3, 2], &[2, 3], &[(1, 0), (1, 1)], &[1, 2], 1), &[1, 0]),
    ((&[1, 4, 3, 4], &[4, 1, 2, 2], &[2, 2], &[(0, 0), (0, 0)], &[1, 1], 4), &[0, 0]),
    ((&[1, 2, 4, 4], &[2, 3, 1, 1], &[1, 1], &[(1, 0), (0, 2)], &[1, 1], 1), &[0, 0]),
    (
        (&[1, 2, 3, 2, 4], &[2, 3, 2, 3, 2], &[2, 1, 3], &[(0, 1), (1, 1), (0, 0)], &[1, 2, 1], 1),
        &[1, 0, 2],
    ),
];

pub fn window(asked: &Asked) -> Window {
    let &(_, _, stride, pads, dilation, groups) = asked;
    Window { stride: stride.to_vec(), pads: pads.to_vec(), dilation: dilation.to_vec(), groups }
}

fn both(device: &Device, x: &Array<f64>, w: &Array<f64>) -> Result<(Tensor, Tensor)> {
    Ok((x.f32(device)?, w.f32(device)?))
}

pub fn cases() -> Suite {
    let mut suite = Suite::new("conv_nd");
    for asked in CONVOLUTIONS {
        let window = window(asked);
        suite.add(format!("convolution of {:?} with {:?}", asked.0, asked.1), move |device| {
            let (x, w) = (integers(asked.0, -4, 4, 1), integers(asked.1, -4, 4, 2));
            let bias = integers(&asked.1[..1], -9, 9, 3);
            let (a, k) = both(device, &x, &w)?;
            let want = convolve(&x, &w, &window);
            let mut column = vec![1; asked.0.len() - 1];
            column[0] = asked.1[0];
            let shifted = want.zip(&bias.reshape(&column), |v, b| v + b);
            let biased = conv(&a, &k, Some(&bias.f32(device)?), &window)?;
            Ok(vec![
                near("plain", conv(&a, &k, None, &window)?, want, Tolerance::EXACT),
                near("with a bias", biased, shifted, Tolerance::EXACT),
            ])
        });
    }
    for (asked, more) in TRANSPOSED {
        let window = window(asked);
        suite.add(format!("transposed, {:?} with {:?}", asked.0, asked.1), move |device| {
            let (x, w) = (integers(asked.0, -4, 4, 4), integers(asked.1, -4, 4, 5));
            let (a, k) = both(device, &x, &w)?;
            let want = transposed(&x, &w, &window, more);
            let out = want.shape[1];
            let bias = integers(&[out], -9, 9, 6);
            let mut column = vec![1; asked.0.len() - 1];
            column[0] = out;
            let shifted = want.zip(&bias.reshape(&column), |v, b| v + b);
            let biased = conv_transpose(&a, &k, Some(&bias.f32(device)?), &window, more)?;
            Ok(vec![
                near("plain", conv_transpose(&a, &k, None, &window, more)?, want, Tolerance::EXACT),
                near("with a bias", biased, shifted, Tolerance::EXACT),
            ])
        });
    }
    suite.add("same padding over one and three axes", |device| {
        let (x, w) = (integers(&[1, 2, 8], -4, 4, 7), integers(&[3, 2, 4], -4, 4, 8));
        let (a, k) = both(device, &x, &w)?;
        let options = ConvOptions { padding: Padding::Same, ..ConvOptions::default() };
        let pads = vec![(1, 2)];
        let line = convolve(&x, &w, &Window { pads, ..Window::plain(1) });
        let (y, v) = (integers(&[1, 2, 3, 4, 5], -4, 4, 9), integers(&[2, 2, 3, 3, 3], -4, 4, 10));
        let (b, l) = both(device, &y, &v)?;
        let solid = ConvOptions { padding: Padding::Same, ..ConvOptions::default() };
        let pads = vec![(1, 1); 3];
        let body = convolve(&y, &v, &Window { pads, ..Window::plain(3) });
        Ok(vec![
            near("conv1d", a.conv1d(&k, None, options)?, line, Tolerance::EXACT),
            near("conv3d", b.conv3d(&l, None, solid)?, body, Tolerance::EXACT),
        ])
    });
    suite
}
