//! Resampling, in the ways that the library has.

use super::super::args::Stop;
use super::Call;
use warpweft::tensor::{Resize, Tensor};

pub fn call(call: &Call) -> Result<Tensor, Stop> {
    let x = &call.input(0)?.tensor;
    let mode = call.args.word("mode", "nearest")?;
    let place = call.args.word("coordinate_transformation_mode", "half_pixel")?;
    let nearest = call.args.word("nearest_mode", "round_prefer_floor")?;
    if call.flag("antialias", false)? {
        return Err(Stop::Missing("Resize, antialias".into()));
    }
    let (way, mirrored) = match (mode, place, nearest) {
        // Halves go down if they go up where all is counted from the other end.
        ("nearest", "half_pixel", "round_prefer_floor") => (Resize::NearestExact, true),
        ("nearest", "half_pixel", "round_prefer_ceil") => (Resize::NearestExact, false),
        ("nearest", "asymmetric", "floor") => (Resize::Nearest, false),
        ("linear", "half_pixel" | "half_pixel_symmetric" | "pytorch_half_pixel", _) => {
            (Resize::Linear, false)
        }
        ("linear", "align_corners", _) => (Resize::LinearCorners, false),
        ("nearest", ..) => {
            return Err(Stop::Missing(format!("Resize, nearest, {place}, {nearest}")));
        }
        ("cubic", ..) => return Err(Stop::Missing("Resize, cubic".into())),
        _ => return Err(Stop::Missing(format!("Resize, {mode}, {place}"))),
    };
    let sizes = sizes(call, x)?;
    let all: Vec<isize> = (0..x.rank() as isize).collect();
    let mut x = if mirrored { x.flip(&all)? } else { x.clone() };
    for (axis, &size) in sizes.iter().enumerate().filter(|_| place == "pytorch_half_pixel") {
        if size == 1 {
            x = x.slice(axis as isize, 0, 1)?;
        }
    }
    let resized = x.resize(&sizes, way)?;
    Ok(if mirrored { resized.flip(&all)? } else { resized })
}

/// The result's extents, which are the operand's times the scales. Where these are no whole numbers, ONNX goes on with
/// the scales, and the library with the extents.
fn sizes(call: &Call, x: &Tensor) -> Result<Vec<usize>, Stop> {
    let rank = x.rank() as isize;
    let axes = call.args.maybe_list("axes")?.unwrap_or_else(|| (0..rank).collect());
    let axes: Vec<usize> = axes.iter().map(|axis| axis.rem_euclid(rank) as usize).collect();
    let extent = |n: usize| x.shape()[axes[n]] as f64;
    let mut scales = Vec::new();
    match call.maybe(2) {
        Some(given) => scales.extend(given.values()?),
        None => {
            let given = call.input(3)?.values()?;
            scales.extend(given.iter().enumerate().map(|(n, &size)| size / extent(n)));
        }
    }
    let one = match call.args.word("keep_aspect_ratio_policy", "stretch")? {
        "not_larger" => scales.iter().copied().reduce(f64::min),
        "not_smaller" => scales.iter().copied().reduce(f64::max),
        _ => None,
    };
    let mut sizes = x.shape().to_vec();
    for (n, &axis) in axes.iter().enumerate() {
        let scale = one.unwrap_or(scales[n]);
        let size = scale * extent(n);
        if (size - size.round()).abs() > 1e-9 {
            return Err(Stop::Missing("Resize, scales that give no whole extents".into()));
        }
        sizes[axis] = size.round() as usize;
    }
    Ok(sizes)
}
