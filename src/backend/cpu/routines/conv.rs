//! Convolution. The windows of a part of the result become the columns of a matrix, which is multiplied with the weights. If
//! each group has one channel, rows are added directly, without a product.

use super::epilogue::EpiloguePlan;
use super::gemm::{multiply, Matrix};
use super::operand::{OperandPlan, Strided};
use crate::backend::cpu::exec::inputs::Inputs;
use crate::backend::cpu::exec::parallel;
use crate::backend::cpu::lower::tiling::{count, cut};
use crate::error::{Error, Result};
use crate::kernel::{Convolution, Counts};
use crate::op::Conv2d;
use std::borrow::Cow;

/// The numbers in a part's matrix of windows, which fit into a core's cache.
const WINDOWS: usize = 1 << 17;

/// The fewest numbers in a row of a product that the general kernel computes.
const MIN_ROW_NUMBERS: usize = 32;

/// The fewest results of a channel for which a matrix of windows is worth it.
const PLANES: usize = 4;

/// The parts that channels are multiplied in. The sums of the parts are added.
const PARTS: usize = 8;

/// A prepared convolution.
pub struct ConvPlan {
    params: Conv2d,
    batch: usize,
    height: usize,
    width: usize,
    out: usize,
    /// The channels in each group.
    channels: usize,
    kernel: [usize; 2],
    out_height: usize,
    out_width: usize,
    x: OperandPlan,
    w: OperandPlan,
    epilogue: EpiloguePlan,
}

impl ConvPlan {
    /// Prepares a convolution.
    pub fn new(conv: &Convolution, counts: Counts) -> Result<ConvPlan> {
        let groups = conv.params.groups;
        if groups == 0 || !conv.channels.is_multiple_of(groups) || !conv.out.is_multiple_of(groups)
        {
            let message =
                format!("cpu: channels of a kernel must be a multiple of the groups, got {groups}");
            return Err(Error::state(message));
        }
        let channels = conv.channels / groups;
        let [kernel_height, kernel_width] = conv.kernel;
        let x = [conv.batch, conv.channels, conv.height, conv.width];
        let w = [conv.out, channels, kernel_height, kernel_width];
        let result = [conv.batch, conv.out, conv.out_height, conv.out_width];
        Ok(ConvPlan {
            params: conv.params,
            batch: conv.batch,
            height: conv.height,
            width: conv.width,
            out: conv.out,
            channels,
            kernel: conv.kernel,
            out_height: conv.out_height,
            out_width: conv.out_width,
            x: OperandPlan::new(&conv.x, &x, counts)?,
            w: OperandPlan::new(&conv.w, &w, counts)?,
            epilogue: EpiloguePlan::new(&conv.epilogue, &result, counts)?,
        })
    }

    /// Runs the convolution.
    pub fn run(&self, inputs: &Inputs<'_>, outputs: &mut [&mut [u32]]) -> Result<()> {
        if count(&[self.batch, self.out, self.out_height, self.out_width])? == 0 {
            return Ok(());
        }
        self.epilogue.run(inputs, outputs, |out| {
            let (x, w) = (self.x.read(inputs)?, self.w.read(inputs)?);
            match self.channels {
                1 if self.out / self.params.groups < PLANES => self.by_planes(out, &x, &w),
                _ if self.is_by_channels(&w) => self.by_channels(out, &x, &w),
                _ => self.by_windows(out, &x, &w),
            }
            Ok(())
        })
    }

    /// Computes a convolution with one channel in each group. A plane of the result is a sum of shifted planes.
    fn by_planes(&self, out: &mut [f32], x: &Strided<'_>, w: &Strided<'_>) {
        let plane = self.out_height * self.out_width;
        let per_group = self.out / self.params.groups;
        let tasks = out.chunks_mut(plane).enumerate().collect();
        parallel::for_each(tasks, |(number, out): (usize, &mut [f32])| {
            let (image, to) = (number / self.out, number % self.out);
            out.fill(0.0);
            for (ky, kx) in self.taps() {
                let weight = w.data[w.at(&[to, 0, ky, kx]) as usize];
                for (y, out) in out.chunks_mut(self.out_width).enumerate() {
                    self.window_row(x, [image, to / per_group, ky, kx], y, out, |out, x| {
                        *out += weight * x;
                    });
                }
            }
        });
    }

    fn taps(&self) -> impl Iterator<Item = (usize, usize)> + use<> {
        let [height, width] = self.kernel;
        (0..height).flat_map(move |ky| (0..width).map(move |kx| (ky, kx)))
    }

    /// Calls `visit` for each element of row `y` of the result whose tap `ky`, `kx` is inside the image.
    #[inline(always)]
    fn window_row(
        &self,
        x: &Strided<'_>,
        [image, channel, ky, kx]: [usize; 4],
        y: usize,
        out: &mut [f32],
        visit: impl Fn(&mut f32, f32),
    ) {
        let Conv2d { stride, padding, dilation, .. } = self.params;
        let row = (y * stride[0] + ky * dilation[0]).checked_sub(padding[0].0);
        let Some(row) = row.filter(|&row| row < self.height) else { return };
        // The columns c with 0 <= c * stride + shift < width.
        let shift = kx as i64 * dilation[1] as i64 - padding[1].0 as i64;
        let step = stride[1] as i64;
        let first = (-shift).max(0).div_ceil_by(step);
        let past = (self.width as i64 - shift).max(0).div_ceil_by(step).min(out.len() as i64);
        if first >= past {
            return;
        }
        let across = x.strides[3];
        let start = x.at(&[image, channel, row]) + (first * step + shift) * across;
        let out = &mut out[first as usize..past as usize];
        match usize::try_from(across * step) {
            Ok(1) => {
                let from = &x.data[start as usize..start as usize + out.len()];
                out.iter_mut().zip(from).for_each(|(out, &x)| visit(out, x));
            }
            Ok(step @ 2..) => {
                let from = x.data[start as usize..].iter().step_by(step);
                out.iter_mut().zip(from).for_each(|(out, &x)| visit(out, x));
            }
            _ => {
                for (i, out) in out.iter_mut().enumerate() {
                    visit(out, x.data[(start + i as i64 * across * step) as usize]);
                }
            }
        }
    }

    fn by_windows(&self, out: &mut [f32], x: &Strided<'_>, w: &Strided<'_>) {
        let groups = self.params.groups;
        let size = self.out / groups * self.out_height * self.out_width;
        let spread = self.batch * groups >= 2 * parallel::threads();
        // Weights are a matrix in memory, unless they were permuted.
        let weights: Vec<Weights> = (0..groups).map(|group| self.weights(group, w)).collect();
        let one = |(number, out): (usize, &mut [f32])| {
            let (image, group) = (number / groups, number % groups);
            let (data, offset, strides) = &weights[group];
            let weights = Matrix { data, offset: *offset, strides: *strides };
            self.group(image, group, out, x, weights, !spread);
        };
        let tasks: Vec<(usize, &mut [f32])> = out.chunks_mut(size).enumerate().collect();
        match spread {
            true => parallel::for_each(tasks, one),
            false => tasks.into_iter().for_each(one),
        }
    }

    /// Returns the numbers that a group's weights are multiplied with.
    fn depth(&self) -> usize {
        self.channels * self.kernel[0] * self.kernel[1]
    }

    /// Computes the channels of a group for one image.
    fn group(
        &self,
        image: usize,
        group: usize,
        out: &mut [f32],
        x: &Strided<'_>,
        weights: Matrix<'_>,
        threads: bool,
    ) {
        let (m, k) = (self.out / self.params.groups, self.depth());
        let area = self.out_height * self.out_width;
        let rows = (WINDOWS / (k * self.out_width).max(1)).clamp(1, self.out_height);
        let mut windows = vec![0f32; k * rows * self.out_width];
        // Copies are as long as possible: a row of a window, or a row of the result.
        let whole = self.kernel[1] > self.out_width;
        for top in (0..self.out_height).step_by(rows) {
            let n = rows.min(self.out_height - top) * self.out_width;
            let windows = &mut windows[..k * n];
            let fill = |(number, windows): (usize, &mut [f32])| match whole {
                true => {
                    let at = [image, group * self.channels, top * self.out_width + number];
                    self.window(at, x, windows);
                }
                false => self.tap([image, group], number, top, x, windows),
            };
            let each = windows.chunks_mut(if whole { k } else { n.max(1) }).enumerate();
            match threads {
                true => parallel::for_each(each.collect(), fill),
                false => each.for_each(fill),
            }
            let strides = if whole { [1, k as i64] } else { [n as i64, 1] };
            let windows = Matrix { data: windows, offset: 0, strides };
            let out = &mut out[top * self.out_width..];
            if n >= MIN_ROW_NUMBERS || n >= m {
                multiply([m, n, k], out, area, weights, windows, (false, threads));
                continue;
            }
            // A product is fast along many contiguous numbers. Here those are channels, which are then moved to their
            // positions.
            let mut product = vec![0f32; n * m];
            let (left, right) = (windows.transposed(), weights.transposed());
            multiply([n, m, k], &mut product, m, left, right, (false, threads));
            for (place, row) in product.chunks_exact(m).enumerate() {
                out[place..].iter_mut().step_by(area).zip(row).for_each(|(out, &x)| *out = x);
            }
        }
    }

    /// Fills a row of the matrix of windows: the numbers that one weight of a channel is multiplied with, from row `top` of
    /// the result on.
    fn tap(
        &self,
        [image, group]: [usize; 2],
        number: usize,
        top: usize,
        x: &Strided<'_>,
        out: &mut [f32],
    ) {
        let [height, width] = self.kernel;
        let (channel, tap) = (number / (height * width), number % (height * width));
        let at = [image, group * self.channels + channel, tap / width, tap % width];
        out.fill(0.0);
        for (y, out) in out.chunks_mut(self.out_width).enumerate() {
            self.window_row(x, at, top + y, out, |out, x| *out = x);
        }
    }

    /// Fills a column of that matrix: the numbers that weights are multiplied with for one element of the result. `out`
    /// determines the number of channels, from `first` on.
    fn window(&self, [image, first, place]: [usize; 3], x: &Strided<'_>, out: &mut [f32]) {
        let [height, width] = self.kernel;
        let Conv2d { stride, padding, dilation, .. } = self.params;
        let y = place / self.out_width;
        // The taps t with 0 <= t * dilation + left < width of the image.
        let left = (place % self.out_width * stride[1]) as i64 - padding[1].0 as i64;
        let apart = dilation[1] as i64;
        let from = (-left).max(0).div_ceil_by(apart).min(width as i64);
        let past = (self.width as i64 - left).max(0).div_ceil_by(apart).clamp(from, width as i64);
        let (step, span) = (apart * x.strides[3], from as usize..past as usize);
        for (number, out) in out.chunks_mut(width).enumerate() {
            let (channel, ky) = (first + number / height, number % height);
            let row = (y * stride[0] + ky * dilation[0]).checked_sub(padding[0].0);
            let Some(row) = row.filter(|&row| row < self.height) else {
                out.fill(0.0);
                continue;
            };
            out[..span.start].fill(0.0);
            out[span.end..].fill(0.0);
            let start = x.at(&[image, channel, row]) + (left + from * apart) * x.strides[3];
            let out = &mut out[span.clone()];
            match step {
                _ if out.is_empty() => {}
                1 => out.copy_from_slice(&x.data[start as usize..start as usize + out.len()]),
                _ => {
                    for (i, out) in out.iter_mut().enumerate() {
                        *out = x.data[(start + i as i64 * step) as usize];
                    }
                }
            }
        }
    }

    /// Whether windows are larger than the result, as in a gradient by weights.
    fn is_by_channels(&self, w: &Strided<'_>) -> bool {
        let [height, width] = self.kernel;
        let even = height <= 1 || width <= 1 || w.strides[2] == w.strides[3] * width as i64;
        even && self.params.groups == 1 && height * width > self.out_height * self.out_width
    }

    /// Computes the result channel by channel. The windows of all images are the rows of one matrix for each channel. The
    /// products with the channels' weights are added.
    fn by_channels(&self, out: &mut [f32], x: &Strided<'_>, w: &Strided<'_>) {
        let (taps, area) = (self.kernel[0] * self.kernel[1], self.out_height * self.out_width);
        let (n, m, s) = (self.batch * area, self.out, &w.strides);
        let across = if self.kernel[1] > 1 { s[3] } else { s[2] };
        // The most rows that fit into the cache, but at least one.
        let rows = (WINDOWS / taps).clamp(1, n);
        let parts = cut(self.channels, self.channels.div_ceil(PARTS));
        let sums = parallel::map(parts, |(first, past)| {
            let (mut sums, mut windows) = (vec![0f32; n * m], vec![0f32; rows * taps]);
            for channel in first..past {
                let offset = w.at(&[0, channel]);
                let weights = Matrix { data: &w.data, offset, strides: [across, s[0]] };
                for (top, sums) in (0..).step_by(rows).zip(sums.chunks_mut(rows * m)) {
                    let size = [sums.len() / m, m, taps];
                    let windows = &mut windows[..size[0] * taps];
                    for (row, window) in (top..).zip(windows.chunks_exact_mut(taps)) {
                        self.window([row / area, channel, row % area], x, window);
                    }
                    let left = Matrix { data: windows, offset: 0, strides: [taps as i64, 1] };
                    multiply(size, sums, m, left, weights, (true, false));
                }
            }
            sums
        });
        for (number, out) in out.chunks_exact_mut(area).enumerate() {
            let (image, to) = (number / m, number % m);
            for (place, out) in out.iter_mut().enumerate() {
                *out = sums.iter().map(|sums| sums[(image * area + place) * m + to]).sum();
            }
        }
    }

    /// Returns the weights of a group as a matrix.
    fn weights<'w>(&self, group: usize, w: &'w Strided<'_>) -> Weights<'w> {
        let [height, width] = self.kernel;
        let first = group * (self.out / self.params.groups);
        let (s, taps) = (&w.strides, (height * width) as i64);
        let across = if width > 1 { s[3] } else { s[2] };
        let across = if height * width > 1 { across } else { s[1] };
        let even = (height <= 1 || width <= 1 || s[2] == s[3] * width as i64)
            && (self.channels <= 1 || s[1] == across * taps);
        if even {
            return ((&w.data[..]).into(), w.at(&[first]), [s[0], across]);
        }
        let k = self.depth();
        let mut copy = Vec::with_capacity(self.out / self.params.groups * k);
        for to in first..first + self.out / self.params.groups {
            for channel in 0..self.channels {
                for ky in 0..height {
                    let start = w.at(&[to, channel, ky]);
                    copy.extend((0..width as i64).map(|kx| w.data[(start + kx * s[3]) as usize]));
                }
            }
        }
        (copy.into(), 0, [k as i64, 1])
    }
}

/// A matrix of weights, as numbers, offset and strides.
type Weights<'w> = (Cow<'w, [f32]>, i64, [i64; 2]);

trait DivCeilBy {
    fn div_ceil_by(self, divisor: i64) -> i64;
}

impl DivCeilBy for i64 {
    /// Divides a number that is not negative.
    fn div_ceil_by(self, divisor: i64) -> i64 {
        (self + divisor - 1) / divisor
    }
}
