//! All native tests, in one binary.
#![cfg(not(target_arch = "wasm32"))]

mod bench;
mod caches;
mod completion;
#[path = "../conformance/mod.rs"]
mod conformance;
mod conversions;
mod costs;
mod cpu;
mod cuda;
mod custom_lifetimes;
mod deferred;
mod devices;
mod differential;
mod distributed;
mod dynamic_shapes;
mod edges;
mod example_backend;
mod exit;
mod faults;
mod features;
mod fuzz;
mod gpu;
mod history;
mod interop;
mod io;
mod js;
mod late_drops;
mod linalg_kernels;
mod loss_kernels;
mod lru;
mod memory;
mod micrograd;
mod model;
mod plan;
mod poison;
mod profile_counts;
#[path = "../programs/mod.rs"]
mod programs;
mod readme;
mod reference;
mod refused;
mod run_conformance;
mod run_programs;
mod schedules;
mod shaders;
#[path = "../shared/mod.rs"]
mod shared;
#[allow(dead_code)] // The library is compiled without its own tests, so those of this file run here.
#[path = "../../src/sorted.rs"]
mod sorted;
mod state;
mod suite;
mod table;
mod text;
mod tidy;
mod train;
mod training_costs;
mod translations;
mod tune;
mod wrapper;
