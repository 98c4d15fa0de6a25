//! Tables of functions of NVIDIA's libraries, which are loaded at run time, so that one program runs with and without them.
//!
//! Types and constants come from `cudarc`. Its functions are not called, because they panic without the library or a symbol,
//! and return enums, which must not have the codes of later versions.

/// Declares a table of functions, and the function that finds them. Each function returns a code, 0 for success. The signatures
/// must be those of `cudarc`, whose results are an enum of the same size.
macro_rules! functions {
    ($(#[$doc:meta])* $table:ident, $sys:ident -> $result:ident; $($name:ident($($argument:ident: $type:ty),*);)*) => {
        $(#[$doc])*
        #[allow(non_snake_case)]
        pub struct $table {
            $(pub $name: unsafe extern "C" fn($($argument: $type),*) -> u32,)*
        }

        $(const _: unsafe fn($($type),*) -> $result = $sys::$name;)*

        impl $table {
            /// Finds all functions in a library, or returns the name of a missing one.
            fn find(library: &'static libloading::Library) -> std::result::Result<$table, &'static str> {
                Ok($table {
                    $($name: {
                        // SAFETY: the symbol is NVIDIA's function, and its signature was compared with that of `cudarc` above.
                        let symbol = unsafe { library.get(concat!(stringify!($name), "\0").as_bytes()) };
                        *symbol.map_err(|_| stringify!($name))?
                    },)*
                })
            }
        }
    };
}

pub(crate) use functions;
