//! Tests that naga translates every kernel to Metal's language (MSL) and to that of DX12 (HLSL), as wgpu does on those systems.
//! No compiler of these languages checks the result.

use crate::shaders::{kernels, parse, samples, source};
use naga::back::{hlsl, msl};
use std::collections::BTreeSet;
use std::path::Path;
use warpweft::kernel::{F16Matmul, KernelConfig};

/// Returns the name and the text of every stored shader, and of each sample kernel in each configuration.
fn texts() -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("shaders");
    let stored = std::fs::read_dir(folder).expect("shaders/ is there").map(|entry| {
        let path = entry.expect("it can be listed").path();
        let text = std::fs::read_to_string(&path).expect("it can be read");
        (path.display().to_string(), text)
    });
    let matrices = KernelConfig { f16_matmul: F16Matmul::CooperativeMatrices, ..KernelConfig::GPU };
    let configs = kernels::configs().into_iter().chain([matrices]);
    let samples = samples();
    let generated = configs.flat_map(|config| {
        let text = move |(name, kernel): &(String, _)| (name.clone(), source(kernel, config).text);
        samples.iter().map(text)
    });
    let mut known = BTreeSet::new();
    stored.chain(generated).filter(|(_, text)| known.insert(text.clone())).collect()
}

/// Returns Metal's code of a text. Version 2.4 is the oldest with everything that our kernels use.
fn metal(name: &str, text: &str) -> String {
    let (module, info) = parse(name, text);
    let options = msl::Options { lang_version: (2, 4), ..msl::Options::default() };
    let written = msl::write_string(&module, &info, &options, &msl::PipelineOptions::default());
    written.unwrap_or_else(|error| panic!("{name}: {error}\n{text}")).0
}

/// Returns the code for DX12 of a text. Halves need version 6.2.
fn dx12(name: &str, text: &str) -> Result<String, hlsl::Error> {
    let (module, info) = parse(name, text);
    let shader_model = hlsl::ShaderModel::V6_2;
    let options = hlsl::Options { shader_model, fake_missing_bindings: true, ..Default::default() };
    let mut written = String::new();
    hlsl::Writer::new(&mut written, &options, &hlsl::PipelineOptions::default())
        .write(&module, &info, None)?;
    Ok(written)
}

#[test]
fn every_kernel_is_translated_for_metal() {
    let texts = texts();
    assert!(texts.len() > 400, "{} kernels", texts.len());
    for (name, text) in texts {
        let code = metal(&name, &text);
        assert_eq!(code.matches("kernel void ").count(), 1, "{name}:\n{code}");
        let waits = text.matches("workgroupBarrier()").count();
        let barriers = code.matches("threadgroup_barrier(").count();
        assert!(barriers >= waits, "{name}: {barriers} barriers instead of {waits}\n{code}");
        let matrices = text.contains("coop_mat");
        assert_eq!(code.contains("simdgroup_multiply_accumulate"), matrices, "{name}:\n{code}");
    }
}

#[test]
fn every_kernel_is_translated_for_dx12() {
    let mut refused = 0;
    for (name, text) in texts() {
        let matrices = text.contains("coop_mat");
        match dx12(&name, &text) {
            Ok(code) => {
                assert!(!matrices, "{name}: DX12 has no cooperative matrices in naga\n{code}");
                assert_eq!(code.matches("[numthreads(").count(), 1, "{name}:\n{code}");
                let waits = text.matches("workgroupBarrier()").count();
                let barriers = code.matches("GroupMemoryBarrierWithGroupSync()").count();
                assert!(
                    barriers >= waits,
                    "{name}: {barriers} barriers instead of {waits}\n{code}"
                );
            }
            Err(error) => {
                assert!(matrices, "{name}: {error}\n{text}");
                refused += 1;
            }
        }
    }
    assert!(refused > 0, "no kernel has cooperative matrices");
}
