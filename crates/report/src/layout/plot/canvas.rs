//! Dots in a grid of braille characters.

/// Every dot is one bit of a braille character, two wide and four high.
pub(super) struct Canvas {
    /// Rows from the top, bits of a braille character each.
    pub(super) cells: Vec<Vec<u8>>,
}

impl Canvas {
    /// Nothing drawn yet.
    pub(super) fn new(columns: usize, rows: usize) -> Self {
        Self { cells: vec![vec![0; columns]; rows] }
    }

    /// Sets the dot `x` from the left and `y` from the bottom.
    fn set(&mut self, x: usize, y: usize) {
        const BITS: [[u8; 4]; 2] = [[0x40, 0x04, 0x02, 0x01], [0x80, 0x20, 0x10, 0x08]];
        let row = self.cells.len() - 1 - y / 4;
        self.cells[row][x / 2] |= BITS[x % 2][y % 4];
    }

    /// Sets the dots between two dots.
    pub(super) fn line(&mut self, from: (usize, usize), to: (usize, usize)) {
        let steps = from.0.abs_diff(to.0).max(from.1.abs_diff(to.1)).max(1);
        let between = |a: usize, b: usize, i: usize| {
            (a as f64 + (b as f64 - a as f64) * i as f64 / steps as f64).round() as usize
        };
        for i in 0..=steps {
            self.set(between(from.0, to.0, i), between(from.1, to.1, i));
        }
    }
}
