//! Loops that are compiled for several sets of vector instructions, one of which is chosen at run time.

/// A loop. Its functions must be `#[inline(always)]`, so that they are compiled for each set of instructions.
pub trait Loop: Sized {
    type Output;
    fn run(self) -> Self::Output;

    /// Runs the loop on machines with a fused multiply-add. [`f32::mul_add`] is one instruction there, and a function call on
    /// other machines.
    #[inline(always)]
    #[cfg_attr(target_arch = "wasm32", allow(dead_code))]
    fn run_fused(self) -> Self::Output {
        self.run()
    }
}

/// Runs a loop with the best available instructions. They change only its speed, and the result only if the loop overrides
/// [`run_fused`](Loop::run_fused).
#[cfg(not(target_arch = "wasm32"))]
#[inline(always)]
pub fn run<L: Loop>(work: L) -> L::Output {
    use std::sync::OnceLock;

    static BEST: OnceLock<pulp::Arch> = OnceLock::new();

    struct With<L>(L);
    impl<L: Loop> pulp::WithSimd for With<L> {
        type Output = L::Output;
        #[inline(always)]
        fn with_simd<S: pulp::Simd>(self, _: S) -> L::Output {
            if S::IS_SCALAR {
                self.0.run()
            } else {
                self.0.run_fused()
            }
        }
    }
    BEST.get_or_init(pulp::Arch::new).dispatch(With(work))
}

/// Runs a loop. In a browser, instructions are chosen when the module is built.
#[cfg(target_arch = "wasm32")]
#[inline(always)]
pub fn run<L: Loop>(work: L) -> L::Output {
    work.run()
}
