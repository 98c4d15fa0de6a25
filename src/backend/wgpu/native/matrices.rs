//! Cooperative matrices, an experimental feature of wgpu.

/// The feature flag.
pub const FEATURE: wgpu::Features = wgpu::Features::EXPERIMENTAL_COOPERATIVE_MATRIX;

/// Returns the token that enables experimental features of wgpu.
#[allow(unsafe_code)]
pub fn consent() -> wgpu::ExperimentalFeatures {
    // SAFETY: the caller must know that experimental features may have bugs, which valid shaders can turn into undefined
    // behavior. Only `shaders/matmul_matrices.wgsl` uses this feature, and only if that kernel is chosen. The kernel passes
    // wgpu's validation, and constants keep its matrix loads and stores inside workgroup memory.
    unsafe { wgpu::ExperimentalFeatures::enabled() }
}

/// Whether an adapter multiplies 8 x 8 matrices of `f16` into `f32`, and has the other features that the kernel needs.
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
