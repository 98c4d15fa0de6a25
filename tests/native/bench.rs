//! Tests the cases of the native benchmark in small sizes. Each must be correct on the CPU, and its check must find errors.

use warpweft_native::bench::{all, wrong, Kind, Options, Ready};
use warpweft_native::prelude::*;
use warpweft_native::tensor::PackedArithmetic;

/// Returns the same case with very little work.
fn small(kind: &Kind) -> Kind {
    let rows = |rows: usize, columns: usize| (rows.min(5), columns.min(257));
    match kind.clone() {
        Kind::Matmul { m, k, n, batch, turned } => {
            Kind::Matmul { m: m.min(9), k: k.min(33), n: n.min(31), batch: batch.min(3), turned }
        }
        Kind::Conv { channels, window, stride, groups, .. } => {
            let channels = channels.min(4);
            Kind::Conv { channels, size: 9, filters: 8, window, stride, groups: groups.min(4) }
        }
        Kind::Attention { queries, causal, .. } => {
            Kind::Attention { heads: 2, queries: queries.min(9), keys: 17, width: 8, causal }
        }
        Kind::Softmax { rows: r, columns: c } => {
            let (rows, columns) = rows(r, c);
            Kind::Softmax { rows, columns }
        }
        Kind::LayerNorm { rows: r, columns: c } => {
            let (rows, columns) = rows(r, c);
            Kind::LayerNorm { rows, columns }
        }
        Kind::RmsNorm { rows: r, columns: c } => {
            let (rows, columns) = rows(r, c);
            Kind::RmsNorm { rows, columns }
        }
        Kind::Sum { axis, .. } => Kind::Sum { rows: 33, columns: 65, axis },
        Kind::Sort { rows: r, columns: c } => {
            let (rows, columns) = rows(r, c);
            Kind::Sort { rows, columns }
        }
        Kind::TopK { .. } => Kind::TopK { count: 257, k: 16 },
        Kind::Pointwise { .. } => Kind::Pointwise { count: 257 },
        Kind::Copy { .. } => Kind::Copy { count: 257 },
        Kind::Permute { shape, order } => {
            Kind::Permute { shape: shape.iter().zip([5, 7, 9]).map(|(_, n)| n).collect(), order }
        }
        Kind::Adds { count, times } => Kind::Adds { count, times },
        Kind::Mlp { .. } => Kind::Mlp { rows: 5, widths: vec![17, 9, 8, 3] },
        Kind::Transfer { .. } => Kind::Transfer { count: 257 },
    }
}

#[test]
fn every_case_is_right() {
    let device = Device::with_blocking(Preference::Cpu).expect("the CPU is there");
    for case in all() {
        let kind = small(&case.kind);
        let data = kind.data(&case.name);
        let run = || Ready::new(&kind, &device, data.clone())?.step()?.read_blocking::<f32>();
        let mut result = run().unwrap_or_else(|error| panic!("{}: {error}", case.name));
        assert_eq!(wrong(&kind, &data, &result), None, "{}", case.name);
        assert_eq!(result.len(), kind.output().iter().product::<usize>(), "{}", case.name);

        // The check always compares this element.
        let last = result.len() - 1;
        let (kept, far) = (result[last], result.iter().fold(1.0, |m: f32, x| m.max(x.abs())));
        for bad in [kept + far, f32::NAN] {
            result[last] = bad;
            assert!(wrong(&kind, &data, &result).is_some(), "{}: {bad} passes", case.name);
        }
        result.pop();
        assert!(wrong(&kind, &data, &result).is_some(), "{}: one is missing", case.name);
    }
}

#[test]
fn names_are_the_browsers() {
    let cases = include_str!("../../www/bench/cases.js");
    for case in all() {
        let name = &case.name;
        let (kind, end) = name.split_once('-').unwrap_or((name, name));
        let native = ["copy", "sort", "topk"].contains(&kind);
        assert!(native || cases.contains(end), "{name} is no case of the browser's");
    }
}

#[test]
fn options_are_read_or_refused() {
    let parse = |words: &[&str]| Options::of(words);
    let options = parse(&["--device", "cpu", "--only", "copy,sum", "--runs", "3", "--bench"]);
    let options = options.expect("these are options");
    assert_eq!((options.device, options.runs.get()), (Preference::Cpu, 3));
    assert_eq!(options.only, ["copy", "sum"]);
    let options = parse(&["--formats", "--arithmetic", "int8"]).expect("these are options");
    assert_eq!(options.arithmetic, PackedArithmetic::Int8);
    let refused = parse(&["--arithmetic", "int4"]).expect_err("there is no such arithmetic");
    assert!(refused.to_string().contains("must be `exact` or `int8`, got \"int4\""), "{refused}");
    for bad in [&["--runs", "0"][..], &["--runs"], &["--quick"], &["--runs", "x"]] {
        assert!(parse(bad).is_err(), "{bad:?}");
    }
}
