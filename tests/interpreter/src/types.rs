//! The fundamental types of PTX.

/// A type of an instruction, register or variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Type {
    Pred,
    /// Untyped bits.
    B(u8),
    /// Unsigned integers.
    U(u8),
    /// Signed integers in two's complement.
    S(u8),
    F16,
    F16x2,
    Bf16,
    Bf16x2,
    Tf32,
    F32,
    F64,
}

impl Type {
    /// The type of a suffix without its dot, such as `f32`.
    pub fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "pred" => Self::Pred,
            "f16" => Self::F16,
            "f16x2" => Self::F16x2,
            "bf16" => Self::Bf16,
            "bf16x2" => Self::Bf16x2,
            "tf32" => Self::Tf32,
            "f32" => Self::F32,
            "f64" => Self::F64,
            _ => {
                let bits = match name.get(1..)? {
                    "8" => 8,
                    "16" => 16,
                    "32" => 32,
                    "64" => 64,
                    "128" if name.starts_with('b') => 128,
                    _ => return None,
                };
                match name.as_bytes()[0] {
                    b'b' => Self::B(bits),
                    b'u' => Self::U(bits),
                    b's' => Self::S(bits),
                    _ => return None,
                }
            }
        })
    }

    /// The width in bits. A predicate has one bit.
    pub fn bits(self) -> u32 {
        match self {
            Self::Pred => 1,
            Self::B(bits) | Self::U(bits) | Self::S(bits) => u32::from(bits),
            Self::F16 | Self::Bf16 => 16,
            Self::F16x2 | Self::Bf16x2 | Self::Tf32 | Self::F32 => 32,
            Self::F64 => 64,
        }
    }

    /// The size in memory.
    pub fn bytes(self) -> usize {
        (self.bits() as usize).div_ceil(8)
    }

    pub fn is_signed(self) -> bool {
        matches!(self, Self::S(_))
    }

    /// Whether the type is an integer or untyped bits.
    pub fn is_integer(self) -> bool {
        matches!(self, Self::B(_) | Self::U(_) | Self::S(_))
    }

    /// Whether the type is a scalar or packed float.
    pub fn is_float(self) -> bool {
        !self.is_integer() && self != Self::Pred
    }

    /// The element of a packed type, or the type itself.
    pub fn element(self) -> Self {
        match self {
            Self::F16x2 => Self::F16,
            Self::Bf16x2 => Self::Bf16,
            other => other,
        }
    }

    pub fn is_packed(self) -> bool {
        matches!(self, Self::F16x2 | Self::Bf16x2)
    }

    /// Ones in the bits of the type.
    pub fn mask(self) -> u64 {
        mask(self.bits())
    }
}

/// The lowest `bits` bits.
pub fn mask(bits: u32) -> u64 {
    if bits >= 64 {
        u64::MAX
    } else {
        (1 << bits) - 1
    }
}

/// The value of the lowest `bits` bits, sign-extended.
pub fn sign_extend(value: u64, bits: u32) -> i64 {
    let shift = 64 - bits.clamp(1, 64);
    ((value << shift) as i64) >> shift
}

/// The state spaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Space {
    Generic,
    Global,
    Shared,
    Local,
    Const,
    /// The parameters of the kernel.
    Param,
    /// Parameters of device functions, which each thread has for itself.
    CallParam,
}

impl Space {
    /// The name in PTX.
    pub fn name(self) -> &'static str {
        match self {
            Self::Generic => "generic",
            Self::Global => "global",
            Self::Shared => "shared",
            Self::Local => "local",
            Self::Const => "const",
            Self::Param | Self::CallParam => "param",
        }
    }

    /// The generic address of offset zero in the space. Global addresses are generic addresses.
    pub fn window(self) -> u64 {
        match self {
            Self::Generic | Self::Global => 0,
            Self::Shared => 0x0100_0000_0000,
            Self::Local => 0x0200_0000_0000,
            Self::Const => 0x0300_0000_0000,
            Self::Param => 0x0400_0000_0000,
            Self::CallParam => 0x0500_0000_0000,
        }
    }

    /// The space of a generic address, and the address in that space.
    pub fn of_generic(address: u64) -> (Self, u64) {
        for space in [Self::Shared, Self::Local, Self::Const, Self::Param, Self::CallParam] {
            if address.wrapping_sub(space.window()) < 0x0100_0000_0000 {
                return (space, address - space.window());
            }
        }
        (Self::Global, address)
    }
}

/// The first address in shared, local, constant and parameter space. A pointer that lost its base is then out of bounds.
pub const FIRST_OFFSET: u64 = 1024;
