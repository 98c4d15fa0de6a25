//! Convolution: the windows of a stretch of the result are laid out as the columns of a matrix, which the weights
//! multiply. Where each group has one channel there is nothing to multiply, and rows are added up directly.

use super::epilogue::EpiloguePlan;
use super::gemm::{multiply, Matrix};
use super::operand::{OperandPlan, Strided};
use crate::backend::cpu::exec::inputs::Inputs;
use crate::backend::cpu::exec::parallel;
use crate::backend::cpu::lower::tiling::count;
use crate::error::{Error, Result};
use crate::kernel::{Convolution, Counts};
use crate::op::Conv2d;

/// Numbers in a stretch's matrix of windows: as many as stay in a core's own cache.
const WINDOWS: usize = 1 << 17;

/// A convolution, prepared.
pub struct ConvPlan {
    params: Conv2d,
    batch: usize,
    height: usize,
    width: usize,
    out: usize,
    /// Channels in each group.
    channels: usize,
    kernel: [usize; 2],
    out_height: usize,
    out_width: usize,
    x: OperandPlan,
    w: OperandPlan,
    epilogue: EpiloguePlan,
}

impl ConvPlan {
    /// Prepares `conv`.
    pub fn new(conv: &Convolution, counts: Counts) -> Result<ConvPlan> {
        let groups = conv.params.groups;
        if groups == 0 || !conv.channels.is_multiple_of(groups) || !conv.out.is_multiple_of(groups)
        {
            let message = format!("cpu: malformed kernel: channels do not divide by {groups}");
            return Err(Error::data(message));
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

    /// Runs it.
    pub fn run(&self, inputs: &Inputs<'_>, outputs: &mut [&mut [u32]]) -> Result<()> {
        if count(&[self.batch, self.out, self.out_height, self.out_width])? == 0 {
            return Ok(());
        }
        self.epilogue.run(inputs, outputs, |out| {
            let (x, w) = (self.x.read(inputs)?, self.w.read(inputs)?);
            match self.channels {
                1 => self.by_planes(out, &x, &w),
                _ => self.by_windows(out, &x, &w),
            }
            Ok(())
        })
    }

    /// One channel in each group: a result's plane is a sum of shifted planes.
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

    fn taps(&self) -> impl Iterator<Item = (usize, usize)> {
        let [height, width] = self.kernel;
        (0..height).flat_map(move |ky| (0..width).map(move |kx| (ky, kx)))
    }

    /// Calls `visit` for each of row `y` of the result whose tap `ky`, `kx` lies inside the image.
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
        let each = self.batch * groups;
        let spread = each >= 2 * parallel::threads();
        let one = |(number, out): (usize, &mut [f32])| {
            self.group(number / groups, number % groups, out, x, w, !spread);
        };
        let tasks: Vec<(usize, &mut [f32])> = out.chunks_mut(size).enumerate().collect();
        match spread {
            true => parallel::for_each(tasks, one),
            false => tasks.into_iter().for_each(one),
        }
    }

    /// A group's channels of one image's result.
    fn group(
        &self,
        image: usize,
        group: usize,
        out: &mut [f32],
        x: &Strided<'_>,
        w: &Strided<'_>,
        threads: bool,
    ) {
        let [kernel_height, kernel_width] = self.kernel;
        let taps = kernel_height * kernel_width;
        let (m, k) = (self.out / self.params.groups, self.channels * taps);
        let area = self.out_height * self.out_width;
        let rows = (WINDOWS / (k * self.out_width).max(1)).clamp(1, self.out_height);
        let mut windows = vec![0f32; k * rows * self.out_width];
        // Weights lie as a matrix unless somebody permuted them.
        let weights = self.weights(group, w, k);
        let a = Matrix { data: &weights.0, offset: weights.1, strides: weights.2 };
        for top in (0..self.out_height).step_by(rows) {
            let n = rows.min(self.out_height - top) * self.out_width;
            let fill = |(number, windows): (usize, &mut [f32])| {
                let (channel, tap) = (group * self.channels + number / taps, number % taps);
                let at = [image, channel, tap / kernel_width, tap % kernel_width];
                windows.fill(0.0);
                for (y, out) in windows.chunks_mut(self.out_width).enumerate() {
                    self.window_row(x, at, top + y, out, |out, x| *out = x);
                }
            };
            let each = windows[..k * n].chunks_mut(n.max(1)).enumerate();
            match threads {
                true => parallel::for_each(each.collect(), fill),
                false => each.for_each(fill),
            }
            let b = Matrix { data: &windows, offset: 0, strides: [n as i64, 1] };
            let out = &mut out[top * self.out_width..];
            multiply([m, n, k], out, area, a, b, (false, threads));
        }
    }

    /// A group's weights as a matrix of `k` columns: numbers, offset, strides.
    fn weights<'w>(
        &self,
        group: usize,
        w: &'w Strided<'_>,
        k: usize,
    ) -> (std::borrow::Cow<'w, [f32]>, i64, [i64; 2]) {
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
        let mut copy = Vec::with_capacity(self.out / self.params.groups * k);
        for to in first..first + self.out / self.params.groups {
            for channel in 0..self.channels {
                copy.extend(
                    self.taps().map(|(ky, kx)| w.data[w.at(&[to, channel, ky, kx]) as usize]),
                );
            }
        }
        (copy.into(), 0, [k as i64, 1])
    }
}

trait DivCeilBy {
    fn div_ceil_by(self, divisor: i64) -> i64;
}

impl DivCeilBy for i64 {
    /// Of a number that is not negative.
    fn div_ceil_by(self, divisor: i64) -> i64 {
        (self + divisor - 1) / divisor
    }
}
