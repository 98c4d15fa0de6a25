//! Convolutions, pools and resampling of images.

use super::super::args::{Args, Stop};
use super::{one, Results};
use warpweft::error::Result as Computed;
use warpweft::tensor::{Conv2dOptions, ConvTransposeOptions, Padding, PoolOptions, Resize, Tensor};

pub fn call(name: &str, args: &Args) -> Results {
    match name {
        "conv2d" => conv2d(args),
        "convTranspose2d" => transposed(args),
        "averagePool2d" => pool(args, |x, options| x.avg_pool(options)),
        "l2Pool2d" => pool(args, |x, options| x.l2_pool(options)),
        "maxPool2d" => pool(args, |x, options| x.max_pool(options)),
        _ => resample(args),
    }
}

/// Transposes the axes from `layout` to `to`, both named by letters.
pub fn arranged(x: &Tensor, layout: &str, to: &str) -> Result<Tensor, Stop> {
    let order: Option<Vec<isize>> =
        to.chars().map(|axis| Some(layout.find(axis)? as isize)).collect();
    let order = order.ok_or_else(|| Stop::Wrong(format!("layout {layout}")))?;
    Ok(x.permute(&order)?)
}

/// Returns the filter in the library's layout.
fn filter(name: &str, args: &Args) -> Result<Tensor, Stop> {
    let usual = if name == "conv2d" { "oihw" } else { "iohw" };
    arranged(&args.tensor("filter")?, args.word("filterLayout", usual)?, usual)
}

/// Returns the number of products that an element of a convolution sums: kernel height * width * input channels of a group. The
/// filter of a transposed convolution has all input channels.
pub fn kernel(name: &str, args: &Args) -> Result<usize, Stop> {
    let filter = filter(name, args)?;
    let groups = if name == "conv2d" { 1 } else { args.integer("groups", 1)? as usize };
    let channels = if name == "conv2d" { filter.shape()[1] } else { filter.shape()[0] };
    Ok(filter.shape()[2] * filter.shape()[3] * channels / groups)
}

/// Returns the padding above and below, left and right.
fn pads(args: &Args) -> Result<[(usize, usize); 2], Stop> {
    let [top, bottom, left, right] = args.array("padding", 0)?;
    Ok([(top, bottom), (left, right)])
}

fn conv2d(args: &Args) -> Results {
    let x = args.get("input")?;
    let layout = args.word("inputLayout", "nchw")?;
    let options = Conv2dOptions {
        stride: args.array("strides", 1)?,
        padding: Padding::Explicit(pads(args)?),
        dilation: args.array("dilations", 1)?,
        groups: args.integer("groups", 1)? as usize,
    };
    let (filter, bias) = (filter("conv2d", args)?, args.maybe_tensor("bias")?);
    let result = arranged(&x.tensor, layout, "nchw")?.conv2d(&filter, bias.as_ref(), options)?;
    one(arranged(&result, "nchw", layout)?, x.kind)
}

/// Computes a transposed convolution. If the size of the result is given, the missing elements are added at the end.
fn transposed(args: &Args) -> Results {
    let x = args.get("input")?;
    let layout = args.word("inputLayout", "nchw")?;
    let (filter, bias) = (filter("convTranspose2d", args)?, args.maybe_tensor("bias")?);
    let t = arranged(&x.tensor, layout, "nchw")?;
    let pads = pads(args)?;
    let mut options = ConvTransposeOptions {
        stride: args.array("strides", 1)?,
        padding: pads.into(),
        output_padding: args.array("outputPadding", 0)?,
        dilation: args.array("dilations", 1)?,
        groups: args.integer("groups", 1)? as usize,
    };
    if args.raw("outputSizes").is_some() {
        let wanted: [usize; 2] = args.array("outputSizes", 0)?;
        for (i, wanted) in wanted.into_iter().enumerate() {
            let reach = options.dilation[i] * (filter.shape()[2 + i] - 1) + 1;
            let whole = (t.shape()[2 + i] - 1) * options.stride[i] + reach;
            let given = pads[i].0 + pads[i].1;
            options.output_padding[i] = (wanted + given).saturating_sub(whole);
        }
    }
    let result = t.conv_transpose2d(&filter, bias.as_ref(), options)?;
    one(arranged(&result, "nchw", layout)?, x.kind)
}

/// Pools. Given sizes decide whether the last window may extend beyond the end. Otherwise, the rounding option decides.
fn pool(args: &Args, work: impl Fn(&Tensor, PoolOptions<2>) -> Computed<Tensor>) -> Results {
    let x = args.get("input")?;
    let layout = args.word("layout", "nchw")?;
    let t = arranged(&x.tensor, layout, "nchw")?;
    let kernel_size = match args.raw("windowDimensions") {
        Some(_) => args.array("windowDimensions", 1)?,
        None => [t.shape()[2], t.shape()[3]],
    };
    let options = PoolOptions {
        kernel_size,
        stride: args.array("strides", 1)?,
        padding: Padding::Explicit(pads(args)?),
        dilation: args.array("dilations", 1)?,
        ceil_mode: args.word("roundingType", "floor")? == "ceil",
        count_include_pad: false,
    };
    let mut result = work(&t, options)?;
    if let Some(wanted) = args.maybe_sizes("outputSizes")? {
        if result.shape()[2..] != wanted {
            result = work(&t, PoolOptions { ceil_mode: !options.ceil_mode, ..options })?;
        }
    }
    one(arranged(&result, "nchw", layout)?, x.kind)
}

/// Resizes two axes.
fn resample(args: &Args) -> Results {
    let x = args.get("input")?;
    let axes: [usize; 2] = match args.raw("axes") {
        Some(_) => args.array("axes", 0)?,
        None => [2, 3],
    };
    let way = match args.word("mode", "nearest-neighbor")? {
        "linear" => Resize::Linear,
        _ => Resize::NearestExact,
    };
    let scales = args.raw("scales").and_then(serde_json::Value::as_array);
    let given = args.maybe_sizes("sizes")?;
    let mut sizes = x.tensor.shape().to_vec();
    for (n, &axis) in axes.iter().enumerate() {
        let scale = scales.and_then(|scales| scales[n].as_f64()).unwrap_or(1.0);
        let size = scale * sizes[axis] as f64;
        sizes[axis] = match &given {
            Some(given) => given[n],
            None if size.fract() == 0.0 => size as usize,
            None => {
                return Err(Stop::Missing("resample2d, scales that give no whole extents".into()));
            }
        };
    }
    one(x.tensor.resize(&sizes, way)?, x.kind)
}
