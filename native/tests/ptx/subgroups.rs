//! Subgroup operations, with all lanes, with a part of them, and in workgroups that are not a multiple of 32.

use crate::common::{kernel, run_kernel, words};

/// Runs a kernel of `threads` threads that writes `count` words for each.
fn run(threads: u32, body: &str, x: &[u32], count: usize) -> Vec<Vec<u32>> {
    let wgsl = format!(
        "@group(0) @binding(0) var<storage, read> x: array<u32>;
@group(0) @binding(1) var<storage, read_write> y: array<u32>;
@compute @workgroup_size({threads})
fn main(@builtin(local_invocation_index) i: u32, @builtin(subgroup_invocation_id) lane: u32,
  @builtin(subgroup_size) size: u32, @builtin(subgroup_id) id: u32, @builtin(num_subgroups) subgroups: u32) {{
  let v = x[i]; let at = {count}u * i;
  {body}
}}"
    );
    let y = run_kernel(&kernel(&wgsl), 1, &[x.to_vec(), vec![0; count * threads as usize]])
        .pop()
        .unwrap();
    y.chunks(count).map(<[u32]>::to_vec).collect()
}

const ALL: &str = "
  y[at] = subgroupAdd(v); y[at + 1u] = subgroupMin(v); y[at + 2u] = subgroupMax(v);
  y[at + 3u] = subgroupAnd(v); y[at + 4u] = subgroupOr(v); y[at + 5u] = subgroupXor(v); y[at + 6u] = subgroupMul(v | 1u);
  y[at + 7u] = subgroupInclusiveAdd(v); y[at + 8u] = subgroupExclusiveAdd(v);
  y[at + 9u] = subgroupInclusiveMul(v | 1u); y[at + 10u] = subgroupExclusiveMul(v | 1u);
  y[at + 11u] = subgroupBallot(v % 2u == 0u).x; y[at + 12u] = u32(subgroupAll(v > 100u)) + 2u * u32(subgroupAny(v % 64u == 0u));
  y[at + 13u] = subgroupBroadcastFirst(v); y[at + 14u] = bitcast<u32>(subgroupAdd(f32(v % 1000u)));";

/// The words that `ALL` writes in a lane, given the values of the lanes that execute it.
fn expected(values: &[(usize, u32)], lane: usize) -> Vec<u32> {
    let all = || values.iter().map(|(_, v)| *v);
    let before = |is_inclusive: bool| {
        values.iter().filter(move |(l, _)| *l < lane || is_inclusive && *l == lane).map(|(_, v)| *v)
    };
    let sum = |values: &mut dyn Iterator<Item = u32>| values.fold(0u32, |a, b| a.wrapping_add(b));
    let product =
        |values: &mut dyn Iterator<Item = u32>| values.fold(1u32, |a, b| a.wrapping_mul(b | 1));
    vec![
        sum(&mut all()),
        all().min().unwrap(),
        all().max().unwrap(),
        all().fold(u32::MAX, |a, b| a & b),
        all().fold(0, |a, b| a | b),
        all().fold(0, |a, b| a ^ b),
        product(&mut all()),
        sum(&mut before(true)),
        sum(&mut before(false)),
        product(&mut before(true)),
        product(&mut before(false)),
        values.iter().filter(|(_, v)| v % 2 == 0).fold(0, |mask, (lane, _)| mask | 1 << lane),
        u32::from(all().all(|v| v > 100)) + 2 * u32::from(all().any(|v| v % 64 == 0)),
        values[0].1,
        all().map(|v| (v % 1000) as f32).sum::<f32>().to_bits(),
    ]
}

fn check(threads: u32, body: &str, is_active: impl Fn(usize) -> bool) {
    let x = words(threads as usize, 21);
    let y = run(threads, body, &x, 15);
    for i in (0..threads as usize).filter(|i| is_active(*i)) {
        let first = i / 32 * 32;
        let lanes = (first..(first + 32).min(threads as usize)).filter(|i| is_active(*i));
        let values: Vec<(usize, u32)> = lanes.map(|i| (i % 32, x[i])).collect();
        assert_eq!(y[i], expected(&values, i % 32), "thread {i}");
    }
}

#[test]
fn all_lanes() {
    check(64, ALL, |_| true);
}

#[test]
fn workgroups_that_are_not_a_multiple_of_32() {
    check(48, ALL, |_| true);
    check(7, ALL, |_| true);
}

#[test]
fn some_lanes() {
    check(64, &format!("if (v % 3u != 0u) {{ {ALL} }}"), |i| !words(64, 21)[i].is_multiple_of(3));
    check(64, &format!("if (lane > 20u) {{ return; }} {ALL}"), |i| i % 32 <= 20);
    check(32, &format!("for (var k = 0u; k < v % 4u; k++) {{ if (k == 2u) {{ {ALL} }} }}"), |i| {
        words(32, 21)[i] % 4 == 3
    });
}

#[test]
fn shuffles() {
    let body = "
  y[at] = subgroupShuffle(v, (lane * 7u + 3u) % 32u); y[at + 1u] = subgroupShuffleXor(v, 5u);
  y[at + 2u] = subgroupShuffleUp(v, 3u); y[at + 3u] = subgroupShuffleDown(v, 2u); y[at + 4u] = subgroupBroadcast(v, 9u);
  y[at + 5u] = quadBroadcast(v, 2u); y[at + 6u] = quadSwapX(v); y[at + 7u] = quadSwapY(v); y[at + 8u] = quadSwapDiagonal(v);
  y[at + 9u] = size + 100u * id + 1000u * subgroups + 10000u * lane;
  let w = subgroupShuffleXor(vec2<f32>(f32(lane), 2.0), 1u); y[at + 10u] = u32(w.x + w.y);
  subgroupBarrier();";
    let x = words(64, 22);
    let y = run(64, body, &x, 11);
    for i in 0..64usize {
        let (lane, first) = (i % 32, i / 32 * 32);
        let of = |lane: usize| x[first + lane];
        assert_eq!(y[i][0], of((lane * 7 + 3) % 32));
        assert_eq!(y[i][1], of(lane ^ 5));
        if lane >= 3 {
            assert_eq!(y[i][2], of(lane - 3));
        }
        if lane < 30 {
            assert_eq!(y[i][3], of(lane + 2));
        }
        assert_eq!(
            y[i][4..9],
            [of(9), of(lane & !3 | 2), of(lane ^ 1), of(lane ^ 2), of(lane ^ 3)]
        );
        assert_eq!(y[i][9], (32 + 100 * (i / 32) + 2000 + 10_000 * lane) as u32);
        assert_eq!(y[i][10], (lane ^ 1) as u32 + 2);
    }
}
