//! A layered drawing of a graph (Sugiyama and others 1981): columns by the longest way from what was given, in each column an
//! order with few crossings, and long edges led through the columns between.

/// A place in the drawing.
pub type Point = (f64, f64);

/// Where everything lies.
pub struct Layout {
    pub size: (f64, f64),
    /// The upper left corner of each box.
    pub boxes: Vec<Point>,
    /// For each edge its target and the points that it goes through, from the right side of a box to the left side of another.
    pub edges: Vec<(usize, Vec<Point>)>,
}

/// Between columns, and between boxes of a column.
const GAP: Point = (40.0, 14.0);
/// Around all of it.
const MARGIN: f64 = 12.0;
/// How often the columns are put in order.
const SWEEPS: usize = 8;

/// What stands in a column: a box, or a bend of an edge.
#[derive(Default)]
struct Item {
    column: usize,
    size: Point,
    left: Vec<usize>,
    right: Vec<usize>,
    at: Point,
}

/// Lays out boxes of these sizes, each to the right of its inputs, which have lower numbers.
pub fn layout(sizes: &[Point], inputs: &[Vec<usize>]) -> Layout {
    let columns = columns(inputs);
    let mut items: Vec<Item> = Vec::new();
    for (&size, &column) in sizes.iter().zip(&columns) {
        items.push(Item { column, size, ..Item::default() });
    }
    // Each edge as the items that it goes through.
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

/// The column of each box: behind all of its inputs; what has none stands just before the first that uses it.
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

/// The items of each column, each near to the middle of its neighbors.
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

/// Gives each item its place; the size of all.
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
                // An edge goes straight through a column, beside its boxes.
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
