//! Cooperative matrices: wgpu has them as an experiment.

/// The feature.
pub const FEATURE: wgpu::Features = wgpu::Features::EXPERIMENTAL_COOPERATIVE_MATRIX;

/// What says to wgpu that an experiment is wanted.
#[allow(unsafe_code)]
pub fn consent() -> wgpu::ExperimentalFeatures {
    // SAFETY: asked of the caller is to know that an experiment may have bugs which valid shaders can turn into undefined
    // behaviour. Only `shaders/matmul_matrices.wgsl` uses this one, only where that kernel is chosen: its loads and
    // stores of matrices stay inside its own workgroup memory, by constants, and it passes wgpu's validation.
    unsafe { wgpu::ExperimentalFeatures::enabled() }
}

/// The rows and columns of the largest matrices with which an adapter multiplies `f16` into `f32`; `None` where there are
/// none, or where what the kernel needs beside them is missing.
pub fn size(adapter: &wgpu::Adapter) -> Option<u32> {
    let needed = FEATURE | wgpu::Features::SHADER_F16 | wgpu::Features::SUBGROUP;
    if !adapter.features().contains(needed) {
        return None;
    }
    let known = adapter.cooperative_matrix_properties();
    let takes = |size: u32| {
        known.iter().any(|has| {
            [has.m_size, has.n_size, has.k_size] == [size; 3]
                && has.ab_type == wgpu::CooperativeScalarType::F16
                && has.cr_type == wgpu::CooperativeScalarType::F32
                && !has.saturating_accumulation
        })
    };
    [16, 8].into_iter().find(|&size| takes(size))
}
