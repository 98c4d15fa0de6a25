//! Convolutions over one, two and three axes, and their transposes. All are composed of the two-dimensional convolution.

use crate::error::{Error, Result};
use crate::op::{Conv2d, Op, Routine, Windows};
use crate::shape::Shape;
use crate::tensor::{with_op_name, Tensor};

/// The padding of a convolution or a pooling over `N` axes. A number applies to all ends. A list of numbers has one for
/// both ends of each axis, and a list of pairs has one for each end: `padding: 1.into()`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Padding<const N: usize = 2> {
    /// No padding.
    Valid,
    /// Padding so that the extent of the result is that of the input divided by the stride, rounded up. An odd element is
    /// added at the end.
    Same,
    /// This many elements before and after each axis.
    Explicit([(usize, usize); N]),
}

impl<const N: usize> From<usize> for Padding<N> {
    fn from(all: usize) -> Padding<N> {
        Padding::Explicit([(all, all); N])
    }
}

impl<const N: usize> From<[usize; N]> for Padding<N> {
    fn from(each: [usize; N]) -> Padding<N> {
        Padding::Explicit(each.map(|both| (both, both)))
    }
}

impl<const N: usize> From<[(usize, usize); N]> for Padding<N> {
    fn from(ends: [(usize, usize); N]) -> Padding<N> {
        Padding::Explicit(ends)
    }
}

/// The parameters of a convolution over `N` axes; the default is stride 1, no padding, no dilation, one group.
#[cfg_attr(feature = "js", warpweft_macros::js)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConvOptions<const N: usize> {
    /// The distance from one window to the next. The default is 1.
    pub stride: [usize; N],
    /// The zeros around the input. The default is none.
    pub padding: Padding<N>,
    /// The distance from one element of a window to the next. The default is 1.
    pub dilation: [usize; N],
    /// The number of independent groups of input and output channels. The default is 1.
    pub groups: usize,
}

/// The parameters of a 2-D convolution.
pub type Conv2dOptions = ConvOptions<2>;

impl<const N: usize> Default for ConvOptions<N> {
    fn default() -> ConvOptions<N> {
        let (stride, dilation) = ([1; N], [1; N]);
        ConvOptions { stride, padding: Padding::Valid, dilation, groups: 1 }
    }
}

/// The parameters of a transposed convolution over `N` axes. They are those of the convolution that it transposes.
#[cfg_attr(feature = "js", warpweft_macros::js)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConvTransposeOptions<const N: usize> {
    /// The distance from one window of the convolution to the next. The default is 1.
    pub stride: [usize; N],
    /// The elements to remove before and after each axis of the result. With `Same`, the extent of the result is that of
    /// the input times the stride. The default is none.
    pub padding: Padding<N>,
    /// Extra elements at the end of each axis of the result. The default is 0.
    pub output_padding: [usize; N],
    /// The distance from one element of a window to the next. The default is 1.
    pub dilation: [usize; N],
    /// The number of independent groups of input and output channels. The default is 1.
    pub groups: usize,
}

impl<const N: usize> Default for ConvTransposeOptions<N> {
    fn default() -> ConvTransposeOptions<N> {
        let (stride, dilation) = ([1; N], [1; N]);
        let (padding, output_padding) = (Padding::Valid, [0; N]);
        ConvTransposeOptions { stride, padding, output_padding, dilation, groups: 1 }
    }
}

/// The amounts of padding, without the number of axes in the type.
#[derive(Clone, Copy)]
pub(super) enum Ends<'a> {
    Same,
    Explicit(&'a [(usize, usize)]),
}

impl<const N: usize> Padding<N> {
    pub(super) fn ends(&self) -> Ends<'_> {
        match self {
            Padding::Valid => Ends::Explicit(&[]),
            Padding::Same => Ends::Same,
            Padding::Explicit(ends) => Ends::Explicit(ends),
        }
    }
}

impl Ends<'_> {
    /// Returns the padding before and after the `i`-th axis, for windows over an axis of this extent.
    pub(super) fn of(&self, i: usize, extent: usize, windows: &Windows) -> (usize, usize) {
        let Ends::Explicit(ends) = self else {
            let &Windows { size, step, dilation, .. } = windows;
            let reach = size.saturating_sub(1).saturating_mul(dilation).saturating_add(1);
            let covered = extent.div_ceil(step).saturating_sub(1).saturating_mul(step);
            let missing = covered.saturating_add(reach).saturating_sub(extent);
            return (missing / 2, missing - missing / 2);
        };
        ends.get(i).copied().unwrap_or((0, 0))
    }

    /// Returns the crop before and after the `i`-th axis of a transposed convolution, and the reach of the window beyond
    /// its last element. `end` is the reach without cropping.
    fn crop(&self, i: usize, end: usize, stride: usize) -> ((usize, usize), usize) {
        let Ends::Explicit(ends) = self else {
            let total = end.saturating_add(1).saturating_sub(stride);
            return ((total / 2, total - total / 2), end.max(stride - 1));
        };
        (ends.get(i).copied().unwrap_or((0, 0)), end)
    }
}

/// The parameters of a convolution, without the number of axes in the type.
struct ConvWindow<'a> {
    pub name: &'static str,
    pub stride: &'a [usize],
    pub padding: Ends<'a>,
    pub dilation: &'a [usize],
    pub groups: usize,
}

impl ConvWindow<'_> {
    /// Returns the error for an input and a weight that do not fit together.
    fn refuse(&self, what: &str, input: &Shape, weight: &Shape) -> Error {
        Error::shape(format!("{}: {what}, got input {input} and weight {weight}", self.name))
    }
}

macro_rules! convolutions {
    ($($n:literal $conv:ident $transpose:ident $axes:literal $kernel:literal;)*) => {
    #[cfg_attr(feature = "js", warpweft_macros::js)]
    impl Tensor { $(
        #[doc = concat!("Computes a ", $n, "-D convolution (cross-correlation, as in PyTorch and ONNX). This tensor is")]
        #[doc = concat!("`[batch, in, ", $axes, "]`, the weight `[out, in / groups, ", $kernel, "]`, and the bias `[out]`.")]
        /// The result is `[batch, out, ...]`. If the input lacks the batch axis, the result lacks it as well. An axis of the
        /// result has `floor((padded extent - dilation * (kernel - 1) - 1) / stride) + 1` elements.
        ///
        /// # Errors
        /// `Shape` if extents, channels and groups do not fit; `DType` unless all have one float type.
        #[cfg_attr(feature = "js", js(options(bias), spread(options)))]
        pub fn $conv(
            &self,
            weight: &Tensor,
            bias: Option<&Tensor>,
            options: ConvOptions<$n>,
        ) -> Result<Tensor> {
            if self.rank() == $n + 1 {
                return self.unsqueeze(0)?.$conv(weight, bias, options)?.squeeze(0);
            }
            let (name, groups) = (stringify!($conv), options.groups);
            let (stride, dilation) = (&options.stride, &options.dilation);
            let padding = options.padding.ends();
            self.convolution(weight, bias, &ConvWindow { name, stride, padding, dilation, groups })
        }

        #[doc = concat!("Computes a transposed ", $n, "-D convolution, the input gradient of a convolution. This tensor is")]
        #[doc = concat!("`[batch, in, ", $axes, "]`, the weight `[in, out / groups, ", $kernel, "]`, and the bias `[out]`.")]
        /// An axis of the result has `(extent - 1) * stride + dilation * (kernel - 1) + 1 + output padding` elements,
        /// minus the padding. If the input lacks the batch axis, the result lacks it as well.
        ///
        /// # Errors
        /// `Shape` if extents, channels and groups do not fit; `DType` unless all have one float type.
        #[cfg_attr(feature = "js", js(options(bias), spread(options)))]
        pub fn $transpose(
            &self,
            weight: &Tensor,
            bias: Option<&Tensor>,
            options: ConvTransposeOptions<$n>,
        ) -> Result<Tensor> {
            if self.rank() == $n + 1 {
                return self.unsqueeze(0)?.$transpose(weight, bias, options)?.squeeze(0);
            }
            let (name, groups) = (stringify!($transpose), options.groups);
            let (stride, dilation) = (&options.stride, &options.dilation);
            let padding = options.padding.ends();
            let asked = ConvWindow { name, stride, padding, dilation, groups };
            self.convolve_transpose(weight, bias, &asked, &options.output_padding)
        }
    )* } };
}

convolutions! {
    1 conv1d conv_transpose1d "length" "kernel length";
    2 conv2d conv_transpose2d "height, width" "kernel height, kernel width";
    3 conv3d conv_transpose3d "depth, height, width" "kernel depth, height, width";
}

#[cfg_attr(feature = "js", warpweft_macros::js)]
impl Tensor {
    /// Convolves over one axis for each stride.
    fn convolution(
        &self,
        weight: &Tensor,
        bias: Option<&Tensor>,
        asked: &ConvWindow,
    ) -> Result<Tensor> {
        self.check_window(weight, asked)?;
        let result = self.convolve(weight, asked)?;
        result.device.check(asked.name, result.shape, result.dtype)?;
        result.add_bias(bias, asked)
    }

    /// Adds one number to each channel.
    fn add_bias(self, bias: Option<&Tensor>, asked: &ConvWindow) -> Result<Tensor> {
        let Some(bias) = bias else { return Ok(self) };
        let name = asked.name;
        if bias.shape[..] != [self.shape[1]] {
            let (channels, bias) = (self.shape[1], &bias.shape);
            return Err(Error::shape(format!(
                "{name}: the bias must have shape [{channels}], one number for each output channel, got {bias}"
            )));
        }
        let mut dims = vec![1; self.rank() - 1];
        dims[0] = bias.shape[0];
        with_op_name(name, || self.add(&bias.reshape(&dims)?))
    }

    fn convolve(&self, weight: &Tensor, asked: &ConvWindow) -> Result<Tensor> {
        match asked.stride.len() {
            1 => self.convolve_1d(weight, asked),
            2 => self.convolve_2d(weight, asked),
            _ => self.convolve_3d(weight, asked),
        }
    }

    /// A 2-D convolution. All other convolutions are composed of it.
    fn convolve_2d(&self, weight: &Tensor, asked: &ConvWindow) -> Result<Tensor> {
        let &ConvWindow { name, stride, dilation, groups, .. } = asked;
        let padding = [self.conv_padding(weight, asked, 0), self.conv_padding(weight, asked, 1)];
        let plain = stride == [1, 1] && padding == [(0, 0); 2] && groups == 1;
        if plain && weight.shape[2..] == [1, 1] && weight.shape[1] == self.shape[1] {
            return with_op_name(name, || self.convolve_1x1(weight));
        }
        // All steps beyond the padded input are equivalent, so they are limited to its extent.
        let extent = |i: usize| {
            let (before, after) = padding[i];
            self.shape[2 + i].saturating_add(before).saturating_add(after).max(1)
        };
        let within_reach = |of: &[usize]| [of[0].min(extent(0)), of[1].min(extent(1))];
        let (stride, dilation) = (within_reach(stride), within_reach(dilation));
        let conv = Conv2d { stride, padding, dilation, groups };
        self.apply(Op::Routine(Routine::Conv2d(conv)), &[weight]).map_err(|e| e.within(name))
    }

    /// Returns the padding before and after the `i`-th axis of the window.
    fn conv_padding(&self, weight: &Tensor, asked: &ConvWindow, i: usize) -> (usize, usize) {
        let (size, step, dilation) = (weight.shape[2 + i], asked.stride[i], asked.dilation[i]);
        let window = Windows { axis: 0, size, step, dilation };
        asked.padding.of(i, self.shape[2 + i], &window)
    }

    /// A 1-D convolution, as a 2-D convolution of one row.
    fn convolve_1d(&self, weight: &Tensor, asked: &ConvWindow) -> Result<Tensor> {
        let &ConvWindow { name, stride, dilation, groups, .. } = asked;
        let ends = [(0, 0), self.conv_padding(weight, asked, 0)];
        let (stride, dilation) = (&[1, stride[0]], &[1, dilation[0]]);
        let flat = ConvWindow { name, stride, padding: Ends::Explicit(&ends), dilation, groups };
        self.unsqueeze(2)?.convolve_2d(&weight.unsqueeze(2)?, &flat)?.squeeze(2)
    }

    /// A convolution with a window of one element, as a matrix product at each pixel.
    fn convolve_1x1(&self, weight: &Tensor) -> Result<Tensor> {
        let &[batch, channels, height, width] = &self.shape[..] else {
            unreachable!("a 2-D convolution's input has rank 4");
        };
        let out = weight.shape[0];
        let pixels = self.reshape(&[batch, channels, height * width])?;
        let product = weight.reshape(&[out, channels])?.matmul(&pixels)?;
        product.reshape(&[batch, out, height, width])
    }

    /// Returns the number of axes of the convolution or its transpose.
    ///
    /// # Errors
    /// `Shape`.
    fn check_convolution(&self, weight: &Tensor, asked: &ConvWindow) -> Result<usize> {
        let (x, w, n) = (&self.shape, &weight.shape, asked.stride.len());
        if self.rank() != n + 2 || weight.rank() != n + 2 {
            return Err(asked.refuse(&format!("input and weight must have rank {}", n + 2), x, w));
        }
        if asked.stride.contains(&0) || asked.dilation.contains(&0) || asked.groups == 0 {
            let ConvWindow { name, stride, dilation, groups, .. } = asked;
            return Err(Error::shape(format!(
                "{name}: stride, dilation and groups must be at least 1, got {stride:?}, {dilation:?} and {groups}"
            )));
        }
        Ok(n)
    }

    /// Rejects invalid operands. Errors name the shapes that the caller passed.
    ///
    /// # Errors
    /// `Shape`.
    fn check_window(&self, weight: &Tensor, asked: &ConvWindow) -> Result<()> {
        let n = self.check_convolution(weight, asked)?;
        let (x, w, groups) = (&self.shape, &weight.shape, asked.groups);
        if w[1].checked_mul(groups) != Some(x[1]) {
            let (channels, each) = (w[1].saturating_mul(groups), w[1]);
            let what =
                format!("the input must have {channels} channels ({groups} groups of {each})");
            return Err(asked.refuse(&what, x, w));
        }
        if w[0] % groups != 0 {
            let what = format!("the weight's output channels must divide into {groups} groups");
            return Err(asked.refuse(&what, x, w));
        }
        for i in 0..n {
            let (before, after) = self.conv_padding(weight, asked, i);
            let padded = x[2 + i].saturating_add(before).saturating_add(after);
            let last = w[2 + i].checked_sub(1).map(|last| last.saturating_mul(asked.dilation[i]));
            if last.is_none_or(|last| last >= padded) {
                let what = format!(
                    "the kernel must not be empty, nor longer than the padded input ({padded} along axis {})",
                    2 + i
                );
                return Err(asked.refuse(&what, x, w));
            }
        }
        Ok(())
    }

    /// A 3-D convolution. The planes that the window covers along the depth become channels of a 2-D convolution.
    fn convolve_3d(&self, weight: &Tensor, asked: &ConvWindow) -> Result<Tensor> {
        let &ConvWindow { name, stride, dilation, groups, .. } = asked;
        let ends = [0, 1, 2].map(|i| self.conv_padding(weight, asked, i));
        let (x, w) = (&self.shape, &weight.shape);
        with_op_name(name, || {
            let zeros = [(0, 0), (0, 0), ends[0], (0, 0), (0, 0)];
            let padded =
                if ends[0] == (0, 0) { self.clone() } else { self.pad_static(&zeros, 0.0)? };
            let planes = padded.unfold(2, w[2], stride[0], dilation[0])?;
            let depth = planes.shape[2];
            let planes = planes.permute(&[0, 2, 1, 5, 3, 4])?;
            let planes = planes.reshape(&[x[0] * depth, x[1] * w[2], x[3], x[4]])?;
            let flat = weight.reshape(&[w[0], w[1] * w[2], w[3], w[4]])?;
            let asked = ConvWindow {
                name,
                stride: &stride[1..],
                padding: Ends::Explicit(&ends[1..]),
                dilation: &dilation[1..],
                groups,
            };
            let planes = planes.convolve_2d(&flat, &asked)?;
            let (height, width) = (planes.shape[2], planes.shape[3]);
            planes.reshape(&[x[0], depth, w[0], height, width])?.permute(&[0, 2, 1, 3, 4])
        })
    }

    /// Convolves the input, with zeros inserted between its elements, with the reversed kernel.
    fn convolve_transpose(
        &self,
        weight: &Tensor,
        bias: Option<&Tensor>,
        asked: &ConvWindow,
        more: &[usize],
    ) -> Result<Tensor> {
        let &ConvWindow { name, stride, padding, dilation, groups } = asked;
        let n = self.check_convolution(weight, asked)?;
        let w = &weight.shape;
        if w[0] != self.shape[1] || !w[0].is_multiple_of(groups) {
            let what = format!(
                "the input must have {} channels, which must divide into {groups} groups",
                w[0]
            );
            return Err(asked.refuse(&what, &self.shape, w));
        }
        with_op_name(name, || {
            let mut x = self.clone();
            let mut ends = [(0, 0); 3];
            let mut cut = [(0, 0); 3];
            for i in 0..n {
                x = x.dilate_axis(2 + i, stride[i])?;
                let reach = w[2 + i].saturating_sub(1).saturating_mul(dilation[i]);
                let end = reach.saturating_add(more[i]);
                let ((before, after), end) = padding.crop(i, end, stride[i]);
                ends[i] = (reach.saturating_sub(before), end.saturating_sub(after));
                cut[i] = (before.saturating_sub(reach), after.saturating_sub(end));
                let extent = x.shape[2 + i];
                if cut[i].0.saturating_add(cut[i].1) > extent {
                    let must = "the padding must be smaller than the result";
                    return Err(Error::shapes(name, must, &self.shape, w));
                }
                x = x.slice_static(
                    2 + i as isize,
                    cut[i].0 as isize..(extent - cut[i].1) as isize,
                    1,
                )?;
            }
            let (out, each) = (w[1].saturating_mul(groups), w[0] / groups);
            let kernel = &w[2..];
            let turned = weight.reshape([&[groups, each, w[1]], kernel].concat())?;
            let turned = turned.transpose(1, 2)?.reshape([&[out, each], kernel].concat())?;
            let axes: Vec<isize> = (2..2 + n as isize).collect();
            let padding = Ends::Explicit(&ends[..n]);
            let plain = ConvWindow { name, stride: &[1; 3][..n], padding, dilation, groups };
            x.convolution(&turned.flip(&axes)?, bias, &plain)
        })
    }

    /// Inserts `step - 1` zeros between the elements of an axis.
    fn dilate_axis(&self, axis: usize, step: usize) -> Result<Tensor> {
        let mut dims = self.shape.to_vec();
        let extent = dims[axis];
        if step <= 1 || extent <= 1 {
            return Ok(self.clone());
        }
        let before: usize = dims[..axis].iter().product();
        let after: usize = dims[axis + 1..].iter().product();
        let spread = self.reshape(&[before, extent, 1, after])?;
        let spread = spread.pad_static(&[(0, 0), (0, 0), (0, step - 1), (0, 0)], 0.0)?;
        let long = extent.saturating_mul(step);
        dims[axis] = long - (step - 1);
        let flat =
            spread.reshape(&[before, long, after])?.slice_static(1, ..dims[axis] as isize, 1)?;
        flat.reshape(&dims)
    }

    /// Returns the windows of a convolution with these options as columns, from `[batch, channels, height, width]` to
    /// `[batch, channels * kernel height * kernel width, windows]`. (`F.unfold` in PyTorch.)
    ///
    /// If the input lacks the batch axis, the result lacks it as well. The `groups` of the options are ignored.
    ///
    /// # Errors
    /// `Shape` unless the rank is 3 or 4, if a kernel size, stride or dilation is 0, or if no window fits.
    #[cfg_attr(feature = "js", js(spread(options)))]
    pub fn im2col(&self, kernel_size: [usize; 2], options: Conv2dOptions) -> Result<Tensor> {
        let name = "im2col";
        if self.rank() == 3 {
            return self.unsqueeze(0)?.im2col(kernel_size, options)?.squeeze(0);
        }
        let zero = [kernel_size, options.stride, options.dilation].concat().contains(&0);
        let &[batch, channels, _, _] = &self.shape[..] else {
            let must =
                "the input must be [batch, channels, height, width] or [channels, height, width]";
            return Err(Error::wrong_shape(name, must, &self.shape));
        };
        if zero {
            let (stride, dilation) = (options.stride, options.dilation);
            return Err(Error::shape(format!(
                "{name}: kernel size, stride and dilation must be at least 1, got {kernel_size:?}, {stride:?} and {dilation:?}"
            )));
        }
        with_op_name(name, || {
            let mut amounts = vec![(0, 0); 2];
            for (i, &size) in kernel_size.iter().enumerate() {
                let (step, dilation) = (options.stride[i], options.dilation[i]);
                let windows = crate::op::Windows { axis: 0, size, step, dilation };
                amounts.push(options.padding.ends().of(i, self.shape[2 + i], &windows));
            }
            let mut windows = match amounts.iter().all(|&pair| pair == (0, 0)) {
                true => self.clone(),
                false => self.pad_static(&amounts, 0.0)?,
            };
            for (i, &size) in kernel_size.iter().enumerate() {
                let (step, dilation) = (options.stride[i], options.dilation[i]);
                windows = windows.unfold(2 + i as isize, size, step, dilation)?;
            }
            let count = windows.shape[2] * windows.shape[3];
            let elements = channels * kernel_size[0] * kernel_size[1];
            windows.permute(&[0, 1, 4, 5, 2, 3])?.reshape([batch, elements, count])
        })
    }
}
