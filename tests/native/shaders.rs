//! Tests that every shader parses and validates, both the stored files and the text that codegen generates. A few texts are
//! snapshots, which `UPDATE_EXPECT=1` rewrites.

use expect_test::expect_file;
use std::collections::BTreeSet;
use std::path::Path;
use warpweft::codegen::{wgsl, Dialect, Source};
use warpweft::dtype::DType;
use warpweft::kernel::{F16Matmul, Kernel, KernelConfig, Limits, Rows};
use warpweft::schedule::{schedule, ProductTile, Strategy};

#[path = "../shared/kernels.rs"]
pub mod kernels;

pub use kernels::samples;

/// Returns the source of a kernel for naga, on a device with all features.
pub fn source(kernel: &Kernel, config: KernelConfig) -> Source {
    kernels::source(kernel, config, Dialect::NAGA)
}

/// The words of WGSL that cannot be names: its keywords and its reserved words (sections 15.1 and 15.2 of the specification).
const WORDS: &str = include_str!("../golden/wgsl-words.txt");

/// Returns the names that a text declares: after `let`, `var`, `const` or `fn`, and before a type.
fn declared(text: &str) -> Vec<&str> {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut names = Vec::new();
    for line in text.lines() {
        let mut rest = line.split("//").next().unwrap_or_default();
        let mut declares = false;
        while let Some(start) = rest.find(word) {
            rest = &rest[start..];
            let (name, after) = rest.split_at(rest.find(|c| !word(c)).unwrap_or(rest.len()));
            rest = after;
            // `default` before a colon is part of a switch.
            if declares || name != "default" && after.starts_with(':') {
                names.push(name);
            }
            declares = !declares && matches!(name, "let" | "var" | "const" | "fn");
            if let (true, Some((_, name))) = (after.starts_with('<'), after.split_once('>')) {
                rest = if declares { name } else { after };
            }
        }
    }
    names
}

/// Parses a text, and validates it as a browser without optional features does, with the features that the text enables.
pub fn parse(name: &str, text: &str) -> (naga::Module, naga::valid::ModuleInfo) {
    let module = naga::front::wgsl::parse_str(text)
        .unwrap_or_else(|e| panic!("{name}: {}\n{text}", e.emit_to_string(text)));
    let f16 = text.contains("enable f16;\n");
    // Packing `f16` into words needs no feature.
    let plain = naga::valid::Capabilities::SHADER_FLOAT16_IN_FLOAT32;
    let wanted = [
        (f16, naga::valid::Capabilities::SHADER_FLOAT16),
        (text.contains("subgroup"), naga::valid::Capabilities::SUBGROUP),
        (
            text.contains("enable wgpu_cooperative_matrix;\n"),
            naga::valid::Capabilities::COOPERATIVE_MATRIX,
        ),
    ];
    let capabilities = wanted.iter().filter(|w| w.0).fold(plain, |all, w| all | w.1);
    let mut validator =
        naga::valid::Validator::new(naga::valid::ValidationFlags::all(), capabilities);
    let info = validator.validate(&module);
    let info = info.unwrap_or_else(|e| panic!("{name}: {}\n{text}", e.emit_to_string(text)));
    (module, info)
}

/// Validates a text, and checks its use of resources. Returns the number of threads in a workgroup.
fn validate(name: &str, text: &str) -> usize {
    let (module, _) = parse(name, text);
    let entry = &module.entry_points[0];
    assert_eq!(entry.name, "main", "{name}");
    let threads = entry.workgroup_size.iter().product::<u32>();
    assert!(threads <= 256, "{name}");
    let mut layouter = naga::proc::Layouter::default();
    layouter.update(module.to_ctx()).expect("a valid module has a layout");
    let globals = module.global_variables.iter().map(|(_, global)| global);
    let (mut shared, mut buffers) = (0, 0);
    for global in globals {
        match global.space {
            naga::AddressSpace::WorkGroup => shared += layouter[global.ty].size,
            naga::AddressSpace::Storage { .. } => buffers += 1,
            _ => {}
        }
    }
    assert!(shared <= 16384, "{name}: {shared} bytes of workgroup memory");
    assert!(buffers <= 8, "{name}: {buffers} buffers");
    threads as usize
}

#[test]
fn stored_shaders_are_valid() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("shaders");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).expect("shaders/ is there") {
        let path = entry.expect("it can be listed").path();
        let text = std::fs::read_to_string(&path).expect("it can be read");
        validate(&path.display().to_string(), &text);
        count += 1;
    }
    assert!(count >= 4, "found {count} shaders");
}

#[test]
fn sample_kernels_are_valid() {
    let samples = samples();
    assert!(samples.len() > 400, "{} samples", samples.len());
    let each = |sample| kernels::configs().map(|config| (sample, config));
    for ((name, kernel), config) in samples.iter().flat_map(each) {
        let source = source(kernel, config);
        let met = source.text.contains("workgroupBarrier");
        let alone = match kernel {
            // A longer row takes more steps than a thread may run.
            Kernel::PackedMatmul(packed) => packed.k < 1 << 20,
            _ => matches!(kernel, Kernel::Loop { .. } | Kernel::Matmul(_) | Kernel::Conv2d(_)),
        };
        assert!(config != KernelConfig::EMULATED || !alone || !met, "{name}: threads meet");
        let plan = schedule(kernel, &kernels::ABLE, config);
        assert_eq!(validate(name, &source.text), plan.workgroup_size, "{name}");
        assert_eq!(source.workgroups, plan.workgroups, "{name}");
        assert_eq!(source.features.f16, source.text.starts_with("enable f16;"), "{name}");
        assert_eq!(source.features.subgroups, source.text.contains("subgroup"), "{name}");
        // Large grids are folded into two dimensions.
        let number = "let group = group_id.x + group_id.y * groups.x;";
        assert!(source.text.contains(number), "{name}");
        assert!(source.text.contains(&format!("array<vec4<u32>, {}>", source.params)), "{name}");
        let empty = name.contains("empty") || name.contains("[0, 5]");
        assert_eq!(source.workgroups == 0, empty, "{name}: {} workgroups", source.workgroups);
    }
}

/// Returns a name for each way to generate a kernel.
fn kind(strategy: &Strategy) -> String {
    match strategy {
        Strategy::Map(map) => format!("map, vectors: {}", map.vector.is_some()),
        Strategy::Transpose(transpose) => format!("{} loads transposed", transpose.loads.len()),
        Strategy::Rows(rows) => {
            let (lanes, vectors) = (rows.lanes > 1, rows.vector.is_some());
            let unrolled = rows.unrolled.is_some();
            format!("rows, {:?} {lanes} {vectors} {unrolled} {}", rows.traversal, rows.subgroups)
        }
        Strategy::Product(product) => match product.tile {
            ProductTile::Registers { exchanged, .. } => format!("registers {exchanged}"),
            tile => format!("{:?} {:?}", tile.size(), product.transposed),
        },
        Strategy::Window(window) => format!("windows, unrolled: {}", window.unrolled.is_some()),
        Strategy::Attention(attention) => format!("attention of {} rows", attention.rows),
        Strategy::Packed(units) => {
            let (alone, vector) = (units.lanes == 1, units.vector.is_some());
            format!("packed units, alone: {alone}, vectors: {vector}, columns: {}", units.columns)
        }
        Strategy::Order => "sorted rows".to_string(),
        Strategy::Shader => "a user's".to_string(),
    }
}

/// Tests that some sample uses each way to generate a kernel. If a stored shader lacks a marker that codegen replaces, it
/// panics.
#[test]
fn samples_are_printed_in_every_way() {
    let matrices = KernelConfig { f16_matmul: F16Matmul::CooperativeMatrices, ..KernelConfig::GPU };
    let mut seen = BTreeSet::new();
    for (name, kernel) in samples().iter().chain(&kernels::windows()) {
        for config in kernels::configs().into_iter().chain([matrices]) {
            let plan = schedule(kernel, &kernels::ABLE, config);
            seen.insert(kind(&plan.strategy));
            // A device with fewer features gets simpler kernels.
            let less = schedule(kernel, &Limits::WEBGPU, config);
            let text = wgsl(kernel, &less, Dialect::NAGA);
            let subgroups = text.features.subgroups || text.features.cooperative_matrices;
            assert!(!subgroups, "{name}: {:?}", text.features);
        }
    }
    let wanted = [
        "map, vectors: false",
        "map, vectors: true",
        "1 loads transposed",
        "2 loads transposed",
        "registers false",
        "registers true",
        "Some([32, 32]) [false, false]",
        "Some([64, 64]) [false, false]",
        "Some([64, 64]) [true, true]",
        "Some([128, 128]) [false, false]",
        "windows, unrolled: false",
        "windows, unrolled: true",
        "packed units, alone: false, vectors: false, columns: 1",
        "packed units, alone: false, vectors: true, columns: 1",
        "packed units, alone: false, vectors: true, columns: 2",
        "packed units, alone: false, vectors: true, columns: 4",
        "packed units, alone: true, vectors: true, columns: 2",
        "packed units, alone: true, vectors: true, columns: 8",
        "attention of 1 rows",
        "attention of 32 rows",
    ];
    for kind in wanted {
        assert!(seen.contains(kind), "no sample is printed as {kind}; {seen:#?}");
    }
    assert!(seen.iter().filter(|kind| kind.starts_with("rows")).count() > 8, "{seen:#?}");
}

#[test]
fn sizes_may_be_read_from_the_params() {
    let samples = samples();
    let each = |sample| kernels::configs().map(|config| (sample, config));
    for ((name, kernel), config) in samples.iter().flat_map(each) {
        let source = source(kernel, config);
        for size in &source.sizes {
            let printed = &source.text[size.at..][..size.len];
            let digits = printed.trim_end_matches(['u', 'i']);
            assert_eq!(digits.parse(), Ok(size.value), "{name}: {printed}");
        }
        let words: Vec<_> = (0..source.sizes.len()).map(Some).collect();
        let dynamic = source.dynamic(&words);
        assert_eq!(dynamic.params, source.params + words.len().div_ceil(4), "{name}");
        validate(name, &dynamic.text);
        let none = source.dynamic(&vec![None; words.len()]);
        assert_eq!(none.text, source.text, "{name}");
    }
    // Kernels of one structure differ only in sizes, so their dynamic texts are equal.
    let text = |rows, columns| {
        let product = kernels::product(&[], rows, 64, columns, DType::F32);
        let source = source(&Kernel::Matmul(product), KernelConfig::EMULATED);
        let words: Vec<_> = (0..source.sizes.len()).map(Some).collect();
        (source.structure(), source.text.clone(), source.dynamic(&words).text)
    };
    let (one, other) = (text(1024, 64), text(2048, 132));
    assert_eq!(one.0, other.0);
    assert_ne!(one.1, other.1);
    assert_eq!(one.2, other.2);
}

#[test]
fn windows_of_every_size_are_valid() {
    let windows = kernels::windows();
    assert_eq!(windows.len(), 256);
    let each = |window| kernels::configs().map(|config| (window, config));
    for ((name, kernel), config) in windows.iter().flat_map(each) {
        validate(name, &source(kernel, config).text);
    }
}

#[test]
fn names_are_no_words_of_the_language() {
    let words: Vec<&str> = WORDS.split_whitespace().collect();
    let text = "let fn = 1; var<private> a_1: u32; // let x\nfn f(y: array<u32>) {";
    assert_eq!(declared(text), ["fn", "a_1", "f", "y"]);
    let matrices = KernelConfig { f16_matmul: F16Matmul::CooperativeMatrices, ..KernelConfig::GPU };
    for (name, kernel) in samples().iter().chain(&kernels::windows()) {
        for config in kernels::configs().into_iter().chain([matrices]) {
            let text = source(kernel, config).text;
            let names = declared(&text);
            assert!(names.len() > 5, "{name}: {names:?}");
            let wrong = names.into_iter().find(|name| words.contains(name));
            assert_eq!(wrong, None, "{name}:\n{text}");
        }
    }
}

#[test]
fn products_of_halves_are_those_of_matrices() {
    let samples = samples();
    let halves = F16Matmul::CooperativeMatrices;
    for (name, kernel) in &samples {
        for config in [KernelConfig::GPU, KernelConfig::EMULATED] {
            let found = source(kernel, KernelConfig { f16_matmul: halves, ..config });
            let f16 = name.starts_with("matmul f16");
            let wanted = f16 && !name.contains("x1x") && !name.contains("16 1x");
            assert_eq!(
                found.text.contains("coop_mat8x8<f32, C>"),
                wanted,
                "{name}:\n{}",
                found.text
            );
            if wanted {
                assert!(found.features.cooperative_matrices, "{name}");
                validate(name, &found.text);
            } else {
                assert_eq!(found, source(kernel, config), "{name}");
            }
        }
    }
}

/// The names of the samples whose text is committed.
const SNAPSHOTS: [&str; 10] = [
    "map bias f32 [6, 8]",
    "map pad",
    "map turn three",
    "reduce Max f32 [9, 100]",
    "reduce columns Sum [4096, 64]",
    "softmax [2, 1024]",
    "layer norm [2, 50000]",
    "matmul fused 36x20x44",
    "conv2d [2, 8, 12, 7] 8 [3, 3] Conv2d { stride: [1, 1], padding: [(1, 1), (1, 1)], dilation: [1, 1], groups: 8 }",
    "attention f16 [1,4/2,40/70,64/64] causal mask",
];

#[test]
fn snapshots() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots");
    let samples = samples();
    let kernel =
        |name| &samples.iter().find(|sample| sample.0 == name).expect("the sample exists").1;
    for name in SNAPSHOTS {
        check(&folder, name, kernel(name), KernelConfig::GPU);
        // Threads that work alone compute four columns each.
        if name.starts_with("reduce columns") {
            check(&folder, &format!("{name} alone"), kernel(name), KernelConfig::EMULATED);
        }
    }
    let passing = KernelConfig { rows: Rows::Subgroups, ..KernelConfig::GPU };
    check(&folder, "softmax subgroups", kernel("softmax [2, 1024]"), passing);
}

fn check(folder: &Path, name: &str, kernel: &Kernel, config: KernelConfig) {
    let words = name.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    let file = words.take(8).collect::<Vec<_>>().join("-") + ".wgsl";
    let path = folder.join(file.to_lowercase());
    let text = source(kernel, config).text;
    expect_file![path].assert_eq(&text);
}
