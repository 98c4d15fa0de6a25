//! The image filters of the demo. An image of packed pixels is filtered by a chain and packed again.
//!
//! `www/demo/image.js` has the same filters under the same names.

use warpweft_native::prelude::*;

/// A filter and its strength. The strength is 0 for filters without one.
pub type Filter = (&'static str, f64);

/// The chain for the figures, which results in a colored pencil drawing.
pub const USUAL: [Filter; 5] =
    [("gamma", 0.8), ("blur", 1.0), ("edges", 4.0), ("invert", 0.0), ("contrast", 4.0)];

/// Every filter, with its default strength.
pub const ALL: [Filter; 11] = [
    ("grayscale", 0.0),
    ("brightness", 0.1),
    ("gamma", 0.8),
    ("contrast", 6.0),
    ("invert", 0.0),
    ("blur", 3.0),
    ("sharpen", 1.0),
    ("sobel-x", 1.0),
    ("sobel-y", 1.0),
    ("edges", 3.0),
    ("emboss", 1.0),
];

/// Compiles a program with the input `u32 [height, width]`, packed pixels with red in the lowest byte. The results are packed
/// pixels of the same shape, and the same image as `f32 [1, 3, height, width]` from 0 to 1.
///
/// # Errors
/// The errors of the operations.
pub fn program(device: &Device, width: usize, height: usize, chain: &[Filter]) -> Result<Program> {
    device.compile(&[(&[height, width], DType::U32)], |inputs| {
        let mut image = unpack(&inputs[0])?;
        for &(name, strength) in chain {
            image = apply(&image, name, strength)?;
        }
        let image = image.clamp(0.0, 1.0)?;
        Ok(vec![pack(&image)?, image])
    })
}

/// Unpacks pixels, `[height, width] -> [1, 3, height, width]`, to values from 0 to 1.
fn unpack(pixels: &Tensor) -> Result<Tensor> {
    let shifts = pixels.device().tensor(&[0u32, 8, 16], &[1, 3, 1, 1])?;
    let bytes = pixels
        .reshape(&[1, 1, pixels.shape()[0], pixels.shape()[1]])?
        .bitwise_right_shift(&shifts)?;
    bytes.bitwise_and(255)?.cast(DType::F32)?.div(255)
}

/// Packs an image to opaque pixels. The inverse of [`unpack`].
fn pack(image: &Tensor) -> Result<Tensor> {
    let shifts = image.device().tensor(&[0u32, 8, 16], &[1, 3, 1, 1])?;
    let bytes = image.mul(255)?.add(0.5)?.cast(DType::U32)?.bitwise_left_shift(&shifts)?;
    bytes.sum(&[0, 1])?.add(0xff00_0000_u32)
}

fn apply(x: &Tensor, name: &str, strength: f64) -> Result<Tensor> {
    match name {
        "grayscale" => {
            let weight = x.device().tensor(&[0.299f32, 0.587, 0.114], &[1, 3, 1, 1])?;
            x.mul(&weight)?.sum(Axes::from(1).keepdim(true))?.expand(x.shape())
        }
        "brightness" => x.add(strength),
        // Clamped away from 0, where a power below 1 has an infinite slope.
        "gamma" => x.clamp(1e-4, 1.0)?.pow(strength),
        "contrast" => {
            let low = 1.0 / (1.0 + (strength / 2.0).exp());
            x.sub(0.5)?.mul(strength)?.sigmoid().sub(low)?.div(1.0 - 2.0 * low)
        }
        "invert" => x.neg().add(1),
        "blur" => {
            let row = binomials(strength as usize);
            let across = convolve(x, &row, 1, row.len())?;
            convolve(&across, &row, row.len(), 1)
        }
        "sharpen" => {
            let detail = convolve(x, &[0., -1., 0., -1., 4., -1., 0., -1., 0.], 3, 3)?;
            x.add(&detail.mul(strength)?)
        }
        "sobel-x" => sobel_x(x)?.mul(strength)?.add(0.5),
        "sobel-y" => sobel_y(x)?.mul(strength)?.add(0.5),
        "edges" => sobel_x(x)?.hypot(&sobel_y(x)?)?.mul(strength),
        "emboss" => {
            let relief = convolve(x, &[-1., -0.5, 0., -0.5, 0., 0.5, 0., 0.5, 1.], 3, 3)?;
            relief.mul(strength)?.add(0.5)
        }
        _ => Err(Error::argument(format!("demo: the filter must be known, got {name}"))),
    }
}

fn sobel_x(x: &Tensor) -> Result<Tensor> {
    convolve(x, &[-0.25, 0., 0.25, -0.5, 0., 0.5, -0.25, 0., 0.25], 3, 3)
}

fn sobel_y(x: &Tensor) -> Result<Tensor> {
    convolve(x, &[-0.25, -0.5, -0.25, 0., 0., 0., 0.25, 0.5, 0.25], 3, 3)
}

/// Returns the row of Pascal's triangle with 2r + 1 numbers, divided by its sum. It is close to a Gaussian, and exact in
/// `f32`.
fn binomials(radius: usize) -> Vec<f32> {
    let mut row = vec![1.0f32];
    for _ in 0..2 * radius {
        row = (0..=row.len())
            .map(|i| {
                let left = if i == 0 { 0.0 } else { row[i - 1] };
                (left + row.get(i).copied().unwrap_or(0.0)) / 2.0
            })
            .collect();
    }
    row
}

/// Convolves each channel with a kernel of `rows` by `columns`. The edge pixels are repeated outside of the image.
fn convolve(x: &Tensor, kernel: &[f32], rows: usize, columns: usize) -> Result<Tensor> {
    let extended = extend(&extend(x, 2, rows / 2)?, 3, columns / 2)?;
    let weight = x.device().tensor(&kernel.repeat(3), &[3, 1, rows, columns])?;
    extended.conv2d(&weight, None, Conv2dOptions { groups: 3, ..Default::default() })
}

fn extend(x: &Tensor, axis: usize, by: usize) -> Result<Tensor> {
    if by == 0 {
        return Ok(x.clone());
    }
    let length = x.shape()[axis];
    let along = x.device().iota(&[length + 2 * by], 0)?;
    x.index_select(axis as isize, &along.sub(by as u32)?.clamp(0, length as u32 - 1)?)
}
