//! Options and results of a translation.

use std::collections::BTreeMap;

/// The least and the greatest architecture, as in `sm_75`.
pub const ARCHITECTURES: std::ops::RangeInclusive<u32> = 75..=121;

/// Whether accesses by index are checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bounds {
    /// An index beyond the last element is clamped to it, in buffers, workgroup memory and variables. The kernel then never
    /// accesses memory outside its bindings, if each binding has at least [`Binding::min_bytes`].
    Checked,
    /// Indices are not checked.
    Unchecked,
}

/// Options of a translation.
#[derive(Clone, Debug)]
pub struct Options {
    /// The architecture, such as 90 for `sm_90`.
    pub sm: u32,
    pub bounds: Bounds,
    /// Values of overrides, by name, or by number for an override with `@id`.
    pub overrides: BTreeMap<String, f64>,
    /// Whether workgroup memory is zero at first, as WGSL demands.
    pub zero_workgroup_memory: bool,
    /// The most instructions of an unrolled loop. 0 unrolls no loop.
    pub max_unrolled: usize,
    /// Whether `a * b + c` is rounded once. It is faster, but results differ from those of other backends.
    pub fuse_multiply_add: bool,
    /// The most registers of a thread (`.maxnreg`). With `None`, the assembler chooses, and may keep a value in memory to run
    /// more threads at once. With 255, it uses as many registers as it can.
    pub max_registers: Option<u32>,
    /// Whether functions whose names begin with `ptx_` are instructions of tensor cores and asynchronous copies, for `sm_80`
    /// and later. Their bodies are not executed. A body names the buffer and the workgroup variable that the instruction
    /// accesses. The backend's own shaders have such functions.
    pub has_intrinsics: bool,
}

impl Default for Options {
    /// Checked accesses and zeroed memory, for `sm_75`, the oldest architecture.
    fn default() -> Options {
        Options {
            sm: 75,
            bounds: Bounds::Checked,
            overrides: BTreeMap::new(),
            zero_workgroup_memory: true,
            max_unrolled: 10_240,
            fuse_multiply_add: false,
            max_registers: None,
            has_intrinsics: false,
        }
    }
}

/// A buffer that a kernel takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binding {
    pub group: u32,
    pub binding: u32,
    /// Whether the kernel only reads the buffer. It may then read it through a cache that is not coherent, so no other binding
    /// of the launch may write the same memory.
    pub is_read_only: bool,
    /// Whether the binding is a uniform buffer.
    pub is_uniform: bool,
    /// The bytes that the buffer must have at least. An array without a length counts with one element.
    pub min_bytes: u64,
}

/// A translated entry point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// The name of the entry point in WGSL.
    pub name: String,
    /// The name of the kernel in PTX. It is `name` unless PTX does not accept that.
    pub symbol: String,
    /// The PTX module.
    pub ptx: String,
    /// Threads of a workgroup, the block of a launch.
    pub workgroup_size: [u32; 3],
    /// The bindings in the order of their parameters.
    pub bindings: Vec<Binding>,
    /// Memory of a workgroup in bytes.
    pub shared_bytes: u32,
    /// The part of `shared_bytes` that the launch must request as dynamic shared memory: all or nothing. A kernel that needs
    /// more than 48 KiB needs the attribute `CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES`.
    pub dynamic_shared_bytes: u32,
    /// Memory of each thread in bytes, for arrays that are not in registers.
    pub local_bytes: u32,
}
