//! Loops compiled for the vector instructions of the machine they run on, chosen at run time.

/// A loop. Its `run` must be `#[inline(always)]`, so that it is compiled anew for each set of instructions.
pub(super) trait Loop {
    type Output;
    fn run(self) -> Self::Output;
}

/// Runs a loop with the best instructions there are. They change its speed, never its result.
#[cfg(not(target_arch = "wasm32"))]
#[inline(always)]
pub(super) fn run<L: Loop>(work: L) -> L::Output {
    use std::sync::OnceLock;

    static BEST: OnceLock<pulp::Arch> = OnceLock::new();

    struct With<L>(L);
    impl<L: Loop> pulp::WithSimd for With<L> {
        type Output = L::Output;
        #[inline(always)]
        fn with_simd<S: pulp::Simd>(self, _: S) -> L::Output {
            self.0.run()
        }
    }
    BEST.get_or_init(pulp::Arch::new).dispatch(With(work))
}

/// In a browser instructions are chosen when the module is built.
#[cfg(target_arch = "wasm32")]
#[inline(always)]
pub(super) fn run<L: Loop>(work: L) -> L::Output {
    work.run()
}
