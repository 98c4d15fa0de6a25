//! The meaning of WGSL: each construct, run with the interpreter and compared with values computed in Rust.

use crate::common::{evaluate, kernel, run, run_body, run_kernel, run_module, words};

fn floats(values: &[u32]) -> Vec<f32> {
    values.iter().map(|bits| f32::from_bits(*bits)).collect()
}

/// Pairs of integers with the corner cases of division and shifts.
fn integers() -> Vec<[u32; 3]> {
    let corners = [
        0,
        1,
        2,
        3,
        7,
        31,
        32,
        33,
        0x7fff_ffff,
        0x8000_0000,
        u32::MAX,
        u32::MAX - 1,
        100,
        12_345_678,
    ];
    let mut rows: Vec<[u32; 3]> = Vec::new();
    for a in corners {
        for b in corners {
            rows.push([a, b, a ^ b]);
        }
    }
    rows.extend(words(300, 5).chunks(3).map(|c| [c[0], c[1], c[2]]));
    rows
}

fn check_integers(ty: &str, result: &str, expression: &str, expected: impl Fn([u32; 3]) -> u32) {
    let rows = integers();
    let results = evaluate(ty, result, expression, &rows);
    for (row, result) in rows.iter().zip(results) {
        assert_eq!(result, expected(*row), "{expression} of {row:x?}");
    }
}

#[test]
fn integer_operators() {
    let signed = |f: fn(i32, i32) -> i32| move |[a, b, _]: [u32; 3]| f(a as i32, b as i32) as u32;
    check_integers(
        "i32",
        "i32",
        "a / b",
        signed(|a, b| if b == 0 { a } else { a.wrapping_div(b) }),
    );
    check_integers(
        "i32",
        "i32",
        "a % b",
        signed(|a, b| if b == 0 { 0 } else { a.wrapping_rem(b) }),
    );
    check_integers("u32", "u32", "a / b", |[a, b, _]| a.checked_div(b).unwrap_or(a));
    check_integers("u32", "u32", "a % b", |[a, b, _]| a.checked_rem(b).unwrap_or(0));
    check_integers("u32", "u32", "a % 8u + a / 16u + a / 10u", |[a, ..]| {
        (a % 8).wrapping_add(a / 16).wrapping_add(a / 10)
    });
    check_integers(
        "i32",
        "i32",
        "a / 7 - a % -3 - a / 4",
        signed(|a, _| (a / 7).wrapping_sub(a % -3).wrapping_sub(a / 4)),
    );
    check_integers("u32", "u32", "a << (b & 31u)", |[a, b, _]| a << (b & 31));
    check_integers("i32", "i32", "a >> u32(b & 31)", signed(|a, b| a >> (b & 31)));
    check_integers("u32", "u32", "a >> (b & 31u)", |[a, b, _]| a >> (b & 31));
    check_integers(
        "i32",
        "i32",
        "a * b - a + 3",
        signed(|a, b| a.wrapping_mul(b).wrapping_sub(a).wrapping_add(3)),
    );
    check_integers("i32", "i32", "-a", signed(|a, _| a.wrapping_neg()));
    check_integers(
        "i32",
        "i32",
        "abs(a) + sign(b)",
        signed(|a, b| a.wrapping_abs().wrapping_add(b.signum())),
    );
    check_integers("i32", "i32", "min(a, b) ^ max(a, b)", signed(|a, b| a.min(b) ^ a.max(b)));
    check_integers("i32", "u32", "u32(a < b) + 2u * u32(a <= b) + 4u * u32(a == b)", |[a, b, _]| {
        let (a, b) = (a as i32, b as i32);
        u32::from(a < b) + 2 * u32::from(a <= b) + 4 * u32::from(a == b)
    });
    check_integers("u32", "u32", "u32(a > b) + 2u * u32(a >= b) + 4u * u32(a != b)", |[a, b, _]| {
        u32::from(a > b) + 2 * u32::from(a >= b) + 4 * u32::from(a != b)
    });
    check_integers("u32", "u32", "clamp(a, 5u, 1000u)", |[a, ..]| a.clamp(5, 1000));
    check_integers("u32", "u32", "select(a, ~b, (a & 1u) == 1u) | c", |[a, b, c]| {
        (if a & 1 == 1 { !b } else { a }) | c
    });
    check_integers("u32", "u32", "dot(vec3(a, b, c), vec3(b, c, a))", |[a, b, c]| {
        a.wrapping_mul(b).wrapping_add(b.wrapping_mul(c)).wrapping_add(c.wrapping_mul(a))
    });
}

#[test]
fn bit_functions() {
    let first = |a: u32| if a == 0 { u32::MAX } else { 31 - a.leading_zeros() };
    check_integers(
        "u32",
        "u32",
        "countOneBits(a) + 100u * countLeadingZeros(b) + 10000u * countTrailingZeros(c)",
        |[a, b, c]| a.count_ones() + 100 * b.leading_zeros() + 10_000 * c.trailing_zeros(),
    );
    check_integers("u32", "u32", "reverseBits(a)", |[a, ..]| a.reverse_bits());
    check_integers("u32", "u32", "firstLeadingBit(a)", |[a, ..]| first(a));
    check_integers("i32", "i32", "firstLeadingBit(a)", |[a, ..]| {
        first(if (a as i32) < 0 { !a } else { a })
    });
    check_integers("u32", "u32", "firstTrailingBit(a)", |[a, ..]| {
        if a == 0 {
            u32::MAX
        } else {
            a.trailing_zeros()
        }
    });
    let range = |offset: u32, count: u32| {
        let offset = offset.min(32);
        (offset, count.min(32 - offset))
    };
    check_integers("u32", "u32", "extractBits(a, b % 40u, c % 40u)", |[a, b, c]| {
        let (offset, count) = range(b % 40, c % 40);
        if count == 0 {
            0
        } else {
            ((u64::from(a) >> offset) & ((1u64 << count) - 1)) as u32
        }
    });
    check_integers("i32", "i32", "extractBits(a, u32(b) % 40u, u32(c) % 40u)", |[a, b, c]| {
        let (offset, count) = range(b % 40, c % 40);
        if count == 0 {
            0
        } else {
            ((a << (32 - offset - count)) as i32 >> (32 - count)) as u32
        }
    });
    check_integers("u32", "u32", "insertBits(a, b, b % 40u, c % 40u)", |[a, b, c]| {
        let (offset, count) = range(b % 40, c % 40);
        let mask = if count == 0 { 0 } else { (((1u64 << count) - 1) << offset) as u32 };
        a & !mask | (u64::from(b) << offset) as u32 & mask
    });
    check_integers("u32", "i32", "dot4I8Packed(a, b)", |[a, b, _]| {
        let pairs = a.to_le_bytes().into_iter().zip(b.to_le_bytes());
        pairs.map(|(a, b)| i32::from(a as i8) * i32::from(b as i8)).sum::<i32>() as u32
    });
    check_integers("u32", "u32", "dot4U8Packed(a, b)", |[a, b, _]| {
        a.to_le_bytes()
            .into_iter()
            .zip(b.to_le_bytes())
            .map(|(a, b)| u32::from(a) * u32::from(b))
            .sum()
    });
    check_integers(
        "u32",
        "u32",
        "pack4xI8(unpack4xI8(a)) ^ pack4xU8(unpack4xU8(b))",
        |[a, b, _]| a ^ b,
    );
    check_integers("u32", "u32", "pack4xU8Clamp(vec4(a, b, c, 7u))", |[a, b, c]| {
        u32::from_le_bytes([a.min(255) as u8, b.min(255) as u8, c.min(255) as u8, 7])
    });
    check_integers("i32", "u32", "pack4xI8Clamp(vec4(a, b, c, -200))", |[a, b, c]| {
        let byte = |x: u32| (x as i32).clamp(-128, 127) as u8;
        u32::from_le_bytes([byte(a), byte(b), byte(c), 0x80])
    });
    check_integers(
        "u32",
        "u32",
        "pack4x8unorm(unpack4x8unorm(a)) ^ pack2x16unorm(unpack2x16unorm(b))",
        |[a, b, _]| a ^ b,
    );
    check_integers("u32", "u32", "pack4x8snorm(unpack4x8snorm(a))", |[a, ..]| {
        u32::from_le_bytes(a.to_le_bytes().map(|byte| if byte == 0x80 { 0x81 } else { byte }))
    });
}

#[test]
fn conversions() {
    let inputs = [
        0.0f32,
        -0.0,
        1.5,
        -1.5,
        2.5,
        1e9,
        -1e9,
        3e9,
        5e9,
        -3e9,
        f32::NAN,
        f32::INFINITY,
        f32::NEG_INFINITY,
        1e-40,
        65504.0,
        65520.0,
        7e4,
    ];
    let rows: Vec<[u32; 3]> = inputs.iter().map(|x| [x.to_bits(), 0, 0]).collect();
    let check = |result: &str, expression: &str, expected: &dyn Fn(f32) -> u32| {
        for (x, y) in inputs.iter().zip(evaluate("f32", result, expression, &rows)) {
            assert_eq!(y, expected(*x), "{expression} of {x}");
        }
    };
    check("i32", "i32(a)", &|x| x as i32 as u32);
    check("u32", "u32(a)", &|x| x as u32);
    check("u32", "u32(bool(a))", &|x| u32::from(x != 0.0));
    check("f32", "f32(i32(a))", &|x| (x as i32 as f32).to_bits());
    check("f32", "f32(u32(a))", &|x| (x as u32 as f32).to_bits());
    check("f32", "min(a, 1.0) + max(a, -1.0)", &|x| {
        let sum = x.min(1.0) + x.max(-1.0);
        if sum.is_nan() {
            0x7fff_ffff
        } else {
            sum.to_bits()
        }
    });
    check(
        "u32",
        "u32(a != a) + 2u * u32(a == a) + 4u * u32(a < 1.0) + 8u * u32(!(a < 1.0))",
        &|x| {
            u32::from(x.is_nan())
                + 2 * u32::from(!x.is_nan())
                + 4 * u32::from(x < 1.0)
                + 8 * u32::from(!(x < 1.0))
        },
    );
}

#[test]
fn products_and_sums_are_rounded_separately() {
    let random = words(3000, 17);
    let rows: Vec<[u32; 3]> = random
        .chunks(3)
        .map(|c| [c[0], c[1], c[2]].map(|x| (x as f32 / 1e6 - 2000.0).to_bits()))
        .collect();
    for (row, result) in rows.iter().zip(evaluate("f32", "f32", "a * b + c", &rows)) {
        let [a, b, c] = row.map(f32::from_bits);
        assert_eq!(f32::from_bits(result), a * b + c);
    }
    for (row, result) in rows.iter().zip(evaluate("f32", "f32", "fma(a, b, c)", &rows)) {
        let [a, b, c] = row.map(f32::from_bits);
        assert_eq!(f32::from_bits(result), a.mul_add(b, c));
    }
    for (row, result) in rows.iter().zip(evaluate("f32", "f32", "a % b", &rows)) {
        let [a, b, _] = row.map(f32::from_bits);
        assert_eq!(f32::from_bits(result), a - b * (a / b).trunc());
    }
}

#[test]
fn loops_and_branches() {
    let body = "
  var a = 1u; var b = i; var sum = 0u;
  for (var k = 0u; k < x[i]; k++) {
    let old = a; a = b; b = old + b;
    if (k % 3u == 1u) { continue; }
    if (sum > 100000u) { break; }
    sum += a;
  }
  y[i] = sum + b;";
    let x = words(32, 1).into_iter().map(|x| x % 20).collect::<Vec<_>>();
    let expected = |i: u32, n: u32| {
        let (mut a, mut b, mut sum) = (1u32, i, 0u32);
        for k in 0..n {
            (a, b) = (b, a.wrapping_add(b));
            if k % 3 == 1 {
                continue;
            }
            if sum > 100_000 {
                break;
            }
            sum = sum.wrapping_add(a);
        }
        sum.wrapping_add(b)
    };
    let y = run_body(body, &x, 32);
    for i in 0..32 {
        assert_eq!(y[i], expected(i as u32, x[i]), "{i}");
    }
}

#[test]
fn nested_loops_switches_and_returns() {
    let declarations = "
fn classify(n: u32) -> u32 {
  switch (n % 7u) {
    case 0u: { return 10u; }
    case 1u, 2u: { if (n > 20u) { break; } return 20u; }
    case 3u: { for (var k = 0u; k < n; k++) { if (k * k > n) { return k; } } }
    default: { return n * 3u; }
  }
  return 99u;
}";
    let body = "
  var sum = 0u;
  var k = 0u;
  loop {
    if (k >= i) { break; }
    for (var j = 0u; j < 4u; j++) {
      if (j == 2u && k % 2u == 0u) { continue; }
      switch (x[(k + j) % 32u] % 3u) { case 0u: { sum += 1u; }
        case 1u: { sum += classify(k + j + x[i] % 50u); } default: { continue; } }
      sum = sum * 3u;
    }
    continuing { k += 1u; break if sum > 1000000u; }
  }
  y[i] = sum + k;";
    let x = words(32, 2);
    let classify = |n: u32| match n % 7 {
        0 => 10,
        1 | 2 => {
            if n > 20 {
                99
            } else {
                20
            }
        }
        3 => (0..n).find(|k| k * k > n).unwrap_or(99),
        _ => n * 3,
    };
    let expected = |i: u32| {
        let (mut sum, mut k) = (0u32, 0u32);
        while k < i {
            for j in 0..4 {
                if j == 2 && k % 2 == 0 {
                    continue;
                }
                match x[((k + j) % 32) as usize] % 3 {
                    0 => sum = sum.wrapping_add(1),
                    1 => sum = sum.wrapping_add(classify(k + j + x[i as usize] % 50)),
                    _ => continue,
                }
                sum = sum.wrapping_mul(3);
            }
            k += 1;
            if sum > 1_000_000 {
                break;
            }
        }
        sum.wrapping_add(k)
    };
    let y = run_module(declarations, body, &x, 32);
    for i in 0..32 {
        assert_eq!(y[i as usize], expected(i), "{i}");
    }
}

#[test]
fn arrays_in_registers_and_in_memory() {
    let declarations = "
struct Pair { a: vec3<f32>, b: array<u32, 3> }
var<private> counter: array<u32, 20>;
fn bump(p: ptr<function, array<u32, 40>>, at: u32) { (*p)[at] += 5u; counter[at % 20u] += 1u; }
const TABLE = array<u32, 24>(3u, 1u, 4u, 1u, 5u, 9u, 2u, 6u, 5u, 3u, 5u, 8u, 9u, 7u, 9u, 3u, 2u, 3u, 8u, 4u, 6u, 2u, 6u, 4u);";
    let body = "
  var small: array<u32, 6>;
  for (var k = 0u; k < 6u; k++) { small[k] = k * i; }
  small[x[i] % 6u] += 1000u;
  var large: array<u32, 40>;
  for (var k = 0u; k < x[i] % 64u; k++) { bump(&large, (k * 7u) % 40u); }
  var pairs: array<Pair, 3>;
  pairs[1].b[2] = 7u;
  pairs[i % 3u].b[i % 2u] = 9u;
  pairs[2].a.y = f32(i);
  let copy = pairs;
  var v = vec4<u32>(1u, 2u, 3u, 4u);
  v[i % 4u] = 50u;
  let w = v.wzyx;
  y[i] = small[(i + 1u) % 6u] + small[5] + large[(x[i] * 3u) % 40u] * 3u + counter[i % 20u] * 100u
    + copy[1].b[2] + copy[0].b[0] + u32(copy[2].a.y) + w[(i + 1u) % 4u] + TABLE[x[i] % 24u] * 7u;";
    let x = words(32, 3);
    let table = [3u32, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3, 2, 3, 8, 4, 6, 2, 6, 4];
    let expected = |i: u32| {
        let n = x[i as usize];
        let mut small: Vec<u32> = (0..6).map(|k| k * i).collect();
        small[(n % 6) as usize] += 1000;
        let (mut large, mut counter) = ([0u32; 40], [0u32; 20]);
        for k in 0..n % 64 {
            large[((k * 7) % 40) as usize] += 5;
            counter[((k * 7) % 40 % 20) as usize] += 1;
        }
        let mut pairs = [[0u32; 3]; 3];
        pairs[1][2] = 7;
        pairs[(i % 3) as usize][(i % 2) as usize] = 9;
        let mut v = [1u32, 2, 3, 4];
        v[(i % 4) as usize] = 50;
        v.reverse();
        small[((i + 1) % 6) as usize]
            + small[5]
            + large[(n.wrapping_mul(3) % 40) as usize] * 3
            + counter[(i % 20) as usize] * 100
            + pairs[1][2]
            + pairs[0][0]
            + i
            + v[((i + 1) % 4) as usize]
            + table[(n % 24) as usize] * 7
    };
    let y = run_module(declarations, body, &x, 32);
    for i in 0..32 {
        assert_eq!(y[i as usize], expected(i), "{i}");
    }
}

#[test]
fn matrices() {
    let body = "
  let f = vec4<f32>(bitcast<f32>(x[0]), bitcast<f32>(x[1]), bitcast<f32>(x[2]), bitcast<f32>(x[3]));
  var m = mat3x2<f32>(f.x, f.y, f.z, f.w, f.x + 1.0, f.y + 2.0);
  let t = transpose(m);
  let p = m * t;
  let v = m * vec3<f32>(1.0, 2.0, 3.0);
  let w = vec2<f32>(4.0, 5.0) * m;
  m[i % 3u] += vec2<f32>(1.0, 1.0);
  let d = determinant(mat3x3<f32>(f.x, f.y, f.z, 1.0, 2.0, 5.0, 0.0, f.w, 1.0));
  let r = array<f32, 14>(p[0][0], p[0][1], p[1][0], p[1][1], v.x, v.y, w.x, w.y, w.z, d,
    m[0].x, m[1].y, m[2].x, (2.0 * m)[2].y);
  if (i == 1u) { for (var k = 0u; k < 14u; k++) { y[k] = bitcast<u32>(r[k]); } }";
    let f = [1.5f32, -2.0, 0.25, 3.0];
    let y = floats(&run_body(body, &f.map(f32::to_bits), 14));
    let m = [[f[0], f[1]], [f[2], f[3]], [f[0] + 1.0, f[1] + 2.0]];
    let p = |c: usize, r: usize| (0..3).map(|k| m[k][r] * m[k][c]).sum::<f32>();
    let v = |r: usize| m[0][r] + 2.0 * m[1][r] + 3.0 * m[2][r];
    let w = |c: usize| 4.0 * m[c][0] + 5.0 * m[c][1];
    let d = f[0] * (2.0 - 5.0 * f[3]) - 1.0 * (f[1] - f[2] * f[3]);
    let expected = [
        p(0, 0),
        p(0, 1),
        p(1, 0),
        p(1, 1),
        v(0),
        v(1),
        w(0),
        w(1),
        w(2),
        d,
        m[0][0],
        m[1][1] + 1.0,
        m[2][0],
        2.0 * m[2][1],
    ];
    assert_eq!(y, expected);
}

#[test]
fn workgroup_memory_and_barriers() {
    let wgsl = "
@group(0) @binding(0) var<storage, read> x: array<u32>;
@group(0) @binding(1) var<storage, read_write> y: array<u32>;
var<workgroup> tile: array<u32, 128>;
var<workgroup> flags: array<bool, 4>;
var<workgroup> total: atomic<u32>;
var<workgroup> limit: u32;
@compute @workgroup_size(16, 4, 2)
fn main(@builtin(local_invocation_index) i: u32, @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_id) id: vec3<u32>) {
  if (id.x + 16u * (id.y + 4u * id.z) != i) { return; }
  atomicAdd(&total, x[i]);
  if (i == 5u) { limit = 77u; flags[2] = true; }
  tile[i] += x[i + 128u * group.x];
  workgroupBarrier();
  for (var s = 64u; s > 0u; s >>= 1u) {
    if (i < s) { tile[i] += tile[i + s]; }
    workgroupBarrier();
  }
  let l = workgroupUniformLoad(&limit);
  if (i == 0u) { y[group.x] = tile[0] + atomicLoad(&total) * 3u + l + select(0u, 5u, flags[2]) + select(0u, 9u, flags[1]); }
}";
    let x: Vec<u32> = words(256, 9).into_iter().map(|x| x >> 8).collect();
    let y = run_kernel(&kernel(wgsl), 2, &[x.clone(), vec![0; 2]]).pop().unwrap();
    let sum = |from: usize| x[from..from + 128].iter().fold(0u32, |a, b| a.wrapping_add(*b));
    for group in 0..2 {
        assert_eq!(y[group], sum(128 * group).wrapping_add(sum(0).wrapping_mul(3)) + 77 + 5);
    }
}

#[test]
fn atomics() {
    let wgsl = "
struct State { add: atomic<u32>, sub: atomic<i32>, low: atomic<i32>, high: atomic<u32>, and: atomic<u32>, or: atomic<u32>,
  xor: atomic<u32>, swaps: atomic<u32>, won: atomic<u32>, last: atomic<u32> }
@group(0) @binding(0) var<storage, read> x: array<u32>;
@group(0) @binding(1) var<storage, read_write> s: State;
@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  let v = x[id.x];
  let old = atomicAdd(&s.add, v);
  atomicSub(&s.sub, i32(v));
  atomicMin(&s.low, i32(v)); atomicMax(&s.high, v);
  atomicAnd(&s.and, v | 0xff00u); atomicOr(&s.or, v & 0xffu); atomicXor(&s.xor, v);
  loop {
    let now = atomicLoad(&s.swaps);
    let r = atomicCompareExchangeWeak(&s.swaps, now, now + v % 10u);
    if (r.exchanged) { break; }
  }
  if (atomicCompareExchangeWeak(&s.won, 0u, id.x + 1u).exchanged) { atomicStore(&s.last, 4242u); }
}";
    let x = words(128, 4);
    let start = vec![1u32, 2, 3, 4, u32::MAX, 0, 0, 0, 0, 0];
    let s = run_kernel(&kernel(wgsl), 2, &[x.clone(), start]).pop().unwrap();
    let sum = x.iter().fold(0u32, |a, b| a.wrapping_add(*b));
    assert_eq!(s[0], sum.wrapping_add(1));
    assert_eq!(s[1], 2u32.wrapping_sub(sum));
    assert_eq!(s[2] as i32, x.iter().map(|x| *x as i32).min().unwrap().min(3));
    assert_eq!(s[3], *x.iter().max().unwrap());
    assert_eq!(s[4], x.iter().fold(u32::MAX, |a, x| a & (x | 0xff00)));
    assert_eq!(s[5], x.iter().fold(0, |a, x| a | (x & 0xff)));
    assert_eq!(s[6], x.iter().fold(0, |a, x| a ^ x));
    assert_eq!(s[7], x.iter().map(|x| x % 10).sum::<u32>());
    assert!((1..=128).contains(&s[8]));
    assert_eq!(s[9], 4242);
}

#[test]
fn vectors_and_layouts() {
    let wgsl = "
struct Item { p: vec3<f32>, id: u32, q: vec2<f32>, m: mat2x3<f32>, tail: array<vec2<u32>, 2> }
struct All { count: u32, items: array<Item> }
struct Uniforms { scale: f32, offset: vec3<f32>, n: i32 }
@group(0) @binding(0) var<uniform> u: Uniforms;
@group(0) @binding(1) var<storage, read> src: All;
@group(1) @binding(0) var<storage, read_write> dst: All;
@group(1) @binding(3) var<storage, read_write> lengths: array<u32>;
@compute @workgroup_size(2)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  var item = src.items[id.x];
  item.p = item.p * u.scale + u.offset;
  item.id += u32(u.n);
  item.m[1] = item.m[0] + vec3(1.0, 2.0, 3.0);
  item.tail[1] = item.tail[0].yx;
  dst.items[id.x] = item;
  dst.items[id.x].q.y = 8.0;
  dst.count = arrayLength(&src.items);
  lengths[id.x] = arrayLength(&lengths);
}";
    // An item has 20 words: p 0..3, id 3, q 4..6, m 8..11 and 12..15, tail 16..20.
    let f = |x: f32| x.to_bits();
    let mut uniforms = vec![0; 8];
    (uniforms[0], uniforms[4], uniforms[5], uniforms[6], uniforms[7]) =
        (f(2.0), f(1.0), f(2.0), f(3.0), 5);
    let mut src = vec![0; 4 + 40];
    for item in 0..2 {
        for word in 0..20 {
            src[4 + 20 * item + word] = if word == 3 || word >= 16 {
                (100 * item + word) as u32
            } else {
                f((100 * item + word) as f32)
            };
        }
    }
    let out = run_kernel(&kernel(wgsl), 1, &[uniforms, src.clone(), vec![0; 44], vec![0; 5]]);
    assert_eq!(out[3], [5, 5, 0, 0, 0]);
    assert_eq!(out[2][0], 2);
    for item in 0..2 {
        let (before, after) = (&src[4 + 20 * item..][..20], &out[2][4 + 20 * item..][..20]);
        let base = (100 * item) as f32;
        assert_eq!(
            floats(&after[..3]),
            [base * 2.0 + 1.0, (base + 1.0) * 2.0 + 2.0, (base + 2.0) * 2.0 + 3.0]
        );
        assert_eq!(after[3], before[3] + 5);
        assert_eq!(floats(&after[4..6]), [base + 4.0, 8.0]);
        assert_eq!(floats(&after[12..15]), [base + 9.0, base + 11.0, base + 13.0]);
        assert_eq!(
            [after[16], after[17], after[18], after[19]],
            [before[16], before[17], before[17], before[16]]
        );
    }
}

#[test]
fn half_precision() {
    let wgsl = "enable f16;
@group(0) @binding(0) var<storage, read> x: array<vec4<f16>>;
@group(0) @binding(1) var<storage, read_write> y: array<vec4<f16>>;
@compute @workgroup_size(1)
fn main() {
  let a = x[0]; let b = x[1];
  y[0] = a * b + a;
  y[1] = vec4<f16>(a.x / b.x, sqrt(a.y), max(a.z, b.z), -abs(a.w));
  y[2] = vec4<f16>(vec4<f32>(a) * 3.0);
  y[3] = vec4<f16>(f16(i32(a.x)), f16(a.y < b.y), select(a.z, 2.0h, b.z > 1.0h), exp(a.w));
  var v: array<f16, 3>;
  v[1] = 1.5h; v[2] = dot(a, b);
  y[4] = vec4<f16>(v[0], v[1], v[2], fma(a.x, b.x, 1.0h));
}";
    let half = |x: f64| u32::from(half::f16::from_f64(x).to_bits());
    let pack = |v: [f64; 4]| [half(v[0]) | half(v[1]) << 16, half(v[2]) | half(v[3]) << 16];
    let (a, b) = ([1.5, 2.25, -3.0, 0.5], [0.5, 4.0, 7.0, -2.0]);
    let y = run(wgsl, &[[pack(a), pack(b)].concat(), vec![0; 10]]);
    let dot: f64 = a.iter().zip(b).map(|(a, b)| a * b).sum();
    let expected = [
        [2.25, 11.25, -24.0, -0.5],
        [3.0, 1.5, 7.0, -0.5],
        [4.5, 6.75, -9.0, 1.5],
        [1.0, 1.0, 2.0, 0.5f64.exp()],
        [0.0, 1.5, dot, 1.75],
    ];
    assert_eq!(y, expected.map(pack).concat());
}

#[test]
fn floating_point_structures() {
    let body = "
  let v = bitcast<f32>(x[i]);
  let m = modf(v); let f = frexp(v);
  y[4u * i] = bitcast<u32>(m.fract); y[4u * i + 1u] = bitcast<u32>(m.whole);
  y[4u * i + 2u] = bitcast<u32>(f.fract); y[4u * i + 3u] = bitcast<u32>(f.exp);";
    let x = [0.0f32, 1.0, -1.5, 3.75, 1e-40, -7e30, 0.1, 123_456.79];
    let mut inputs = x.map(f32::to_bits).to_vec();
    inputs.resize(32, 0);
    let y = run_body(body, &inputs, 128);
    for (i, v) in x.iter().enumerate() {
        let [fract, whole, mantissa] = [0, 1, 2].map(|k| f32::from_bits(y[4 * i + k]));
        assert_eq!((fract, whole), (v - v.trunc(), v.trunc()), "{v}");
        let exponent = y[4 * i + 3] as i32;
        assert_eq!(f64::from(mantissa) * 2f64.powi(exponent), f64::from(*v));
        assert!(*v == 0.0 || (0.5..1.0).contains(&mantissa.abs()));
    }
}

/// Variables that exchange their values in a loop need parallel copies.
#[test]
fn loops_that_rotate_variables() {
    let body = "
  var a = x[0] + i; var b = x[1]; var c = x[2]; var d = 5u; var e = i;
  for (var k = 0u; k < x[i] % 9u; k++) {
    let t = a; a = b; b = c; c = t;
    let s = d; d = e; e = s;
  }
  y[i] = ((a * 3u + b) * 3u + c) * 7u + d * 11u + e;";
    let x = words(32, 12);
    let y = run_body(body, &x, 32);
    for i in 0..32u32 {
        let (mut a, mut b, mut c) = (x[0].wrapping_add(i), x[1], x[2]);
        let (mut d, mut e) = (5, i);
        for _ in 0..x[i as usize] % 9 {
            (a, b, c) = (b, c, a);
            (d, e) = (e, d);
        }
        let sum = [a, b, c].into_iter().fold(0u32, |sum, v| sum.wrapping_mul(3).wrapping_add(v));
        let expected = sum.wrapping_mul(7).wrapping_add(d * 11 + e);
        assert_eq!(y[i as usize], expected, "{i}");
    }
}
