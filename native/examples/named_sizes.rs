//! A compiled program with named sizes: nearest neighbors of any number of points.
//! `cargo run -p warpweft-native --example named_sizes`

use warpweft_native::prelude::*;

/// Returns the index and the distance of the nearest point for each query, `[queries]` each.
fn nearest(inputs: &[Tensor]) -> Result<Vec<Tensor>> {
    let (queries, points) = (&inputs[0], &inputs[1]);
    // |q - p|^2 = |q|^2 - 2 q p + |p|^2, for all pairs: [queries, points].
    let products = queries.matmul(&points.transpose(0, 1)?)?;
    let lengths = |x: &Tensor| x.square().sum(Axes::from(1).keepdim(true));
    let squares =
        lengths(queries)?.sub(&products.mul(2)?)?.add(&lengths(points)?.transpose(0, 1)?)?;
    let distance = squares.min(1)?.clamp_min(0)?.sqrt();
    Ok(vec![squares.argmin(1)?, distance])
}

fn main() -> Result<()> {
    let device = Device::new_blocking()?;
    let queries: [Dim; 2] = ["queries".into(), 2.into()];
    let points: [Dim; 2] = ["points".into(), 2.into()];
    // Each new size is planned when it first occurs. From the third size on, GPUs compile almost nothing.
    let program =
        device.compile_dynamic(&[(&queries, DType::F32), (&points, DType::F32)], nearest)?;

    for side in [2, 3, 5, 8] {
        // A grid of points, and queries near its diagonal.
        let grid = (0..side * side).flat_map(|at| [(at % side) as f32, (at / side) as f32]);
        let points = device.tensor(&grid.collect::<Vec<f32>>(), &[side * side, 2])?;
        let diagonal = (0..side).flat_map(|at| [at as f32 + 0.3, at as f32 - 0.4]);
        let queries = device.tensor(&diagonal.collect::<Vec<f32>>(), &[side, 2])?;

        let results = program.run(&[&queries, &points])?;
        let (which, far) = (results[0].read_blocking::<i32>()?, results[1].read_blocking::<f32>()?);
        println!("{side} queries, {} points: {which:?} at {:.2}", side * side, far[0]);
    }
    Ok(())
}
