//! Functions of elements that users write in WGSL.

use crate::backend::{Pending, Shared};
use crate::device::Device;
use crate::dtype::DType;
use crate::error::{Error, ErrorKind, Result};
use crate::op::{Element, Op};
use crate::shape::Shape;
use crate::tensor::{number_bits, Operand, Tensor};
use std::fmt;
use std::sync::Arc;

/// A function in tensors.
pub(super) trait Apply: Shared {
    fn apply(&self, operands: &[Tensor]) -> Result<Tensor>;
}

impl<F: Fn(&[Tensor]) -> Result<Tensor> + Shared> Apply for F {
    fn apply(&self, operands: &[Tensor]) -> Result<Tensor> {
        self(operands)
    }
}

impl Device {
    /// Compiles a function of elements, written in WGSL: its parameters and its result are `f32`, `i32`, `u32` or `bool`.
    /// The last function of the source is the one; helper functions, constants, aliases and structures stand before it. What
    /// they are called matters to nobody else.
    ///
    /// It is used as the functions that tensors have: operands broadcast, numbers are data, and it shares kernels with what
    /// stands before and after it. `f32` stands for `f16` too, which is computed in `f32` and rounded where it is stored.
    ///
    /// A CPU computes it natively where it is made of variables, arithmetic, comparisons, choices, calls, and loops whose
    /// number of rounds follows from constants; see [`ElementFunction::with_fallback`] for what it does not.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use warpweft::{device::{Device, Preference}, tensor::Operand};
    /// let device = Device::with(Preference::Cpu).await?;
    /// let source = "fn soft_clip(x: f32, limit: f32) -> f32 { return x / (1.0 + abs(x) / limit); }";
    /// let soft_clip = device.element_function(source).await?;
    /// let x = device.tensor(&[1.0f32, -3.0], &[2])?;
    /// let clipped = soft_clip.call(&[Operand::from(&x), 1.0.into()])?;
    /// assert_eq!(clipped.read::<f32>().await?, [0.5, -0.75]);
    ///
    /// let error = device.element_function("fn f(x: f32) -> f32 {\n  return y;\n}").await.unwrap_err();
    /// assert!(error.message().starts_with("element function: line 2, column 10: "), "{error}");
    /// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    /// `Data` with line and column of what is no such function; in a browser what its compiler says.
    pub fn element_function(&self, source: &str) -> Pending<Result<ElementFunction>> {
        let (device, element) = (self.clone(), parse_element(source));
        Box::pin(async move {
            let element = element?;
            let checked = device.check_source(&element.module());
            let compiled = checked.is_some();
            if let Some(checked) = checked {
                let told = |error: Error| {
                    Error::new(error.kind(), format!("element function: {}", error.message()))
                };
                checked.await.map_err(told)?;
            }
            Ok(ElementFunction { device, element: Arc::new(element), compiled, fallback: None })
        })
    }
}

/// What a source declares, compiled for machines that take no WGSL where this build can do that.
fn parse_element(source: &str) -> Result<Element> {
    let element = Element::parse(source)?;
    #[cfg(all(not(target_arch = "wasm32"), any(feature = "gpu", feature = "cpu")))]
    let element = crate::op::custom::compiled(element)?;
    Ok(element)
}

/// A function of elements, written in WGSL: made by [`Device::element_function`]. Cloning shares it; it is freed with its
/// last user.
#[derive(Clone)]
pub struct ElementFunction {
    device: Device,
    element: Arc<Element>,
    /// The device takes WGSL.
    compiled: bool,
    fallback: Option<Arc<dyn Apply>>,
}

impl ElementFunction {
    /// The function's name.
    pub fn name(&self) -> &str {
        &self.element.name
    }

    /// The types of its parameters.
    pub fn parameters(&self) -> &[DType] {
        &self.element.parameters
    }

    /// The same function with its derivatives: for each parameter a function of the same parameters, or of these and the
    /// function's result, that gives `f32`. The derivative by an integer is not asked for, and may be any. Those may have
    /// derivatives in turn.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use warpweft::device::{Device, Preference};
    /// let device = Device::with(Preference::Cpu).await?;
    /// let cube = device.element_function("fn cube(x: f32) -> f32 { return x * x * x; }").await?;
    /// let slope = device.element_function("fn slope(x: f32) -> f32 { return 3.0 * x * x; }").await?;
    /// let cube = cube.with_gradients(&[&slope])?;
    /// let x = device.tensor(&[1.0f32, -2.0], &[2])?;
    /// let loss = cube.call(&[&x])?.sum(&[])?;
    /// assert_eq!(loss.grad(&[&x])?[0].read::<f32>().await?, [3.0, 12.0]);
    /// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    /// `Data` where these are not as many as the parameters, take others, or give no `f32`.
    pub fn with_gradients(&self, gradients: &[&ElementFunction]) -> Result<ElementFunction> {
        let gradients: Vec<_> = gradients.iter().map(|other| other.element.clone()).collect();
        let element = Arc::new(self.element.with_gradients(&gradients)?);
        Ok(ElementFunction { element, ..self.clone() })
    }

    /// The same function with another in tensors, which is used in its place where a device cannot compute it: on the CPU
    /// what has no steps there, and on a browser's CPU all, as that has no compiler of WGSL. Gradients are then those of
    /// that function. Its result has the shape that the operands broadcast to, and the type of this function's result;
    /// [`ElementFunction::call`] refuses another one.
    pub fn with_fallback(
        &self,
        fallback: impl Fn(&[Tensor]) -> Result<Tensor> + Shared + 'static,
    ) -> ElementFunction {
        ElementFunction { fallback: Some(Arc::new(fallback)), ..self.clone() }
    }

    /// Records the function of these operands: tensors or numbers, which broadcast.
    ///
    /// # Errors
    /// `Shape` if the operands do not broadcast, `DType` if they are of other types than its parameters, `Data` if they are
    /// not as many, are all numbers, or live on another device, `Unsupported` where the device cannot compute it and there
    /// is no fallback; `Shape` or `DType` where a fallback gives another shape or type than the function.
    pub fn call<O: Into<Operand> + Clone>(&self, operands: &[O]) -> Result<Tensor> {
        let operands: Vec<Operand> = operands.iter().cloned().map(Into::into).collect();
        let name = &self.element.name;
        if operands.len() != self.element.parameters.len() {
            let (have, want) = (operands.len(), self.element.parameters.len());
            return Err(Error::data(format!("{name}: there must be {want} operands, got {have}")));
        }
        let tensor = |operand: &Operand| match operand {
            Operand::Tensor(tensor) => Some(tensor.clone()),
            Operand::Number(_) => None,
        };
        let float = operands.iter().filter_map(tensor).map(|x| x.dtype).find(|d| d.is_float());
        if operands.iter().all(|operand| tensor(operand).is_none()) {
            return Err(Error::data(format!(
                "{name}: an operand must be a tensor, got numbers alone"
            )));
        }
        let mut tensors = Vec::with_capacity(operands.len());
        for (operand, &dtype) in operands.iter().zip(&self.element.parameters) {
            let dtype = if dtype.is_float() { float.unwrap_or(dtype) } else { dtype };
            tensors.push(match operand {
                Operand::Tensor(tensor) if !self.device.is_same(&tensor.device) => {
                    return Err(Error::wrong_device(name, "an operand"));
                }
                Operand::Tensor(tensor) => tensor.clone(),
                Operand::Number(number) => {
                    let node = self.device.scalar(dtype, number_bits(name, dtype, *number)?);
                    Tensor::adopt(&self.device, node)
                }
            });
        }
        if let Err(missing) = self.missing() {
            let types: Vec<_> = tensors.iter().map(|x| (x.shape, x.dtype)).collect();
            let result = self.element.infer(&types)?;
            return match &self.fallback {
                Some(fallback) => self.check_result(fallback.apply(&tensors)?, result),
                None => Err(missing),
            };
        }
        let others: Vec<&Tensor> = tensors[1..].iter().collect();
        tensors[0].apply(Op::Element(self.element.clone()), &others)
    }

    /// Refuses a fallback's result that is not what the function would give: another device would give something else.
    fn check_result(&self, made: Tensor, (shape, dtype): (Shape, DType)) -> Result<Tensor> {
        made.node()?;
        let name = &self.element.name;
        if !self.device.is_same(&made.device) {
            return Err(Error::wrong_device(name, "the result of the fallback"));
        }
        if made.dtype != dtype {
            let message = format!("{name}: the fallback must return {dtype}, got {}", made.dtype);
            return Err(Error::dtype(message));
        }
        if made.shape != shape {
            let message =
                format!("{name}: the fallback must return shape {shape}, got {}", made.shape);
            return Err(Error::shape(message));
        }
        Ok(made)
    }

    /// Why the device cannot compute it, if so: of its gradients, too.
    fn missing(&self) -> Result<()> {
        if self.compiled {
            return Ok(());
        }
        let mut all = vec![&self.element];
        while let Some(element) = all.pop() {
            if let Err(error) = &element.steps {
                let message = format!(
                    "{}; give {} a fallback made of tensor operations: `with_fallback` (`fallback` in JavaScript)",
                    error.message(),
                    element.name
                );
                return Err(Error::new(ErrorKind::Unsupported, message));
            }
            all.extend(&element.gradients);
        }
        Ok(())
    }
}

impl fmt::Debug for ElementFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ElementFunction({}", self.element.name)?;
        let types = self.element.parameters.iter().map(|dtype| dtype.name());
        write!(f, ": {} -> {})", types.collect::<Vec<_>>().join(", "), self.element.result)
    }
}
