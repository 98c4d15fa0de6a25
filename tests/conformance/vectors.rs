//! Reads the vectors: a JSON file with cases, and a file with the bytes of all their tensors.

use super::limits::Limit;
use serde_json::{Map, Value};
use std::rc::Rc;
use warpweft::dtype::DType;

/// An element type as the vectors name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    F32,
    F16,
    I32,
    U32,
    I64,
    U64,
    I8,
    U8,
    I16,
    U16,
    /// One value per byte, like `U4`.
    I4,
    U4,
    /// One value per byte, 0 or 1.
    Bool,
}

/// The names, bytes per element in the vectors, and smallest and largest value of an integer.
const KINDS: &[(Kind, &str, usize, i128, i128)] = &[
    (Kind::F32, "f32", 4, 0, 0),
    (Kind::F16, "f16", 2, 0, 0),
    (Kind::I32, "i32", 4, i32::MIN as i128, i32::MAX as i128),
    (Kind::U32, "u32", 4, 0, u32::MAX as i128),
    (Kind::I64, "i64", 8, i64::MIN as i128, i64::MAX as i128),
    (Kind::U64, "u64", 8, 0, u64::MAX as i128),
    (Kind::I8, "i8", 1, -128, 127),
    (Kind::U8, "u8", 1, 0, 255),
    (Kind::I16, "i16", 2, -32768, 32767),
    (Kind::U16, "u16", 2, 0, 65535),
    (Kind::I4, "i4", 1, -8, 7),
    (Kind::U4, "u4", 1, 0, 15),
    (Kind::Bool, "bool", 1, 0, 1),
];

impl Kind {
    fn row(self) -> &'static (Kind, &'static str, usize, i128, i128) {
        KINDS.iter().find(|row| row.0 == self).expect("every kind has a row")
    }

    /// Returns the kind with this name: `f32`, or as WebNN writes it, `float32`.
    pub fn named(name: &str) -> Option<Kind> {
        let short = match name {
            "float32" => "f32",
            "float16" => "f16",
            name => &name.replace("uint", "u").replace("int", "i"),
        };
        KINDS.iter().find(|row| row.1 == short).map(|row| row.0)
    }

    pub fn name(self) -> &'static str {
        self.row().1
    }

    /// Returns the bytes per element in the vectors.
    pub fn size(self) -> usize {
        self.row().2
    }

    /// Returns the smallest and the largest value of an integer.
    pub fn range(self) -> (i128, i128) {
        (self.row().3, self.row().4)
    }

    /// Returns the library's dtype that stores inputs of this kind.
    pub fn held(self) -> DType {
        match self {
            Kind::F32 => DType::F32,
            Kind::F16 => DType::F16,
            Kind::U32 => DType::U32,
            Kind::Bool => DType::Bool,
            _ => DType::I32,
        }
    }

    /// Whether a result of the library's dtype `dtype` has this kind. WebNN's comparisons return 0 and 1 as `u8`.
    pub fn holds(self, dtype: DType) -> bool {
        dtype == self.held() || self == Kind::U8 && dtype == DType::Bool
    }

    /// Truncates an integer to this type's bits, because some inputs of 4 bits have more.
    pub fn cut(self, value: i128) -> i128 {
        let (low, high) = self.range();
        (value - low).rem_euclid(high - low + 1) + low
    }

    /// Returns elements of an integer type from their bytes.
    pub fn integers(self, bytes: &[u8]) -> Vec<i128> {
        let (low, _) = self.range();
        let width = 8 * self.size();
        let value = |element: &[u8]| {
            let bits = element.iter().rev().fold(0u64, |bits, &b| bits << 8 | u64::from(b));
            let upper = bits << (64 - width);
            match low {
                0 => i128::from(upper >> (64 - width)),
                _ => i128::from(upper as i64 >> (64 - width)),
            }
        };
        bytes.chunks_exact(self.size()).map(value).collect()
    }
}

/// A tensor of a case: an input, or an expected output.
pub struct Data {
    pub name: String,
    pub kind: Kind,
    pub shape: Vec<usize>,
    pub content: Content,
}

/// The elements of a tensor.
pub enum Content {
    /// Row-major, little-endian bytes.
    Bytes(Vec<u8>),
    /// The same value for all elements.
    Filled(f64),
}

/// A call: its arguments and options in one map, and the names of its results.
pub struct Operator {
    pub name: String,
    pub arguments: Map<String, Value>,
    pub outputs: Vec<String>,
}

/// One case.
pub struct Case {
    pub suite: Rc<str>,
    /// The tested operation, named like the suite's files.
    pub op: String,
    pub name: String,
    pub inputs: Vec<Data>,
    pub outputs: Vec<Data>,
    pub operators: Vec<Operator>,
    /// The allowed error of results. `None` if it is computed from the operators.
    pub limit: Option<Limit>,
}

impl Case {
    /// Whether an input or output has `f16` numbers.
    pub fn half(&self) -> bool {
        self.inputs.iter().chain(&self.outputs).any(|data| data.kind == Kind::F16)
    }
}

/// Parses the cases of a set from the contents of its two files.
pub fn parse(json: &str, bytes: &[u8]) -> Result<Vec<Case>, String> {
    let root: Value = serde_json::from_str(json).map_err(|error| error.to_string())?;
    if root["format"] != 1 {
        return Err(format!("format {} instead of 1", root["format"]));
    }
    let cases = root["cases"].as_array().ok_or("there is no list of cases")?;
    let mut parsed = Vec::with_capacity(cases.len());
    for (n, case) in cases.iter().enumerate() {
        let located = |what| format!("case {n}, {}: {what}", case["name"]);
        parsed.push(parse_case(case, bytes).map_err(located)?);
    }
    Ok(parsed)
}

fn parse_case(case: &Value, bytes: &[u8]) -> Result<Case, String> {
    let tensors = |key: &str| -> Result<Vec<Data>, String> {
        list(case, key)?.iter().map(|tensor| parse_data(tensor, bytes)).collect()
    };
    let limit = match &case["tolerance"] {
        Value::Null => None,
        given => Some(Limit::parse(given)?),
    };
    Ok(Case {
        suite: text(case, "suite")?.into(),
        op: text(case, "op")?.to_string(),
        name: text(case, "name")?.to_string(),
        inputs: tensors("inputs")?,
        outputs: tensors("outputs")?,
        operators: list(case, "operators")?.iter().map(parse_operator).collect::<Result<_, _>>()?,
        limit,
    })
}

fn parse_data(tensor: &Value, bytes: &[u8]) -> Result<Data, String> {
    let name = text(tensor, "name")?.to_string();
    let dtype = text(tensor, "dtype")?;
    let kind = Kind::named(dtype).ok_or_else(|| format!("{name}: no type {dtype}"))?;
    let extent = |value: &Value| value.as_u64().map(|n| n as usize);
    let shape: Option<Vec<usize>> = list(tensor, "shape")?.iter().map(extent).collect();
    let shape = shape.ok_or_else(|| format!("{name}: a shape that is none"))?;
    if let Some(fill) = tensor.get("fill") {
        let value = fill.as_f64().ok_or_else(|| format!("{name}: filled with {fill}"))?;
        return Ok(Data { name, kind, shape, content: Content::Filled(value) });
    }
    let (off, len) = (extent(&tensor["off"]), extent(&tensor["len"]));
    let range = off.zip(len).and_then(|(off, len)| bytes.get(off..off.checked_add(len)?));
    let range = range.ok_or_else(|| format!("{name}: its bytes are not there"))?;
    let count: usize = shape.iter().product();
    if range.len() != count * kind.size() {
        let (have, size) = (range.len(), kind.size());
        return Err(format!("{name}: {have} bytes for {count} elements of {size}"));
    }
    Ok(Data { name, kind, shape, content: Content::Bytes(range.to_vec()) })
}

/// Parses an operator. Arguments are a list of objects, mostly with one key each. One of them has the options.
fn parse_operator(operator: &Value) -> Result<Operator, String> {
    let name = text(operator, "name")?.to_string();
    let mut arguments = Map::new();
    for argument in list(operator, "arguments")?.iter().filter(|a| !a.is_null()) {
        let keys = argument.as_object().ok_or_else(|| format!("{name}: argument {argument}"))?;
        for (key, value) in keys {
            match value.as_object().filter(|_| key == "options") {
                Some(options) => arguments.extend(options.clone()),
                None => drop(arguments.insert(key.clone(), value.clone())),
            }
        }
    }
    let word = |value: &Value| value.as_str().map(str::to_string);
    let outputs: Option<Vec<String>> = match &operator["outputs"] {
        Value::Array(names) => names.iter().map(word).collect(),
        one => word(one).map(|one| vec![one]),
    };
    let outputs = outputs.ok_or_else(|| format!("{name}: outputs {}", operator["outputs"]))?;
    Ok(Operator { name, arguments, outputs })
}

fn text<'a>(value: &'a Value, key: &str) -> Result<&'a str, String> {
    value[key].as_str().ok_or_else(|| format!("{key} is {} and no text", value[key]))
}

fn list<'a>(value: &'a Value, key: &str) -> Result<&'a Vec<Value>, String> {
    value[key].as_array().ok_or_else(|| format!("{key} is {} and no list", value[key]))
}
