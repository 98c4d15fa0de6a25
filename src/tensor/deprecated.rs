//! Names that have changed, for one more release. Each passes its arguments on as they are.

use super::{kept, Operand, Pointwise, Tensor};
use crate::dtype::DType;
use crate::error::Result;

/// The old name of [`Operand`].
#[deprecated(since = "0.1.0", note = "it is `Operand`")]
pub type Value = Operand;

macro_rules! renamed {
    ($($new:ident, $note:literal: $old:ident($($arg:ident: $type:ty),*) -> $result:ty = |$x:ident| $call:expr;)*) => {
        impl Tensor { $(
        #[doc = concat!("The old name of [`Tensor::", stringify!($new), "`].")]
        ///
        /// # Errors
        /// As there.
        #[deprecated(since = "0.1.0", note = $note)]
        pub fn $old(&self $(, $arg: $type)*) -> $result {
            let $x = self;
            $call
        }
    )* } };
}

renamed! {
    bitcast, "it is `bitcast`":
        from_bits() -> Result<Tensor> = |x| x.bitcast(DType::F32);
    remainder, "it is `remainder`":
        floor_mod(y: impl Into<Operand>) -> Result<Tensor> = |x| x.remainder(y);
    fmod, "it is `fmod`":
        rem(y: impl Into<Operand>) -> Result<Tensor> = |x| x.fmod(y);
    reciprocal, "it is `reciprocal`":
        recip() -> Tensor = |x| x.reciprocal();
    bitwise_left_shift, "it is `bitwise_left_shift`":
        shl(count: impl Into<Operand>) -> Result<Tensor> = |x| x.bitwise_left_shift(count);
    bitwise_right_shift, "it is `bitwise_right_shift`":
        shr(count: impl Into<Operand>) -> Result<Tensor> = |x| x.bitwise_right_shift(count);
    gather, "it is `gather`":
        take_along(axis: isize, index: &Tensor) -> Result<Tensor> = |x| x.gather(axis, index);
    topk, "it is `topk`":
        top_k(axis: isize, k: usize, largest: bool) -> Result<(Tensor, Tensor)> = |x| x.topk(k, axis, largest);
}

macro_rules! keepdim_twins {
    ($($old:ident $new:ident;)*) => { impl Tensor { $(
        #[doc = concat!("[`Tensor::", stringify!($new), "`] with the axes kept, of extent 1.")]
        ///
        /// # Errors
        /// The same.
        #[deprecated(since = "0.1.0", note = "pass `Axes::from(axes).keepdim(true)`")]
        pub fn $old(&self, axes: &[isize]) -> Result<Tensor> {
            self.$new(kept(axes))
        }
    )* } };
}

keepdim_twins! {
    sum_keepdim sum;
    prod_keepdim prod;
    max_keepdim max;
    min_keepdim min;
    any_keepdim any;
    all_keepdim all;
    mean_keepdim mean;
    logsumexp_keepdim logsumexp;
    norm_l1_keepdim norm_l1;
    norm_l2_keepdim norm_l2;
    norm_linf_keepdim norm_linf;
}

macro_rules! spread_twins {
    ($($old:ident $new:ident;)*) => { impl Tensor { $(
        #[doc = concat!("[`Tensor::", stringify!($new), "`] with the axes kept, of extent 1.")]
        ///
        /// # Errors
        /// The same.
        #[deprecated(since = "0.1.0", note = "pass `Axes::from(axes).keepdim(true)`")]
        pub fn $old(&self, axes: &[isize], correction: f64) -> Result<Tensor> {
            self.$new(kept(axes), correction)
        }
    )* } };
}

spread_twins! {
    var_keepdim var;
    std_keepdim std;
}

/// The rows' old names.
#[allow(non_upper_case_globals)]
impl Pointwise {
    #[deprecated(since = "0.1.0", note = "it is `remainder`")]
    pub const floor_mod: Pointwise = Pointwise::remainder;
    #[deprecated(since = "0.1.0", note = "it is `fmod`")]
    pub const rem: Pointwise = Pointwise::fmod;
    #[deprecated(since = "0.1.0", note = "it is `reciprocal`")]
    pub const recip: Pointwise = Pointwise::reciprocal;
    #[deprecated(since = "0.1.0", note = "it is `where_cond`")]
    pub const select: Pointwise = Pointwise::where_cond;
    #[deprecated(since = "0.1.0", note = "it is `bitwise_left_shift`")]
    pub const shl: Pointwise = Pointwise::bitwise_left_shift;
    #[deprecated(since = "0.1.0", note = "it is `bitwise_right_shift`")]
    pub const shr: Pointwise = Pointwise::bitwise_right_shift;
}
