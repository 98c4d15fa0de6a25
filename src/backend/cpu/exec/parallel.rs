//! Threads: a separate pool natively, and plain loops in a browser. Work is always cut by its shape alone, so results do not
//! depend on the number of threads.

#[cfg(not(target_arch = "wasm32"))]
pub use native::{for_each, map, threads, Pool};
#[cfg(target_arch = "wasm32")]
pub use single::{for_each, map, threads, Pool};

#[cfg(not(target_arch = "wasm32"))]
mod native {
    use rayon::prelude::*;
    use rayon::Yield;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::{Arc, OnceLock};
    use std::time::{Duration, Instant};

    /// The most threads that stay awake together.
    const MAX_AWAKE_THREADS: usize = 8;

    /// The fewest kernels of a plan for which threads stay awake between kernels.
    const MIN_KERNELS_TO_STAY_AWAKE: usize = 16;

    /// The time for which a thread polls for work before it sleeps.
    const PATIENCE: Duration = Duration::from_micros(500);

    /// The threads for the work of a backend.
    #[derive(Clone)]
    pub struct Pool(Option<Arc<rayon::ThreadPool>>);

    impl Pool {
        /// Returns the pool of the process, with a thread for each core, or `RAYON_NUM_THREADS` threads.
        pub fn shared() -> Pool {
            static SHARED: OnceLock<Pool> = OnceLock::new();
            SHARED.get_or_init(|| Pool::with_threads(0)).clone()
        }

        /// Creates a pool of this many threads.
        pub fn with_threads(threads: usize) -> Pool {
            let builder = rayon::ThreadPoolBuilder::new().num_threads(threads);
            let named = builder.thread_name(|i| format!("warpweft-cpu-{i}"));
            Pool(named.build().ok().map(Arc::new))
        }

        /// Returns the number of threads.
        pub fn threads(&self) -> usize {
            self.0.as_ref().map_or(1, |pool| pool.current_num_threads())
        }

        /// Runs `work` on the pool and waits for it. If the work has many kernels, other threads poll for parts of it instead
        /// of sleeping.
        pub fn enter<T: Send>(&self, kernels: usize, work: impl FnOnce() -> T + Send) -> T {
            let Some(pool) = &self.0 else {
                // If no thread could be started, rayon runs everything on this thread.
                return work();
            };
            let work = || if kernels >= MIN_KERNELS_TO_STAY_AWAKE { awake(work) } else { work() };
            if rayon::current_thread_index().is_none() {
                return pool.install(work);
            }
            // A worker of another pool would take other work while it waits. That work could call this function and wait for
            // a lock that this thread holds. A plain thread only waits.
            std::thread::scope(|scope| match scope.spawn(|| pool.install(work)).join() {
                Ok(value) => value,
                Err(panic) => std::panic::resume_unwind(panic),
            })
        }
    }

    /// Runs `work` while other threads of the pool poll for parts of it. Waking a thread takes longer than many kernels.
    fn awake<T: Send>(work: impl FnOnce() -> T + Send) -> T {
        let (over, leader) = (AtomicBool::new(false), rayon::current_thread_index());
        rayon::scope(|scope| {
            for _ in 1..rayon::current_num_threads().min(MAX_AWAKE_THREADS) {
                scope.spawn(|_| {
                    // The thread that runs `work` may steal this task while it waits for others.
                    if rayon::current_thread_index() != leader {
                        look_out(&over);
                    }
                });
            }
            let result = work();
            over.store(true, Ordering::Relaxed);
            result
        })
    }

    fn look_out(over: &AtomicBool) {
        let mut idle = Instant::now();
        while !over.load(Ordering::Relaxed) && idle.elapsed() < PATIENCE {
            match rayon::yield_now() {
                Some(Yield::Executed) => idle = Instant::now(),
                _ => std::thread::yield_now(),
            }
        }
    }

    /// Returns the number of threads that work is distributed over.
    pub fn threads() -> usize {
        rayon::current_num_threads()
    }

    /// Calls `f` for each item, in any order.
    pub fn for_each<T: Send>(mut items: Vec<T>, f: impl Fn(T) + Send + Sync) {
        match items.len() {
            0 => {}
            1 => f(items.remove(0)),
            _ => items.into_par_iter().for_each(f),
        }
    }

    /// Returns `f` of each item, in the order of the items.
    pub fn map<T: Send, R: Send>(items: Vec<T>, f: impl Fn(T) -> R + Send + Sync) -> Vec<R> {
        items.into_par_iter().map(f).collect()
    }
}

#[cfg(target_arch = "wasm32")]
mod single {
    /// The threads for the work of a backend.
    #[derive(Clone)]
    pub struct Pool;

    impl Pool {
        /// Returns the only thread.
        pub fn shared() -> Pool {
            Pool
        }

        /// Returns the only thread.
        pub fn with_threads(_: usize) -> Pool {
            Pool
        }

        /// Returns the number of threads.
        pub fn threads(&self) -> usize {
            1
        }

        /// Runs `work`.
        pub fn enter<T>(&self, _: usize, work: impl FnOnce() -> T) -> T {
            work()
        }
    }

    /// Returns the number of threads that work is distributed over.
    pub fn threads() -> usize {
        1
    }

    /// Calls `f` for each item.
    pub fn for_each<T>(items: Vec<T>, f: impl Fn(T)) {
        items.into_iter().for_each(f);
    }

    /// Returns `f` of each item, in the order of the items.
    pub fn map<T, R>(items: Vec<T>, f: impl Fn(T) -> R) -> Vec<R> {
        items.into_iter().map(f).collect()
    }
}
