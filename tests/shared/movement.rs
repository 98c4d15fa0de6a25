//! Tests the movement of elements, compared bit by bit. Any bit pattern must arrive unchanged.

use super::array::{bits, integers, place, Array};
use super::check::{exact, near, same_bits, Suite};
use super::matmul::product;
use super::tolerance::Tolerance;
use warpweft::dtype::DType;
use warpweft::tensor::Tensor;

/// Bits that arithmetic would change: NaNs with payloads, infinities, -0, subnormals.
const STUBBORN: [u32; 8] = [
    0x7fc0_0001,
    0xffc1_2345,
    0x7f80_0000,
    0xff80_0000,
    0x8000_0000,
    0x0000_0001,
    0x807f_ffff,
    0x7fff_ffff,
];

/// Returns words without any pattern, including [`STUBBORN`] ones.
fn words(shape: &[usize], seed: u32) -> Array<u32> {
    let mut next = 0;
    bits(shape, seed).map(|w| {
        next += 1;
        if w % 5 == 0 {
            STUBBORN[next % 8]
        } else {
            w
        }
    })
}

pub fn cases() -> Suite {
    let mut suite = Suite::new("movement");
    reshapes(&mut suite);
    permutes(&mut suite);
    super::transposition::add(&mut suite);
    slices(&mut suite);
    expands(&mut suite);
    pads(&mut suite);
    slice_scatters(&mut suite);
    concats(&mut suite);
    stacks_and_tiles(&mut suite);
    gathers(&mut suite);
    triangles(&mut suite);
    chains(&mut suite);
    reads(&mut suite);
    suite
}

fn reshapes(suite: &mut Suite) {
    type Pair = (&'static [usize], &'static [usize]);
    const PAIRS: &[Pair] = &[
        (&[], &[1]),
        (&[1], &[]),
        (&[1, 1, 1], &[]),
        (&[12], &[3, 4]),
        (&[3, 4], &[4, 3]),
        (&[2, 3, 4, 5], &[6, 20]),
        (&[7, 11], &[1, 77, 1]),
        (&[2, 3, 5, 7], &[7, 5, 3, 2]),
        (&[0, 3], &[5, 0]),
        (&[256], &[2, 2, 2, 2, 2, 2, 2, 2]),
    ];
    for &(from, to) in PAIRS {
        suite.add(format!("reshape {from:?} to {to:?}"), move |device| {
            let x = words(from, 1);
            let got = x.on(device, DType::F32)?.reshape(to)?;
            Ok(vec![same_bits("reshape", got, DType::F32, x.reshape(to))])
        });
    }
    suite.add("reshape of views", |device| {
        let x = words(&[6, 10], 2);
        let a = x.on(device, DType::F32)?;
        let turned = x.permute(&[1, 0]);
        let sliced = x.slice(1, 1, 4, 2);
        let check = |what, got, want| same_bits(what, got, DType::F32, want);
        Ok(vec![
            check(
                "of a transpose",
                a.transpose(0, 1)?.reshape(&[4, 15])?,
                turned.reshape(&[4, 15]),
            ),
            check(
                "of a slice",
                a.slice_step(1, 1..9, 2)?.reshape(&[3, 8])?,
                sliced.reshape(&[3, 8]),
            ),
            check(
                "of an expansion",
                a.slice(0, ..1)?.expand(&[3, 10])?.reshape(&[5, 6])?,
                x.slice(0, 0, 1, 1).expand(&[3, 10]).reshape(&[5, 6]),
            ),
            check("flatten of a transpose", a.transpose(0, 1)?.flatten(..)?, turned.reshape(&[60])),
        ])
    });
    suite.add("unsqueeze and squeeze", |device| {
        let x = words(&[3, 4], 3);
        let a = x.on(device, DType::I32)?;
        let check = |what, got, want| same_bits(what, got, DType::I32, want);
        Ok(vec![
            check("at 0", a.unsqueeze(0)?, x.reshape(&[1, 3, 4])),
            check("at -1", a.unsqueeze(-1)?, x.reshape(&[3, 4, 1])),
            check("at -2", a.unsqueeze(-2)?, x.reshape(&[3, 1, 4])),
            check("back", a.unsqueeze(1)?.squeeze(1)?, x.clone()),
        ])
    });
}

fn permutes(suite: &mut Suite) {
    const ORDERS: &[(&[usize], &[isize])] = &[
        (&[], &[]),
        (&[5], &[0]),
        (&[3, 4], &[1, 0]),
        (&[31, 33], &[1, 0]),
        (&[64, 64], &[1, 0]),
        (&[129, 257], &[1, 0]),
        (&[2, 3, 4], &[0, 2, 1]),
        (&[2, 3, 4], &[1, 0, 2]),
        (&[2, 3, 4], &[1, 2, 0]),
        (&[2, 3, 4], &[2, 0, 1]),
        (&[2, 3, 4], &[-1, -2, -3]),
        (&[2, 3, 4, 5], &[0, 2, 1, 3]),
        (&[2, 3, 4, 5], &[3, 1, 0, 2]),
        (&[2, 3, 1, 2, 1, 3, 2, 2], &[7, 2, 0, 5, 4, 1, 6, 3]),
        (&[0, 3, 2], &[2, 0, 1]),
    ];
    for &(shape, order) in ORDERS {
        suite.add(format!("permute {shape:?} by {order:?}"), move |device| {
            let x = words(shape, 4);
            let axes: Vec<usize> =
                order.iter().map(|a| a.rem_euclid(shape.len() as isize) as usize).collect();
            let got = x.on(device, DType::F32)?.permute(order)?;
            Ok(vec![same_bits("permute", got, DType::F32, x.permute(&axes))])
        });
    }
    for dtype in [DType::I32, DType::U32, DType::Bool, DType::F16] {
        let case = suite.add(format!("transpose of {dtype}"), move |device| {
            let x = words(&[5, 7], 5);
            let x = if dtype == DType::Bool { x.map(|w| w & 1) } else { x };
            let got = x.on(device, dtype)?.transpose(0, -1)?;
            // An `f16` is converted to `f32` and back, which may make a NaN quiet.
            let want = x.permute(&[1, 0]);
            let quiet = |w: u32| if w & 0x7fff > 0x7c00 { 0x7e00 } else { w };
            if dtype == DType::F16 {
                let x = x.map(quiet);
                let got = x.on(device, dtype)?.transpose(0, -1)?;
                return Ok(vec![same_bits("transpose", got, dtype, x.permute(&[1, 0]))]);
            }
            Ok(vec![same_bits("transpose", got, dtype, want)])
        });
        if dtype == DType::F16 {
            case.half();
        }
    }
}

fn slices(suite: &mut Suite) {
    suite.add("slices of a vector", |device| {
        let x = words(&[20], 6);
        let a = x.on(device, DType::F32)?;
        let mut checks = Vec::new();
        for (start, end, step) in
            [(0, 20, 1), (3, 17, 1), (0, 20, 2), (1, 20, 3), (5, 5, 1), (19, 20, 7), (0, 19, 6)]
        {
            let len = (end - start as isize) as usize;
            let got = a.slice_step(0, start as isize..end, step)?;
            let want = x.slice(0, start, len.div_ceil(step), step as isize);
            checks.push(same_bits(format!("{start}..{end} by {step}"), got, DType::F32, want));
        }
        let last = a.slice(-1, -7..-2)?;
        checks.push(same_bits("-7..-2", last, DType::F32, x.slice(0, 13, 5, 1)));
        Ok(checks)
    });
    suite.add("slices of several axes", |device| {
        let x = words(&[4, 9, 6], 7);
        let a = x.on(device, DType::F32)?;
        let check = |what, got, want| same_bits(what, got, DType::F32, want);
        let inner = x.slice(0, 1, 2, 1).slice(1, 2, 3, 2).slice(2, 3, 1, 1);
        let got = a.slice(0, 1..3)?.slice_step(1, 2..8, 2)?.slice(2, 3..4)?;
        Ok(vec![
            check("a corner", got, inner),
            check("of a slice", a.slice(1, 1..8)?.slice_step(1, 1..6, 2)?, x.slice(1, 2, 3, 2)),
            check("nothing", a.slice(2, 6..6)?, x.slice(2, 6, 0, 1)),
            check("flip of all", a.flip(&[0, 1, 2])?, x.flip(&[0, 1, 2])),
            check("flip of one", a.flip(&[1])?, x.flip(&[1])),
            check("flip of two", a.flip(&[-1, 0])?, x.flip(&[0, 2])),
            check(
                "a slice of a flip",
                a.flip(&[1])?.slice_step(1, 1..8, 3)?,
                x.flip(&[1]).slice(1, 1, 3, 3),
            ),
        ])
    });
    suite.add("flip of nothing", |device| {
        let x = words(&[0, 3], 8);
        Ok(vec![same_bits("flip", x.on(device, DType::U32)?.flip(&[])?, DType::U32, x)])
    });
}

fn expands(suite: &mut Suite) {
    type Pair = (&'static [usize], &'static [usize]);
    const PAIRS: &[Pair] = &[
        (&[], &[]),
        (&[], &[2, 3]),
        (&[1], &[65]),
        (&[3], &[4, 3]),
        (&[3, 1], &[3, 4]),
        (&[1, 4], &[3, 4]),
        (&[2, 1, 1, 3], &[5, 2, 4, 1, 3]),
        (&[1, 1], &[0, 3]),
        (&[1, 2], &[2, 1, 2, 1, 2, 1, 2, 2]),
    ];
    for &(from, to) in PAIRS {
        suite.add(format!("expand {from:?} to {to:?}"), move |device| {
            let x = words(from, 9);
            let got = x.on(device, DType::F32)?.expand(to)?;
            Ok(vec![same_bits("expand", got, DType::F32, x.expand(to))])
        });
    }
}

fn pads(suite: &mut Suite) {
    type Amounts = &'static [(usize, usize)];
    const PADS: &[(&[usize], Amounts)] = &[
        (&[], &[]),
        (&[3], &[(2, 1)]),
        (&[3], &[(0, 0)]),
        (&[3, 4], &[(1, 0), (0, 2)]),
        (&[31, 33], &[(1, 1), (3, 0)]),
        (&[2, 3, 4], &[(0, 0), (1, 1), (0, 0)]),
        (&[0, 3], &[(2, 0), (0, 1)]),
        (
            &[1, 1, 1, 1, 1, 1, 1, 2],
            &[(1, 0), (0, 1), (0, 0), (1, 1), (0, 0), (0, 0), (0, 1), (1, 0)],
        ),
    ];
    for &(shape, amounts) in PADS {
        suite.add(format!("pad {shape:?} by {amounts:?}"), move |device| {
            let x = words(shape, 10);
            let got = x.on(device, DType::F32)?.pad(amounts, -1.5)?;
            let want = x.pad(amounts, (-1.5f32).to_bits());
            Ok(vec![same_bits("pad", got, DType::F32, want)])
        });
    }
    suite.add("pad with infinities and integers", |device| {
        let x = words(&[3, 3], 11);
        let amounts = [(1, 1), (0, 1)];
        let f = x.on(device, DType::F32)?.pad(&amounts, f64::NEG_INFINITY)?;
        let i = x.on(device, DType::I32)?.pad(&amounts, -2_147_483_648.0)?;
        let u = x.on(device, DType::U32)?.pad(&amounts, 4_294_967_295.0)?;
        let b = x.map(|w| w & 1);
        let padded = b.on(device, DType::Bool)?.pad(&amounts, 1.0)?;
        Ok(vec![
            same_bits("f32", f, DType::F32, x.pad(&amounts, 0xff80_0000)),
            same_bits("i32", i, DType::I32, x.pad(&amounts, 0x8000_0000)),
            same_bits("u32", u, DType::U32, x.pad(&amounts, u32::MAX)),
            same_bits("bool", padded, DType::Bool, b.pad(&amounts, 1)),
        ])
    });
    suite.add("pad of views", |device| {
        let x = words(&[6, 7], 12);
        let a = x.on(device, DType::F32)?;
        let got = a.transpose(0, 1)?.slice(0, 1..5)?.pad(&[(1, 2), (0, 1)], 0.0)?.flip(&[0])?;
        let want = x.permute(&[1, 0]).slice(0, 1, 4, 1).pad(&[(1, 2), (0, 1)], 0).flip(&[0]);
        let twice = a.pad(&[(1, 1), (1, 1)], 1.0)?.pad(&[(1, 1), (1, 1)], 2.0)?;
        let ones = x.pad(&[(1, 1), (1, 1)], 1f32.to_bits());
        Ok(vec![
            same_bits("pad", got, DType::F32, want),
            same_bits("twice", twice, DType::F32, ones.pad(&[(1, 1), (1, 1)], 2f32.to_bits())),
        ])
    });
}

fn slice_scatters(suite: &mut Suite) {
    const PARTS: &[(&[usize], usize, isize, usize)] = &[
        (&[5], 0, 0, 1),
        (&[5], 0, 4, 1),
        (&[5], 0, -2, 2),
        (&[5], 0, 0, 5),
        (&[5], 0, 3, 0),
        (&[33, 65], 0, 7, 9),
        (&[33, 65], 1, 31, 33),
        (&[2, 3, 4], 1, 1, 1),
        (&[2, 0, 4], 2, 1, 2),
        (&[1, 1, 3, 1, 2, 1, 1, 2], 2, 1, 2),
    ];
    for &(shape, axis, start, len) in PARTS {
        suite.add(
            format!("slice_scatter {shape:?} along {axis} from {start}, {len}"),
            move |device| {
                let mut part = shape.to_vec();
                part[axis] = len;
                let (x, y) = (words(shape, 13), words(&part, 14));
                let from = start.rem_euclid(shape[axis] as isize) as usize;
                let want = x.slice_scatter(axis, from, &y);
                let got = |dtype| {
                    x.on(device, dtype)?.slice_scatter(axis as isize, start, &y.on(device, dtype)?)
                };
                Ok(vec![
                    same_bits("f32", got(DType::F32)?, DType::F32, want.clone()),
                    same_bits("i32", got(DType::I32)?, DType::I32, want),
                ])
            },
        );
    }
    suite.add("slice_scatter of views and what is computed, read by a product", |device| {
        let (x, y) = (integers(&[6, 5], -9, 9, 15), integers(&[2, 6], -9, 9, 16));
        let (a, b) = (x.f32(device)?.transpose(0, 1)?, y.f32(device)?);
        let placed = a.add(1.0)?.slice_scatter(0, 2, &b.mul(2.0)?)?;
        let x = x.permute(&[1, 0]).map(|x| x + 1.0).slice_scatter(0, 2, &y.map(|y| 2.0 * y));
        let square = placed.matmul(&placed.transpose(0, 1)?)?;
        let sums = placed.sum(&[0])?.add(&placed.slice(0, 2..3)?.squeeze(0)?)?;
        let product = Array::from_fn(&[5, 5], |at| {
            (0..6).map(|k| x.at(&[at[0], k]) * x.at(&[at[1], k])).sum::<f64>()
        });
        let columns = Array::from_fn(&[6], |at| {
            (0..5).map(|n| x.at(&[n, at[0]])).sum::<f64>() + x.at(&[2, at[0]])
        });
        Ok(vec![
            near("product", square, product, Tolerance::EXACT),
            near("sums", sums, columns, Tolerance::EXACT),
        ])
    });
}

fn concats(suite: &mut Suite) {
    const JOINS: &[(&[&[usize]], usize)] = &[
        (&[&[3]], 0),
        (&[&[2], &[3]], 0),
        (&[&[2, 3], &[4, 3]], 0),
        (&[&[2, 3], &[2, 5]], 1),
        (&[&[2, 3, 4], &[2, 1, 4], &[2, 2, 4]], 1),
        (&[&[2, 0], &[2, 3], &[2, 0], &[2, 1]], 1),
        (&[&[0], &[0]], 0),
        (&[&[33, 65], &[33, 1], &[33, 31]], 1),
        (&[&[1, 1, 2, 1, 1, 1, 1, 2], &[1, 1, 3, 1, 1, 1, 1, 2]], 2),
    ];
    for &(shapes, axis) in JOINS {
        suite.add(format!("concat {shapes:?} along {axis}"), move |device| {
            let seeds = 20..;
            let parts: Vec<Array<u32>> =
                shapes.iter().zip(seeds).map(|(s, n)| words(s, n)).collect();
            let mut tensors = Vec::new();
            for part in &parts {
                tensors.push(part.on(device, DType::F32)?);
            }
            let got = Tensor::concat(&tensors, axis as isize)?;
            Ok(vec![same_bits("concat", got, DType::F32, Array::concat(&parts, axis))])
        });
    }
    suite.add("concat of a hundred", |device| {
        let parts: Vec<Array<u32>> = (0..100).map(|n| words(&[2, 1 + n % 3], n as u32)).collect();
        let mut tensors = Vec::new();
        for part in &parts {
            tensors.push(part.on(device, DType::F32)?);
        }
        let got = Tensor::concat(&tensors, -1)?;
        Ok(vec![same_bits("concat", got, DType::F32, Array::concat(&parts, 1))])
    });
    suite.add("concat of a tensor with itself and its views", |device| {
        let x = words(&[4, 4], 30);
        let a = x.on(device, DType::F32)?;
        let turned = a.transpose(0, 1)?;
        let got = Tensor::concat(&[&a, &a, &turned, &a.flip(&[1])?], 0)?;
        let want = Array::concat(&[x.clone(), x.clone(), x.permute(&[1, 0]), x.flip(&[1])], 0);
        Ok(vec![same_bits("concat", got, DType::F32, want)])
    });
    suite.add("concat of computed parts, used twice", |device| {
        let (x, y) = (integers(&[3, 5], -9, 9, 31), integers(&[3, 2], -9, 9, 32));
        let (a, b) = (x.f32(device)?, y.f32(device)?);
        let (doubled, next) = (a.mul(2.0)?, b.add(1.0)?);
        let joined = Tensor::concat(&[&doubled, &next], 1)?;
        let want = Array::concat(&[x.map(|x| x * 2.0), y.map(|y| y + 1.0)], 1);
        let relu = joined.slice(1, 3..7)?.mul(-1.0)?;
        Ok(vec![
            exact("joined", joined, DType::F32, want.clone()),
            exact("a part of it", relu, DType::F32, want.slice(1, 3, 4, 1).map(|v| -v)),
            exact("a part alone", doubled, DType::F32, x.map(|x| x * 2.0)),
        ])
    });
    suite.add("concat of the first rows of what is used as a whole, too", |device| {
        let (few, many) = (integers(&[2, 3], -9, 9, 34), integers(&[6, 3], -9, 9, 35));
        let w = integers(&[3, 3], -9, 9, 36);
        let (few_wanted, many_wanted) = (product(&few, &w), product(&many, &w));
        let weight = w.f32(device)?;
        let few = few.f32(device)?.matmul(&weight)?;
        let many = many.f32(device)?.matmul(&weight)?;
        let joined = Tensor::concat(&[&many.slice(0, ..2)?, &few], 0)?;
        let mut batch = device.batch();
        for tensor in [&few, &many, &joined] {
            batch.add(tensor)?;
        }
        batch.run()?;
        let want = Array::concat(&[many_wanted.slice(0, 0, 2, 1), few_wanted.clone()], 0);
        Ok(vec![
            exact("joined", joined, DType::F32, want),
            exact("the first", many, DType::F32, many_wanted),
            exact("the second", few, DType::F32, few_wanted),
        ])
    });
    suite.add("concat of all types", |device| {
        let x = words(&[3, 2], 33).map(|w| w & 1);
        let mut checks = Vec::new();
        for dtype in [DType::I32, DType::U32, DType::Bool] {
            let a = x.on(device, dtype)?;
            let want = Array::concat(&[x.clone(), x.clone()], 1);
            checks.push(same_bits("concat", Tensor::concat(&[&a, &a], 1)?, dtype, want));
        }
        Ok(checks)
    });
}

fn stacks_and_tiles(suite: &mut Suite) {
    suite.add("stack", |device| {
        let parts: Vec<Array<u32>> = (40..43).map(|n| words(&[2, 3], n)).collect();
        let mut tensors = Vec::new();
        for part in &parts {
            tensors.push(part.on(device, DType::F32)?);
        }
        let mut checks = Vec::new();
        for (axis, at) in [(0, 0), (1, 1), (2, 2), (-1, 2), (-3, 0)] {
            let mut shape = vec![2, 3];
            shape.insert(at, 1);
            let unsqueezed: Vec<_> = parts.iter().map(|p| p.reshape(&shape)).collect();
            let got = Tensor::stack(&tensors, axis)?;
            let want = Array::concat(&unsqueezed, at);
            checks.push(same_bits(format!("along {axis}"), got, DType::F32, want));
        }
        Ok(checks)
    });
    suite.add("split", |device| {
        let x = words(&[3, 10], 44);
        let lengths = [4, 0, 1, 5];
        let pieces = x.on(device, DType::F32)?.split(&lengths, 1)?;
        let mut start = 0;
        let mut checks = Vec::new();
        for (piece, len) in pieces.into_iter().zip(lengths) {
            checks.push(same_bits("a piece", piece, DType::F32, x.slice(1, start, len, 1)));
            start += len;
        }
        Ok(checks)
    });
    suite.add("split and joined again", |device| {
        let x = words(&[7, 6], 45);
        let pieces = x.on(device, DType::F32)?.split(&[1, 2, 3], -1)?;
        let got = Tensor::concat(&[&pieces[0], &pieces[1], &pieces[2]], 1)?;
        Ok(vec![same_bits("whole", got, DType::F32, x)])
    });
    suite.add("chunk", |device| {
        let x = words(&[3, 10], 47);
        let mut checks = Vec::new();
        for (count, lengths) in [
            (1, &[10][..]),
            (2, &[5, 5]),
            (3, &[4, 4, 2]),
            (4, &[3, 3, 3, 1]),
            (6, &[2; 5]),
            (20, &[1; 10]),
        ] {
            let pieces = x.on(device, DType::F32)?.chunk(count, -1)?;
            assert_eq!(pieces.len(), lengths.len(), "pieces of {count}");
            let mut start = 0;
            for (piece, &len) in pieces.into_iter().zip(lengths) {
                let want = x.slice(1, start, len, 1);
                checks.push(same_bits(format!("of {count}"), piece, DType::F32, want));
                start += len;
            }
        }
        let none = device.zeros(&[0, 2])?.chunk(3, 0)?;
        assert_eq!(none.len(), 1, "nothing is one piece");
        Ok(checks)
    });
    suite.add("roll", |device| {
        let x = words(&[3, 10, 2], 48);
        let a = x.on(device, DType::F32)?;
        let mut checks = Vec::new();
        for axis in 0..3 {
            for shift in [0, 1, 3, -1, -4, 10, 23, -31] {
                let want = Array::from_fn(&x.shape, |at| {
                    let mut from = at.to_vec();
                    let extent = x.shape[axis] as isize;
                    from[axis] = (at[axis] as isize - shift).rem_euclid(extent) as usize;
                    x.at(&from)
                });
                let got = a.roll(shift, axis as isize)?;
                checks.push(same_bits(format!("by {shift} along {axis}"), got, DType::F32, want));
            }
        }
        let none = device.zeros(&[0, 2])?.roll(1, 0)?;
        checks.push(same_bits("nothing", none, DType::F32, Array::new(&[0, 2], vec![])));
        Ok(checks)
    });
    suite.add("tile", |device| {
        let x = words(&[2, 3], 46);
        let a = x.on(device, DType::F32)?;
        let repeat = |n: usize, axis, of: &Array<u32>| Array::concat(&vec![of.clone(); n], axis);
        let both = repeat(3, 0, &repeat(2, 1, &x));
        let none = Array::new(&[0, 3], vec![]);
        Ok(vec![
            same_bits("3 by 2", a.tile(&[3, 2])?, DType::F32, both),
            same_bits("1 by 4", a.tile(&[1, 4])?, DType::F32, repeat(4, 1, &x)),
            same_bits("0 by 1", a.tile(&[0, 1])?, DType::F32, none),
        ])
    });
}

/// Returns `x` along `axis` at `index`, with 0 outside.
fn gathered(x: &Array<u32>, axis: usize, index: &Array<f64>) -> Array<u32> {
    let rank = index.shape.len();
    let shape = [&x.shape[..axis], &index.shape, &x.shape[axis + 1..]].concat();
    Array::from_fn(&shape, |at| {
        let Some(place) = place(index.at(&at[axis..axis + rank]), x.shape[axis]) else { return 0 };
        x.at(&[&at[..axis], &[place], &at[axis + rank..]].concat())
    })
}

fn gathers(suite: &mut Suite) {
    const GATHERS: &[(&[usize], usize, &[usize])] = &[
        (&[10], 0, &[4]),
        (&[10], 0, &[]),
        (&[5, 3], 0, &[7]),
        (&[5, 3], 1, &[2, 2]),
        (&[2, 5, 3], 1, &[4]),
        (&[2, 5, 3], 1, &[3, 2]),
        (&[50, 33], 0, &[65]),
        (&[5, 3], 0, &[0]),
        (&[0, 3], 0, &[4]),
        (&[2, 2, 2, 4, 2], 3, &[2, 1, 2, 1]),
    ];
    for &(shape, axis, index) in GATHERS {
        suite.add(format!("index_select {shape:?} along {axis} at {index:?}"), move |device| {
            let x = words(shape, 50);
            let extent = shape[axis] as i32;
            let a = x.on(device, DType::F32)?;
            let signed = integers(index, -2, extent + 1, 51);
            let unsigned = integers(index, 0, extent + 3, 52);
            let at = |index: &Array<f64>, dtype| {
                a.index_select(axis as isize, &index.on(device, dtype)?)
            };
            Ok(vec![
                same_bits("i32", at(&signed, DType::I32)?, DType::F32, gathered(&x, axis, &signed)),
                same_bits(
                    "u32",
                    at(&unsigned, DType::U32)?,
                    DType::F32,
                    gathered(&x, axis, &unsigned),
                ),
            ])
        });
    }
    suite.add("index_select far outside", |device| {
        let x = words(&[4, 2], 53);
        let index = Array::new(&[5], vec![-2_147_483_648.0, 2_147_483_647.0, -1.0, 4.0, 3.0]);
        let got = x.on(device, DType::I32)?.index_select(0, &index.on(device, DType::I32)?)?;
        Ok(vec![same_bits("rows", got, DType::I32, gathered(&x, 0, &index))])
    });
    suite.add("index_select by computed positions of computed values", |device| {
        let x = integers(&[6, 4], -9, 9, 54);
        let index = integers(&[3], 0, 2, 55);
        let place = index.on(device, DType::I32)?.mul(2)?;
        let got = x.f32(device)?.transpose(0, 1)?.mul(3.0)?.index_select(1, &place)?.add(1.0)?;
        let want = Array::from_fn(&[4, 3], |at| {
            x.at(&[2 * index.data[at[1]] as usize, at[0]]) * 3.0 + 1.0
        });
        Ok(vec![exact("rows", got, DType::F32, want)])
    });
}

fn triangles(suite: &mut Suite) {
    suite.add("tril and triu", |device| {
        let mut checks = Vec::new();
        for shape in [&[4usize, 4][..], &[2, 3, 5], &[5, 2], &[33, 33]] {
            let x = words(shape, 60);
            let a = x.on(device, DType::F32)?;
            for diagonal in [-2, -1, 0, 1, 7] {
                let distance = |at: &[usize]| at[at.len() - 1] as i32 - at[at.len() - 2] as i32;
                let below =
                    Array::from_fn(shape, |at| if distance(at) <= diagonal { x.at(at) } else { 0 });
                let above =
                    Array::from_fn(shape, |at| if distance(at) >= diagonal { x.at(at) } else { 0 });
                let name = |what| format!("{what} {diagonal} of {shape:?}");
                checks.push(same_bits(name("tril"), a.tril(diagonal)?, DType::F32, below));
                checks.push(same_bits(name("triu"), a.triu(diagonal)?, DType::F32, above));
            }
        }
        Ok(checks)
    });
    suite.add("one_hot", |device| {
        let index = integers(&[2, 5], -1, 6, 61);
        let want = Array::from_fn(&[2, 5, 6], |at| {
            f64::from(u8::from(index.at(&at[..2]) == at[2] as f64))
        });
        let unsigned = index.map(f64::abs);
        let want_unsigned = Array::from_fn(&[2, 5, 6], |at| {
            f64::from(u8::from(unsigned.at(&at[..2]) == at[2] as f64))
        });
        Ok(vec![
            exact("i32", index.on(device, DType::I32)?.one_hot(6)?, DType::F32, want),
            exact("u32", unsigned.on(device, DType::U32)?.one_hot(6)?, DType::F32, want_unsigned),
        ])
    });
}

fn chains(suite: &mut Suite) {
    suite.add("views of views of views", |device| {
        let x = words(&[4, 6, 10], 70);
        let a = x.on(device, DType::F32)?;
        let got = a
            .permute(&[2, 0, 1])?
            .slice_step(0, 1..9, 2)?
            .flip(&[1])?
            .reshape(&[4, 24])?
            .transpose(0, 1)?
            .reshape(&[2, 12, 4])?
            .slice(1, 3..9)?
            .flip(&[2])?;
        let want = x
            .permute(&[2, 0, 1])
            .slice(0, 1, 4, 2)
            .flip(&[1])
            .reshape(&[4, 24])
            .permute(&[1, 0])
            .reshape(&[2, 12, 4])
            .slice(1, 3, 6, 1)
            .flip(&[2]);
        Ok(vec![same_bits("all", got, DType::F32, want)])
    });
    suite.add("heads of attention", |device| {
        let x = words(&[2, 7, 12], 71);
        let heads = x.on(device, DType::F32)?.reshape(&[2, 7, 3, 4])?.permute(&[0, 2, 1, 3])?;
        let back = heads.permute(&[0, 2, 1, 3])?.reshape(&[2, 7, 12])?;
        let want = x.reshape(&[2, 7, 3, 4]).permute(&[0, 2, 1, 3]);
        Ok(vec![
            same_bits("apart", heads, DType::F32, want),
            same_bits("together", back, DType::F32, x),
        ])
    });
    suite.add("pixel shuffle", |device| {
        let x = words(&[1, 8, 3, 5], 72);
        let dims = [1, 2, 2, 2, 3, 5];
        let a = x.on(device, DType::F32)?.reshape(&dims)?;
        let got = a.permute(&[0, 1, 4, 2, 5, 3])?.reshape(&[1, 2, 6, 10])?;
        let want = x.reshape(&dims).permute(&[0, 1, 4, 2, 5, 3]).reshape(&[1, 2, 6, 10]);
        Ok(vec![same_bits("shuffled", got, DType::F32, want)])
    });
    suite.add("rolled", |device| {
        let x = words(&[5, 9], 73);
        let a = x.on(device, DType::F32)?;
        let got = Tensor::concat(&[&a.slice(1, 6..9)?, &a.slice(1, ..6)?], 1)?;
        let want = Array::from_fn(&[5, 9], |at| x.at(&[at[0], (at[1] + 6) % 9]));
        Ok(vec![same_bits("rolled", got, DType::F32, want)])
    });
    suite.add("windows by reshape, pad and slice", |device| {
        let x = words(&[3, 4], 74);
        let padded = x.on(device, DType::F32)?.pad(&[(0, 0), (0, 1)], 0.0)?.ravel();
        let got = padded.slice(0, ..12)?.reshape(&[3, 4])?;
        let want = x.pad(&[(0, 0), (0, 1)], 0).reshape(&[15]).slice(0, 0, 12, 1).reshape(&[3, 4]);
        Ok(vec![same_bits("skewed", got, DType::F32, want)])
    });
}

fn reads(suite: &mut Suite) {
    suite.steps("parts of a tensor are read", |device| async move {
        let x = words(&[10, 7], 80);
        let a = x.on(&device, DType::U32).map_err(|e| e.to_string())?;
        for (start, len) in [(0, 70), (0, 1), (69, 1), (13, 21), (70, 0)] {
            let got: Vec<u32> = a.read_range(start, len).await.map_err(|e| e.to_string())?;
            if got != x.data[start..start + len] {
                return Err(format!("{len} elements from {start} differ"));
            }
        }
        Ok(())
    });
}
