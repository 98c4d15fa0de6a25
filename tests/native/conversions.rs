//! Tests conversions between tensors and the data of other crates: plain data and JSON, arrays of `ndarray`, images of `image`.

use half::{bf16, f16};
use image::{GrayImage, ImageBuffer, Luma, LumaA, Rgb, RgbImage, Rgba, RgbaImage};
use ndarray::{array, Array1, Array3, ArrayD, Axis, Slice};
use pollster::block_on;
use warpweft::data::{TensorData, Values};
use warpweft::device::{Device, Preference};
use warpweft::dtype::DType;
use warpweft::error::ErrorKind;

fn cpu() -> Device {
    block_on(Device::with(Preference::Cpu)).expect("the CPU is there")
}

/// Returns data of every dtype.
fn samples() -> Vec<TensorData> {
    let halves = [0.0f32, -1.5, 65504.0, 6e-8].map(f16::from_f32).to_vec();
    let all: [(&[usize], Values); 10] = [
        (&[2, 2], Values::F32(vec![1.5, -0.0, 3.0e-40, f32::MAX])),
        (&[4, 1], Values::F16(halves)),
        (&[3], Values::I32(vec![i32::MIN, 0, i32::MAX])),
        (&[], Values::U32(vec![u32::MAX])),
        (&[1, 2], Values::Bool(vec![true, false])),
        (&[0, 3], Values::F32(Vec::new())),
        (&[3], Values::I8(vec![i8::MIN, -1, i8::MAX])),
        (&[5, 1], Values::U8(vec![0, 1, 127, 128, 255])),
        (&[3], Values::I16(vec![i16::MIN, -1, i16::MAX])),
        (&[1, 5], Values::U16(vec![0, 255, 256, 32768, u16::MAX])),
    ];
    all.into_iter()
        .map(|(shape, values)| TensorData::new(shape, values).expect("it fits"))
        .collect()
}

#[test]
fn data_comes_back_as_it_went() {
    let device = cpu();
    for data in samples() {
        let tensor = device.tensor_from_data(&data).expect("made");
        assert_eq!((tensor.shape(), tensor.dtype()), (data.shape(), data.values().dtype()));
        let back = block_on(tensor.to_data()).expect("read");
        assert_eq!(back, data);
        assert_eq!(back.values().is_empty(), tensor.numel() == 0);
    }
}

#[test]
fn data_through_json() {
    for data in samples() {
        let text = serde_json::to_string(&data).expect("written");
        assert_eq!(serde_json::from_str::<TensorData>(&text).expect(&text), data);
    }
    let text = r#"{"shape":[2,1],"values":{"f32":[1.0,-2.5]}}"#;
    let data = TensorData::new(&[2, 1], Values::F32(vec![1.0, -2.5])).expect("it fits");
    assert_eq!(serde_json::to_string(&data).expect("written"), text);
}

#[test]
fn data_that_does_not_fit_together_is_refused() {
    let huge = format!("[{0},{0},{0}]", u64::MAX / 2);
    for (shape, values) in [
        ("[3]", r#"{"f32":[1.0,2.0]}"#),
        ("[]", r#"{"f32":[]}"#),
        (&huge, r#"{"f32":[]}"#),
        ("[1]", r#"{"f64":[1.0]}"#),
        ("[1]", r#"{"f32":[null]}"#),
        ("[1]", r#"{"u32":[-1]}"#),
        ("[-1]", r#"{"f32":[1.0]}"#),
    ] {
        let text = format!(r#"{{"shape":{shape},"values":{values}}}"#);
        assert!(serde_json::from_str::<TensorData>(&text).is_err(), "{text}");
    }
    let error = TensorData::new(&[2, 3], Values::I32(vec![1])).expect_err("too few");
    assert_eq!(error.kind(), ErrorKind::Shape);
    assert!(error.message().contains("[2, 3]"), "{error}");
    // The number of elements is correct modulo 2^64.
    let wraps = TensorData::new(&[usize::MAX / 2 + 1, 2], Values::I32(Vec::new()));
    assert_eq!(wraps.expect_err("too few").kind(), ErrorKind::Shape);
    // Data may have nine axes, but a tensor may not.
    let deep = TensorData::new(&[1; 9], Values::I32(vec![1])).expect("it fits");
    assert_eq!(cpu().tensor_from_data(&deep).expect_err("nine").kind(), ErrorKind::Shape);
}

#[test]
fn arrays_however_they_lie() {
    let device = cpu();
    let cube = Array3::from_shape_fn((2, 3, 4), |(i, j, k)| (100 * i + 10 * j + k) as i32);
    let mut turned = cube.view();
    turned.swap_axes(0, 2);
    let mut parts = cube.slice_axis(Axis(2), Slice::new(0, None, 2));
    parts.invert_axis(Axis(1));
    for view in [cube.view(), turned, parts] {
        let tensor = device.tensor_from_ndarray(view).expect("made");
        assert_eq!(tensor.shape(), view.shape());
        // `iter` returns the elements in row-major order, for any memory layout.
        let values: Vec<i32> = view.iter().copied().collect();
        assert_eq!(block_on(tensor.read::<i32>()).expect("read"), values);
        let back = block_on(tensor.to_ndarray::<i32>()).expect("read");
        assert_eq!(back, view.into_dyn());
    }
    let wrong = device.tensor_from_ndarray(cube.view()).expect("made");
    let wrong = block_on(wrong.to_ndarray::<f32>()).expect_err("it is of i32");
    assert_eq!(wrong.kind(), ErrorKind::DType);
}

#[test]
fn arrays_of_every_type_and_size() {
    let device = cpu();
    let number = device.tensor_from_ndarray(ndarray::arr0(2.5f32).view()).expect("made");
    assert_eq!(number.shape(), [0usize; 0]);
    assert_eq!(block_on(number.to_ndarray::<f32>()).expect("read"), ndarray::arr0(2.5).into_dyn());
    let none = ArrayD::<u32>::zeros(vec![3, 0, 2]);
    let tensor = device.tensor_from_ndarray(none.view()).expect("made");
    assert_eq!(block_on(tensor.to_ndarray::<u32>()).expect("read"), none);
    let halves: Array1<f16> = array![f16::MAX, f16::MIN_POSITIVE_SUBNORMAL];
    let tensor = device.tensor_from_ndarray(halves.view()).expect("made");
    assert_eq!(tensor.dtype(), DType::F16);
    assert_eq!(block_on(tensor.to_ndarray::<f16>()).expect("read"), halves.into_dyn());
    let flags = array![[true], [false]];
    let tensor = device.tensor_from_ndarray(flags.view()).expect("made");
    assert_eq!(block_on(tensor.to_ndarray::<bool>()).expect("read"), flags.into_dyn());
    let bytes = array![[0u8, 255, 128], [1, 2, 3]];
    let tensor = device.tensor_from_ndarray(bytes.view()).expect("made");
    assert_eq!(tensor.dtype(), DType::U8);
    assert_eq!(block_on(tensor.to_ndarray::<u8>()).expect("read"), bytes.into_dyn());
    let wrong = block_on(tensor.to_ndarray::<i8>()).expect_err("it is of u8");
    assert_eq!(wrong.kind(), ErrorKind::DType);
}

#[test]
fn halves_in_and_out() {
    let device = cpu();
    // All `f16` values, including NaNs, compared bit by bit.
    let all: Vec<f16> = (0..=u16::MAX).map(f16::from_bits).collect();
    let tensor = device.tensor(&all, &[all.len()]).expect("made");
    assert_eq!(tensor.dtype(), DType::F16);
    let bits = |halves: Vec<f16>| halves.into_iter().map(f16::to_bits).collect::<Vec<u16>>();
    assert_eq!(bits(block_on(tensor.read::<f16>()).expect("read")), bits(all));
    let wide = device.tensor(&[1.0f32], &[1]).expect("made");
    let error = block_on(wide.read::<f16>()).expect_err("that would round");
    assert_eq!(error.kind(), ErrorKind::DType);

    // `f32` represents every `bf16`. 1 + 2^-8 is halfway between two `bf16` values and rounds to the even one.
    let all: Vec<bf16> = (0..=u16::MAX).map(bf16::from_bits).collect();
    let numbers: Vec<bf16> = all.into_iter().filter(|x| !x.is_nan()).collect();
    let tensor = device.tensor(&numbers, &[numbers.len()]).expect("made");
    assert_eq!(tensor.dtype(), DType::F32);
    assert_eq!(block_on(tensor.read::<bf16>()).expect("read"), numbers);
    let between = device.tensor(&[1.0 + 1.0 / 256.0, 1.0 + 3.0 / 256.0f32], &[2]).expect("made");
    let read = block_on(between.read::<bf16>()).expect("read");
    assert_eq!(read, [1.0, 1.015625].map(bf16::from_f32));
}

#[test]
fn pictures_of_all_bytes() {
    let device = cpu();
    let gray = GrayImage::from_fn(16, 16, |x, y| Luma([(16 * y + x) as u8]));
    let tensor = device.tensor_from_image(&gray).expect("made");
    assert_eq!((tensor.shape(), tensor.dtype()), (&[16, 16, 1][..], DType::F32));
    let values = block_on(tensor.read::<f32>()).expect("read");
    let wanted: Vec<f32> = (0..=255).map(|byte| byte as f32 / 255.0).collect();
    assert_eq!(values, wanted);
    assert_eq!(block_on(tensor.to_image::<Luma<u8>>()).expect("read"), gray);
}

#[test]
fn pictures_of_several_channels() {
    let device = cpu();
    // In row-major order, with the channels of a pixel next to each other. 21 bytes are not whole words.
    let picture = RgbImage::from_fn(7, 1, |x, _| Rgb([x as u8, 100 + x as u8, 255]));
    let tensor = device.tensor_from_image(&picture).expect("made");
    assert_eq!(tensor.shape(), [1, 7, 3]);
    let red = tensor.select(2, 0).and_then(|red| red.mul(255)).expect("recorded");
    let red = block_on(red.read::<f32>()).expect("read");
    assert!(red.iter().zip(0..).all(|(&red, x)| (red - x as f32).abs() < 1e-4), "{red:?}");
    assert_eq!(block_on(tensor.to_image::<Rgb<u8>>()).expect("read"), picture);
    let clear = RgbaImage::from_fn(2, 3, |x, y| Rgba([1, 2, x as u8, y as u8]));
    let tensor = device.tensor_from_image(&clear).expect("made");
    assert_eq!(block_on(tensor.to_image::<Rgba<u8>>()).expect("read"), clear);
    let two = ImageBuffer::from_fn(3, 2, |x, y| LumaA([x as u8, y as u8]));
    let tensor = device.tensor_from_image(&two).expect("made");
    assert_eq!(block_on(tensor.to_image::<LumaA<u8>>()).expect("read"), two);
    // A buffer that is longer than the image.
    let behind = RgbImage::from_raw(2, 1, (0..10).collect()).expect("enough");
    let tensor = device.tensor_from_image(&behind).expect("made");
    let bytes = block_on(tensor.to_image::<Rgb<u8>>()).expect("read").into_raw();
    assert_eq!((tensor.shape(), bytes), (&[1, 2, 3][..], (0..6).collect()));
    let none = GrayImage::new(0, 5);
    let tensor = device.tensor_from_image(&none).expect("made");
    assert_eq!(tensor.shape(), [5, 0, 1]);
    assert_eq!(block_on(tensor.to_image::<Luma<u8>>()).expect("read"), none);
}

#[test]
fn what_is_no_picture() {
    let device = cpu();
    let values = [-0.5f32, 1.5, f32::NAN, 0.5, 0.499, f32::INFINITY];
    let tensor = device.tensor(&values, &[1, 2, 3]).expect("made");
    let picture = block_on(tensor.to_image::<Rgb<u8>>()).expect("read");
    // 0.5 is 127.5, which rounds to the even neighbor.
    assert_eq!(picture.into_raw(), [0, 255, 0, 128, 127, 255]);
    let refused = |result: warpweft::error::Result<RgbImage>| result.expect_err("refused").kind();
    let flat = tensor.reshape([2, 3]).expect("recorded");
    assert_eq!(refused(block_on(flat.to_image())), ErrorKind::Shape);
    let other = tensor.reshape([3, 2, 1]).expect("recorded");
    assert_eq!(refused(block_on(other.to_image())), ErrorKind::Shape);
    let deep = device.zeros(&[1, 1, 4]).expect("made");
    assert_eq!(refused(block_on(deep.to_image())), ErrorKind::Shape);
    let whole = device.tensor(&[1u32, 2, 3], &[1, 1, 3]).expect("made");
    assert_eq!(refused(block_on(whole.to_image())), ErrorKind::DType);
}
