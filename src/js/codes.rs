//! The operations JavaScript asks for by number, other than the rows of the pointwise table. This file names nothing
//! else of the crate: the test that writes `www/src/generated/codes.ts` reads it too.

macro_rules! codes {
    ($($name:ident)*) => {
        /// An operation by number.
        // Written as the methods are, so that an operation is named once.
        #[allow(non_camel_case_types)]
        #[derive(Clone, Copy, PartialEq, Eq)]
        pub enum Code { $($name),* }

        impl Code {
            /// All, by number.
            pub const ALL: &'static [Code] = &[$(Code::$name),*];

            /// The method's name.
            pub fn name(self) -> &'static str {
                NAMES[self as usize]
            }
        }

        /// The methods' names, by number.
        pub const NAMES: &[&str] = &[$(stringify!($name)),*];
    };
}

codes! {
    full iota arange
    cast reshape permute transpose expand unsqueeze squeeze slice flip pad concat
    sum prod max min any all mean softmax matmul detach
    linspace eye uniform normal bernoulli
    stack index_select unfold unpack unpack_bf16 dequantize pad_with tril triu one_hot tile roll dropout
    var std argmax argmin logsumexp norm_l1 norm_l2 norm_linf
    log_softmax layer_norm rms_norm batch_norm group_norm instance_norm
    outer dot rotary attention
    conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d
    max_pool max_pool_indices avg_pool l2_pool adaptive_avg_pool resize resample
    cumsum cumprod cummax cummin argsort top_k take_along scatter scatter_add scatter_reduce index_add gather_nd
    scatter_nd masked_fill eigh
}

/// What a function of the face can be asked for, by number: a constant each, and the names.
macro_rules! numbered {
    ($(#[doc = $doc:literal] $list:ident: $($name:ident)*;)*) => {
        $(
            #[doc = $doc]
            // The test that reads this file takes the names alone.
            #[allow(non_upper_case_globals, missing_docs, dead_code)]
            pub mod $list {
                numbered!(@ 0, $($name)*);
                /// All, by number.
                pub const NAMES: &[&str] = &[$(stringify!($name)),*];
            }
        )*
        /// The lists: a name, what it is, and what is in it.
        pub const LISTS: &[(&str, &str, &[&str])] = &[$((stringify!($list), $doc, $list::NAMES)),*];
    };
    (@ $number:expr,) => {};
    (@ $number:expr, $first:ident $($rest:ident)*) => {
        pub const $first: u32 = $number;
        numbered!(@ $number + 1, $($rest)*);
    };
}

numbered! {
    /// What a core's `ask` is asked for.
    ask: describe figures trim flush run last_plan program_plan run_program grad run_batch plan_batch keep variants;
    /// What a core's `later` does.
    later: open sync read tune;
    /// What a core's `words` tells of.
    words: device source plan variants;
}

/// The number of the pointwise table's first row as an operation.
pub const FIRST_ROW: u32 = 1000;

/// Element types by number, as JavaScript has them.
pub const DTYPES: &[&str] = &["f32", "f16", "i32", "u32", "bool"];

/// Continues a fingerprint (FNV-1a) with a name and a count.
pub const fn fingerprint(mut hash: u32, name: &str, count: usize) -> u32 {
    let bytes = name.as_bytes();
    let mut i = 0;
    while i < bytes.len() {
        hash = (hash ^ bytes[i] as u32).wrapping_mul(0x0100_0193);
        i += 1;
    }
    (hash ^ count as u32).wrapping_mul(0x0100_0193)
}

/// The fingerprint of the types, codes and lists; the pointwise table's rows continue it.
pub const CODES_FINGERPRINT: u32 = {
    let mut hash = fingerprint_all(fingerprint_all(0x811c_9dc5, DTYPES), NAMES);
    let mut list = 0;
    while list < LISTS.len() {
        hash = fingerprint_all(hash, LISTS[list].2);
        list += 1;
    }
    hash
};

const fn fingerprint_all(mut hash: u32, names: &[&str]) -> u32 {
    let mut i = 0;
    while i < names.len() {
        hash = fingerprint(hash, names[i], i);
        i += 1;
    }
    hash
}
