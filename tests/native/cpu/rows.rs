//! Tests programs over rows: reductions, sums, several stages.

use super::*;

/// Returns a kernel that reduces the inner dimension and writes one number per row.
fn reduction(op: Reduction, dtype: DType, dims: [usize; 2], strides: [i64; 2]) -> Kernel {
    let mut b = Builder::default();
    let x = b.push(Inst::Load { input: 0, index: index(0, &strides), dtype });
    let all = b.push(Inst::Reduce(op, x));
    put(&mut b, 0, &[1], all);
    kernel(&dims, 1, b)
}

#[test]
fn reductions_of_every_kind() {
    for [rows, columns] in
        [[1, 1], [3, 0], [5, 33], [600, 17], [4, 30_000], [2000, 9], [1, 100_000]]
    {
        let x = noise(rows * columns, 9);
        for strides in [[columns as i64, 1], [1, rows as i64]] {
            let fold = |start: f64, f: &dyn Fn(f64, f64) -> f64| -> Vec<f64> {
                let row = |r: usize| {
                    (0..columns).fold(start, |all, c| f(all, f64::from(x[dot(&[r, c], &strides)])))
                };
                (0..rows).map(row).collect()
            };
            let reduce = |op| run(reduction(op, DType::F32, [rows, columns], strides), &[&x], rows);
            close(&reduce(Reduction::Sum), &fold(0.0, &|a, x| a + x), 2e-6);
            close(&reduce(Reduction::Max), &fold(f64::NEG_INFINITY, &f64::max), 0.0);
            close(&reduce(Reduction::Min), &fold(f64::INFINITY, &f64::min), 0.0);
            close(&reduce(Reduction::Prod), &fold(1.0, &|a, x| a * x), 1e-6);
        }
    }
    let ints: Vec<u32> = (0..40_000u32).map(|i| i.wrapping_mul(2654435761)).collect();
    let of = |op, dtype| run_words(reduction(op, dtype, [2, 20_000], [20_000, 1]), &[&ints], 2);
    let half = |i: usize| &ints[i * 20_000..(i + 1) * 20_000];
    let fold = |f: fn(u32, u32) -> u32| [0, 1].map(|i| half(i).iter().copied().reduce(f).unwrap());
    assert_eq!(of(Reduction::Sum, DType::I32), fold(u32::wrapping_add));
    assert_eq!(of(Reduction::Prod, DType::U32), fold(u32::wrapping_mul));
    assert_eq!(of(Reduction::Max, DType::I32), fold(|a, b| (a as i32).max(b as i32) as u32));
    assert_eq!(of(Reduction::Min, DType::U32), fold(u32::min));
    let bits: Vec<u32> = (0..3000).map(|i| u32::from(i % 1500 == 1499)).collect();
    let logical = |op| run_words(reduction(op, DType::Bool, [3, 1000], [1000, 1]), &[&bits], 3);
    assert_eq!(logical(Reduction::Any), [0, 1, 1]);
    assert_eq!(logical(Reduction::All), [0, 0, 0]);
    for (op, dtype) in [
        (Reduction::Max, DType::I32),
        (Reduction::Min, DType::U32),
        (Reduction::All, DType::Bool),
        (Reduction::Any, DType::Bool),
        (Reduction::Prod, DType::F32),
    ] {
        let found = run_words(reduction(op, dtype, [4, 0], [0, 1]), &[&[]], 4);
        assert_eq!(found, [op.identity(dtype); 4]);
    }
    let mut x = noise(5000, 10);
    x[4321] = f32::NAN;
    for op in [Reduction::Max, Reduction::Min, Reduction::Sum] {
        for strides in [[1000, 1], [1, 5]] {
            let found = run(reduction(op, DType::F32, [5, 1000], strides), &[&x], 5);
            assert_eq!(found.iter().filter(|x| x.is_nan()).count(), 1);
        }
    }
}

#[test]
fn long_sums_stay_exact() {
    for (n, scale) in [(1_000_000, 1.0f32), (10_000_019, 1e3)] {
        let x: Vec<f32> = noise(n, 11).iter().map(|x| (x + 1.0) * scale).collect();
        let wanted: f64 = x.iter().map(|&x| f64::from(x)).sum();
        let found = run(reduction(Reduction::Sum, DType::F32, [1, n], [0, 1]), &[&x], 1)[0];
        let error = (f64::from(found) - wanted).abs() / wanted;
        println!("sum of {n}: relative error {error:.1e}");
        assert!(error < 1.2e-7, "{error}");
    }
    // Columns: 16 of them, and many.
    for (rows, columns) in [(16, 62_500), (5000, 200)] {
        let x: Vec<f32> = noise(rows * columns, 12).iter().map(|x| x + 1.0).collect();
        let kernel = reduction(Reduction::Sum, DType::F32, [rows, columns], [1, rows as i64]);
        let found = run(kernel, &[&x], rows);
        let sum = |r: usize| (0..columns).map(|c| f64::from(x[c * rows + r])).sum();
        close(&found, &(0..rows).map(sum).collect::<Vec<f64>>(), 1e-7);
    }
}

#[test]
fn row_programs_with_several_stages() {
    // A layer norm with the mean and variance of each row and a weight per column. The mean is also stored.
    for (rows, columns) in [(50, 96), (3, 10_000), (1, 70_000), (1500, 4)] {
        let (x, w) = (noise(rows * columns, 13), noise(columns, 14));
        let mut b = Builder::default();
        let u = load(&mut b, 0, 0, &[columns as i64, 1]);
        let scale = b.number(DType::F32, 1.0 / columns as f64);
        let sum = b.push(Inst::Reduce(Reduction::Sum, u));
        let mean = b.push(Inst::Binary(Binary::Mul, sum, scale));
        let less = b.push(Inst::Binary(Binary::Sub, u, mean));
        let square = b.push(Inst::Binary(Binary::Mul, less, less));
        let squares = b.push(Inst::Reduce(Reduction::Sum, square));
        let variance = b.push(Inst::Binary(Binary::Mul, squares, scale));
        let epsilon = b.number(DType::F32, 1e-5);
        let variance = b.push(Inst::Binary(Binary::Add, variance, epsilon));
        let inverse = b.push(Inst::Unary(Unary::InverseSqrt, variance));
        let normal = b.push(Inst::Binary(Binary::Mul, less, inverse));
        let weight = load(&mut b, 1, 0, &[0, 1]);
        let result = b.push(Inst::Binary(Binary::Mul, normal, weight));
        put(&mut b, 0, &[columns as i64, 1], result);
        put(&mut b, 1, &[1], mean);
        let sizes = [rows * columns, rows];
        let backend = CpuBackend::new();
        let inputs = [&words_of(&x)[..], &words_of(&w)[..]];
        let found =
            try_run(&backend, kernel(&[rows, columns], 1, b), &inputs, &sizes, &[]).unwrap();
        let (mut wanted, mut means) = (Vec::new(), Vec::new());
        for row in x.chunks(columns) {
            let mean = row.iter().map(|&x| f64::from(x)).sum::<f64>() / columns as f64;
            let square = |&x: &f32| (f64::from(x) - mean).powi(2);
            let variance = row.iter().map(square).sum::<f64>() / columns as f64;
            let inverse = 1.0 / (variance + 1e-5).sqrt();
            let each = row.iter().zip(&w);
            wanted.extend(each.map(|(&x, &w)| (f64::from(x) - mean) * inverse * f64::from(w)));
            means.push(mean);
        }
        close(&floats_of(&found[0]), &wanted, 2e-5);
        close(&floats_of(&found[1]), &means, 1e-6);
    }
}
