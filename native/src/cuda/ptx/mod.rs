//! A translator from WGSL compute shaders to PTX, the assembly of NVIDIA GPUs.
//!
//! ```
//! use warpweft_native::cuda::ptx;
//! let wgsl = "
//!     @group(0) @binding(0) var<storage, read> x: array<f32>;
//!     @group(0) @binding(1) var<storage, read_write> y: array<f32>;
//!     @compute @workgroup_size(64)
//!     fn double(@builtin(global_invocation_id) id: vec3<u32>) {
//!         if (id.x < arrayLength(&x)) { y[id.x] = 2.0 * x[id.x]; }
//!     }";
//! let kernels = ptx::translate(wgsl, &ptx::Options { sm: 80, ..Default::default() })?;
//! assert_eq!(kernels[0].name, "double");
//! assert!(kernels[0].ptx.contains(".visible .entry double("));
//! # Ok::<(), ptx::Error>(())
//! ```
//!
//! # ABI
//!
//! A kernel has two parameters of type `.u64` for each buffer that its entry point uses: the address, and the length in bytes.
//! The buffers are in the order of their group and binding, as [`Kernel::bindings`] lists them. An address must be a multiple
//! of 16, and a length at least [`Binding::min_bytes`]. A uniform buffer is passed like a storage buffer.
//!
//! A block has exactly [`Kernel::workgroup_size`] threads (`.reqntid`), and the grid has the number of workgroups. Workgroup
//! memory of up to 48 KiB is static. More is dynamic, and [`Kernel::dynamic_shared_bytes`] is its size.
//!
//! # Arithmetic
//!
//! `+`, `-`, `*`, `/`, `sqrt` and `fma` are rounded correctly. Products and sums are only combined with
//! [`Options::fuse_multiply_add`]. Subnormal numbers are kept, and infinities and NaN are those of IEEE 754.
//! `docs/internals/ptx-accuracy.md` lists the error of all functions.

mod build;
mod clean;
mod error;
mod fold;
mod fuse;
mod half;
mod ir;
mod lower;
mod options;
mod print;
mod types;

pub use error::{Error, Result};
pub use options::{Binding, Bounds, Kernel, Options, ARCHITECTURES};

use naga::back::pipeline_constants::process_overrides;
use naga::back::PipelineConstants;
use naga::valid::{
    Capabilities, FunctionInfo, ModuleInfo, ShaderStages, SubgroupOperationSet, ValidationFlags,
    Validator,
};
use naga::{AddressSpace, Module, ShaderStage, StorageAccess};
use types::Type;

/// The most shared memory of a workgroup on any architecture, in bytes.
const MAX_SHARED_BYTES: u32 = 227 << 10;
/// The most threads of a workgroup.
const MAX_THREADS: u64 = 1024;

/// Checks that a text is valid WGSL, which need not have an entry point.
///
/// # Errors
/// Fails with the first problem and its location.
///
/// ```
/// use warpweft_native::cuda::ptx;
/// assert!(ptx::check_wgsl("fn half(x: f32) -> f32 { return 0.5 * x; }").is_ok());
/// assert!(ptx::check_wgsl("fn half(x: f32) -> f32 { return 0.5 * y; }").is_err());
/// ```
pub fn check_wgsl(wgsl: &str) -> Result<()> {
    validate(&parse(wgsl)?, wgsl).map(drop)
}

/// Translates all compute entry points of a shader.
///
/// # Errors
/// Fails if the WGSL is invalid, or if it needs what PTX cannot do or this translator does not support. The error has the
/// location in the WGSL where it is known.
///
/// ```
/// use warpweft_native::cuda::ptx;
/// let error = ptx::translate("@compute @workgroup_size(1) fn f() { let x = ; }", &Default::default()).unwrap_err();
/// assert_eq!(error.location, Some((1, 46)));
/// ```
pub fn translate(wgsl: &str, options: &Options) -> Result<Vec<Kernel>> {
    let module = parse(wgsl)?;
    translate_module(&module, wgsl, options)
}

/// Translates one compute entry point of a shader. Others may be unsupported.
///
/// # Errors
/// Like [`translate`], and if there is no such entry point.
///
/// ```
/// use warpweft_native::cuda::ptx;
/// let wgsl = "@compute @workgroup_size(1) fn a() {} @compute @workgroup_size(2) fn b() {}";
/// let kernel = ptx::translate_entry(wgsl, "b", &Default::default())?;
/// assert_eq!(kernel.workgroup_size, [2, 1, 1]);
/// # Ok::<(), ptx::Error>(())
/// ```
pub fn translate_entry(wgsl: &str, entry: &str, options: &Options) -> Result<Kernel> {
    let module = parse(wgsl)?;
    check(options)?;
    let info = validate(&module, wgsl)?;
    kernel(&module, &info, entry, wgsl, options)
}

/// Translates all compute entry points of a module of naga, which need not be validated. `wgsl` is its source, for the
/// locations of errors, or empty.
///
/// # Errors
/// Like [`translate`].
pub fn translate_module(module: &Module, wgsl: &str, options: &Options) -> Result<Vec<Kernel>> {
    check(options)?;
    let info = validate(module, wgsl)?;
    let names: Vec<&str> = module
        .entry_points
        .iter()
        .filter(|entry| entry.stage == ShaderStage::Compute)
        .map(|entry| entry.name.as_str())
        .collect();
    if names.is_empty() {
        return Err(Error::new("a shader must have a compute entry point, got none"));
    }
    names.into_iter().map(|name| kernel(module, &info, name, wgsl, options)).collect()
}

fn check(options: &Options) -> Result<()> {
    if !ARCHITECTURES.contains(&options.sm) {
        let (first, last) = (ARCHITECTURES.start(), ARCHITECTURES.end());
        return Err(Error::new(format!("sm must be from {first} to {last}, got {}", options.sm)));
    }
    Ok(())
}

fn parse(wgsl: &str) -> Result<Module> {
    naga::front::wgsl::parse_str(wgsl).map_err(|error| {
        let location = error.location(wgsl).map(|at| (at.line_number, at.line_position));
        Error { message: error.message().to_string(), location }
    })
}

fn validate(module: &Module, wgsl: &str) -> Result<ModuleInfo> {
    let capabilities = Capabilities::SUBGROUP
        | Capabilities::SUBGROUP_BARRIER
        | Capabilities::SHADER_FLOAT16
        | Capabilities::SHADER_FLOAT16_IN_FLOAT32
        | Capabilities::SHADER_FLOAT32_ATOMIC
        | Capabilities::COOPERATIVE_MATRIX;
    let mut validator = Validator::new(ValidationFlags::all(), capabilities);
    validator
        .subgroup_stages(ShaderStages::COMPUTE)
        .subgroup_operations(SubgroupOperationSet::all());
    validator.validate(module).map_err(|error| {
        let location = error.location(wgsl).map(|at| (at.line_number, at.line_position));
        Error {
            message: with_causes(error.as_inner()),
            location: location.filter(|_| !wgsl.is_empty()),
        }
    })
}

/// Returns the message of an error, followed by those of its causes.
fn with_causes(error: &dyn std::error::Error) -> String {
    let mut message = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        message.push_str(": ");
        message.push_str(&inner.to_string());
        cause = inner.source();
    }
    message
}

fn kernel(
    module: &Module,
    info: &ModuleInfo,
    name: &str,
    wgsl: &str,
    options: &Options,
) -> Result<Kernel> {
    let mut constants = PipelineConstants::default();
    constants.extend(options.overrides.iter().map(|(name, value)| (name.clone(), *value)));
    let stage = ShaderStage::Compute;
    let (module, info) = process_overrides(module, info, Some((stage, name)), &constants)
        .map_err(|error| Error::new(with_causes(&error)))?;
    let is_this = |entry: &naga::EntryPoint| entry.name == name && entry.stage == stage;
    let Some(index) = module.entry_points.iter().position(is_this) else {
        return Err(Error::new(format!("the shader has no compute entry point {name:?}")));
    };
    let (entry, info) = (&module.entry_points[index], info.get_entry_point(index));
    let threads =
        entry.workgroup_size.iter().map(|size| u64::from(*size)).fold(1, u64::saturating_mul);
    if threads == 0 || threads > MAX_THREADS {
        return Err(Error::new(format!(
            "a workgroup must have from 1 to {MAX_THREADS} threads, got {threads}"
        )));
    }
    let bindings = bindings(&module, info)?;
    let program = lower::lower(&module, info, entry, &bindings, options)
        .map_err(|(error, span)| if wgsl.is_empty() { error } else { error.locate(span, wgsl) })?;
    let shared_bytes = program.shared_bytes;
    if shared_bytes > MAX_SHARED_BYTES {
        return Err(Error::new(format!(
            "workgroup memory must have at most {MAX_SHARED_BYTES} bytes, got {shared_bytes}"
        )));
    }
    let symbol = symbol(name);
    Ok(Kernel {
        name: name.to_string(),
        ptx: print::print(&program, &symbol, entry.workgroup_size, options),
        symbol,
        workgroup_size: entry.workgroup_size,
        bindings,
        shared_bytes,
        dynamic_shared_bytes: if shared_bytes > print::MAX_STATIC_SHARED_BYTES {
            // Zeroing stores 16 bytes at a time.
            shared_bytes.next_multiple_of(16)
        } else {
            0
        },
        local_bytes: program.local_bytes,
    })
}

/// Returns the buffers that an entry point uses, in the order of the parameters.
fn bindings(module: &Module, info: &FunctionInfo) -> Result<Vec<Binding>> {
    let mut bindings = Vec::new();
    for (handle, variable) in module.global_variables.iter() {
        let (Some(at), false) = (&variable.binding, info[handle].is_empty()) else { continue };
        let is_read_only = match variable.space {
            AddressSpace::Uniform => true,
            AddressSpace::Storage { access } => !access.contains(StorageAccess::STORE),
            _ => continue,
        };
        bindings.push(Binding {
            group: at.group,
            binding: at.binding,
            is_read_only,
            is_uniform: variable.space == AddressSpace::Uniform,
            min_bytes: min_bytes(&Type::new(module, variable.ty)?),
        });
    }
    bindings.sort_by_key(|binding| (binding.group, binding.binding));
    Ok(bindings)
}

/// Returns the size of a buffer, with one element of an array without a length.
fn min_bytes(ty: &Type) -> u64 {
    match ty {
        Type::Array(array) if array.count.is_none() => u64::from(array.stride),
        Type::Struct(members) => match members.members.last() {
            Some((Type::Array(array), offset)) if array.count.is_none() => {
                u64::from(*offset) + u64::from(array.stride)
            }
            _ => ty.bytes(),
        },
        _ => ty.bytes(),
    }
}

/// Returns a name for PTX, which has only ASCII letters and reserves its opcodes.
fn symbol(name: &str) -> String {
    let has_prefix =
        |name: &str| ["_", "param_", "table_"].iter().any(|prefix| name.starts_with(prefix));
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if name.len() < 200
        && name.chars().all(is_plain)
        && !RESERVED.contains(&name)
        && !has_prefix(name)
    {
        return name.to_string();
    }
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    });
    format!("kernel_{hash:016x}")
}

/// Words that PTX does not accept as names, and names that the printer uses.
const RESERVED: [&str; 3] = ["shared_memory", "local_memory", "WARP_SZ"];
