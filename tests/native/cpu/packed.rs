//! Tests programs that divide coordinates, and matmuls that compute their operand.

use super::*;

/// Applies a binary instruction to a coordinate and a constant.
fn divided(b: &mut Builder, op: Binary, coordinate: u32, by: u32) -> ValueId {
    let coordinate = b.push(Inst::Coord(coordinate));
    let by = b.number(DType::I32, f64::from(by));
    b.push(Inst::Binary(op, coordinate, by))
}

#[test]
fn quotients_and_remainders_of_coordinates() {
    // In the last cases, the divisors do not divide each other or the extents.
    let cases: [[(Binary, u32, usize); 2]; 6] = [
        [(Binary::Shr, 3, 8), (Binary::And, 7, 8)],
        [(Binary::Shr, 1, 2), (Binary::Shr, 3, 8)],
        [(Binary::Div, 6, 6), (Binary::Rem, 2, 2)],
        [(Binary::And, 3, 4), (Binary::Rem, 12, 12)],
        [(Binary::Div, 4, 4), (Binary::Rem, 6, 6)],
        [(Binary::Div, 5, 5), (Binary::And, 31, 32)],
    ];
    for dims in [[3, 24], [24, 3], [2, 120], [7, 1024], [1, 8], [5, 31], [33, 257], [0, 8]] {
        let (x, coord) = (noise(4000, 5), usize::from(dims[1] >= dims[0]));
        for case in cases {
            for outer in [1, 2] {
                let mut b = Builder::default();
                let parts = case.map(|(op, by, _)| divided(&mut b, op, coord as u32, by));
                let mut at = index(1, &[3, 1]);
                at.add(&Index::atom(Atom::Value(parts[0])), 2);
                at.add(&Index::atom(Atom::Value(parts[1])), 5);
                let loaded = b.push(Inst::Load { input: 0, index: at, dtype: DType::F32 });
                let more = b.push(Inst::Cast(DType::F32, parts[1]));
                let value = b.push(Inst::Binary(Binary::Add, loaded, more));
                put(&mut b, 0, &row_major(&dims), value);
                let count = dims[0] * dims[1];
                let found = run(kernel(&dims, outer, b), &[&x], count);
                let mut wanted = Vec::new();
                each(&dims, |at| {
                    let part = |(op, _, by): (Binary, u32, usize)| match op {
                        Binary::Shr | Binary::Div => at[coord] / by,
                        _ => at[coord] % by,
                    };
                    let (p, q) = (part(case[0]), part(case[1]));
                    let place = 1 + 3 * at[0] + at[1] + 2 * p + 5 * q;
                    wanted.push(f64::from(x[place] + q as f32));
                });
                close(&found, &wanted, 0.0);
            }
        }
    }
}

/// Returns a matrix `[k, n]` of four-bit fields, times a scale for each 32 of them. The columns of the matrix are rows of
/// words.
fn fields(k: usize) -> Operand {
    let mut b = Builder::default();
    let (word, field) = (divided(&mut b, Binary::Shr, 0, 3), divided(&mut b, Binary::And, 0, 7));
    let mut at = index(0, &[0, (k / 8) as i64]);
    at.add(&Index::atom(Atom::Value(word)), 1);
    let words = b.push(Inst::Load { input: 1, index: at, dtype: DType::U32 });
    let four = b.number(DType::I32, 4.0);
    let shift = b.push(Inst::Binary(Binary::Mul, field, four));
    let shift = b.push(Inst::Cast(DType::U32, shift));
    let low = b.push(Inst::Binary(Binary::Shr, words, shift));
    let mask = b.number(DType::U32, 15.0);
    let low = b.push(Inst::Binary(Binary::And, low, mask));
    let number = b.push(Inst::Cast(DType::F32, low));
    let group = divided(&mut b, Binary::Shr, 0, 5);
    let mut at = index(0, &[0, (k / 32) as i64]);
    at.add(&Index::atom(Atom::Value(group)), 1);
    let scale = b.push(Inst::Load { input: 2, index: at, dtype: DType::F32 });
    let value = b.push(Inst::Binary(Binary::Mul, number, scale));
    Operand { program: b.finish(), value }
}

#[test]
fn products_with_fields_of_words() {
    // Small matrices, matrices that one thread computes, and matrices of more than one panel.
    for (k, n) in [(32, 5), (64, 33), (1056, 1000), (4096, 257)] {
        let words: Vec<u32> = (0..(k / 8 * n) as u32).map(|i| i.wrapping_mul(2654435761)).collect();
        let scales = noise(k / 32 * n, 3);
        let weight = |i: usize, j: usize| {
            let field = words[j * (k / 8) + i / 8] >> (i % 8 * 4) & 15;
            f64::from(field as f32 * scales[j * (k / 32) + i / 32])
        };
        let weights: Vec<f64> = (0..n * k).map(|at| weight(at % k, at / k)).collect();
        for (batch, m) in [(1, 1), (1, 4), (1, 9), (3, 2)] {
            let x = noise(batch * m * k, 7);
            let mut a = Builder::default();
            let value = load(&mut a, 0, 0, &[(m * k) as i64, k as i64, 1]);
            let a = Operand { program: a.finish(), value };
            let mut b = fields(k);
            let moved: Vec<Index> = (1..3).map(Index::coordinate).collect();
            let same: Vec<ValueId> = (0..b.program.insts.len() as ValueId).collect();
            for inst in &mut b.program.insts {
                *inst = match &*inst {
                    Inst::Coord(d) => Inst::Coord(d + 1),
                    other => other.substitute(Some(&moved), &same),
                };
            }
            let mut epilogue = Builder::default();
            let result = epilogue.push(Inst::Accumulator);
            put(&mut epilogue, 0, &row_major(&[batch, m, n]), result);
            let epilogue = epilogue.finish();
            let product = Matmul { batch: vec![batch], m, n, k, a, b, epilogue };
            let inputs = [&words_of(&x)[..], &words[..], &words_of(&scales)[..]];
            let found = floats_of(&run_words(Kernel::Matmul(product), &inputs, batch * m * n));
            let wanted = (0..batch * m * n).map(|at| {
                let (x, w) = (&x[at / n * k..][..k], &weights[at % n * k..][..k]);
                x.iter().zip(w).map(|(&x, &w)| f64::from(x) * w).sum()
            });
            close(&found, &wanted.collect::<Vec<f64>>(), 1e-4);
        }
    }
}
