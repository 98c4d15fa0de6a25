//! Elementwise functions that users write in WGSL.

use crate::backend::{Pending, Shared};
use crate::device::Device;
use crate::dtype::DType;
use crate::error::{Error, ErrorKind, Result};
use crate::op::{Element, Op};
use crate::shape::Shape;
use crate::tensor::{operand_bits, Operand, Tensor};
use std::fmt;
use std::sync::Arc;

/// A function of tensors.
pub(super) trait Apply: Shared {
    fn apply(&self, operands: &[Tensor]) -> Result<Tensor>;
}

impl<F: Fn(&[Tensor]) -> Result<Tensor> + Shared> Apply for F {
    fn apply(&self, operands: &[Tensor]) -> Result<Tensor> {
        self(operands)
    }
}

impl Device {
    /// Compiles an elementwise function written in WGSL. Its parameters and its result are `f32`, `i32`, `u32` or `bool`.
    ///
    /// The last function of the source is compiled. Helper functions, constants, aliases and structures come before it,
    /// and their names are private.
    ///
    /// The function is used like the elementwise methods of tensors. Operands broadcast, numbers are data, and calls fuse
    /// with neighboring operations. An `f32` parameter also accepts `f16`, which is computed in `f32` and rounded when it
    /// is stored.
    ///
    /// A CPU compiles variables, arithmetic, comparisons, selections, calls, and loops whose number of iterations follows
    /// from constants. Use [`ElementFunction::with_fallback`] for the rest.
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
    /// `InvalidArgument` with line and column if the source is not such a function. In a browser, the message is that of its
    /// compiler.
    pub fn element_function(&self, source: &str) -> Pending<Result<ElementFunction>> {
        let (device, element) = (self.clone(), parse_element(source));
        Box::pin(async move {
            let element = element?;
            let checked = device.check_source(&element.module());
            let compiled = checked.is_some();
            if let Some(checked) = checked {
                let prefixed = |error: Error| {
                    Error::new(error.kind(), format!("element function: {}", error.message()))
                };
                checked.await.map_err(prefixed)?;
            }
            Ok(ElementFunction { device, element: Arc::new(element), compiled, fallback: None })
        })
    }
}

/// Parses a source. Builds with a native WGSL front end also compile it for devices that do not accept WGSL.
fn parse_element(source: &str) -> Result<Element> {
    let element = Element::parse(source)?;
    #[cfg(all(not(target_arch = "wasm32"), any(feature = "gpu", feature = "cpu")))]
    let element = crate::op::custom::compiled(element)?;
    Ok(element)
}

/// An elementwise function written in WGSL, from [`Device::element_function`]. Clones share it, and it is freed with its
/// last user.
#[derive(Clone)]
pub struct ElementFunction {
    device: Device,
    element: Arc<Element>,
    /// Whether the device accepts WGSL.
    compiled: bool,
    fallback: Option<Arc<dyn Apply>>,
}

impl ElementFunction {
    /// The name of the function.
    pub fn name(&self) -> &str {
        &self.element.name
    }

    /// The types of the parameters.
    pub fn parameters(&self) -> &[DType] {
        &self.element.parameters
    }

    /// Adds derivatives to the function. There is one function for each parameter, which returns `f32`. It has the same
    /// parameters, optionally followed by the result of this function. Derivatives by integers are never called.
    /// Derivatives may have derivatives themselves.
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
    /// `InvalidArgument` if there is not one function for each parameter, or if one has other parameters or does not return
    /// `f32`.
    pub fn with_gradients(&self, gradients: &[&ElementFunction]) -> Result<ElementFunction> {
        let gradients: Vec<_> = gradients.iter().map(|other| other.element.clone()).collect();
        let element = Arc::new(self.element.with_gradients(&gradients)?);
        Ok(ElementFunction { element, ..self.clone() })
    }

    /// Adds a fallback in tensor operations for devices that cannot compute the function. On a native CPU these are
    /// functions that it cannot compile. On a browser's CPU these are all functions, because it has no WGSL compiler.
    ///
    /// Gradients are then those of the fallback. Its result must have the shape that the operands broadcast to, and the
    /// type of the function's result. [`ElementFunction::call`] rejects other results.
    pub fn with_fallback(
        &self,
        fallback: impl Fn(&[Tensor]) -> Result<Tensor> + Shared + 'static,
    ) -> ElementFunction {
        ElementFunction { fallback: Some(Arc::new(fallback)), ..self.clone() }
    }

    /// Records a call with these operands, which are tensors or numbers and broadcast.
    ///
    /// # Errors
    /// `Shape` if the operands do not broadcast; `DType` if they have other types than the parameters; `InvalidArgument` if
    /// their number is wrong, all are numbers, or one is on another device; `Unsupported` if the device cannot compute the
    /// function and it has no fallback; `Shape` or `DType` if a fallback returns another shape or type than the function.
    pub fn call<O: Into<Operand> + Clone>(&self, operands: &[O]) -> Result<Tensor> {
        let operands: Vec<Operand> = operands.iter().cloned().map(Into::into).collect();
        let name = &self.element.name;
        if operands.len() != self.element.parameters.len() {
            let (have, want) = (operands.len(), self.element.parameters.len());
            return Err(Error::argument(format!(
                "{name}: there must be {want} operands, got {have}"
            )));
        }
        let tensor = |operand: &Operand| match operand {
            Operand::Tensor(tensor) => Some(tensor.clone()),
            Operand::Number(_) => None,
        };
        let float = operands.iter().filter_map(tensor).map(|x| x.dtype).find(|d| d.is_float());
        if operands.iter().all(|operand| tensor(operand).is_none()) {
            return Err(Error::argument(format!(
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
                    let node = self.device.scalar(dtype, operand_bits(name, dtype, *number)?);
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

    /// Rejects a fallback's result of another shape or type than the function's, because other devices would return the
    /// latter.
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

    /// Returns an error if the device cannot compute the function or its gradients.
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
