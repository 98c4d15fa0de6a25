//! Helper functions that WGSL lacks or leaves unspecified in special cases, and templates that call them.
//!
//! In a template, `{x}` and `{y}` are the operands. `{f32}`, `{i32}`, `{u32}`, `{bool}` and `{f16}` are types, or `vec4`s of
//! them if four elements are computed at a time. The name of a helper in braces is the helper for these types. All other
//! braces are WGSL.

use crate::dtype::DType;

/// The helpers, each with its name and its text without `fn`. All of them may call the first one.
///
/// Helpers test bits, because compilers may assume that no comparison has a NaN.
pub const HELPERS: [(&str, &str); 13] = [
    (
        "is_nan",
        "{is_nan}(x: {f32}) -> {bool} {
    return (bitcast<{u32}>(x) & {u32}(0x7fffffffu)) > {u32}(0x7f800000u);
    }",
    ),
    // Maximum and minimum that return NaN if either argument is NaN.
    (
        "max_nan",
        "{max_nan}(x: {f32}, y: {f32}) -> {f32} {
    return select(select(max(x, y), y, {is_nan}(y)), x, {is_nan}(x));
    }",
    ),
    (
        "min_nan",
        "{min_nan}(x: {f32}, y: {f32}) -> {f32} {
    return select(select(min(x, y), y, {is_nan}(y)), x, {is_nan}(x));
    }",
    ),
    // Returns `y`, or NaN if `x` is NaN. Some compilers' functions lose the NaN.
    (
        "keep_nan",
        "{keep_nan}(x: {f32}, y: {f32}) -> {f32} {
    return select(y, x, {is_nan}(x));
    }",
    ),
    // Returns `y`, a logarithm of `x`, with the special cases of IEEE 754 for 0, Inf and NaN.
    (
        "log_of",
        "{log_of}(x: {f32}, y: {f32}) -> {f32} {
    let r = select(y, {f32}(bitcast<f32>(params[0].y)), x == {f32}());
    let s = select(r, x, {is_nan}(x) | (x == {f32}(bitcast<f32>(params[0].z))));
    return select(s, {f32}(bitcast<f32>(params[0].w)), x < {f32}());
    }",
    ),
    // The power for `x >= 0`, with the special cases of 0, 1, Inf and NaN.
    (
        "power",
        "{power}(x: {f32}, y: {f32}) -> {f32} {
    let inf = {f32}(bitcast<f32>(params[0].z));
    let edge = select({f32}(), inf, (x == {f32}()) == (y < {f32}()));
    let r = select(pow(x, y), edge, (x == {f32}()) | (x == inf));
    let s = select(r, x + y, {is_nan}(x) | {is_nan}(y));
    return select(s, {f32}(1.0), (x == {f32}(1.0)) | (y == {f32}()));
    }",
    ),
    (
        "angle",
        "{angle}(y: {f32}, x: {f32}) -> {f32} {
    let half_turn = select({f32}(3.1415927), {f32}(-3.1415927), bitcast<{i32}>(y) < {i32}());
    let r = select(atan2(y, x), select(y, half_turn, x < {f32}()), y == {f32}());
    return select(r, x + y, {is_nan}(x) | {is_nan}(y));
    }",
    ),
    // The sine of `x` plus a number of quarter turns. `y` is the device's sine, which may be inaccurate beyond 2^-11. The
    // argument is reduced by quarter turns to an eighth of a turn (Cody and Waite), and then polynomials are used.
    (
        "sine",
        "{sine}(x: {f32}, quarters: {i32}, y: {f32}) -> {f32} {
    let n = round(x * 0.63661977);
    let r = ((x - n * 1.5703125) - n * 0.00048375129699707031) - n * 7.549789948768648e-8;
    let z = r * r;
    let s = r + r * z * (z * (z * -0.00019515295891 + 0.0083321608736) - 0.16666654611);
    let c = z * z * (z * (z * 2.4433157e-5 - 0.0013887316) + 0.041666646) - 0.5 * z + 1.0;
    let q = {i32}(n) + quarters;
    let v = select(s, c, (q & {i32}(1)) == {i32}(1));
    let w = select(v, -v, (q & {i32}(2)) == {i32}(2));
    return select(w, y, (x == {f32}()) | (abs(x) > {f32}(20000.0)));
    }",
    ),
    // C's `fmodf`, exact for any number of digits of the quotient. It divides the mantissas by long division, eight bits at a
    // time, because a remainder has 24 bits and can be shifted by 8. It takes one step for quotients below 2^8, and none
    // below 1.
    (
        "remainder",
        "{remainder}(x: {f32}, y: {f32}) -> {f32} {
    let a = bitcast<{u32}>(x) & {u32}(0x7fffffffu);
    let b = bitcast<{u32}>(y) & {u32}(0x7fffffffu);
    let exponent = max(b >> {u32}(23u), {u32}(1u));
    let divisor = (b & {u32}(0x7fffffu)) | (min(b >> {u32}(23u), {u32}(1u)) << {u32}(23u));
    var r = (a & {u32}(0x7fffffu)) | (min(a >> {u32}(23u), {u32}(1u)) << {u32}(23u));
    var left = max(max(a >> {u32}(23u), {u32}(1u)), exponent) - exponent;
    r %= divisor;
    while (any(left > {u32}())) {
    let bits = min(left, {u32}(8u));
    r = (r << bits) % divisor;
    left -= bits;
    }
    let up = min(countLeadingZeros(r) - {u32}(8u), exponent - {u32}(1u));
    r = select((r << up) + ((exponent - up - {u32}(1u)) << {u32}(23u)), {u32}(), r == {u32}());
    r = select(r, a, a < b) | (bitcast<{u32}>(x) & {u32}(0x80000000u));
    let none = (a >= {u32}(0x7f800000u)) | (b == {u32}()) | (b > {u32}(0x7f800000u));
    return bitcast<{f32}>(select(r, {u32}(params[0].w), none));
    }",
    ),
    // Decodes the lower 16 bits, which are a finite `f16`. Its exponents are 112 less than those of `f32`. Below the least
    // exponent, numbers are multiples of 2^-24, which `unpack2x16float` may flush to 0.
    (
        "half_of",
        "{half_of}(bits: {u32}) -> {f32} {
    let size = bits & {u32}(0x7fffu);
    let normal = bitcast<{f32}>((size << {u32}(13u)) + {u32}(0x38000000u));
    let number = select(normal, {f32}(size) * {f32}(0x1p-24f), size < {u32}(0x400u));
    return bitcast<{f32}>(bitcast<{u32}>(number) | ((bits & {u32}(0x8000u)) << {u32}(16u)));
    }",
    ),
    // Returns half of the power of two with an 8-bit exponent. The two smallest exponents are subnormal in `f32`.
    (
        "half_of_power",
        "{half_of_power}(exponent: {u32}) -> {f32} {
    let small = {u32}(0x200000u) << (exponent & {u32}(1u));
    let normal = (exponent - {u32}(1u)) << {u32}(23u);
    return bitcast<{f32}>(select(normal, small, exponent < {u32}(2u)));
    }",
    ),
    // Converts with saturation. NaN becomes 0.
    (
        "to_i32",
        "{to_i32}(x: {f32}) -> {i32} {
    let i = {i32}(clamp(x, {f32}(-2147483648.0), {f32}(2147483520.0)));
    return select(select(i, {i32}(2147483647), x >= {f32}(2147483648.0)), {i32}(), {is_nan}(x));
    }",
    ),
    (
        "to_u32",
        "{to_u32}(x: {f32}) -> {u32} {
    let i = {u32}(clamp(x, {f32}(), {f32}(4294967040.0)));
    return select(select(i, {u32}(4294967295u), x >= {f32}(4294967296.0)), {u32}(), {is_nan}(x));
    }",
    ),
];

/// A name in braces in a template.
pub enum Name {
    X,
    Y,
    Type(DType),
    /// A helper, by its index.
    Helper(usize),
}

impl Name {
    /// Parses the name in a template. Any other name is a bug in the template.
    fn parse(name: &str) -> Name {
        let types = [DType::F32, DType::F16, DType::I32, DType::U32, DType::Bool];
        let dtype = types.into_iter().find(|dtype| dtype.name() == name);
        let helper = HELPERS.iter().position(|helper| helper.0 == name);
        match (name, dtype, helper) {
            ("x", ..) => Name::X,
            ("y", ..) => Name::Y,
            (_, Some(dtype), _) => Name::Type(dtype),
            (.., Some(helper)) => Name::Helper(helper),
            _ => unreachable!("a template names {name}"),
        }
    }
}

/// Splits a template into pairs of a text and the name after it.
pub fn parts(template: &str) -> impl Iterator<Item = (&str, Option<Name>)> {
    let mut rest = Some(template);
    std::iter::from_fn(move || {
        let all = rest?;
        let mut from = 0;
        while let Some(open) = all[from..].find('{').map(|at| from + at) {
            let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
            let name = all[open + 1..].split(|c| !word(c)).next().unwrap_or_default();
            from = open + 1 + name.len();
            if all[from..].starts_with('}') && !name.is_empty() {
                rest = Some(&all[from + 1..]);
                return Some((&all[..open], Some(Name::parse(name))));
            }
        }
        rest = None;
        Some((all, None))
    })
}
