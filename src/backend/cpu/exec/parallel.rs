//! Threads: natively a pool of the backend's own, in a browser plain loops. Work is always cut by its shape alone,
//! so that results do not depend on how many threads there are.

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

    /// How long a thread looks for work before it sleeps.
    const PATIENCE: Duration = Duration::from_micros(500);

    /// Where the work of a backend runs.
    #[derive(Clone)]
    pub struct Pool(Option<Arc<rayon::ThreadPool>>);

    impl Pool {
        /// One pool for the process, with a thread per core (or as `RAYON_NUM_THREADS` says).
        pub fn shared() -> Pool {
            static SHARED: OnceLock<Pool> = OnceLock::new();
            SHARED.get_or_init(|| Pool::with_threads(0)).clone()
        }

        /// A pool of this many threads.
        pub fn with_threads(threads: usize) -> Pool {
            let builder = rayon::ThreadPoolBuilder::new().num_threads(threads);
            let named = builder.thread_name(|i| format!("warpweft-cpu-{i}"));
            Pool(named.build().ok().map(Arc::new))
        }

        /// The number of threads.
        pub fn threads(&self) -> usize {
            self.0.as_ref().map_or(1, |pool| pool.current_num_threads())
        }

        /// Runs `work` on the pool and waits for it. If it is of many kernels, other threads wait for their parts without
        /// sleeping.
        pub fn enter<T: Send>(&self, kernels: usize, work: impl FnOnce() -> T + Send) -> T {
            let Some(pool) = &self.0 else {
                // No thread could be started: rayon then does everything on this one.
                return work();
            };
            let work = || if kernels >= MIN_KERNELS_TO_STAY_AWAKE { awake(work) } else { work() };
            if rayon::current_thread_index().is_none() {
                return pool.install(work);
            }
            // A worker of the caller's own pool would take up other work while it waits; that work may come back here
            // and wait for the lock we hold. A plain thread just waits.
            std::thread::scope(|scope| match scope.spawn(|| pool.install(work)).join() {
                Ok(value) => value,
                Err(panic) => std::panic::resume_unwind(panic),
            })
        }
    }

    /// Does `work` while others of the pool's threads look out for parts of it. To wake a thread takes longer than many a
    /// kernel.
    fn awake<T: Send>(work: impl FnOnce() -> T + Send) -> T {
        let (over, leader) = (AtomicBool::new(false), rayon::current_thread_index());
        rayon::scope(|scope| {
            for _ in 1..rayon::current_num_threads().min(MAX_AWAKE_THREADS) {
                scope.spawn(|_| {
                    // Whoever does the work may find this while it waits for others.
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

    /// The number of threads work is spread over here.
    pub fn threads() -> usize {
        rayon::current_num_threads()
    }

    /// Does `f` for each item, in any order.
    pub fn for_each<T: Send>(mut items: Vec<T>, f: impl Fn(T) + Send + Sync) {
        match items.len() {
            0 => {}
            1 => f(items.remove(0)),
            _ => items.into_par_iter().for_each(f),
        }
    }

    /// `f` of each item, in the items' order.
    pub fn map<T: Send, R: Send>(items: Vec<T>, f: impl Fn(T) -> R + Send + Sync) -> Vec<R> {
        items.into_par_iter().map(f).collect()
    }
}

#[cfg(target_arch = "wasm32")]
mod single {
    /// Where the work of a backend runs.
    #[derive(Clone)]
    pub struct Pool;

    impl Pool {
        /// The one thread there is.
        pub fn shared() -> Pool {
            Pool
        }

        /// The one thread there is.
        pub fn with_threads(_: usize) -> Pool {
            Pool
        }

        /// The number of threads.
        pub fn threads(&self) -> usize {
            1
        }

        /// Runs `work`.
        pub fn enter<T>(&self, _: usize, work: impl FnOnce() -> T) -> T {
            work()
        }
    }

    /// The number of threads work is spread over here.
    pub fn threads() -> usize {
        1
    }

    /// Does `f` for each item.
    pub fn for_each<T>(items: Vec<T>, f: impl Fn(T)) {
        items.into_iter().for_each(f);
    }

    /// `f` of each item, in the items' order.
    pub fn map<T, R>(items: Vec<T>, f: impl Fn(T) -> R) -> Vec<R> {
        items.into_iter().map(f).collect()
    }
}
