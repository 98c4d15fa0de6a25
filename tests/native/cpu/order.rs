//! Tests sorted rows with hand-written kernels, and invalid kernels.

use super::*;
use warpweft::kernel::Order;

fn order(rows: usize, count: usize, most: usize) -> Kernel {
    Kernel::Order(Order { rows, count, most, descending: false, dtype: DType::F32 })
}

#[test]
fn rows_are_sorted_on_any_number_of_threads() {
    let words = words_of(&noise(3 * 70_000, 31));
    for (rows, count) in [(1, 210_000), (3, 70_000), (210, 1000)] {
        for most in [count, 5] {
            let mut wanted = Vec::new();
            for row in floats_of(&words).chunks(count) {
                let mut positions: Vec<u32> = (0..count as u32).collect();
                positions.sort_by(|&a, &b| row[a as usize].total_cmp(&row[b as usize]));
                wanted.extend_from_slice(&positions[..most]);
            }
            for threads in [1, 2, 5] {
                let backend = CpuBackend::with_threads(threads);
                let found =
                    try_run(&backend, order(rows, count, most), &[&words], &[rows * most], &[]);
                assert!(found.expect("it runs")[0] == wanted, "{rows} {count} {most} {threads}");
            }
        }
    }
}

#[test]
fn kernels_without_sense_are_errors() {
    let backend = CpuBackend::new();
    let words = [0; 12];
    for (what, kernel, out) in [
        ("more than there are", order(3, 4, 5), 15),
        ("rows of nothing", order(3, 0, 1), 3),
        ("rows beyond the input", order(4, 4, 2), 8),
        ("very many rows", order(usize::MAX, 4, 2), 8),
        ("positions beyond the output", order(3, 4, 4), 11),
    ] {
        let error = try_run(&backend, kernel, &[&words], &[out], &[]).expect_err(what);
        assert_eq!(error.kind(), ErrorKind::InvalidState, "{what}: {error}");
    }
}
