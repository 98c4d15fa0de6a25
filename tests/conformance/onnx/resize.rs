//! Resampling: converts ONNX's options to positions and filters, axis by axis.

use super::super::args::Stop;
use super::Call;
use warpweft::dtype::DType;
use warpweft::error::Result as Computed;
use warpweft::tensor::{Filter, Sampling, Tensor};

pub fn call(call: &Call) -> Result<Tensor, Stop> {
    let x = &call.input(0)?.tensor;
    let filter = filter(call)?;
    let place = call.args.word("coordinate_transformation_mode", "half_pixel")?;
    let (antialias, inside) =
        (call.flag("antialias", false)?, call.flag("exclude_outside", false)?);
    let beyond = call.args.number("extrapolation_value", 0.0)?;
    let mut resized = x.clone();
    for Axis { axis, size, scale, roi } in axes(call, x)? {
        let n = x.shape()[axis] as f64;
        let (first, step) = match place {
            "asymmetric" => (0.0, 1.0 / scale),
            "align_corners" => (0.0, (n - 1.0) / (n * scale - 1.0).max(1.0)),
            "half_pixel" => (0.5 / scale - 0.5, 1.0 / scale),
            "pytorch_half_pixel" if size == 1 => (-0.5, 1.0),
            "pytorch_half_pixel" => (0.5 / scale - 0.5, 1.0 / scale),
            "half_pixel_symmetric" => {
                let missing = n / 2.0 * (1.0 - size as f64 / (n * scale));
                (missing + 0.5 / scale - 0.5, 1.0 / scale)
            }
            "tf_crop_and_resize" if size == 1 => ((roi.0 + roi.1) / 2.0 * (n - 1.0), 1.0),
            "tf_crop_and_resize" => {
                (roi.0 * (n - 1.0), (roi.1 - roi.0) * (n - 1.0) / (size as f64 - 1.0))
            }
            other => return Err(Stop::Missing(format!("Resize, {other}"))),
        };
        // Filters widen only when they shrink the axis.
        let antialias = antialias && scale < 1.0;
        let by = Sampling { first, step, filter, antialias, inside };
        if (first, step, size) != (0.0, 1.0, x.shape()[axis]) {
            resized = resized.resample(axis as isize, size, by)?;
        }
        if place == "tf_crop_and_resize" {
            resized = cropped(&resized, axis, by, (n, beyond))?;
        }
    }
    Ok(resized)
}

/// Replaces results beyond the edges by the given value.
fn cropped(x: &Tensor, axis: usize, by: Sampling, (n, beyond): (f64, f64)) -> Computed<Tensor> {
    let size = x.shape()[axis];
    let is_inside = |i: usize| (0.0..=n - 1.0).contains(&(by.first + i as f64 * by.step));
    let inside: Vec<i32> = (0..size).map(|i| i32::from(is_inside(i))).collect();
    let mut dims = vec![1; x.rank()];
    dims[axis] = size;
    x.device().tensor(&inside, &dims)?.cast(DType::Bool)?.where_cond(x, beyond)
}

fn filter(call: &Call) -> Result<Filter, Stop> {
    let nearest = call.args.word("nearest_mode", "round_prefer_floor")?;
    let sharpness = call.args.number("cubic_coeff_a", -0.75)?;
    Ok(match (call.args.word("mode", "nearest")?, nearest) {
        ("linear", _) => Filter::Linear,
        ("cubic", _) => Filter::Cubic(sharpness),
        (_, "floor") => Filter::Floor,
        (_, "ceil") => Filter::Ceil,
        (_, "round_prefer_ceil") => Filter::HalfUp,
        _ => Filter::HalfDown,
    })
}

/// An axis that is resized: its new extent, the scale, and the region that is resized, as fractions of the whole axis.
struct Axis {
    axis: usize,
    size: usize,
    scale: f64,
    roi: (f64, f64),
}

fn axes(call: &Call, x: &Tensor) -> Result<Vec<Axis>, Stop> {
    let rank = x.rank() as isize;
    let axes = call.args.maybe_list("axes")?.unwrap_or_else(|| (0..rank).collect());
    let axes: Vec<usize> = axes.iter().map(|axis| axis.rem_euclid(rank) as usize).collect();
    let extent = |n: usize| x.shape()[axes[n]] as f64;
    let sizes = call.list(3)?;
    let mut scales = Vec::new();
    match &sizes {
        None => scales.extend(call.input(2)?.values()?),
        Some(sizes) => scales.extend(sizes.iter().enumerate().map(|(n, &s)| s as f64 / extent(n))),
    }
    let one = match call.args.word("keep_aspect_ratio_policy", "stretch")? {
        "not_larger" => scales.iter().copied().reduce(f64::min),
        "not_smaller" => scales.iter().copied().reduce(f64::max),
        _ => None,
    };
    let roi = match call.maybe(1) {
        Some(roi) => roi.values()?,
        None => &[],
    };
    let mut found = Vec::new();
    for (n, &axis) in axes.iter().enumerate() {
        let scale = one.unwrap_or(scales[n]);
        let exact = scale * extent(n);
        // With given sizes, the nearest whole number. With scales, the whole part. Scales are `f32`.
        let size = if one.is_some() { exact.round() } else { (exact + 1e-6).floor() };
        let roi = match roi.get(n).zip(roi.get(axes.len() + n)) {
            Some((&start, &end)) => (start, end),
            None => (0.0, 1.0),
        };
        found.push(Axis { axis, size: size as usize, scale, roi });
    }
    Ok(found)
}
