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

/// Whether an adapter multiplies `f16` into `f32` by matrices of 8 x 8, and has what the kernel needs beside them.
pub fn are_there(adapter: &wgpu::Adapter) -> bool {
    let needed = FEATURE | wgpu::Features::SHADER_F16 | wgpu::Features::SUBGROUP;
    let takes = |has: &wgpu::CooperativeMatrixProperties| {
        [has.m_size, has.n_size, has.k_size] == [8; 3]
            && has.ab_type == wgpu::CooperativeScalarType::F16
            && has.cr_type == wgpu::CooperativeScalarType::F32
            && !has.saturating_accumulation
    };
    adapter.features().contains(needed) && adapter.cooperative_matrix_properties().iter().any(takes)
}
