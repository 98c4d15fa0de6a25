//! How elements lie in buffers: what a buffer is declared as, and the texts that read and write it. All that is known of a
//! type's memory is known here. Templates are those of [`helpers`](super::helpers); a position is a `u32`, counted in elements.
//!
//! WGSL has no type of 8 bits: four elements are a word. A word that one thread has whole it writes; otherwise several threads
//! may write to one, each its bits of it, atomically.

use crate::dtype::DType;

/// A type's name inside functions, `vec4` of it where `wide`.
pub fn type_name(dtype: DType, wide: bool) -> String {
    vector_of(dtype.compute().name(), wide)
}

/// The type of a buffer's elements, or of its vectors; `written` where it is an output.
pub fn stored_type(dtype: DType, quads: bool, written: bool) -> String {
    match dtype {
        DType::I8 | DType::U8 if written && !quads => "atomic<u32>".to_string(),
        DType::I8 | DType::U8 => "u32".to_string(),
        other => vector_of(word(other), quads),
    }
}

fn vector_of(name: &str, wide: bool) -> String {
    if wide {
        format!("vec4<{name}>")
    } else {
        name.to_string()
    }
}

/// The type of an element of two or four bytes in memory.
fn word(dtype: DType) -> &'static str {
    match dtype {
        DType::Bool => "u32",
        other => other.name(),
    }
}

/// What is read at `places` of a buffer: an element at each, or a whole vector at the only one where `vector`. And the
/// template that makes a value of it.
pub fn load(dtype: DType, buffer: &str, places: &[String], vector: bool) -> (&'static str, String) {
    let element = |at: &String| match dtype {
        DType::I8 => format!("extractBits(i32({buffer}[{at} >> 2u]), ({at} & 3u) * 8u, 8u)"),
        DType::U8 => format!("extractBits({buffer}[{at} >> 2u], ({at} & 3u) * 8u, 8u)"),
        _ => format!("{buffer}[{at}]"),
    };
    let value = match places {
        [at] if vector => format!("{buffer}[{at} >> 2u]"),
        [at] => element(at),
        places => {
            let each: Vec<String> = places.iter().map(element).collect();
            let name = if dtype.size() == 1 { dtype.compute().name() } else { word(dtype) };
            format!("vec4<{name}>({})", each.join(", "))
        }
    };
    let template = match dtype {
        DType::F16 => "{f32}({x})",
        DType::Bool => "{x} != {u32}()",
        DType::I8 if vector => "({i32}(i32({x})) << vec4<u32>(24u, 16u, 8u, 0u)) >> {u32}(24u)",
        DType::U8 if vector => "({u32}({x}) >> vec4<u32>(0u, 8u, 16u, 24u)) & {u32}(255u)",
        DType::F32 | DType::I32 | DType::U32 | DType::I8 | DType::U8 => "{x}",
    };
    (template, value)
}

/// The template of what is written of a value, or of four.
pub fn stored(dtype: DType, wide: bool) -> &'static str {
    match dtype {
        DType::F16 => "{f16}({x})",
        DType::Bool => "{u32}({x})",
        DType::I8 | DType::U8 if wide => {
            "dot(({u32}({x}) & {u32}(255u)) << vec4<u32>(0u, 8u, 16u, 24u), {u32}(1u))"
        }
        DType::I8 | DType::U8 => "({u32}({x}) & 255u)",
        DType::F32 | DType::I32 | DType::U32 => "{x}",
    }
}

/// The statements that write that to a place of an output.
pub fn store(dtype: DType, output: u32, at: &str, stored: &str, wide: bool) -> String {
    match dtype.size() {
        1 if !wide => {
            let word = format!("&out{output}[{at} >> 2u]");
            let shift = format!("(({at} & 3u) * 8u)");
            format!(
                "atomicAnd({word}, ~(255u << {shift}));\natomicOr({word}, {stored} << {shift});\n"
            )
        }
        _ if wide => format!("out{output}[{at} >> 2u] = {stored};\n"),
        _ => format!("out{output}[{at}] = {stored};\n"),
    }
}

/// The template for a conversion: what is stored as `to` is rounded, or wraps, as if it had been stored and read again.
pub fn cast(to: DType, from: DType, wide: bool) -> &'static str {
    let float = from.is_float();
    match to {
        // Not by `quantizeToF16`, which may make subnormal halves 0.
        DType::F16 if float && wide => {
            "{f32}(unpack2x16float(pack2x16float({x}.xy)), unpack2x16float(pack2x16float({x}.zw)))"
        }
        DType::F16 if float => "unpack2x16float(pack2x16float(vec2<f32>({x}, 0.0))).x",
        // Integers of 8 bits saturate from floats, and wrap from other integers.
        DType::I8 if float => {
            "select({i32}(clamp({x}, {f32}(-128.0), {f32}(127.0))), {i32}(), {is_nan}({x}))"
        }
        DType::U8 if float => {
            "select({u32}(clamp({x}, {f32}(), {f32}(255.0))), {u32}(), {is_nan}({x}))"
        }
        DType::I8 => "({i32}({x}) << {u32}(24u)) >> {u32}(24u)",
        DType::U8 => "{u32}({x}) & {u32}(255u)",
        _ if to.compute() == from => "{x}",
        DType::I32 if float => "{to_i32}({x})",
        DType::U32 if float => "{to_u32}({x})",
        DType::F32 | DType::F16 => "{f32}({x})",
        DType::I32 => "{i32}({x})",
        DType::U32 => "{u32}({x})",
        DType::Bool => "{bool}({x})",
    }
}
