//! The features of the library in words, each with the cases that test it. Fails for a word without a case that exists, runs on
//! a device and compares a result. Fails for a word without a method in JavaScript. The cases run on every backend in `suite`
//! and, in browsers, in `tests/browser/main.rs`.

use crate::shared::{self, Report};
use pollster::block_on;
use std::collections::HashSet;
use warpweft::backend::cpu::CpuBackend;
use warpweft::device::Device;
use warpweft::op::pointwise::TABLE;

/// Methods, and the beginnings of the names of cases that test them.
const METHODS: &[(&str, &str)] = &[
    ("sum prod max min any all", "reduce/{} over every choice of axes"),
    ("mean", "reduce/mean over every choice of axes"),
    ("var std norm_l1 norm_l2 norm_linf logsumexp", "reduce/mean, var, std, norms, logsumexp of"),
    ("argmax argmin", "reduce/argmax and argmin of"),
    ("dot outer", "matmul/vectors of"),
    ("cumsum cumprod cummax cummin", "scan/["),
    ("reshape", "movement/reshape"),
    ("transpose", "matmul/transposes"),
    ("permute expand pad concat index_select one_hot chunk", "movement/{}"),
    ("flip slice slice_scatter squeeze unsqueeze stack split tile roll tril triu", "movement/"),
    ("pad_with", "pool/[5] padded by"),
    ("unfold", "pool/unfold"),
    ("gather", "sort/gather"),
    ("scatter scatter_add scatter_reduce", "scatter/[2, 3"),
    ("gather_nd scatter_nd", "scatter/coordinates"),
    ("index_add masked_fill", "scatter/{}"),
    ("matmul", "matmul/["),
    ("unpack", "packed/fields of 4 bits"),
    ("unpack_bf16", "packed/numbers of bf16"),
    ("dequantize", "packed/scales and zero points"),
    ("conv1d conv3d", "conv_nd/convolution of"),
    ("conv2d", "conv2d/plain"),
    ("conv_transpose1d conv_transpose2d conv_transpose3d", "conv_nd/transposed"),
    ("max_pool avg_pool l2_pool", "pool/[2, 3, 7, 9] in windows of"),
    ("max_pool_indices", "pool/positions: [2, 3, 7, 9]"),
    ("adaptive_avg_pool adaptive_max_pool", "sampling/[1, 2, 7, 9] in parts of [3, 4]"),
    ("grid_sample", "sampling/grid_sample of"),
    ("resize", "pool/[1, 2, 4, 5] resized to"),
    ("resample", "pool/[5] sampled along"),
    ("softmax log_softmax", "norm/softmax and log_softmax of"),
    ("layer_norm rms_norm", "norm/layer_norm and rms_norm of"),
    ("batch_norm group_norm instance_norm", "norm/batch, group and instance norm of"),
    ("attention", "attention/length"),
    ("rotary", "attention/rotary of"),
    ("uniform normal bernoulli dropout", "random/{}"),
    ("sort argsort", "sort/["),
    ("topk", "sort/topk"),
    ("full iota", "create/{}"),
    ("zeros ones eye", "create/zeros, ones, eye"),
    ("arange linspace", "create/arange and linspace"),
    ("eigh", "linalg/eigh of"),
    ("inv det slogdet cholesky qr", "linalg/like NumPy and JAX: {} 3x3"),
    ("solve lstsq", "linalg/like NumPy and JAX: {} 4x4 by"),
    ("solve_triangular", "linalg/like NumPy and JAX: solve_triangular"),
    ("matrix_norm", "linalg/like NumPy and JAX: norm nuc"),
    ("einsum", "einsum/like NumPy and JAX: einsum bij,bjk->bik"),
    ("tensordot", "einsum/larger products"),
    ("diagonal trace", "einsum/diagonals and traces"),
    ("fft ifft rfft irfft", "fft/of 97 numbers"),
    ("fft2 ifft2 complex_mul", "fft/of two axes"),
    ("cov quantile median bincount histc searchsorted bucketize cdist", "statistics/{}"),
    ("nan_to_num", "statistics/is_finite, nan_to_num"),
    ("is_close all_close", "statistics/is_close, all_close"),
    ("logaddexp logcumsumexp diff trapezoid repeat_interleave cross kron", "statistics/{}"),
    ("movedim narrow unbind meshgrid", "statistics/movedim, narrow, unbind, meshgrid"),
    ("norm", "composed/the norm of"),
    ("cosine_similarity prelu glu take rot90 kthvalue im2col pixel_shuffle pixel_unshuffle masked_select", "composed/{}"),
    ("clamp_min clamp_max", "composed/clamp_min and clamp_max"),
    ("diag", "composed/the diagonal"),
    ("grad", "grad/a long chain"),
    ("backward", "variables/gradients add up until they are taken"),
    ("cast", "casts/"),
];

/// Features that are not a single method.
const WORDS: &[(&str, &str)] = &[
    ("a matrix by a vector, and a vector by a matrix", "matmul/vectors of"),
    ("products of more axes, broadcast", "matmul/[2, 1, 2, 1, 2, 1, 3, 2]"),
    ("products with weights of 4 bits", "packed/products with weights of 4 bits, groups of 32"),
    (
        "products with weights of 4 bits and zero points",
        "packed/products with weights of 4 bits, zero points",
    ),
    ("products with weights of 8 bits", "packed/products with weights of 8 bits"),
    ("products with weights of bf16", "packed/products with weights of bf16"),
    ("products with weights of f16", "half/"),
    ("depthwise convolutions and groups", "conv2d/depthwise"),
    ("pooling over all", "ranks/pooling over all"),
    ("sums, largest and smallest of tiles", "ranks/sums, largest and smallest of tiles"),
    ("masking without knowing how many", "scatter/masked_fill"),
    ("causal attention", "attention/more queries than keys, causal"),
    ("a sliding window", "attention/33 queries of 70 keys, a window"),
    ("heads of 256", "attention/heads of 256"),
    ("no matrix of scores, for any length", "attention/length 257"),
    ("a cache of keys and values", "variables/keys and values of a decoder"),
    ("boolean and additive masks", "attention/masks of"),
    ("keys and values shared by several heads", "attention/8 heads on"),
    ("one seed gives one result everywhere", "random/known words"),
    ("a part is read", "movement/parts of a tensor are read"),
    ("a single element is read", "ranks/item"),
    ("data goes to another device", "create/to"),
    ("halves", "half/"),
    ("narrow integers", "narrow/"),
    ("pictures of bytes", "narrow/u8 pictures convolved"),
    ("nothing runs before it is read", "batches/nothing runs until something is read"),
    ("a batch is one submission", "batches/a batch is one submission"),
    ("several results of one batch", "batches/several reads at once"),
    ("compiled once, run often", "batches/a program, replayed with new inputs"),
    ("a program of several inputs and results", "batches/a program of several inputs and results"),
    ("what was planned is counted and printed", "batches/a batch tells what it planned"),
    ("functions of elements in WGSL", "custom/a function broadcasts"),
    ("gradients of a function in WGSL", "custom/gradients of a function"),
    ("compute shaders in WGSL", "custom/a shader between other operations"),
    ("gradients of a shader", "custom/gradients of a shader"),
    ("what each kernel took and did", "batches/a profile says what each kernel did"),
    ("what memory is held by", "batches/memory is what holds it"),
    ("wrong use is refused", "refusals/"),
];

/// Checks the cases whose names begin with `begin`. Each must pass on the CPU and compare a result.
fn shows(seen: &mut HashSet<String>, word: &str, begin: &str) {
    let found: Vec<_> =
        shared::all().into_iter().filter(|case| case.name.starts_with(begin)).collect();
    assert!(!found.is_empty(), "{word}: no case is called {begin}...");
    let Some(case) = found.into_iter().find(|case| !case.big) else {
        panic!("{word}: all of {begin} are too large for a browser");
    };
    if !seen.insert(case.name.clone()) {
        return;
    }
    let device = Device::from_backend(Box::new(CpuBackend::new()), None);
    let before = shared::check::compared();
    let mut report = Report::default();
    block_on(shared::run(&device, &case, false, &mut report));
    assert!(report.failures.is_empty(), "{word}: {}", report.failures.join(", "));
    // A case that reads values without a check has allocated memory.
    let did = shared::check::compared() > before || device.stats().buffers > 0;
    assert!(report.ran == 1 && did, "{word}: {} does nothing", case.name);
}

#[test]
fn every_word_has_a_case_that_compares_something() {
    let mut seen = HashSet::new();
    for row in TABLE {
        shows(&mut seen, row.name, &format!("pointwise/{} ", row.name));
    }
    for (words, begin) in METHODS {
        for word in words.split(' ') {
            shows(&mut seen, word, &begin.replace("{}", word));
        }
    }
    for (word, begin) in WORDS {
        if *word != "wrong use is refused" {
            shows(&mut seen, word, begin);
        }
    }
    assert!(shared::all().iter().filter(|case| case.name.starts_with("refusals/")).count() > 300);
    assert!(seen.len() > 100, "{}", seen.len());
}

/// Converts `snake_case` to the name in JavaScript. `where` is a keyword in Rust.
fn camel(name: &str) -> String {
    let mut parts = name.trim_end_matches("_cond").split('_');
    let mut all = parts.next().unwrap_or_default().to_string();
    for part in parts {
        all += &part[..1].to_uppercase();
        all += &part[1..];
    }
    all
}

/// Checks that the page's cases call every method. Rows of the pointwise table are called by name (`js::pages_try_every_row`).
#[test]
fn javascript_tries_every_method() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/www/tests/cases");
    let mut text = String::new();
    for entry in std::fs::read_dir(folder).expect("it is there") {
        text += &std::fs::read_to_string(entry.expect("a file").path()).expect("text");
    }
    let words = METHODS.iter().flat_map(|(words, _)| words.split(' '));
    let missing: Vec<String> = words
        .map(camel)
        .filter(|name| {
            // As a method, by its name in a string, or as a key of a table of formulas.
            let (key, bare) = (format!("\n    {name}: "), format!("\n    {name},"));
            let called = [format!(".{name}("), format!("\"{name}\""), key, bare];
            !called.iter().any(|call| text.contains(call))
        })
        .collect();
    assert!(missing.is_empty(), "the page's cases do not call {missing:?}");
}
