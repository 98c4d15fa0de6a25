//! Cases that are known to differ, each with the reason. The test fails for a failing case that is not listed, and for a listed
//! case that passes.

use super::vectors::Case;

/// Cases of a suite that differ for the same reason in some places.
pub struct Exception {
    pub suite: &'static str,
    /// The names of the places, as in reports.
    pub places: &'static [&'static str],
    pub why: &'static str,
    pub cases: &'static [&'static str],
}

impl Exception {
    /// Whether the exception applies to this case in this place.
    pub fn names(&self, case: &Case, place: &str) -> bool {
        *self.suite == *case.suite
            && self.places.contains(&place)
            && self.cases.contains(&case.name.as_str())
    }
}

/// All places where cases run.
const ALL: &[&str] =
    &["cpu", "wgpu", "wgpu without barriers", "webgpu", "cpu in a browser", "webgpu in Firefox"];

/// The places where tests run on lavapipe, which has the smallest limits.
const SMALL: &[&str] = &["wgpu", "wgpu without barriers", "webgpu in Firefox"];

/// All exceptions.
pub const EXCEPTIONS: &[Exception] = &[
    Exception {
        suite: "onnx",
        places: ALL,
        why: "shl and shr take the count modulo 32, as their documentation and WGSL say; ONNX shifts everything out",
        cases: &[
            "test_bitshift_left_int32_negative_shift",
            "test_bitshift_left_int32_shift_ge_width",
            "test_bitshift_right_int32_negative_shift",
            "test_bitshift_right_int32_shift_ge_width",
        ],
    },
    Exception {
        suite: "webnn",
        places: SMALL,
        why: "a tensor of 144 MB: one binding takes 128 MiB on lavapipe, and the error says so",
        cases: &["add float32 large inputs"],
    },
    Exception {
        suite: "webnn",
        places: ALL,
        why: "where a window reaches beyond the end the vectors have the sum of squares without its root: 8222.29 for 90.68",
        cases: &[
            "l2Pool2d float32 4D tensor options.roundingType=ceil",
            "l2Pool2d float32 4D tensor options.outputSizes ignores options.roundingType=floor",
        ],
    },
    Exception {
        suite: "webnn",
        places: ALL,
        why: "exact is -0.035951304, which we give to half a unit; the vectors have -0.035951179, of 1 + erf in f32",
        cases: &["batchNormalization options.axis=0 + gelu"],
    },
    Exception {
        suite: "webnn-newer",
        places: ALL,
        why: "the set lost its infinities: the bound is null, and NaN stands for the results",
        cases: &["minValue as Infinity", "maxValue as -Infinity"],
    },
    Exception {
        suite: "webnn-newer",
        places: ALL,
        why: "clamp keeps NaN, as its documentation says; the vectors make the bound of it where both bounds are equal",
        cases: &["minValue == maxValue"],
    },
];
