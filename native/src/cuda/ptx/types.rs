//! The types of WGSL, as trees with their layouts in memory. A value is a list of its scalars, the leaves of its type.

use crate::cuda::ptx::error::{Error, Result};
use crate::cuda::ptx::ir::{Operand, Ty};
use naga::proc::IndexableLength;
use naga::{Handle, Module, Scalar, ScalarKind, TypeInner};
use std::rc::Rc;

/// The most leaves of a value that is kept in registers, such as an array that is loaded as a whole.
pub const MAX_VALUE_LEAVES: usize = 4096;

/// A type.
#[derive(Clone, Debug, PartialEq)]
pub enum Type {
    Scalar(Ty),
    Vector(u32, Ty),
    /// Columns and rows.
    Matrix(u32, u32, Ty),
    Atomic(Ty),
    Array(Rc<Array>),
    Struct(Rc<Struct>),
}

/// An array type.
#[derive(Debug, PartialEq)]
pub struct Array {
    pub element: Type,
    /// `None` for an array whose length is that of its buffer.
    pub count: Option<u32>,
    /// Bytes between elements.
    pub stride: u32,
    leaves: usize,
}

/// A structure type.
#[derive(Debug, PartialEq)]
pub struct Struct {
    /// The members with their offsets in bytes.
    pub members: Vec<(Type, u32)>,
    pub bytes: u32,
    leaves: usize,
}

impl Type {
    /// Converts a type of naga.
    ///
    /// # Errors
    /// Fails for textures, samplers, pointers, cooperative matrices, and numbers of other widths.
    pub fn new(module: &Module, handle: Handle<naga::Type>) -> Result<Type> {
        Ok(match &module.types[handle].inner {
            TypeInner::Scalar(scalar) => Type::Scalar(scalar_type(*scalar)?),
            TypeInner::Vector { size, scalar } => Type::Vector(*size as u32, scalar_type(*scalar)?),
            TypeInner::Matrix { columns, rows, scalar } => {
                Type::Matrix(*columns as u32, *rows as u32, scalar_type(*scalar)?)
            }
            TypeInner::Atomic(scalar) => Type::Atomic(scalar_type(*scalar)?),
            TypeInner::Array { base, size, stride } => {
                let element = Type::new(module, *base)?;
                let count = match size.resolve(module.to_ctx()) {
                    Ok(IndexableLength::Known(count)) => Some(count),
                    Ok(IndexableLength::Dynamic) => None,
                    Err(_) => {
                        return Err(Error::new("the array's size is an override without a value"))
                    }
                };
                let leaves = element.leaves().saturating_mul(count.unwrap_or(0) as usize);
                Type::Array(Rc::new(Array { element, count, stride: *stride, leaves }))
            }
            TypeInner::Struct { members, span } => {
                let members: Result<Vec<_>> = members
                    .iter()
                    .map(|member| Ok((Type::new(module, member.ty)?, member.offset)))
                    .collect();
                let members = members?;
                let leaves =
                    members.iter().fold(0usize, |sum, (ty, _)| sum.saturating_add(ty.leaves()));
                Type::Struct(Rc::new(Struct { members, bytes: *span, leaves }))
            }
            inner => return Err(Error::new(format!("{} are not supported", plural(inner)))),
        })
    }

    /// Makes a structure of values. It has no layout, because it is never in memory.
    pub fn structure(members: Vec<Type>) -> Type {
        let leaves = members.iter().map(Type::leaves).sum();
        let members = members.into_iter().map(|ty| (ty, 0)).collect();
        Type::Struct(Rc::new(Struct { members, bytes: 0, leaves }))
    }

    /// Returns the number of scalars in a value.
    pub fn leaves(&self) -> usize {
        match self {
            Type::Scalar(_) | Type::Atomic(_) => 1,
            Type::Vector(size, _) => *size as usize,
            Type::Matrix(columns, rows, _) => (columns * rows) as usize,
            Type::Array(array) => array.leaves,
            Type::Struct(members) => members.leaves,
        }
    }

    /// Returns the size in bytes. An array without a length has none.
    pub fn bytes(&self) -> u64 {
        match self {
            Type::Scalar(ty) | Type::Atomic(ty) => u64::from(ty.bytes()),
            Type::Vector(size, ty) => u64::from(size * ty.bytes()),
            Type::Matrix(columns, rows, ty) => u64::from(columns * column_stride(*rows, *ty)),
            Type::Array(array) => u64::from(array.stride) * u64::from(array.count.unwrap_or(0)),
            Type::Struct(members) => u64::from(members.bytes),
        }
    }

    /// Returns the type of the scalars of a scalar, vector or matrix.
    pub fn scalar(&self) -> Option<Ty> {
        match self {
            Type::Scalar(ty) | Type::Vector(_, ty) | Type::Matrix(_, _, ty) | Type::Atomic(ty) => {
                Some(*ty)
            }
            Type::Array(_) | Type::Struct(_) => None,
        }
    }

    /// Returns this scalar, vector or matrix type with other scalars.
    pub fn with_scalar(&self, ty: Ty) -> Type {
        match self {
            Type::Vector(size, _) => Type::Vector(*size, ty),
            Type::Matrix(columns, rows, _) => Type::Matrix(*columns, *rows, ty),
            _ => Type::Scalar(ty),
        }
    }

    /// Returns the types of the leaves.
    ///
    /// # Errors
    /// Fails if there are more than [`MAX_VALUE_LEAVES`].
    pub fn leaf_types(&self) -> Result<Vec<Ty>> {
        if self.leaves() > MAX_VALUE_LEAVES {
            let count = self.leaves();
            return Err(Error::new(format!(
                "a value must have at most {MAX_VALUE_LEAVES} scalars, got {count}"
            )));
        }
        let mut leaves = Vec::with_capacity(self.leaves());
        self.push_leaves(&mut leaves);
        Ok(leaves)
    }

    fn push_leaves(&self, leaves: &mut Vec<Ty>) {
        match self {
            Type::Array(array) => {
                (0..array.count.unwrap_or(0)).for_each(|_| array.element.push_leaves(leaves));
            }
            Type::Struct(members) => {
                members.members.iter().for_each(|(ty, _)| ty.push_leaves(leaves))
            }
            _ => {
                let ty = self.scalar().unwrap_or(Ty::U32);
                leaves.extend((0..self.leaves()).map(|_| ty));
            }
        }
    }

    /// Returns the leaves of the zero value.
    pub fn zeros(&self) -> Result<Vec<Operand>> {
        Ok(self.leaf_types()?.into_iter().map(|ty| Operand::Const(ty.class(), 0)).collect())
    }

    /// Returns a part by its constant index: its type, its first leaf and its offset in bytes.
    pub fn part(&self, index: u32) -> Option<(Type, usize, u64)> {
        Some(match self {
            Type::Vector(size, ty) if index < *size => {
                (Type::Scalar(*ty), index as usize, u64::from(index * ty.bytes()))
            }
            Type::Matrix(columns, rows, ty) if index < *columns => {
                let offset = index * column_stride(*rows, *ty);
                (Type::Vector(*rows, *ty), (index * rows) as usize, u64::from(offset))
            }
            Type::Array(array) if array.count.is_none_or(|count| index < count) => {
                let leaf = array.element.leaves().saturating_mul(index as usize);
                (array.element.clone(), leaf, u64::from(array.stride) * u64::from(index))
            }
            Type::Struct(members) => {
                let (ty, offset) = members.members.get(index as usize)?;
                let before = &members.members[..index as usize];
                (ty.clone(), before.iter().map(|(ty, _)| ty.leaves()).sum(), u64::from(*offset))
            }
            _ => return None,
        })
    }

    /// Returns the element of a vector, matrix or array: its type, the number of elements if known, and the stride in bytes.
    pub fn elements(&self) -> Option<(Type, Option<u32>, u32)> {
        Some(match self {
            Type::Vector(size, ty) => (Type::Scalar(*ty), Some(*size), ty.bytes()),
            Type::Matrix(columns, rows, ty) => {
                (Type::Vector(*rows, *ty), Some(*columns), column_stride(*rows, *ty))
            }
            Type::Array(array) => (array.element.clone(), array.count, array.stride),
            _ => return None,
        })
    }
}

/// Returns the bytes between columns of a matrix. A column of three rows is aligned as one of four.
pub fn column_stride(rows: u32, ty: Ty) -> u32 {
    rows.next_power_of_two() * ty.bytes()
}

/// Converts a scalar type of naga.
pub fn scalar_type(scalar: Scalar) -> Result<Ty> {
    Ok(match (scalar.kind, scalar.width) {
        (ScalarKind::Bool, _) => Ty::Pred,
        (ScalarKind::Float, 2) => Ty::F16,
        (ScalarKind::Float, 4) => Ty::F32,
        (ScalarKind::Sint, 4) => Ty::S32,
        (ScalarKind::Uint, 4) => Ty::U32,
        (kind, width) => {
            let name = match kind {
                ScalarKind::Float => "float",
                ScalarKind::Sint => "integer",
                ScalarKind::Uint => "unsigned",
                _ => "abstract",
            };
            return Err(Error::new(format!(
                "{name} numbers of {} bits are not supported",
                u32::from(width) * 8
            )));
        }
    })
}

fn plural(inner: &TypeInner) -> &'static str {
    match inner {
        TypeInner::Image { .. } => "textures",
        TypeInner::Sampler { .. } => "samplers",
        TypeInner::CooperativeMatrix { .. } => "cooperative matrices",
        TypeInner::BindingArray { .. } => "binding arrays",
        TypeInner::Pointer { .. } | TypeInner::ValuePointer { .. } => "pointers in values",
        _ => "ray queries",
    }
}
