//! A layered layout of a graph (Sugiyama et al. 1981).
//!
//! Boxes are placed in columns by the longest path from the inputs. A few sweeps sort each column by the mean position of
//! its neighbors, which leaves few crossings. Long edges pass through the columns in between as bends. Example: for
//! `c = a + b` and `d = exp(c)`, `a` and `b` are in column 0, `c` in column 1 and `d` in column 2.

/// A point of the drawing.
pub type Point = (f64, f64);

/// The positions of boxes and edges.
pub struct Layout {
    pub size: (f64, f64),
    /// The upper left corner of each box.
    pub boxes: Vec<Point>,
    /// For each edge, its target and its points, from the right side of a box to the left side of another.
    pub edges: Vec<(usize, Vec<Point>)>,
}

/// The distances between columns, and between boxes of a column.
const GAP: Point = (40.0, 14.0);
/// The distance between the boxes and the edge of the drawing.
const MARGIN: f64 = 12.0;
/// The number of sweeps that sort the columns.
const SWEEPS: usize = 8;

/// An item of a column: a box, or a bend of an edge.
#[derive(Default)]
struct Item {
    column: usize,
    size: Point,
    left: Vec<usize>,
    right: Vec<usize>,
    at: Point,
}

/// Places boxes of these sizes, each to the right of its inputs. Inputs have lower numbers than the boxes that use them.
pub fn layout(sizes: &[Point], inputs: &[Vec<usize>]) -> Layout {
    let columns = columns(inputs);
    let mut items: Vec<Item> = Vec::new();
    for (&size, &column) in sizes.iter().zip(&columns) {
        items.push(Item { column, size, ..Item::default() });
    }
    // The items that each edge passes through.
    let mut ways: Vec<Vec<usize>> = Vec::new();
    for (to, all) in inputs.iter().enumerate() {
        let mut all = all.clone();
        crate::sorted::sort(&mut all);
        all.dedup();
        for from in all {
            let mut way = vec![from];
            for column in columns[from] + 1..columns[to] {
                way.push(items.len());
                items.push(Item { column, size: (0.0, 2.0), ..Item::default() });
            }
            way.push(to);
            for pair in way.windows(2) {
                items[pair[0]].right.push(pair[1]);
                items[pair[1]].left.push(pair[0]);
            }
            ways.push(way);
        }
    }
    let order = ordered(&items);
    let size = place(&mut items, &order);
    let edge = |way: Vec<usize>| {
        let mut points = Vec::with_capacity(way.len());
        for (n, &item) in way.iter().enumerate() {
            let Item { at, size, .. } = &items[item];
            let y = at.1 + size.1 / 2.0;
            if n > 0 {
                points.push((at.0, y));
            }
            if n + 1 < way.len() {
                points.push((at.0 + size.0, y));
            }
        }
        (way[way.len() - 1], points)
    };
    let edges = ways.into_iter().map(edge).collect();
    Layout { size, boxes: items[..sizes.len()].iter().map(|item| item.at).collect(), edges }
}

/// Returns the column of each box, after those of all its inputs. A box without inputs is just before its first user.
fn columns(inputs: &[Vec<usize>]) -> Vec<usize> {
    let mut columns = vec![0; inputs.len()];
    let mut first_use = vec![usize::MAX; inputs.len()];
    for (n, own) in inputs.iter().enumerate() {
        columns[n] = own.iter().map(|&input| columns[input] + 1).max().unwrap_or(0);
        for &input in own {
            first_use[input] = first_use[input].min(columns[n]);
        }
    }
    for (n, own) in inputs.iter().enumerate() {
        if own.is_empty() && first_use[n] < usize::MAX {
            columns[n] = first_use[n] - 1;
        }
    }
    columns
}

/// Sorts the items of each column by the mean position of their neighbors.
fn ordered(items: &[Item]) -> Vec<Vec<usize>> {
    let count = items.iter().map(|item| item.column + 1).max().unwrap_or(0);
    let mut order = vec![Vec::new(); count];
    for (n, item) in items.iter().enumerate() {
        order[item.column].push(n);
    }
    let mut height = vec![0.0; items.len()];
    let measure = |column: &[usize], height: &mut [f64]| {
        for (n, &item) in column.iter().enumerate() {
            height[item] = (n as f64 + 0.5) / column.len() as f64;
        }
    };
    order.iter().for_each(|column| measure(column, &mut height));
    for sweep in 0..SWEEPS {
        for step in 0..count {
            let column = if sweep % 2 == 0 { step } else { count - 1 - step };
            let middle = |&item: &usize| {
                let Item { left, right, .. } = &items[item];
                let beside = if sweep % 2 == 0 { left } else { right };
                let sum: f64 = beside.iter().map(|&other| height[other]).sum();
                if beside.is_empty() {
                    height[item]
                } else {
                    sum / beside.len() as f64
                }
            };
            let mut items: Vec<(f64, usize)> =
                order[column].iter().map(|item| (middle(item), *item)).collect();
            crate::sorted::by(&mut items, |a, b| a.0.total_cmp(&b.0));
            order[column] = items.into_iter().map(|(_, item)| item).collect();
            measure(&order[column], &mut height);
        }
    }
    order
}

/// Sets the position of each item, and returns the size of the drawing.
fn place(items: &mut [Item], order: &[Vec<usize>]) -> Point {
    let height = |items: &[Item], column: &[usize]| -> f64 {
        let boxes: f64 = column.iter().map(|&item| items[item].size.1).sum();
        boxes + GAP.1 * column.len().saturating_sub(1) as f64
    };
    let tallest = order.iter().map(|column| height(items, column)).fold(0.0, f64::max);
    let mut x = MARGIN;
    for column in order {
        let wide = column.iter().map(|&item| items[item].size.0).fold(0.0, f64::max);
        let mut y = MARGIN + (tallest - height(items, column)) / 2.0;
        for &item in column {
            if items[item].size.0 == 0.0 {
                // An edge passes straight through a column, between its boxes.
                items[item].size.0 = wide;
            }
            let size = items[item].size;
            items[item].at = (x + (wide - size.0) / 2.0, y);
            y += size.1 + GAP.1;
        }
        x += wide + GAP.0;
    }
    (x - GAP.0 + MARGIN, tallest + 2.0 * MARGIN)
}
