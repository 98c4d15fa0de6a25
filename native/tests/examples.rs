//! Tests the examples: runs each as a user does, and compares its output with independently known numbers.

mod real_models;

use real_models::model;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns the path of a built example, next to the folder of the tests. An outdated example would go unnoticed: `cargo test`
/// builds examples, but `cargo test --test examples` does not.
fn program(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("a test knows where it is");
    let folder = test.parent().and_then(|deps| deps.parent()).expect("it lies in target/*/deps");
    let file = folder.join("examples").join(format!("{name}{}", std::env::consts::EXE_SUFFIX));
    let source = format!("{}/examples/{name}.rs", env!("CARGO_MANIFEST_DIR"));
    let changed = |path: &Path| path.metadata().and_then(|about| about.modified()).ok();
    let (built, written) = (changed(&file), changed(Path::new(&source)));
    let file_name = file.display();
    assert!(
        built.is_some() && built >= written,
        "{file_name} is not there, or old: `cargo test -p warpweft-native` builds it"
    );
    file
}

/// Returns the output of an example on a device.
fn printed(name: &str, device: &str) -> String {
    let output = Command::new(program(name)).env("WARPWEFT_DEVICE", device).output();
    let output = output.expect("the example starts");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name}: {error}");
    String::from_utf8(output.stdout).expect("it prints text")
}

#[test]
fn generate() {
    let Some(path) = model("SmolLM2-135M-Instruct.Q4_1.gguf") else { return };
    let output = Command::new(program("generate")).arg(path).env("WARPWEFT_DEVICE", "cpu").output();
    let output = output.expect("the example starts");
    let text = String::from_utf8(output.stdout).expect("it prints text");
    assert!(output.status.success() && text.contains("Paris"), "{text}");
}

#[test]
fn search() {
    let Some(folder) = model("all-MiniLM-L6-v2") else { return };
    let output = Command::new(program("search")).arg(folder).env("WARPWEFT_DEVICE", "cpu").output();
    let output = output.expect("the example starts");
    let text = String::from_utf8(output.stdout).expect("it prints text");
    let numbers: Vec<f64> =
        text.split(|c: char| "[], \n".contains(c)).filter_map(|word| word.parse().ok()).collect();
    assert!(output.status.success() && numbers.len() == 2, "{text}");
    // Computed by sentence-transformers in 64 bits.
    for (got, want) in numbers.into_iter().zip([0.294_359, -0.002_378]) {
        assert!((got - want).abs() < 1e-5, "{text}");
    }
}

/// Returns the numbers that follow `words` in a line.
fn numbers(text: &str, words: &str) -> Vec<f64> {
    let line = text.lines().find_map(|line| Some(line.split_once(words)?.1));
    let line = line.unwrap_or_else(|| panic!("no line says {words:?} in {text}"));
    let parts = line.split(|c: char| !(c.is_ascii_digit() || ".-".contains(c)));
    parts.filter_map(|part| part.parse().ok()).collect()
}

fn near(found: &[f64], expected: &[f64], most: f64) {
    let close = found.iter().zip(expected).all(|(a, b)| (a - b).abs() <= most);
    assert!(close && found.len() == expected.len(), "{found:?} instead of {expected:?}");
}

#[test]
fn first_tensors() {
    let text = printed("first_tensors", "cpu");
    // [[1, 2, 3], [4, 5, 6]] by [[1, 0], [-1, 2], [0.5, 0.5]].
    near(&numbers(&text, "x times w: "), &[0.5, 5.5, 2.0, 13.0], 1e-6);
    let shares = [1.5 / 8.0, 6.5 / 8.0, 3.0 / 17.0, 14.0 / 17.0];
    near(&numbers(&text, "shares of each row: "), &shares, 1e-6);
    near(&numbers(&text, "the largest of each row is at "), &[1.0, 1.0], 0.0);
    assert!(text.contains("matmul") && text.matches("[2, 3]").count() >= 2, "{text}");
}

#[test]
fn image_filters() {
    let text = printed("image_filters", "cpu");
    let disc = std::f64::consts::PI * 40.0 * 40.0 / (128.0 * 128.0);
    near(&numbers(&text, "mean of the picture: "), &[disc], 2e-3);
    // A blur moves light, but preserves its sum.
    near(&numbers(&text, "blurred one: "), &numbers(&text, "mean of the picture: "), 1e-4);
    // A ring around the disc that is some pixels wide: 2 pi 40 = 251 pixels long.
    let ring = numbers(&text, "pixels on an edge: ")[0] / (2.0 * std::f64::consts::PI * 40.0);
    assert!((3.0..8.0).contains(&ring), "a ring {ring} pixels wide");
}

#[test]
fn power_iteration() {
    let text = printed("power_iteration", "cpu");
    let exact = 2.0 - 2.0 * (std::f64::consts::PI * 64.0 / 65.0).cos();
    near(&numbers(&text, "by iteration: "), &[exact], 2e-3);
}

#[test]
fn named_sizes() {
    let text = printed("named_sizes", "cpu");
    // The point (i, i) of an n x n grid has the number i n + i. The queries are 0.3 and -0.4 away from it, so the distance is
    // 0.5.
    for n in [2, 3, 5, 8] {
        let mut expected: Vec<f64> = (0..n).map(|i| f64::from(i * n + i)).collect();
        expected.push(0.5);
        near(&numbers(&text, &format!("\n{n} queries, {} points: ", n * n)[1..]), &expected, 1e-6);
    }
}

#[test]
fn fit_curve() {
    let text = printed("fit_curve", "cpu");
    let mut found = numbers(&text, "y = ");
    assert_eq!(found.len(), 3, "{text}");
    near(&found.split_off(0), &[2.5, 1.7, 0.5], 0.03);
    // Only the noise remains, with a deviation of 0.05.
    near(&numbers(&text, "step 600: loss "), &[0.0025], 1e-3);
}

/// Without `mpirun`, there is one rank. `native/tests/mpi` has tests with several.
#[test]
fn data_parallel() {
    let text = printed("data_parallel", "cpu");
    let losses: Vec<f64> =
        text.lines().filter_map(|line| line.split_once(": ")?.1.parse().ok()).collect();
    assert!(losses.len() == 10 && losses[0] > 0.2 && losses[9] < 0.1, "{text}");
}

#[test]
fn custom_kernel() {
    // A shader on a GPU and its fallback on the CPU learn the same.
    for device in ["cpu", "auto"] {
        let text = printed("custom_kernel", device);
        let [first, last] = numbers(&text, "the loss was ")[..] else { panic!("{text}") };
        assert!(first > 0.05 && last < first / 10.0, "{text}");
    }
}

#[test]
fn micrograd() {
    let text = printed("micrograd", "cpu");
    // The derivatives of e = tanh(d^2 / 10 - a), d = a b + c = 4, by a, b and c.
    let slope = 1.0 - (-0.4f64).tanh().powi(2);
    let by_d = slope * 0.8;
    near(&numbers(&text, "gradients: "), &[by_d * -3.0 - slope, by_d * 2.0, by_d], 1e-4);
    let file = text.lines().find_map(|line| line.strip_prefix("its graph: ")).expect("a file");
    let svg = std::fs::read_to_string(file).expect("it was written");
    assert!(svg.contains("e = tanh") && svg.contains("value 4<"), "{svg}");
    near(&numbers(&text, "2-16-16-1: "), &[(3 * 16 + 17 * 16 + 17) as f64], 0.0);
    let last = numbers(&text, "step 100: loss ");
    assert!(last[0] < 0.1 && last[1] >= 97.0, "{text}");
}

#[test]
fn tokio() {
    let text = printed("tokio", "cpu");
    for n in [10u32, 100, 200] {
        let sum = f64::from(n * (n + 1) * (2 * n + 1) / 6);
        near(&numbers(&text, &format!("squares up to {n}: ")), &[sum], sum * 1e-6);
    }
    near(&numbers(&text, "mean of a product: "), &[256.0], 0.0);
}

#[test]
fn show_plan() {
    let text = printed("show_plan", "cpu");
    assert!(text.contains("matmul[128,64]x[64,32]"), "{text}");
    near(&numbers(&text, "128 rows add up to "), &[128.0], 1e-2);
    let on_gpu = !text.starts_with("on cpu");
    assert_eq!(text.contains("@compute"), on_gpu, "{text}");
}

#[test]
fn profiling() {
    let text = printed("profiling", "cpu");
    // Five matmuls: two forward, and backward one for each of their operands except the data.
    let products = 2 * (2 * 256 * 128 * 512) + 3 * (2 * 256 * 512 * 10);
    let steps = [1, 2].map(|step| numbers(&text, &format!("operations of step {step}: "))[0]);
    let least = f64::from(products);
    assert!(steps.iter().all(|flops| (least..1.1 * least).contains(flops)), "{steps:?}: {text}");
    // Only the first step plans.
    let planning: Vec<f64> = text
        .lines()
        .filter_map(|line| line.strip_prefix("planning and compiling: ")?.strip_suffix(" us"))
        .map(|number| number.parse().expect("a number"))
        .collect();
    assert!(planning[0] > planning[1] && planning.len() == 2, "{text}");
    let trace = numbers(&text, "step 1: squared norm of the gradients ");
    assert!(trace[0] > 0.0 && text.contains("warpweft-trace.json"), "{text}");
}
