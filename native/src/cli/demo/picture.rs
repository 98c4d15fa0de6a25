//! The picture of the demo, a lake in the mountains, generated with integer arithmetic only.
//!
//! `www/demo/picture.js` generates the same bytes, which [`hash`] verifies. Lengths are in sixteenths of a unit. The picture
//! is 480 units wide and 320 high at any resolution.

type Colour = [i32; 3];

const UNIT: i32 = 16;
const WIDTH: i32 = 480 * UNIT;
const WATERLINE: i32 = 206 * UNIT;

/// Generates the pixels, RGBA, row by row.
pub fn picture(width: i32, height: i32) -> Vec<u8> {
    let lines = Skyline::new();
    let mut pixels = Vec::with_capacity((width * height * 4) as usize);
    for row in 0..height {
        let y = row * 320 * UNIT / height;
        for column in 0..width {
            let x = column * WIDTH / width;
            let grain = (hash3(column, row, 99) & 7) as i32 - 3;
            let colour = boat(&lines, x, y).unwrap_or_else(|| match y < WATERLINE {
                true => land(&lines, x, y),
                false => water(&lines, x, y),
            });
            pixels.extend(colour.map(|value| clamp(value + grain) as u8));
            pixels.push(255);
        }
    }
    pixels
}

/// Returns the 32-bit FNV-1a hash of bytes.
pub fn hash(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, &b| (hash ^ u32::from(b)).wrapping_mul(0x0100_0193))
}

fn clamp(value: i32) -> i32 {
    value.clamp(0, 255)
}

/// Interpolates from a to b, for t from 0 to 256.
fn mix(a: i32, b: i32, t: i32) -> i32 {
    a + (((b - a) * t) >> 8)
}

fn blend(a: Colour, b: Colour, t: i32) -> Colour {
    [0, 1, 2].map(|i| mix(a[i], b[i], t))
}

/// Returns 0 below `from`, 256 above `to`, and a linear value between.
fn ramp(value: i32, from: i32, to: i32) -> i32 {
    ((value - from) * 256 / (to - from)).clamp(0, 256)
}

/// Hashes three numbers to 32 bits.
fn hash3(x: i32, y: i32, seed: i32) -> u32 {
    let words = [(x, 0x27d4_eb2d), (y, 0x1656_67b1), (seed, 0x9e37_79b1)];
    let mut h = words.iter().fold(0, |h, &(word, odd)| h ^ (word as u32).wrapping_mul(odd));
    h = (h ^ (h >> 15)).wrapping_mul(0x85eb_ca6b);
    h = (h ^ (h >> 13)).wrapping_mul(0xc2b2_ae35);
    h ^ (h >> 16)
}

/// Returns smooth noise from 0 to 255, with one value for each cell of 2^shift.
fn noise(x: i32, y: i32, shift: u32, seed: i32) -> i32 {
    let mask = (1 << shift) - 1;
    let (column, row) = (x >> shift, y >> shift);
    let (s, t) = (smooth(((x & mask) << 8) >> shift), smooth(((y & mask) << 8) >> shift));
    let corner = |i, j| (hash3(column + i, row + j, seed) & 255) as i32;
    mix(mix(corner(0, 0), corner(1, 0), s), mix(corner(0, 1), corner(1, 1), s), t)
}

/// Returns 3t^2 - 2t^3, from 0 to 256.
fn smooth(t: i32) -> i32 {
    (t * t * (768 - 2 * t)) >> 16
}

/// Returns noise of four scales, from 0 to 255. Each scale has half the size and half the strength of the previous one.
fn clouds(x: i32, y: i32, shift: u32, seed: i32) -> i32 {
    (0..4).map(|i| noise(x, y, shift - i, seed + i as i32) << (3 - i)).sum::<i32>() / 15
}

/// Returns a line of sharp peaks, from 0 to 255.
fn peaks(x: i32, shift: u32, seed: i32) -> i32 {
    let fold = |value: i32| 255 - (2 * value - 255).abs();
    (0..5).map(|i| fold(noise(x, 0, shift - i, seed + i as i32)) << (4 - i)).sum::<i32>() / 31
}

/// The highest point at each x of three mountain ranges and of the pines on the shore, as y from above.
struct Skyline {
    far: Vec<i32>,
    middle: Vec<i32>,
    near: Vec<i32>,
    pines: Vec<i32>,
}

impl Skyline {
    fn new() -> Skyline {
        let along = |height: fn(i32) -> i32| (0..WIDTH).map(height).collect();
        Skyline {
            far: along(|x| 196 * UNIT - ((peaks(x, 11, 11) * 150 * UNIT) >> 8)),
            middle: along(|x| 196 * UNIT - ((peaks(x, 11, 25) * 100 * UNIT) >> 8)),
            near: along(|x| 196 * UNIT - ((clouds(x, 0, 10, 31) * 44 * UNIT) >> 8)),
            pines: along(pine_top),
        }
    }
}

/// Returns the color of a point above the waterline.
fn land(lines: &Skyline, x: i32, y: i32) -> Colour {
    let at = x as usize;
    if y > lines.pines[at] {
        return blend([14, 34, 34], [30, 58, 46], noise(x, y, 5, 41));
    }
    if y > lines.near[at] {
        return slope(&lines.near, x, y, [38, 66, 84], [74, 108, 104], false);
    }
    if y > lines.middle[at] {
        return slope(&lines.middle, x, y, [64, 84, 124], [142, 146, 166], true);
    }
    if y > lines.far[at] {
        return slope(&lines.far, x, y, [118, 128, 168], [206, 190, 192], true);
    }
    sky(x, y)
}

/// Returns the color of a mountain below its ridge. Spurs are lit from the right, with snow at the top and mist at the foot.
fn slope(ridge: &[i32], x: i32, y: i32, shade: Colour, light: Colour, snowy: bool) -> Colour {
    // Spurs run down from their peaks, bent by noise.
    let at = x + ((clouds(x, y, 9, 51) - 128) * 2);
    let height = |x: i32| ridge[x.clamp(0, WIDTH - 1) as usize];
    let rough = clouds(x + (y >> 1), y, 7, 55) - 128;
    let lit = clamp(120 + ((height(at + 40) - height(at - 40)) << 1) + rough);
    let snow = if snowy { ramp(118 * UNIT + rough * 5 - y, -40, 40) } else { 0 };
    let cover = blend(blend(shade, [255, 255, 255], 110), [255, 250, 246], lit);
    let mist = ramp(y, 110 * UNIT, 230 * UNIT) >> 1;
    blend(blend(blend(shade, light, lit), cover, snow), [222, 198, 192], mist)
}

fn sky(x: i32, y: i32) -> Colour {
    let height = ramp(y, 0, 150 * UNIT);
    let high = blend([44, 84, 150], [126, 164, 206], ramp(height, 0, 140));
    let clear = blend(high, [248, 206, 164], ramp(height, 140, 256));
    let (dx, dy) = (x - 356 * UNIT, y - 84 * UNIT);
    let distance = (dx * dx + dy * dy) >> 8; // Of squared units.
    if distance < 15 * 15 {
        return [255, 246, 214];
    }
    let glow = 256 * 500 / (500 + distance);
    let veil = ramp(clouds(x >> 1, y * 2, 10, 71), 118, 205);
    blend(blend(clear, [255, 238, 226], (veil * 3) >> 2), [255, 226, 170], glow)
}

/// Returns the y of the tops of the trees on the shore.
fn pine_top(x: i32) -> i32 {
    let mut top = 203 * UNIT;
    for (spacing, tall, seed) in [(9, 26, 81), (14, 40, 82)] {
        let tree = x / (spacing * UNIT);
        for i in tree - 1..=tree + 1 {
            let random = (hash3(i, 0, seed) >> 8) as i32;
            // Few trees are in the middle of the picture.
            let bare = 255 - ramp((i * spacing - 215).abs(), 30, 200);
            if (random & 255) < bare {
                continue;
            }
            let middle = i * spacing * UNIT + ((random >> 8) & 127);
            let height = (tall * UNIT * (128 + ((random >> 16) & 127))) >> 8;
            // Branches make the outline ragged.
            let below = (x - middle).abs() * 4;
            let ragged = below + (((hash3(below >> 5, i, seed) & 31) << 1) as i32);
            top = top.min(204 * UNIT - height + ragged);
        }
    }
    top
}

/// Returns the color of the lake. It mirrors the land above, with ripples that grow toward the viewer.
fn water(lines: &Skyline, x: i32, y: i32) -> Colour {
    let depth = y - WATERLINE;
    let ripple = noise(x >> 2, y * 2, 6, 91) - 128;
    let reach = 20 + (depth >> 3);
    let mirrored = (WATERLINE - 1 - depth + ((ripple * reach) >> 8)).min(WATERLINE - 1);
    let aside = x + ((ripple * reach) >> 9);
    let seen = land(lines, aside.clamp(0, WIDTH - 1), mirrored.max(0));
    let glint = if noise(x >> 1, y * 4, 6, 92) > 222 { 36 } else { 0 };
    let deep = blend(seen, [20, 52, 80], 70 + (depth >> 4));
    deep.map(|value| value + glint)
}

/// Returns the color of a sailing boat with sharp edges, or of its reflection in the water.
fn boat(lines: &Skyline, x: i32, y: i32) -> Option<Colour> {
    let line = 252 * UNIT;
    if y <= line {
        return sails(x - 150 * UNIT, line - y);
    }
    let ripple = (noise(x >> 2, y * 2, 5, 93) - 128) >> 4;
    let seen = sails(x - 150 * UNIT + ripple * 3, y - line + ripple)?;
    Some(blend(seen, water(lines, x, y), 120))
}

/// Returns the color of the boat at `x` to the right of its mast and `up` above the water.
fn sails(x: i32, up: i32) -> Option<Colour> {
    if up < 11 * UNIT && x.abs() < 34 * UNIT + up {
        return Some(if up > 8 * UNIT { [236, 228, 212] } else { [134, 40, 34] });
    }
    if x.abs() < UNIT && up < 104 * UNIT {
        return Some([70, 48, 36]);
    }
    if !(15 * UNIT..=98 * UNIT).contains(&up) {
        return None;
    }
    let width = 98 * UNIT - up;
    if x > 0 && 5 * x < 2 * width {
        return Some(if x * 5 > width { [244, 240, 230] } else { [226, 222, 214] });
    }
    (x < 0 && -x * 10 < 3 * width && up < 90 * UNIT).then_some([206, 74, 50])
}

#[cfg(test)]
mod tests {
    use super::{hash, picture};

    #[test]
    fn the_browser_makes_the_same_bytes() {
        // The value of `hash(picture(480, 320))` in www/demo/picture.js, whose test has the same number.
        assert_eq!(hash(&picture(480, 320)), 83_052_090);
    }
}
