//! The memory layout of elements: declarations of buffers, and the code that reads and writes them. All code that depends on
//! a type's layout is in this file. Templates are those of [`helpers`](super::helpers). A position is a `u32`, counted in
//! elements.
//!
//! WGSL has no integers of 8 or 16 bits, so four elements are one or two words. A thread that has four elements writes whole
//! words. Otherwise several threads may write to a word, so each writes its own bits atomically.
//! otherwise several threads may write to a word, each its bits of it, atomically.

use crate::dtype::{DType, Numbers};

/// An integer type whose elements share words.
struct Packed {
    bits: usize,
    signed: bool,
}

impl Packed {
    fn of(dtype: DType) -> Option<Packed> {
        let signed = dtype.numbers() == Numbers::Signed;
        dtype.is_packed().then(|| Packed { bits: 8 * dtype.size(), signed })
    }

    /// Returns the mask of an element's bits.
    fn mask(&self) -> usize {
        (1 << self.bits) - 1
    }

    /// Returns the index of an element's word, and the shift of its bits.
    fn place(&self, at: &str) -> (String, String) {
        let each = 32 / self.bits;
        (format!("{at} >> {}u", each.ilog2()), format!("({at} & {}u) * {}u", each - 1, self.bits))
    }

    /// Returns a vector of four numbers, computed from the shift of each element in its word.
    fn four(&self, of: impl Fn(usize) -> usize) -> String {
        let [x, y, z, w] = [0, 1, 2, 3].map(|n| of(n * self.bits % 32));
        format!("vec4<u32>({x}u, {y}u, {z}u, {w}u)")
    }

    /// Returns the template that unpacks a vector to four values.
    fn load(&self) -> String {
        let words = if self.bits == 8 { "{u32}({x})" } else { "({x}).xxyy" };
        let unused = 32 - self.bits;
        if self.signed {
            let left = self.four(|begin| unused - begin);
            format!("({{i32}}({words}) << {left}) >> {{u32}}({unused}u)")
        } else {
            let right = self.four(|begin| begin);
            format!("({words} >> {right}) & {{u32}}({}u)", self.mask())
        }
    }

    /// Returns the template that packs four values to a vector.
    fn stored(&self) -> String {
        if self.bits == 8 {
            let left = self.four(|begin| begin);
            format!("dot(({{u32}}({{x}}) & {{u32}}(255u)) << {left}, {{u32}}(1u))")
        } else {
            "({u32}({x}).xz & vec2<u32>(65535u)) | ({u32}({x}).yw << vec2<u32>(16u))".to_string()
        }
    }
}

/// Returns the name of a type inside functions, or of its `vec4` if `wide`.
pub fn type_name(dtype: DType, wide: bool) -> String {
    vector_of(dtype.compute().name(), wide)
}

/// Returns the type of an element in workgroup memory. It is never `bool`, because NVIDIA's Vulkan driver (seen on an H200)
/// then reads wrong values.
pub fn shared_type(dtype: DType) -> &'static str {
    word(dtype.compute())
}

/// Converts a value for workgroup memory.
pub fn shared(dtype: DType, value: &str) -> String {
    match dtype {
        DType::Bool => format!("u32({value})"),
        _ => value.to_string(),
    }
}

/// Converts an element of workgroup memory to a value.
pub fn unshared(dtype: DType, element: &str) -> String {
    match dtype {
        DType::Bool => format!("({element} != 0u)"),
        _ => element.to_string(),
    }
}

/// Returns the type of a buffer's elements, or of its vectors. `written` is whether the buffer is an output.
pub fn stored_type(dtype: DType, quads: bool, written: bool) -> String {
    match Packed::of(dtype) {
        Some(_) if written && !quads => "atomic<u32>".to_string(),
        Some(Packed { bits: 16, .. }) if quads => "vec2<u32>".to_string(),
        Some(_) => "u32".to_string(),
        None => vector_of(word(dtype), quads),
    }
}

fn vector_of(name: &str, wide: bool) -> String {
    if wide {
        format!("vec4<{name}>")
    } else {
        name.to_string()
    }
}

/// Returns the type in memory of an element that does not share a word.
fn word(dtype: DType) -> &'static str {
    match dtype {
        DType::Bool => "u32",
        other => other.name(),
    }
}

/// Returns the expression that reads a buffer at `places`, and the template that converts it to a value. It reads an element
/// at each place, or a whole vector at the only place if `vector`.
pub fn load(dtype: DType, buffer: &str, places: &[String], vector: bool) -> (String, String) {
    let packed = Packed::of(dtype);
    let element = |at: &String| match &packed {
        Some(packed) => {
            let (word, begin) = packed.place(at);
            let of = if packed.signed { "i32" } else { "u32" };
            format!("extractBits({of}({buffer}[{word}]), {begin}, {}u)", packed.bits)
        }
        None => format!("{buffer}[{at}]"),
    };
    let value = match places {
        [at] if vector => format!("{buffer}[{at} >> 2u]"),
        [at] => element(at),
        places => {
            let each: Vec<String> = places.iter().map(element).collect();
            let name = if packed.is_some() { dtype.compute().name() } else { word(dtype) };
            format!("vec4<{name}>({})", each.join(", "))
        }
    };
    let template = match (dtype, packed) {
        (DType::F16, _) => "{f32}({x})".to_string(),
        (DType::Bool, _) => "{x} != {u32}()".to_string(),
        (_, Some(packed)) if vector => packed.load(),
        _ => "{x}".to_string(),
    };
    (template, value)
}

/// Returns the template that converts a value, or four values, for memory.
pub fn stored(dtype: DType, wide: bool) -> String {
    match (dtype, Packed::of(dtype)) {
        (DType::F16, _) => "{f16}({x})".to_string(),
        (DType::Bool, _) => "{u32}({x})".to_string(),
        (_, Some(packed)) if wide => packed.stored(),
        (_, Some(packed)) => format!("({{u32}}({{x}}) & {}u)", packed.mask()),
        _ => "{x}".to_string(),
    }
}

/// Returns the statements that write such a converted value to an output.
pub fn store(dtype: DType, output: u32, at: &str, stored: &str, wide: bool) -> String {
    match Packed::of(dtype) {
        _ if wide => format!("out{output}[{at} >> 2u] = {stored};\n"),
        Some(packed) => {
            let (word, begin) = packed.place(at);
            let (word, mask) = (format!("&out{output}[{word}]"), packed.mask());
            format!(
                "atomicAnd({word}, ~({mask}u << ({begin})));\natomicOr({word}, {stored} << ({begin}));\n"
            )
        }
        None => format!("out{output}[{at}] = {stored};\n"),
    }
}

/// Returns the template for a conversion. The result is rounded or wraps as if it were stored as `to` and read again.
pub fn cast(to: DType, from: DType, wide: bool) -> String {
    let float = from.is_float();
    if let (Some(packed), Some((low, high))) = (Packed::of(to), to.range()) {
        let of = if packed.signed { "{i32}" } else { "{u32}" };
        let unused = 32 - packed.bits;
        // Narrow integers saturate when converted from floats, and wrap when converted from other integers.
        return match packed.signed {
            _ if float => format!(
                "select({of}(clamp({{x}}, {{f32}}({low:?}), {{f32}}({high:?}))), {of}(), {{is_nan}}({{x}}))"
            ),
            true => format!("({of}({{x}}) << {{u32}}({unused}u)) >> {{u32}}({unused}u)"),
            false => format!("{of}({{x}}) & {{u32}}({}u)", packed.mask()),
        };
    }
    let template = match to {
        // `quantizeToF16` is not used, because it may flush subnormal numbers to 0.
        DType::F16 if wide => {
            "{f32}(unpack2x16float(pack2x16float({f32}({x}).xy) | params[0].x), \
             unpack2x16float(pack2x16float({f32}({x}).zw) | params[0].x))"
        }
        // NVIDIA's driver removes a conversion there and back, unless another operation is between.
        DType::F16 => "unpack2x16float(pack2x16float(vec2<f32>({f32}({x}), 0.0)) | params[0].x).x",
        _ if to.compute() == from => "{x}",
        DType::I32 if float => "{to_i32}({x})",
        DType::U32 if float => "{to_u32}({x})",
        DType::F32 => "{f32}({x})",
        DType::I32 => "{i32}({x})",
        DType::U32 => "{u32}({x})",
        _ => "{bool}({x})",
    };
    template.to_string()
}
